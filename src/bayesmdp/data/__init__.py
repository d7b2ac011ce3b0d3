"""What was seen: transitions, and how often each was seen."""

from bayesmdp.data._counts import Counts
from bayesmdp.data._read import read_transitions
from bayesmdp.data._transitions import RewardStatistics, Transitions
from bayesmdp.data._validate import validate
from bayesmdp.data._validate_record import Finding, Findings

__all__ = [
    "Counts",
    "Finding",
    "Findings",
    "RewardStatistics",
    "Transitions",
    "read_transitions",
    "validate",
]
