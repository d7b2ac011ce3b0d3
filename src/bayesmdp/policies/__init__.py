"""What others do: policies to compare with."""

from bayesmdp.model import ALWAYS
from bayesmdp.policies._baselines import (
    behaviour,
    constant,
    logged_policy,
    mle,
    nominal,
    uniform,
)
from bayesmdp.policies._msbi import msbi
from bayesmdp.policies._named import POLICY_NAMES, named_policy
from bayesmdp.policies._second_order import second_order

__all__ = [
    "behaviour",
    "constant",
    "mle",
    "msbi",
    "nominal",
    "second_order",
    "uniform",
]
