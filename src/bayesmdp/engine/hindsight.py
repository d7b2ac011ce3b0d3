"""The best value of each draw, had its model been known: what no policy can beat."""

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._hindsight import best_values
from bayesmdp.engine._join import BLOCK
from bayesmdp.engine._planner import methods
from bayesmdp.engine._problem import Problem, read_only
from bayesmdp.engine._workers import Pool, results

__all__ = ["hindsight_values"]


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
    out = np.full(n, -np.inf)
    for krylov in methods(problem.n_live):
        found = np.empty(n)
        best_values(
            krylov,
            first,
            problem.task.discount,
            problem.layout,
            problem.models,
            read_only(problem.start),
            read_only(warm),
            found,
        )
        out = np.where(np.isneginf(out), found, out)
        if not np.isneginf(out).any():
            break
    return np.where(np.isneginf(out), np.nan, out)
