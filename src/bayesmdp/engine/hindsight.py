"""The best value of each draw, had its model been known: what no policy can beat."""

import numpy as np

from bayesmdp._checks import read_only
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._hindsight import best_value
from bayesmdp.engine._join import BLOCK
from bayesmdp.engine._planner import methods
from bayesmdp.engine._rows import Problem
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
    rows, stream = problem.rows, problem.stream
    assert stream is not None
    theta = np.empty((1, rows.target.size))
    every = np.ones(rows.source.size, dtype=np.bool_)
    out = np.full(n, np.nan)
    for i in range(n):
        draws = np.array([first + i])
        stream.fill(draws, every, theta)
        reward, final = stream.rewards(draws), stream.terminal_values(draws)
        paid = rows.reward if reward is None else reward[0]
        ends = rows.terminal_value if final is None else final[0, rows.order]
        for krylov in methods(problem.n_live):
            found = best_value(
                krylov,
                read_only(theta[0]),
                problem.task.discount,
                rows.layout,
                read_only(paid),
                read_only(ends),
                read_only(rows.start),
                read_only(warm),
            )
            if not np.isneginf(found):
                out[i] = found
                break
    return out
