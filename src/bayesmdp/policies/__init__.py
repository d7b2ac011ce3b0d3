"""What others do: policies to compare with, one a file."""

from bayesmdp.policies._behaviour import behaviour
from bayesmdp.policies._mle import mle
from bayesmdp.policies._msbi import msbi
from bayesmdp.policies._nominal import nominal
from bayesmdp.policies._second_order import second_order

__all__ = ["behaviour", "mle", "msbi", "nominal", "second_order"]
