"""Evaluations, optimisations and comparisons as results of a run, equal to the bit.

The task is the run's own: a result belongs to one run, by its checksum.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp.errors import BayesmdpError, StorageError
from bayesmdp.evaluation import Comparison, ComparisonRow, Evaluation
from bayesmdp.model import Task
from bayesmdp.optimisation import Optimisation, Step
from bayesmdp.storage._config import as_path
from bayesmdp.storage._records import Arrays, pack, unpack
from bayesmdp.storage._results import Result, load_result, save_result
from bayesmdp.storage._run import load_task

#: Names that the command line saves under.
OPTIMISED, COMPARISON = "optimised", "comparison"


def save_evaluation(
    path: str | os.PathLike[str],
    evaluation: Evaluation,
    name: str,
    *,
    overwrite: bool = False,
) -> Path:
    """Keep an evaluation beside a run.

    Parameters
    ----------
    path
        A directory that `save` wrote, of the posterior it is about.
    evaluation
        From `bayesmdp.evaluate`.
    name, overwrite
        As for `save_result`.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp())
    >>> evaluation = bm.evaluate([0] * 5, posterior.draws(100))
    >>> _ = bm.storage.save_evaluation(path, evaluation, "always-0")
    >>> bm.storage.load_evaluation(path, "always-0")
    Evaluation(start_value=..., 100 draws)
    """
    _checks.of_type("evaluation", evaluation, Evaluation, StorageError)
    _check_task(path, evaluation)
    arrays: Arrays = {}
    record = {"kind": "evaluation", **_pack_evaluation(evaluation, arrays)}
    return save_result(path, name, record, arrays, overwrite=overwrite)


def load_evaluation(path: str | os.PathLike[str], name: str) -> Evaluation:
    """Read an evaluation of a run.

    Parameters
    ----------
    path
        A directory that `save` wrote.
    name
        What `save_evaluation` called it; its examples show both.
    """
    result = load_result(path, name)
    with _sound(path, result, "evaluation"):
        return _unpack_evaluation(result.record, result, "", load_task(path))


def save_optimisation(
    path: str | os.PathLike[str],
    optimisation: Optimisation,
    name: str = OPTIMISED,
    *,
    overwrite: bool = False,
) -> Path:
    """Keep what `bayesmdp.optimise` found beside the run.

    Parameters
    ----------
    path
        A directory that `save` wrote, of the posterior it is about.
    optimisation
        The result, also of a search that was interrupted.
    name, overwrite
        As for `save_result`.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp())
    >>> result = bm.optimise(posterior, seed=0)
    >>> _ = bm.storage.save_optimisation(path, result)
    >>> bm.storage.load_optimisation(path).start_value == result.start_value
    True
    """
    _checks.of_type("optimisation", optimisation, Optimisation, StorageError)
    _check_task(path, optimisation.evaluation)
    arrays: Arrays = {}
    special = ("evaluation", "starts", "history")
    steps = optimisation.history
    origins = list(dict.fromkeys(step.start for step in steps))
    record = {
        "kind": "optimisation",
        **pack(optimisation, arrays, leave=special),
        "evaluation": _pack_evaluation(optimisation.evaluation, arrays, "evaluation_"),
        "starts": list(optimisation.starts),
        "history_starts": origins,
        "status": optimisation.status,  # for whoever reads the record alone
    }
    for i, policy in enumerate(optimisation.starts.values()):
        arrays[f"start_{i}"] = policy
    arrays["history_start"] = np.array([origins.index(s.start) for s in steps], int)
    for column, kind in _STEP.items():
        arrays[f"history_{column}"] = np.array(
            [getattr(s, column) for s in steps], kind
        )
    return save_result(path, name, record, arrays, overwrite=overwrite)


_STEP = {"step": int, "value": float, "gap": float, "n_draws": int}


def load_optimisation(
    path: str | os.PathLike[str], name: str = OPTIMISED
) -> Optimisation:
    """Read an optimisation of a run; `bayesmdp.optimise` can resume it.

    Parameters
    ----------
    path
        A directory that `save` wrote.
    name
        What `save_optimisation` called it; its examples show both.
    """
    result = load_result(path, name)
    with _sound(path, result, "optimisation"):
        record, arrays = result.record, result.arrays
        for name in ("starts", "history_starts"):
            if not _checks.fits(record[name], list[str]):
                raise StorageError(f"it has {record[name]!r:.40} as {name!r}")
        columns = [arrays[f"history_{x}"].astype(y).tolist() for x, y in _STEP.items()]
        origins = [record["history_starts"][i] for i in arrays["history_start"]]
        evaluation = _unpack_evaluation(
            record["evaluation"], result, "evaluation_", load_task(path)
        )
        found = unpack(
            Optimisation,
            record,
            arrays,
            evaluation=evaluation,
            starts={n: arrays[f"start_{i}"] for i, n in enumerate(record["starts"])},
            history=tuple(Step(*x) for x in zip(origins, *columns, strict=True)),
        )
        for policy in (found.policy, *found.starts.values()):
            _check_shape("policy", policy, evaluation.policy.shape)
        return found


def save_comparison(
    path: str | os.PathLike[str],
    comparison: Comparison,
    name: str = COMPARISON,
    *,
    overwrite: bool = False,
) -> Path:
    """Keep a comparison of policies beside a run.

    Parameters
    ----------
    path
        A directory that `save` wrote, of the posterior it is about.
    comparison
        From `bayesmdp.compare`.
    name, overwrite
        As for `save_result`.

    Examples
    --------
    >>> import tempfile, bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> path = bm.storage.save(posterior, tempfile.mkdtemp())
    >>> table = bm.compare({"0": [0] * 5, "1": [1] * 5}, posterior.draws(100))
    >>> _ = bm.storage.save_comparison(path, table)
    >>> bm.storage.load_comparison(path).rows == table.rows
    True
    """
    _checks.of_type("comparison", comparison, Comparison, StorageError)
    arrays: Arrays = {}
    evaluations, rows = [], []
    for i, (policy, evaluation) in enumerate(comparison.evaluations.items()):
        _check_task(path, evaluation)
        packed = _pack_evaluation(evaluation, arrays, f"evaluation_{i}_")
        evaluations.append({"name": policy, **packed})
    for i, row in enumerate(comparison.rows):
        rows.append(pack(row, arrays, f"row_{i}_"))
    record = {
        "kind": "comparison",
        "reference": comparison.reference,
        "min_count": comparison.min_count,
        "rows": rows,
        "evaluations": evaluations,
    }
    return save_result(path, name, record, arrays, overwrite=overwrite)


def load_comparison(path: str | os.PathLike[str], name: str = COMPARISON) -> Comparison:
    """Read a comparison of a run.

    Parameters
    ----------
    path
        A directory that `save` wrote.
    name
        What `save_comparison` called it; its examples show both.
    """
    result = load_result(path, name)
    with _sound(path, result, "comparison"):
        record, task = result.record, load_task(path)
        rows = [
            unpack(ComparisonRow, row, result.arrays, f"row_{i}_")
            for i, row in enumerate(record["rows"])
        ]
        evaluations = {
            x["name"]: _unpack_evaluation(x, result, f"evaluation_{i}_", task)
            for i, x in enumerate(record["evaluations"])
        }
        names = [row.name for row in rows]
        if sorted(names) != sorted(evaluations) or record["reference"] not in names:
            raise StorageError("its rows, evaluations and reference do not agree")
        if not _checks.fits(record["min_count"], int):
            raise StorageError(f"it has {record['min_count']!r:.40} as 'min_count'")
        return Comparison(
            tuple(rows), record["reference"], record["min_count"], evaluations
        )


def _pack_evaluation(
    evaluation: Evaluation, arrays: Arrays, prefix: str = ""
) -> dict[str, Any]:
    return pack(evaluation, arrays, prefix, leave=("task",))


def _unpack_evaluation(
    record: Mapping[str, Any], result: Result, prefix: str, task: Task
) -> Evaluation:
    found = unpack(Evaluation, record, result.arrays, prefix, task=task)
    n = task.n_states
    n_draws = found.n_draws
    shapes = {"policy": (n, task.n_actions), "start_values": (n_draws,)}
    shapes |= {"values": (n_draws, n), "weights": (n_draws,)}
    for name, array in vars(found).items():
        if isinstance(array, np.ndarray):
            _check_shape(name, array, shapes.get(name, (n,)))
    return found


def _check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise StorageError(f"{name!r} has shape {array.shape}, not {shape}")


def _check_task(path: str | os.PathLike[str], evaluation: Evaluation) -> None:
    """Refuse what was found for a task of another size than the run's."""
    task = load_task(path)
    if evaluation.policy.shape != (task.n_states, task.n_actions):
        raise StorageError(
            f"`{path}` is a run of {task.n_states} states and {task.n_actions} "
            "actions; what shall be kept there is about a policy of shape "
            f"{evaluation.policy.shape}."
        )


@contextmanager
def _sound(path: str | os.PathLike[str], result: Result, kind: str) -> Iterator[None]:
    """Refuse a result of another kind, or one that this bayesmdp did not write so."""
    where = f"Result {result.name!r} of `{as_path(path)}`"
    said = result.record.get("kind")
    if said != kind:
        raise StorageError(f"{where} is no {kind} but {said or 'of no known kind'}.")
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError) as problem:
        said = str(problem) if isinstance(problem, BayesmdpError) else repr(problem)
        raise StorageError(f"{where} cannot be used ({said}): recompute it.") from None
