"""The best value of each draw, had its model been known: what no policy can beat."""

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._join import BLOCK
from bayesmdp.engine._planner import FAILED, methods, plan_models
from bayesmdp.engine._rows import Problem
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
    most = max(_HELD // max(problem.rows.target.size, 1), 1)
    found = [
        _best_values(problem, warm, np.arange(begin, min(begin + most, first + n)))
        for begin in range(first, first + n, most)
    ]
    return np.concatenate(found)


def _best_values(problem: Problem, warm: IntArray, draws: IntArray) -> FloatArray:
    """Sample draws, and plan for each from the rows ``warm`` [N]."""
    rows, stream, n = problem.rows, problem.stream, draws.size
    assert stream is not None
    table = np.empty((n, rows.target.size))
    stream.fill(draws, np.ones(rows.source.size, dtype=np.bool_), table)
    reward, final = stream.rewards(draws), stream.terminal_values(draws)
    out = np.full(n, -np.inf)
    for method in methods(problem.n_live):
        found, iterations = np.empty(n), np.empty(n, dtype=np.int64)
        plan_models(
            method.dense,
            method.krylov,
            problem.task.discount,
            rows.layout,
            table,
            read_only(rows.reward[None] if reward is None else reward),
            writable(
                rows.terminal_value[None] if final is None else final[:, rows.order]
            ),
            writable(rows.start),
            False,
            np.tile(warm, (n, 1)),
            np.empty((n, rows.start.size)),
            iterations,
            found,
        )
        found[iterations <= 0] = np.nan  # a better policy would never end
        found[iterations == FAILED] = -np.inf
        out = np.where(np.isneginf(out), found, out)
        if not np.isneginf(out).any():
            break
    return np.where(np.isneginf(out), np.nan, out)
