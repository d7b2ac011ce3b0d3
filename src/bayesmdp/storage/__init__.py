"""Run directories with their results, task files and policies."""

from bayesmdp.storage._policies import read_policy, write_policy
from bayesmdp.storage._results import load_result, save_result
from bayesmdp.storage._run import Run, check_log, check_target, load, save
from bayesmdp.storage._task_file import read_task, write_template

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
