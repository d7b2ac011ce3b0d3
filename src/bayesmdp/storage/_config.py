"""The head of a run, and the task in it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayesmdp._io import worded
from bayesmdp.errors import BayesmdpError, StorageError
from bayesmdp.model import Task
from bayesmdp.storage._bundle import Arrays, find_arrays, open_arrays, read_head
from bayesmdp.storage._records import Unpacking

HEAD = "config.json"


def as_path(path: str | os.PathLike[str]) -> Path:
    """Check what should be a path."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise StorageError(f"`path` must be the path of a directory; got {path!r:.80}.")
    return Path(path)


def read_config(directory: Path) -> dict[str, Any]:
    """Read the head of a run."""
    with worded(directory, "read"):
        if not directory.exists():
            raise StorageError(f"There is no directory `{directory}`.")
        if not (directory / HEAD).exists():
            raise StorageError(
                f"`{directory}` is not a run: it has no `{HEAD}`; name a directory "
                "that `storage.save` or `bayesmdp fit` wrote."
            )
    return read_head(directory / HEAD, "run")


def load_task(directory: Path, config: Mapping[str, Any]) -> Task:
    """Read the task of a run, without fitting anything again."""
    with open_arrays(find_arrays(directory / HEAD, config)) as arrays:
        return task_of(directory, config, arrays)


def task_of(directory: Path, config: Mapping[str, Any], arrays: Arrays) -> Task:
    """Make the task again."""
    with sound(f"`{directory / HEAD}` does not hold a task:"):
        found: Task = Unpacking(arrays).unpack(Task, config.get("task"), "run.task")
        return found


@contextmanager
def sound(said: str, remedy: str = "") -> Iterator[None]:
    """Say what is no record of this bayesmdp, whatever is wrong with it."""
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError, MemoryError) as problem:
        why = str(problem) if isinstance(problem, BayesmdpError) else repr(problem)
        raise StorageError(f"{said} {why.rstrip('.')}{remedy}.") from problem
