"""Run directories: a posterior that lasts.

::

    ward/
      config.json      what was done: source, columns, prior, versions, checksums
      counts.parquet   state, action, next_state, count
      task.npz         plain arrays: sizes, reward, discount, start, terminal, labels
      chains.npz       states of Markov chains, where the posterior has some
      results/         NAME.json and NAME.npz, whatever was found since

Rows are made again from counts, task, prior and ``min_count``, chains are read; nothing
is ever unpickled. How a run is written so that a kill cannot spoil it stands in
``_files.py``.
"""

import hashlib
import os
import platform
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._io import worded
from bayesmdp._sheet import Sheet
from bayesmdp._version import __version__
from bayesmdp.data import Findings, Transitions
from bayesmdp.errors import (
    BayesmdpError,
    BayesmdpWarning,
    StorageError,
)
from bayesmdp.model import Task
from bayesmdp.posterior import Belief, Fitted, refit
from bayesmdp.priors import prior_from_dict, prior_to_dict
from bayesmdp.storage._arrays import read_arrays, write_arrays
from bayesmdp.storage._config import (
    FORMAT,
    HEAD,
    SCHEMA,
    as_path,
    check_target,
    read_config,
)
from bayesmdp.storage._counts_file import read_counts, write_counts
from bayesmdp.storage._files import (
    clean,
    find_file,
    locked,
    steady,
    write_bundle,
)
from bayesmdp.storage._plain import plain
from bayesmdp.storage._results import drop_results, in_words, result_names
from bayesmdp.storage._task_arrays import (
    check_layout,
    task_from_arrays,
    task_to_arrays,
)

DESCRIPTION = 1  # raised when a key of `describe` goes, or comes to mean something else


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
            *[f"  {name}: {told}" for name, told in self._results_in_words().items()],
        ]
        return Sheet(f"Run in {self.path}", lines, indent="  ")

    def _repr_html_(self) -> str:
        return self._sheet().html() + self.posterior._repr_html_()

    def _results_in_words(self) -> dict[str, str]:
        return {name: in_words(self.path, name) for name in self.results}

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
    >>> sorted(file.name for file in path.iterdir())
    ['chains.npz', 'config.json', 'counts.parquet', 'task.npz']
    """
    config = _config(posterior, data, source, seed)
    if findings is not None:
        _checks.of_type("findings", findings, Findings, StorageError)
        config["findings"] = plain("findings", findings.to_dict())
    config["warnings"] = plain("warnings", list(warnings))
    arrays = task_to_arrays(posterior.task)
    directory = as_path(path)
    check_target(directory, overwrite=overwrite)
    files = {
        "counts.parquet": partial(write_counts, counts=posterior.counts),
        "task.npz": partial(write_arrays, arrays=arrays),
    }
    if kept := posterior.kept():
        files["chains.npz"] = partial(write_arrays, arrays=kept)
    with worded(directory, "written"):
        made = not directory.exists()
        directory.mkdir(exist_ok=True)
        try:
            with locked(directory) as alone:
                check_target(directory, overwrite=overwrite)
                clean(directory, alone=alone)
                written = write_bundle(directory, HEAD, config, files)
                clean(directory, alone=alone)
                drop_results(directory, written["checksum"], alone=alone)
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
    run = steady(directory / HEAD, lambda: _load(directory))
    if _digest(run.posterior) != run.config["alpha_sha256"]:
        warnings.warn(
            f"The posterior of `{directory}` was fitted again and is not the one that "
            f"bayesmdp {run.config['versions'].get('bayesmdp')} saved: this version or "
            "machine reads its prior differently.",
            BayesmdpWarning,
            stacklevel=2,
        )
    return run


def _config(
    posterior: Fitted, data: Transitions | None, source: Any, seed: int | None
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
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "versions": {
            "bayesmdp": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "seed": None if seed is None else _checks.seed_integer(seed),
        "source": plain("source", source),
        "columns": plain("columns", data.columns if data else None),
        "labels": _labels(posterior, data),
        "notes": plain("notes", data.notes if data else ()),
        "min_count": posterior.min_count,
        "prior": prior_to_dict(posterior.prior),
        "alpha_sha256": _digest(posterior),
    }


def _labels(posterior: Fitted, data: Transitions | None) -> dict[str, Any]:
    """Say what the data call states and actions; None where the task's names say it."""
    found: dict[str, Any] = {}
    for name in ("state_labels", "action_labels"):
        labels = getattr(data, name) if data else None
        known = getattr(posterior.task, name)
        same = labels is None or tuple(str(x) for x in labels) == known
        found[name] = None if same else plain(name, labels)
    return found


def load_task(path: str | os.PathLike[str]) -> Task:
    """Read the task of a run, without fitting anything again.

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
    >>> bm.storage.load_task(path).discount
    0.999
    """
    directory = as_path(path)
    return steady(directory / HEAD, lambda: _task_of(directory, read_config(directory)))


def _task_of(directory: Path, config: Mapping[str, Any]) -> Task:
    path = find_file(directory, "task.npz", config)
    called = directory / "task.npz"
    arrays = read_arrays(path, lambda layout: check_layout(layout, called))
    return task_from_arrays(arrays, called)


def _load(directory: Path) -> Run:
    config = read_config(directory)
    task = _task_of(directory, config)
    counts_path = find_file(directory, "counts.parquet", config)
    try:
        counts = read_counts(counts_path, task.n_states, task.n_actions)
        prior = prior_from_dict(config["prior"])
        kept = {}
        if "chains.npz" in config["files"]:
            kept = read_arrays(find_file(directory, "chains.npz", config))
        posterior = refit(counts, task, prior, config["min_count"], kept)
    except StorageError:
        raise
    except (BayesmdpError, MemoryError, ValueError) as problem:
        raise StorageError(
            f"`{directory}` cannot be fitted again: {problem}"
        ) from problem
    return Run(posterior, MappingProxyType(config), directory)


def _digest(posterior: Fitted) -> str:
    """Name what draws are made from: rows, and sets of next states if there are any."""
    digest = hashlib.sha256()
    for part in posterior.parameters():
        digest.update(np.ascontiguousarray(part, "<f8").data)
    return digest.hexdigest()


def _in_words(source: Any) -> str:
    """Say where data came from; a dict is listed."""
    if isinstance(source, dict):
        return "; ".join(f"{name} {_in_words(x)}" for name, x in source.items())
    if isinstance(source, list):
        return ", ".join(str(x) for x in source)
    return "not said" if source is None else str(source)
