"""Should we believe it: priors on trial, and what depends on them."""

from bayesmdp.criticism._compare_priors import (
    PriorComparison,
    PriorRow,
    compare_priors,
)
from bayesmdp.criticism._sensitivity import Sensitivity, sensitivity

__all__ = [
    "PriorComparison",
    "PriorRow",
    "Sensitivity",
    "compare_priors",
    "sensitivity",
]
