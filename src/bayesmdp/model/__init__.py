"""What is known: the task, and models and policies in their one form."""

from bayesmdp.model._align import (
    Availability,
    Data,
    Log,
    LoggedEpisodes,
    align,
    as_data,
    as_log,
    availability,
    log_digest,
    logged_episodes,
    numbering,
)
from bayesmdp.model._dynamics import Dynamics, Rows, as_dynamics, coordinates, is_sparse
from bayesmdp.model._from_data import begins_as_logged
from bayesmdp.model._policies import (
    ALWAYS,
    POLICY_NAMES,
    AnyPair,
    as_policy,
    policy_table,
    restrict,
    used_pairs,
)
from bayesmdp.model._rewards import Rewards, RewardTriplets, reward_triplets, unnamed
from bayesmdp.model._task import Task
from bayesmdp.model._task_readers import (
    check_start,
    difference,
    said_start,
    said_terms,
)

__all__ = [
    "Availability",
    "Data",
    "Dynamics",
    "Log",
    "RewardTriplets",
    "Rewards",
    "Rows",
    "Task",
    "availability",
    "policy_table",
    "restrict",
]
