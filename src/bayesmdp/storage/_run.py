"""Run directories: a posterior that lasts.

::

    ward/
      config.json       source, columns, prior, task, versions, checksums; and arrays:
                        rewards, counts, states of Markov chains if any
      results/          NAME.json, whatever was found since

Rows are made again from counts, task, prior and ``min_count``, chains are read; nothing
is ever unpickled. How a run is written so that a kill cannot spoil it stands in
``_records.py``.
"""

from __future__ import annotations

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
from bayesmdp._checks import argument
from bayesmdp._io import as_path, digest_of, worded, writing
from bayesmdp._sheet import Sheet
from bayesmdp._typing import IntArray
from bayesmdp._version import __version__
from bayesmdp.data import Counts, Findings, Transitions
from bayesmdp.errors import ArgumentError, BayesmdpWarning, StorageError
from bayesmdp.model import Task, align, log_digest, said_start, said_terms
from bayesmdp.posterior import Belief, Fitted, refit
from bayesmdp.priors import AnyPrior
from bayesmdp.storage._records import Packing, Unpacking, read_record, write_record
from bayesmdp.storage._results import (
    FOLDER,
    HEAD,
    check_place,
    in_words,
    read_config,
    read_task_of,
    result_names,
    run_of,
    sound,
)

DESCRIPTION = 1  # raised when a key of `describe` goes, or comes to mean something else
_TOLD = ("source", "columns", "notes", "warnings", "versions", "log_sha256", "seed")
_COLUMNS = ("state", "action", "next_state", "count")


@dataclass(frozen=True)
class Config:
    """What a run keeps."""

    versions: dict[str, str]
    source: Any
    seed: int | None
    columns: dict[str, str] | None
    notes: tuple[str, ...]  # of reading
    warnings: tuple[str, ...]  # of fitting
    findings: Findings | None
    min_count: int
    prior: Any
    log_sha256: str  # of counts, and of which episodes they come from where known
    alpha_sha256: str  # of what draws are made from
    task: Task
    counts: dict[str, IntArray]  # [K] each
    chains: dict[str, Any]


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
    config: Mapping[str, Any]  # as it stands in the file
    path: Path
    findings: Findings | None  # of `bayesmdp.validate`, where that was kept
    warnings: tuple[str, ...]  # what was warned of when it was fitted

    @property
    def results(self) -> tuple[str, ...]:
        """Names of the results that are there now, sorted."""
        return result_names(self.path, self.config["checksum"])

    def describe(self) -> dict[str, Any]:
        """Say what the run is, as a plain dict."""
        task = self.posterior.task
        return {
            "schema_version": DESCRIPTION,
            "path": str(self.path),
            **{name: self.config[name] for name in _TOLD},
            "n_states": task.n_states,
            "n_actions": task.n_actions,
            "terminal": [task.state_name(int(s)) for s in task.terminal],
            "discount": task.discount
            if np.isfinite(task.discount)
            else {name: part.discount for name, part in task.parts.items()},
            "horizon": task.horizon,
            "cycle": task.cycle,
            "criterion": task.criterion,
            "rewards": list(task.reward_names),
            "start": said_start(task),
            "n_transitions": self.posterior.counts.total,
            "n_distinct": int(self.posterior.counts.count.size),
            "n_available": int(self.posterior.available.sum()),
            "min_count": self.posterior.min_count,
            "prior": repr(self.posterior.prior),
            "results": list(self.results),
        }

    def summary(self) -> str:
        """Say in a few lines what the run is."""
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
            f"task: {said_terms(self.posterior.task)}",
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
        What `bayesmdp.fit` returned, with a prior of this package.
    path
        A directory: new, empty, or with ``overwrite`` one that holds a run, whose
        results go with it. The directory above it must be there.
    data
        The transitions it was fitted to; their notes, columns and labels are kept, and
        a digest of their episodes.
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
    _check_posterior(posterior)
    if data is not None:
        _checks.of_type("data", data, Transitions, StorageError)
    if findings is not None:
        _checks.of_type("findings", findings, Findings, StorageError)
    plain, arrays = Packing(), dict[str, NDArray[Any]]()
    counts = {name: getattr(posterior.counts, name) for name in _COLUMNS}
    config = Config(
        versions={
            "bayesmdp": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        source=plain.pack(source, "source"),
        seed=None if seed is None else _checks.seed_integer(seed),
        columns=plain.pack(data.columns if data else None, "columns"),
        notes=plain.pack(data.notes if data else (), "notes"),
        warnings=plain.pack(list(warnings), "warnings"),
        findings=findings,
        min_count=posterior.min_count,
        prior=posterior.prior,
        log_sha256=log_digest(data, posterior.counts, posterior.task),
        alpha_sha256=digest_of(*posterior.parameters()),
        task=posterior.task,
        counts=counts,
        chains=posterior.kept(),
    )
    record = Packing(arrays).fields(config, "run")
    directory = as_path(path)
    check_target(directory, overwrite=overwrite)
    with worded(directory, "written"):
        made = not directory.exists()
        directory.mkdir(exist_ok=True)
        try:
            with writing(directory):
                check_target(directory, overwrite=overwrite)
                checksum = write_record(directory / HEAD, "run", record, arrays)
                _drop_results(directory, checksum)
        except BaseException:
            if made:
                with suppress(OSError):  # not empty: somebody else's by now
                    directory.rmdir()
            raise
    return directory


def load(path: str | os.PathLike[str]) -> Run:
    """Read a run directory, whatever its files hold: a run, or one sentence.

    Checksums are verified, nothing is unpickled, and the posterior is made again from
    data, prior and stored chains: equal to the one saved, to the bit.

    Parameters
    ----------
    path
        A directory that `save` wrote.

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
    head, arrays = read_config(directory)
    said = {x: y for x, y in head.items() if x not in ("format", "schema", "checksum")}
    task = read_task_of(directory, head, arrays)
    with sound(f"`{directory / HEAD}` is not a run's:"):
        parts = Unpacking(arrays, task)
        kept: Config = parts.record(Config, {**said, "task": {"$task": None}}, "run")
        arrays.check_all_read()
    with sound(f"`{directory}` cannot be fitted again:"):
        named = {"n_states": task.n_states, "n_actions": task.n_actions}
        counts = Counts.from_arrays(**dict[str, Any](**kept.counts, **named))
        if not isinstance(kept.prior, AnyPrior):
            raise StorageError(f"its prior is none but {kept.prior!r:.40}")
        posterior = refit(counts, task, kept.prior, kept.min_count, kept.chains)
    if digest_of(*posterior.parameters()) != kept.alpha_sha256:
        warnings.warn(
            f"The posterior of `{directory}` was fitted again and is not the one that "
            f"bayesmdp {kept.versions.get('bayesmdp')} saved: this version or machine "
            "reads its prior differently.",
            BayesmdpWarning,
            stacklevel=2,
        )
    config = MappingProxyType(head)
    return Run(posterior, config, directory, kept.findings, kept.warnings)


def _drop_results(directory: Path, run: str) -> None:
    """Delete results of other runs: of those that stood here before."""
    with suppress(OSError):  # they are not listed any more, and the next save tries
        for head in (directory / FOLDER).glob("*.json"):
            if run_of(head) not in (run, None):
                head.unlink()


def _check_posterior(posterior: Fitted) -> None:
    if isinstance(posterior, Belief) and posterior.counts is None:
        raise StorageError(
            f"`posterior` is of type {type(posterior).__name__}, which has no counts "
            "to fit again from; save what its models were made from."
        )
    if not isinstance(posterior, Fitted):  # a class that users do not meet by name
        raise StorageError(
            "`posterior` must be of type Posterior, before the directory, as in "
            f"save(posterior, 'ward'); got {type(posterior).__name__}."
        )


def check_log(run: Run, log: Transitions, name: str) -> None:
    """Refuse the log of another run; episodes are compared where both have them."""
    counts, task = run.posterior.counts, run.posterior.task
    fitted = f"the transitions that `{run.path}` was fitted from"
    if align(log, task)[0] != counts:
        wrong = f"does not hold {fitted}"
    elif "episode" in log.table.roles and run.config["log_sha256"] not in (
        log_digest(None, counts, task),  # it was saved without its log
        log_digest(log, counts, task),
    ):
        wrong = f"holds {fitted}, but in other episodes"
    else:
        return
    raise ArgumentError(
        f"`{name}` {wrong}: give the same files and the same --columns, --labels, "
        "--time and other options of reading as to `bayesmdp fit`."
    )


def check_target(
    path: str | os.PathLike[str], name: str | None = None, *, overwrite: bool = False
) -> None:
    """Say before a long job whether `save`, or with a name `save_result`, refuses."""
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
        names = {x.name for x in directory.iterdir() if x.name[0] != "."}
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
            f"it may be replaced ({argument('overwrite')})."
        )
    try:
        read_record(directory / HEAD, "run")
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
