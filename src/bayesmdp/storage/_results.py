"""Results beside a run: a record for people and arrays for programs, by name.

A result says which run it belongs to, by the checksum of its config. Where the run was
replaced, results of the old one are no longer listed or loaded, and `save` deletes
them.
"""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bayesmdp._io import check_file, worded
from bayesmdp.errors import StorageError
from bayesmdp.evaluation import rounded
from bayesmdp.storage._arrays import check_arrays, read_arrays, write_arrays
from bayesmdp.storage._config import HEAD, as_path, read_config
from bayesmdp.storage._files import (
    clean,
    find_file,
    locked,
    read_head,
    steady,
    write_bundle,
)
from bayesmdp.storage._plain import plain

FORMAT = "bayesmdp result"
SCHEMA = 1
FOLDER = "results"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, eq=False)
class Result:
    """What was saved beside a run under a name. Made by `load_result`."""

    name: str
    record: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]  # read-only


def save_result(
    path: str | os.PathLike[str],
    name: str,
    record: Mapping[str, Any],
    arrays: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Keep a result beside a run, as ``results/NAME.json`` and ``results/NAME.npz``.

    Parameters
    ----------
    path
        A directory that `save` wrote.
    name
        Letters, digits, ``_``, ``-`` and ``.``.
    record
        What JSON can hold; tuples become lists.
    arrays
        Arrays of numbers, text or truth values by name.
    overwrite
        Whether a result of that name may be replaced.

    Returns
    -------
    Path
        The JSON file.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp())
    >>> policy = bm.policies.behaviour(posterior)
    >>> bm.storage.save_result(path, "clinician", {"seed": 0}, {"policy": policy}).name
    'clinician.json'
    >>> bm.storage.load(path).results
    ('clinician',)
    """
    directory, name = as_path(path), _checked(name)
    said = plain("record", record)
    if not isinstance(said, dict):
        raise StorageError(f"`record` must be a dict; got {type(record).__name__}.")
    files = {f"{name}.npz": partial(write_arrays, arrays=check_arrays(arrays or {}))}
    read_config(directory)
    folder = directory / FOLDER
    head = folder / f"{name}.json"
    with worded(head, "written"), locked(directory) as alone:
        run = read_config(directory)["checksum"]
        folder.mkdir(exist_ok=True)
        clean(folder, alone=alone)
        _check_free(head, run, overwrite)
        wrapped = {"format": FORMAT, "schema": SCHEMA, "run": run, "record": said}
        write_bundle(folder, head.name, wrapped, files)
        clean(folder, alone=alone)
    return head


def load_result(path: str | os.PathLike[str], name: str) -> Result:
    """Read a result of a run.

    Parameters
    ----------
    path
        A directory that `save` wrote.
    name
        What `save_result` called it.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp())
    >>> _ = bm.storage.save_result(path, "first", {"value": 0.5}, {"policy": [0, 1]})
    >>> result = bm.storage.load_result(path, "first")
    >>> result.record, result.arrays["policy"].tolist()
    ({'value': 0.5}, [0, 1])
    """
    directory, name = as_path(path), _checked(name)
    head = directory / FOLDER / f"{name}.json"
    return steady(head, lambda: _load_result(directory, name, head))


def _load_result(directory: Path, name: str, head: Path) -> Result:
    run = read_config(directory)["checksum"]
    if not head.exists():
        there = ", ".join(result_names(directory, run)) or "none"
        raise StorageError(f"`{directory}` has no result {name!r}; it has {there}.")
    found = read_head(head, FORMAT, SCHEMA)
    if found.get("run") != run:
        raise StorageError(
            f"`{head}` belongs to another run than `{directory / HEAD}`, which has "
            "replaced it: recompute the result."
        )
    if not isinstance(found.get("record"), dict):
        raise StorageError(f"`{head}` holds no record: recompute the result.")
    arrays = read_arrays(find_file(head.parent, f"{name}.npz", found))
    return Result(name, found["record"], arrays)


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
                # The head goes last, so that what a kill leaves is found again.
                head.with_suffix(".npz").unlink(missing_ok=True)
                head.unlink()
        clean(folder, alone=alone)


def _run_of(head: Path) -> Any:
    """Checksum of the run that a result belongs to, None where that is unknown."""
    try:
        return read_head(head, FORMAT, SCHEMA).get("run")
    except StorageError:
        return None


def in_words(directory: Path, name: str) -> str:
    """Say in one line what a result is."""
    folder = directory / FOLDER
    try:
        head = read_head(folder / f"{name}.json", FORMAT, SCHEMA)
        find_file(folder, f"{name}.npz", head)
        record = head["record"]
        return _IN_WORDS[record.get("kind", name)](record)
    except StorageError:
        return "damaged; recompute it"
    except (AttributeError, LookupError, TypeError, ValueError):  # somebody else's
        return "a result of your own"


def _worth(record: Mapping[str, Any]) -> str:
    value = rounded(record["start_value"], record["start_value_mcse"])
    return f"a policy worth {value} from the start"


_IN_WORDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "check": lambda record: (
        f"observed value {record['observed_value']:.4g}, predicted "
        f"{record['predicted_value']:.4g}; "
        f"{' '.join(record['problems']) or 'no problem detected'}"
    ),
    "negative_control": lambda record: (
        f"claimed gain {record['claimed_gain']:.4g}, p {record['p_value']:.2g} by "
        f"{len(record['null_gains'])} permutations"
    ),
    "cross_fit": lambda record: (
        f"cross-fitted gain {record['gain']:.4g}, sd {record['gain_sd']:.2g}"
    ),
    "off_policy": lambda record: (
        f"off-policy estimates of {record['name']}: WIS {record['estimates']['WIS']}, "
        f"WDR {record['estimates']['WDR']}"
    ),
    "compare_priors": lambda record: (
        f"{', '.join(row['name'] for row in record['rows'])}; best predictor "
        f"{record['best']}"
    ),
    "evaluation": lambda record: f"{_worth(record)}, on {record['n_draws']} draws",
    "optimisation": lambda record: (
        f"{_worth(record['evaluation'])}; {record['status']}"
    ),
    "comparison": lambda record: (
        f"{', '.join(row['name'] for row in record['rows'])} (best first), compared "
        f"with {record['reference']} on {record['evaluations'][0]['n_draws']} draws"
    ),
}


def check_result(
    path: str | os.PathLike[str], name: str, *, overwrite: bool = False
) -> None:
    """Say before a long job whether `save_result` would refuse.

    Parameters
    ----------
    path
        A directory that `save` wrote.
    name
        What the result shall be called.
    overwrite
        Whether a result of that name may be replaced.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp())
    >>> bm.storage.check_result(path, "optimised")
    """
    directory, name = as_path(path), _checked(name)
    run = read_config(directory)["checksum"]
    folder = directory / FOLDER
    _check_free(folder / f"{name}.json", run, overwrite)
    with worded(folder, "written"):
        made = not folder.exists()
        folder.mkdir(exist_ok=True)
        try:
            check_file(folder / f"{name}.json")
        finally:
            if made:
                folder.rmdir()


def _check_free(head: Path, run: str, overwrite: bool) -> None:
    """Refuse to replace a result of this run unasked."""
    if head.exists() and not overwrite and _run_of(head) in (run, None):
        raise StorageError(
            f"`{head}` is there already: take another name, or say that it may be "
            "replaced (overwrite=True, --overwrite)."
        )
