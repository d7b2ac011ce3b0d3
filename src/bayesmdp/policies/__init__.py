"""Policies to compare with: behaviour, plug-in, nominal and others."""

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
