"""Run directories: a posterior that lasts.

::

    ward/
      config.json       what was done: source, columns, prior, task, versions, checksums
      config-....npz    plain arrays: task, counts, states of Markov chains if any
      results/          NAME.json and NAME-....npz, whatever was found since

Rows are made again from counts, task, prior and ``min_count``, chains are read; nothing
is ever unpickled. How a run is written so that a kill cannot spoil it stands in
``_bundle.py``.
"""

import hashlib
import os
import platform
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._io import check_fits, worded
from bayesmdp._sheet import Sheet
from bayesmdp._version import __version__
from bayesmdp.data import Counts, Findings, Transitions
from bayesmdp.errors import BayesmdpWarning, PriorError, StorageError
from bayesmdp.model import Task
from bayesmdp.posterior import Belief, Fitted, refit
from bayesmdp.priors import AnyPrior, prior_from_dict, prior_to_dict
from bayesmdp.storage._arrays import Arrays, open_arrays
from bayesmdp.storage._bundle import (
    clean,
    find_arrays,
    is_leftover,
    locked,
    read_head,
    steady,
    write_bundle,
)
from bayesmdp.storage._config import HEAD, as_path, read_config, sound, task_of
from bayesmdp.storage._records import Packing, Unpacking
from bayesmdp.storage._results import check_place, drop_results, in_words, result_names

DESCRIPTION = 1  # raised when a key of `describe` goes, or comes to mean something else
_COLUMNS = ("state", "action", "next_state", "count")
_OWN = "your own"  # kind of a prior that is not of this package


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run directory that was read. Made by `load`.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp(), source="a windy grid")
    >>> run = bm.storage.load(path)
    >>> run.posterior
    HierarchicalPosterior(25 states, 4 actions, 100 transitions, 80 available pairs)
    >>> run.config["source"], run.results
    ('a windy grid', ())
    """

    posterior: Fitted
    config: Mapping[str, Any]
    path: Path

    @property
    def results(self) -> tuple[str, ...]:
        """Names of the results that are there now, sorted."""
        return result_names(self.path, self.config["checksum"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was warned of when it was fitted, where that was kept."""
        return tuple(self.config.get("warnings") or ())

    @property
    def findings(self) -> Findings | None:
        """What `bayesmdp.validate` said of the data, where that was kept."""
        said = self.config.get("findings")
        return None if said is None else Findings.from_dict(said)

    def describe(self) -> dict[str, Any]:
        """Say what the run is, as a plain dict.

        Examples
        --------
        >>> import tempfile, bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
        >>> run = bm.storage.load(bm.storage.save(posterior, tempfile.mkdtemp()))
        >>> run.describe()["n_transitions"]
        100
        """
        task, config = self.posterior.task, self.config
        return {
            "schema_version": DESCRIPTION,
            "path": str(self.path),
            "source": config["source"],
            "columns": config["columns"],
            "notes": config["notes"],
            "warnings": list(self.warnings),
            "versions": config["versions"],
            "log_sha256": config["log_sha256"],
            "seed": config["seed"],
            "n_states": task.n_states,
            "n_actions": task.n_actions,
            "terminal": [task.state_name(int(s)) for s in task.terminal],
            "discount": task.discount,
            "n_transitions": self.posterior.counts.total,
            "n_distinct": int(self.posterior.counts.count.size),
            "n_available": int(self.posterior.available.sum()),
            "min_count": self.posterior.min_count,
            "prior": repr(self.posterior.prior),
            "results": list(self.results),
        }

    def summary(self) -> str:
        """Say in a few lines what the run is.

        Examples
        --------
        >>> import tempfile, bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
        >>> run = bm.storage.load(bm.storage.save(posterior, tempfile.mkdtemp()))
        >>> print(run.summary())
        Run in ...
          source: not said
          written with bayesmdp ..., python ..., numpy ...
          results: none
        Posterior of 25 states (5 terminal) and 4 actions from 100 transitions
        ...
        """
        return f"{self._sheet().text()}\n{self.posterior.summary()}"

    def _sheet(self) -> Sheet:
        said = self.config
        versions = ", ".join(f"{x} {y}" for x, y in said["versions"].items())
        columns = said["columns"] or {}
        lines = [
            f"source: {_in_words(said['source'])}",
            *[f"column {name!r} is the {role}" for role, name in columns.items()],
            *[f"note: {note}" for note in said["notes"]],
            *[f"warning: {x}" for x in self.warnings if x not in said["notes"]],
            f"written with {versions}",
            *(["results:"] if self.results else ["results: none"]),
            *[f"  {name}: {in_words(self.path, name)}" for name in self.results],
        ]
        return Sheet(f"Run in {self.path}", lines, indent="  ")

    def _repr_html_(self) -> str:
        return self._sheet().html() + self.posterior._repr_html_()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.posterior!r})"


def save(
    posterior: Fitted,
    path: str | os.PathLike[str],
    *,
    data: Transitions | None = None,
    source: Any = None,
    seed: int | None = None,
    findings: Findings | None = None,
    warnings: Iterable[str] = (),
    overwrite: bool = False,
) -> Path:
    """Keep a posterior in a directory; a kill at any moment leaves the old or the new.

    Parameters
    ----------
    posterior
        What `bayesmdp.fit` returned. A prior that is not of this package is kept by
        name alone: who loads the run gives it to `load`.
    path
        A directory: new, empty, or with ``overwrite`` one that holds a run, whose
        results go with it. The directory above it must be there.
    data
        The transitions it was fitted to; their notes, columns and labels are kept.
    source
        Where the data came from, in words or as what JSON can hold.
    seed
        The seed behind the data, if there was one.
    findings
        What `bayesmdp.validate` said of the data.
    warnings
        What was warned of on the way; `Run.summary` says it again.
    overwrite
        Whether a run that is there may be replaced.

    Returns
    -------
    Path
        The directory.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp(), seed=0)
    >>> bm.storage.load(path).config["seed"]
    0
    """
    arrays: dict[str, NDArray[Any]] = {}
    config = _config(posterior, data, source, seed, arrays)
    if findings is not None:
        _checks.of_type("findings", findings, Findings, StorageError)
        config["findings"] = Packing().pack(findings.to_dict(), "findings")
    config["warnings"] = Packing().pack(list(warnings), "warnings")
    directory = as_path(path)
    check_target(directory, overwrite=overwrite)
    with worded(directory, "written"):
        made = not directory.exists()
        directory.mkdir(exist_ok=True)
        try:
            with locked(directory) as alone:
                check_target(directory, overwrite=overwrite)
                clean(directory, alone=alone)
                checksum = write_bundle(directory / HEAD, config, arrays)
                clean(directory, alone=alone)
                drop_results(directory, checksum, alone=alone)
        except BaseException:
            if made:
                with suppress(OSError):  # not empty: somebody else's by now
                    directory.rmdir()
            raise
    return directory


def load(path: str | os.PathLike[str], *, prior: AnyPrior | None = None) -> Run:
    """Read a run directory, whatever its files hold: a run, or one sentence.

    Checksums are verified, nothing is unpickled, and the posterior is made again from
    data, prior and stored chains: equal to the one saved, to the bit.

    Parameters
    ----------
    path
        A directory that `save` wrote.
    prior
        The prior that it was fitted with, where that is one of your own.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp())
    >>> again = bm.storage.load(path).posterior
    >>> bool((again.mean().probability == posterior.mean().probability).all())
    True
    """
    directory = as_path(path)
    run = steady(directory / HEAD, lambda: _load(directory, prior))
    if _digest(*run.posterior.parameters()) != run.config["alpha_sha256"]:
        warnings.warn(
            f"The posterior of `{directory}` was fitted again and is not the one that "
            f"bayesmdp {run.config['versions'].get('bayesmdp')} saved: this version or "
            "machine reads its prior differently, or `prior` is another.",
            BayesmdpWarning,
            stacklevel=2,
        )
    return run


def _config(
    posterior: Fitted,
    data: Transitions | None,
    source: Any,
    seed: int | None,
    arrays: dict[str, NDArray[Any]],
) -> dict[str, Any]:
    if isinstance(posterior, Belief) and posterior.counts is None:
        raise StorageError(
            f"`posterior` is an {type(posterior).__name__}, which has no counts to fit "
            "again from; save what its models were made from."
        )
    if not isinstance(posterior, Fitted):  # a class that users do not meet by name
        raise StorageError(
            f"`posterior` must be of type Posterior; got {type(posterior).__name__}."
        )
    if data is not None:
        _checks.of_type("data", data, Transitions, StorageError)
    plain, packing = Packing(), Packing(arrays)
    counts = {name: getattr(posterior.counts, name) for name in _COLUMNS}
    return {
        "format": "run",
        "versions": {
            "bayesmdp": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "seed": None if seed is None else _checks.seed_integer(seed),
        "source": plain.pack(source, "source"),
        "columns": plain.pack(data.columns if data else None, "columns"),
        "labels": _labels(posterior, data),
        "notes": plain.pack(data.notes if data else (), "notes"),
        "min_count": posterior.min_count,
        "prior": _prior_to_dict(posterior.prior),
        "log_sha256": _digest(*counts.values()),
        "alpha_sha256": _digest(*posterior.parameters()),
        "task": packing.fields(posterior.task, "run.task"),
        "counts": packing.pack(counts, "run.counts"),
        "chains": packing.pack(posterior.kept(), "run.chains"),
    }


def _labels(posterior: Fitted, data: Transitions | None) -> dict[str, Any]:
    """Say what the data call states and actions; None where the task's names say it."""
    found: dict[str, Any] = {}
    for name in ("state_labels", "action_labels"):
        labels = getattr(data, name) if data else None
        known = getattr(posterior.task, name)
        same = labels is None or tuple(str(x) for x in labels) == known
        found[name] = None if same else Packing().pack(labels, name)
    return found


def _prior_to_dict(prior: AnyPrior) -> dict[str, Any]:
    """Describe a prior, or name one that cannot be described."""
    try:
        return prior_to_dict(prior)
    except PriorError:
        kind = type(prior)
        return {"kind": _OWN, "name": f"{kind.__module__}.{kind.__qualname__}"}


def _load(directory: Path, prior: AnyPrior | None) -> Run:
    config = read_config(directory)
    with open_arrays(find_arrays(directory / HEAD, config)) as arrays:
        task = task_of(directory, config, arrays)
        counts = _counts(directory, config["counts"], arrays, task)
        with sound(f"`{directory}` cannot be fitted again:"):
            kept = Unpacking(arrays).unpack(Any, config["chains"], "run.chains")
            arrays.check_all_read()
            prior = _prior(config["prior"], prior)
            posterior = refit(counts, task, prior, config["min_count"], kept)
    return Run(posterior, MappingProxyType(config), directory)


def _prior(record: Mapping[str, Any], given: AnyPrior | None) -> AnyPrior:
    """Return the prior of a run: that of the record, or one that the record names."""
    if record.get("kind") != _OWN:
        return prior_from_dict(record)
    if given is None:
        raise StorageError(
            f"its prior is {record.get('name')!s:.80}, not one of this package, and a "
            "file cannot hold that; give it: bm.storage.load(path, prior=...)."
        )
    return given


def _counts(
    directory: Path, said: Mapping[str, Any], arrays: Arrays, task: Task
) -> Counts:
    """Read counts, checked against the sizes of the task."""
    size = {"n_states": task.n_states, "n_actions": task.n_actions}
    where = f"`{directory / HEAD}` does not hold counts:"
    names = [f"counts.{x}" for x in _COLUMNS]
    layout = [arrays.layout.get(x, (None, ())) for x in names]
    kinds, shapes = zip(*layout, strict=True)
    if set(said) != {*_COLUMNS} or {*kinds} != {np.dtype(np.int64)}:
        raise StorageError(f"{where} they must be {', '.join(_COLUMNS)} as int64.")
    n_rows = max(x[0] if x else 0 for x in shapes)
    if n_rows > task.n_states * task.n_actions * task.n_states:
        raise StorageError(
            f"{where} there are {n_rows} rows, more than transitions of "
            f"{task.n_states} states and {task.n_actions} actions."
        )
    check_fits(directory, 4 * 8 * len(_COLUMNS) * n_rows)  # copies, while sorted
    with sound(where):
        return Counts.from_arrays(*(arrays.read(x) for x in names), **size)


def _digest(*parts: NDArray[Any]) -> str:
    """Name arrays by what they hold."""
    digest = hashlib.sha256()
    for part in parts:
        kind = "<i8" if part.dtype.kind == "i" else "<f8"
        digest.update(np.ascontiguousarray(part, kind).data)
    return digest.hexdigest()


def check_target(
    path: str | os.PathLike[str], name: str | None = None, *, overwrite: bool = False
) -> None:
    """Say before a long job whether `save`, or `save_result`, would refuse.

    Parameters
    ----------
    path
        Where the run shall be; or where it is, if a result shall be kept beside it.
    name
        What the result shall be called.
    overwrite
        Whether what is there may be replaced.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> bm.storage.check_target(tempfile.mkdtemp())
    """
    directory = as_path(path)
    if name is not None:
        check_place(directory, name, overwrite=overwrite)
        return
    with worded(directory, "written"):
        if not directory.exists():
            if not directory.parent.is_dir():
                raise StorageError(
                    f"`{directory}` cannot be written: there is no directory "
                    f"`{directory.parent}`; make it first."
                )
            return
        if not directory.is_dir():
            raise StorageError(
                f"`{directory}` is a file; a run is a directory: name another."
            )
        names = {x.name for x in directory.iterdir() if not is_leftover(x)}
        names = {x for x in names if x[0] != "."}
        if HEAD in names:
            _check_replaceable(directory, overwrite)
        elif names:
            raise StorageError(
                f"`{directory}` holds other files, such as `{min(names)}`: name a new "
                "or an empty directory."
            )


def _check_replaceable(directory: Path, overwrite: bool) -> None:
    if not overwrite:
        raise StorageError(
            f"`{directory}` holds a run already: name another directory, or say that "
            "it may be replaced (overwrite=True, --overwrite)."
        )
    try:
        read_head(directory / HEAD, "run")
    except StorageError as problem:
        raise StorageError(
            f"`{directory}` is not replaced, since it may be no run of this bayesmdp; "
            f"name another directory, or delete it yourself: {problem}"
        ) from problem


def _in_words(source: Any) -> str:
    """Say where data came from; a dict is listed."""
    if isinstance(source, dict):
        return "; ".join(f"{name} {_in_words(x)}" for name, x in source.items())
    if isinstance(source, list):
        return ", ".join(str(x) for x in source)
    return "not said" if source is None else str(source)
