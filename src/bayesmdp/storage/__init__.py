"""Keep it: run directories, results beside them, task files and policies."""

from bayesmdp._io import check_file
from bayesmdp.storage._config import check_target
from bayesmdp.storage._current import current_comparison
from bayesmdp.storage._outcomes import (
    COMPARISON,
    OPTIMISED,
    load_comparison,
    load_evaluation,
    load_optimisation,
    save_comparison,
    save_evaluation,
    save_optimisation,
)
from bayesmdp.storage._policies import (
    find_policies,
    policy_rows,
    read_policy,
    write_policy,
)
from bayesmdp.storage._remarks import warn_of
from bayesmdp.storage._results import Result, check_result, load_result, save_result
from bayesmdp.storage._run import Run, load, load_task, save
from bayesmdp.storage._task_file import make_task, read_task
from bayesmdp.storage._template import task_template, write_template

__all__ = [
    "COMPARISON",
    "OPTIMISED",
    "Result",
    "Run",
    "check_file",
    "check_result",
    "check_target",
    "current_comparison",
    "find_policies",
    "load",
    "load_comparison",
    "load_evaluation",
    "load_optimisation",
    "load_result",
    "load_task",
    "make_task",
    "policy_rows",
    "read_policy",
    "read_task",
    "save",
    "save_comparison",
    "save_evaluation",
    "save_optimisation",
    "save_result",
    "task_template",
    "warn_of",
    "write_policy",
    "write_template",
]
