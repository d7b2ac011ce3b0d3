"""What others do: policies to compare with, one a file."""

from bayesmdp.policies._behaviour import behaviour
from bayesmdp.policies._mle import mle
from bayesmdp.policies._msbi import msbi
from bayesmdp.policies._named import POLICY_NAMES, named_policy
from bayesmdp.policies._nominal import nominal
from bayesmdp.policies._second_order import second_order
from bayesmdp.policies._uniform import uniform

__all__ = [
    "POLICY_NAMES",
    "behaviour",
    "mle",
    "msbi",
    "named_policy",
    "nominal",
    "second_order",
    "uniform",
]
