"""Results beside a run, by name: ``results/NAME.json`` and its arrays.

A result says which run it belongs to, by the checksum of its config. Where the run was
replaced, results of the old one are no longer listed or loaded, and `save` deletes
them.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from bayesmdp._checks import argument
from bayesmdp._io import check_file, worded
from bayesmdp.errors import StorageError
from bayesmdp.evaluation import Comparison
from bayesmdp.storage._bundle import (
    clean,
    find_arrays,
    locked,
    open_arrays,
    read_head,
    steady,
    write_bundle,
)
from bayesmdp.storage._config import HEAD, as_path, load_task, read_config, sound
from bayesmdp.storage._records import Packing, Unpacking

FOLDER = "results"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def save_result(
    path: str | os.PathLike[str], name: str, result: Any, *, overwrite: bool = False
) -> Path:
    """Keep a result beside a run, as ``results/NAME.json`` and a file of arrays.

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
    task = load_task(directory, read_config(directory))
    arrays: dict[str, Any] = {}
    record = Packing(arrays, task).pack(result, "result")
    if not isinstance(record, dict):
        raise StorageError(
            f"`result` must be a result of this package or a dict; got "
            f"{type(result).__name__}."
        )
    head = directory / FOLDER / f"{name}.json"
    with worded(head, "written"), locked(directory) as alone:
        run = read_config(directory)["checksum"]
        head.parent.mkdir(exist_ok=True)
        clean(head.parent, alone=alone)
        _check_free(head, run, overwrite)
        write_bundle(head, {"format": "result", "run": run, "record": record}, arrays)
        clean(head.parent, alone=alone)
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
    head = directory / FOLDER / f"{name}.json"
    found = steady(head, lambda: _load_result(directory, name, head))
    if not isinstance(found, kind):
        raise StorageError(
            f"Result {name!r} of `{directory}` is of type {type(found).__name__}, not "
            f"{kind.__name__}."
        )
    return found


def _load_result(directory: Path, name: str, head: Path) -> Any:
    config = read_config(directory)
    if not head.exists():
        there = ", ".join(result_names(directory, config["checksum"])) or "none"
        raise StorageError(f"`{directory}` has no result {name!r}; it has {there}.")
    said = read_head(head, "result")
    if said.get("run") != config["checksum"]:
        raise StorageError(
            f"`{head}` belongs to another run than `{directory / HEAD}`, which has "
            "replaced it: recompute the result."
        )
    if not isinstance(said.get("record"), dict):
        raise StorageError(f"`{head}` holds no record: recompute the result.")
    task = load_task(directory, config)
    with (
        open_arrays(find_arrays(head, said)) as arrays,
        sound(f"Result {name!r} of `{directory}` cannot be used:", "; recompute it"),
    ):
        found = Unpacking(arrays, task, (task.n_states, task.n_actions)).unpack(
            Any, said["record"], "result"
        )
        arrays.check_all_read()
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
    return tuple(sorted(x.stem for x in heads if _run_of(x) in (run, None)))


def drop_results(directory: Path, run: str, *, alone: bool) -> None:
    """Delete results of other runs: of those that stood here before."""
    folder = directory / FOLDER
    with suppress(OSError):  # they are not listed any more, and the next save tries
        for head in folder.glob("*.json"):
            if _run_of(head) not in (run, None):
                head.unlink()
        clean(folder, alone=alone)


def _run_of(head: Path) -> Any:
    """Checksum of the run that a result belongs to, None where that is unknown."""
    try:
        return read_head(head, "result").get("run")
    except StorageError:
        return None


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
    _check_free(head, read_config(directory)["checksum"], overwrite)
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
    if head.exists() and not overwrite and _run_of(head) in (run, None):
        raise StorageError(
            f"`{head}` is there already: take another name, or say that it may be "
            f"replaced ({argument('overwrite')})."
        )
