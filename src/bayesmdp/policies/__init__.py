"""What others do: policies to compare with."""

from bayesmdp.model import ALWAYS
from bayesmdp.policies._baselines import (
    POLICY_NAMES,
    behaviour,
    constant,
    logged_policy,
    mle,
    msbi,
    named_policy,
    nominal,
    second_order,
    uniform,
)

__all__ = ["behaviour", "constant", "mle", "msbi", "nominal", "second_order", "uniform"]
