"""Run directories with their results; and files that people write."""

from bayesmdp.model.policy_files import read_policy, write_policy
from bayesmdp.model.task_files import read_task, write_template
from bayesmdp.storage._results import load_result, save_result
from bayesmdp.storage._run import Run, check_log, check_target, load, save

__all__ = [
    "Run",
    "load",
    "load_result",
    "read_policy",
    "read_task",
    "save",
    "save_result",
    "write_policy",
    "write_template",
]
