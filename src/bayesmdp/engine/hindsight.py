"""The best value of each draw, had its model been known: what no policy can beat."""

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._backup import sample_table
from bayesmdp.engine._join import BLOCK
from bayesmdp.engine._planner import FAILED, methods, plan_models
from bayesmdp.engine._problem import Problem, read_only, writable
from bayesmdp.engine._workers import Pool, results

__all__ = ["hindsight_values"]

_HELD = 1 << 20  # entries of draws that are held at once


def hindsight_values(
    problem: Problem, n_draws: int, warm: IntArray, pool: Pool
) -> FloatArray:
    """Optimal start values of draws ``0..n_draws-1``, ``[D]``.

    ``problem`` holds every row; planning starts from the rows ``warm`` [N].
    """
    jobs = (
        (problem, warm, first, min(BLOCK, n_draws - first))
        for first in range(0, n_draws, BLOCK)
    )
    with results(pool, _run, jobs) as parts:
        return np.concatenate(list(parts))


def _run(problem: Problem, warm: IntArray, first: int, n: int) -> FloatArray:
    """Plan for a range of draws; not a number where that fails."""
    most = max(_HELD // max(problem.target.size, 1), 1)
    parts = range(first, first + n, most)
    ends = [min(begin + most, first + n) for begin in parts]
    found = (
        _best_values(problem, warm, begin, end)
        for begin, end in zip(parts, ends, strict=True)
    )
    return np.concatenate(list(found))


def _best_values(problem: Problem, warm: IntArray, first: int, stop: int) -> FloatArray:
    """Sample draws ``first..stop-1``, and plan for each from the rows ``warm`` [N]."""
    n, every = stop - first, read_only(np.ones(problem.source.size, dtype=np.bool_))
    table = np.empty((n, problem.target.size))
    rows, models = problem.layout, problem.models
    sample_table(models, problem.groups, rows, every, first, table)
    out = np.full(n, -np.inf)
    for method in methods(problem.n_live):
        found, iterations = np.empty(n), np.empty(n, dtype=np.int64)
        plan_models(
            method.dense,
            method.krylov,
            first,
            problem.task.discount,
            rows,
            table,
            models.rewards,
            models.terminal_values,
            models.member,
            writable(problem.start),
            False,
            np.tile(warm, (n, 1)),
            np.empty((n, problem.start.size)),
            iterations,
            found,
        )
        found[iterations <= 0] = np.nan  # a better policy would never end
        found[iterations == FAILED] = -np.inf
        out = np.where(np.isneginf(out), found, out)
        if not np.isneginf(out).any():
            break
    return np.where(np.isneginf(out), np.nan, out)
