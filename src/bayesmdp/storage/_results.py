"""Results beside a run, by name: ``results/NAME.json``.

A result says which run it belongs to, by the checksum of its config. Where the run was
replaced, results of the old one are no longer listed or loaded, and `save` deletes
them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayesmdp._checks import argument
from bayesmdp._io import as_path, check_file, check_plain, worded, writing
from bayesmdp.errors import BayesmdpError, StorageError
from bayesmdp.evaluation import Comparison
from bayesmdp.model import Task
from bayesmdp.storage._records import (
    Arrays,
    Packing,
    Unpacking,
    read_record,
    write_record,
)

HEAD = "config.json"
FOLDER = "results"
_TRIES = 50
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_RUN = re.compile(  # how a result begins: whose it is, without reading the rest
    rb'\{\s*"format": "bayesmdp result",\s*"schema": \d+,\s*"run": "([0-9a-f]{64})"'
)


def read_config(directory: Path) -> tuple[dict[str, Any], Arrays]:
    """Read what a run says of itself, and its arrays."""
    with worded(directory, "read"):
        if not directory.exists():
            raise StorageError(f"There is no directory `{directory}`.")
        if not (directory / HEAD).exists():
            raise StorageError(
                f"`{directory}` is not a run: it has no `{HEAD}`; name a directory "
                "that `storage.save` or `bayesmdp fit` wrote."
            )
    return read_record(directory / HEAD, "run")


@contextmanager
def sound(said: str, remedy: str = "") -> Iterator[None]:
    """Say what is no record of this bayesmdp, whatever is wrong with it."""
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError, MemoryError) as problem:
        why = str(problem) if isinstance(problem, BayesmdpError) else repr(problem)
        raise StorageError(f"{said} {why.rstrip('.')}{remedy}.") from problem


def read_task_of(directory: Path, config: Mapping[str, Any], arrays: Arrays) -> Task:
    """Make the task of a run again, without fitting anything."""
    with sound(f"`{directory / HEAD}` does not hold a task:"):
        task: Task = Unpacking(arrays).unpack(Task, config.get("task"), "run.task")
        return task


def save_result(
    path: str | os.PathLike[str], name: str, result: Any, *, overwrite: bool = False
) -> Path:
    """Keep a result beside a run, as ``results/NAME.json``.

    Parameters
    ----------
    path
        A directory that `save` wrote, of the posterior that the result is about.
    name
        Letters, digits, ``_``, ``-`` and ``.``.
    result
        What a function of this package returned, such as an `Evaluation` or a `Check`;
        or a dict of such results, numbers, text, lists, dicts and arrays.
    overwrite
        Whether a result of that name may be replaced.

    Returns
    -------
    Path
        The JSON file.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp())
    >>> evaluation = bm.evaluate([0] * 5, posterior.draws(100))
    >>> bm.storage.save_result(path, "always-0", evaluation).name
    'always-0.json'
    >>> bm.storage.load(path).results
    ('always-0',)
    """
    directory, name = as_path(path), _checked(name)
    task = read_task_of(directory, *read_config(directory))
    arrays: dict[str, Any] = {}
    record = Packing(arrays, task).pack(result, "result")
    if not isinstance(record, dict):
        raise StorageError(
            f"`result` must be a result of this package or a dict; got "
            f"{type(result).__name__}."
        )
    head = directory / FOLDER / f"{name}.json"
    with worded(head, "written"), writing(directory):
        run = read_config(directory)[0]["checksum"]
        head.parent.mkdir(exist_ok=True)
        _check_free(head, run, overwrite)
        write_record(head, "result", {"run": run, "record": record}, arrays)
    return head


def load_result(path: str | os.PathLike[str], name: str, kind: type = object) -> Any:
    """Read a result of a run, equal to the one that was saved.

    Parameters
    ----------
    path
        A directory that `save` wrote.
    name
        What `save_result` called it.
    kind
        What it must be, such as `Evaluation`; anything where not given.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp())
    >>> policy = bm.policies.nominal(posterior)
    >>> _ = bm.storage.save_result(path, "mine", {"seed": 0, "policy": policy})
    >>> bool((bm.storage.load_result(path, "mine")["policy"] == policy).all())
    True
    """
    directory, name = as_path(path), _checked(name)
    config, arrays = read_config(directory)
    for turn in range(_TRIES):  # a writer may replace the run in the meantime
        try:
            found = _load_result(directory, name, config, arrays)
            break
        except StorageError:
            before = config["checksum"]
            config, arrays = read_config(directory)
            if config["checksum"] == before or turn == _TRIES - 1:
                raise
    if not isinstance(found, kind):
        raise StorageError(
            f"Result {name!r} of `{directory}` is of type {type(found).__name__}, not "
            f"{kind.__name__}."
        )
    return found


def _load_result(
    directory: Path, name: str, config: Mapping[str, Any], arrays: Arrays
) -> Any:
    head = directory / FOLDER / f"{name}.json"
    if not head.exists():
        there = ", ".join(result_names(directory, config["checksum"])) or "none"
        raise StorageError(f"`{directory}` has no result {name!r}; it has {there}.")
    said, own = read_record(head, "result")
    if said.get("run") != config["checksum"]:
        raise StorageError(
            f"`{head}` belongs to another run than `{directory / HEAD}`, which has "
            "replaced it: recompute the result."
        )
    if not isinstance(said.get("record"), dict):
        raise StorageError(f"`{head}` holds no record: recompute the result.")
    task = read_task_of(directory, config, arrays)
    with sound(f"Result {name!r} of `{directory}` cannot be used:", "; recompute it"):
        found = Unpacking(own, task).unpack(Any, said["record"], "result")
        own.check_all_read()
        if isinstance(found, Comparison):
            _check_comparison(found)
    return found


def _check_comparison(found: Comparison) -> None:
    names = [row.name for row in found.rows]
    if sorted(names) != sorted(found.evaluations) or found.reference not in names:
        raise StorageError("its rows, evaluations and reference do not agree")


def _checked(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise StorageError(
            "`name` must be letters, digits, _, - and ., and not begin with one of "
            f"these three; got {name!r:.80}."
        )
    return name


def result_names(directory: Path, run: str) -> tuple[str, ...]:
    """Names of results of the run with this checksum, and of those that are damaged."""
    heads = (directory / FOLDER).glob("*.json")
    return tuple(sorted(x.stem for x in heads if run_of(x) in (run, None)))


def run_of(head: Path) -> str | None:
    """Checksum of the run that a result belongs to, None where that is unknown."""
    try:
        check_plain(head)
        with head.open("rb") as stream:
            found = _RUN.match(stream.read(1000))
    except (OSError, StorageError):
        return None
    return found and found[1].decode()


def in_words(directory: Path, name: str) -> str:
    """Say in one line what a result is."""
    try:
        found = load_result(directory, name)
    except StorageError:
        return "damaged; recompute it"
    return "a result of your own" if isinstance(found, dict) else repr(found)


def check_place(directory: Path, name: str, *, overwrite: bool) -> None:
    """Say before a long job whether `save_result` would refuse."""
    head = directory / FOLDER / f"{_checked(name)}.json"
    _check_free(head, read_config(directory)[0]["checksum"], overwrite)
    with worded(head.parent, "written"):
        made = not head.parent.exists()
        head.parent.mkdir(exist_ok=True)
        try:
            check_file(head)
        finally:
            if made:
                head.parent.rmdir()


def _check_free(head: Path, run: str, overwrite: bool) -> None:
    """Refuse to replace a result of this run unasked."""
    if head.exists() and not overwrite and run_of(head) in (run, None):
        raise StorageError(
            f"`{head}` is there already: take another name, or say that it may be "
            f"replaced ({argument('overwrite')})."
        )
