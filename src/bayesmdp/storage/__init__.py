"""Keep it: run directories, results beside them, and task files."""

from bayesmdp.storage._config import check_target
from bayesmdp.storage._results import Result, load_result, save_result
from bayesmdp.storage._run import Run, load, save

__all__ = [
    "Result",
    "Run",
    "check_target",
    "load",
    "load_result",
    "save",
    "save_result",
]
