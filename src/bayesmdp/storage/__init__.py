"""Keep it: run directories, results beside them, and task files."""

from bayesmdp.storage._config import check_target
from bayesmdp.storage._results import Result, load_result, save_result
from bayesmdp.storage._run import Run, load, save
from bayesmdp.storage._task_file import make_task, read_task
from bayesmdp.storage._template import task_template, write_template

__all__ = [
    "Result",
    "Run",
    "check_target",
    "load",
    "load_result",
    "make_task",
    "read_task",
    "save",
    "save_result",
    "task_template",
    "write_template",
]
