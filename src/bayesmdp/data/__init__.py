"""What was observed: transitions, and how often each was observed."""

from bayesmdp.data._ai_clinician import read_ai_clinician
from bayesmdp.data._counts import Counts
from bayesmdp.data._discretise import Discretisation, discretise
from bayesmdp.data._episodes import EpisodeBatch
from bayesmdp.data._findings import Finding, Findings
from bayesmdp.data._minari import read_minari
from bayesmdp.data._read import read_frame, read_transitions
from bayesmdp.data._transitions import Endings, RewardStatistics, Starts, Transitions
from bayesmdp.data._validate import validate
from bayesmdp.data.environments import collect

__all__ = [
    "Counts",
    "Discretisation",
    "Finding",
    "Findings",
    "Starts",
    "Transitions",
    "collect",
    "discretise",
    "read_ai_clinician",
    "read_minari",
    "read_transitions",
    "validate",
]
