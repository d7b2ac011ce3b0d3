"""Planning with a horizon: a stationary policy, and the best values of draws.

The best policy of a finite horizon changes with time. Policies here do not, and the
best of these is hard to find for sure: `improve_stationary` goes from the first
decisions of the time-dependent optimum to a policy that no change in a single state
betters, by the gradient ``sum_t d_t (Q_t - V_t)``. `best_start_values` has what the
time-dependent optimum of each draw reaches, which no stationary policy can pass.
"""

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine import _solve as solving
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._stages import (
    Stages,
    StageSpace,
    best_stages,
    solve_stages,
    stage_space,
)

_MOST = 200  # changes
_TIE = 1e-12  # share of a value; what is smaller is rounding


def improve_stationary(problem: Problem) -> tuple[IntArray, FloatArray, int]:
    """Rows ``[N]`` of a good stationary policy, its values ``[S]``, and evaluations."""
    stages = problem.stages
    assert stages is not None
    space = _space(problem, stages)
    choice = np.zeros(problem.n_live, dtype=np.int64)
    rows, reward, final = problem.rows, problem.reward, problem.terminal_value
    best_stages(
        stages,
        space,
        rows.mean.copy(),
        rows.layout,
        read_only(reward),
        writable(final),
        problem.n_live,
        choice,
    )
    reached, value, slope = _solved(problem, stages, space, choice)
    for step in range(1, _MOST):
        better = _best_rows(problem, slope, choice)
        changed = np.flatnonzero(better != choice)
        tries = [better] if changed.size else []
        order = changed[np.argsort(-slope[better[changed]], kind="stable")]
        tries += [_with(choice, s, better[s]) for s in order if changed.size > 1]
        for candidate in tries:
            found = _solved(problem, stages, space, candidate)
            if found[0] > reached + _TIE * max(abs(reached), 1e-300):
                choice, (reached, value, slope) = candidate, found
                break
        else:
            return choice, value, step
    return choice, value, -_MOST


def _with(choice: IntArray, state: int, row: int) -> IntArray:
    out = choice.copy()
    out[state] = row
    return out


def _best_rows(problem: Problem, slope: FloatArray, choice: IntArray) -> IntArray:
    """Row of the largest slope of each state; the chosen one where none is above it."""
    best = choice.copy()
    order = np.argsort(slope, kind="stable")
    best[problem.rows.source[order]] = order  # the last, so the largest, stays
    return np.where(slope[best] > slope[choice], best, choice)


def _space(problem: Problem, stages: Stages) -> StageSpace:
    rows = problem.rows
    return stage_space(stages, rows.start.size, rows.source.size)


def _solved(
    problem: Problem, stages: Stages, space: StageSpace, choice: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    """Start value, values ``[S]`` and gradient ``[R]`` of rows ``[N]``."""
    rows, m = problem.rows, problem.n_columns
    policy = np.zeros(rows.source.size)
    policy[choice] = 1.0
    out = solving.Solution(*np.zeros((3, m, rows.start.size)))
    slope = np.zeros((m, policy.size))
    solve_stages(
        stages,
        space,
        solving.OCCUPANCY | solving.GRADIENT,
        rows.mean.copy(),
        read_only(policy),
        rows.layout,
        read_only(problem.reward),
        writable(problem.terminal_value),
        writable(rows.start),
        problem.n_live,
        out,
        np.zeros((0, rows.start.size)),
        slope,
    )
    return float(rows.start @ out.value[0]), out.value[0], slope[0]


def best_start_values(problem: Problem, draws: IntArray) -> tuple[FloatArray, IntArray]:
    """Start values ``[n]`` of the best decisions of each draw, made as time goes by.

    And the rows that they begin with, ``[n, N]``.
    """
    stages, rows, stream = problem.stages, problem.rows, problem.stream
    assert stages is not None
    assert stream is not None
    space = _space(problem, stages)
    theta = np.empty((draws.size, rows.mean.size))
    stream.fill(draws, np.ones(rows.source.size, dtype=np.bool_), theta)
    paid, ends = stream.rewards(draws), stream.terminal_values(draws)
    out = np.empty(draws.size)
    choice = np.zeros((draws.size, problem.n_live), dtype=np.int64)
    for i in range(draws.size):
        reward = problem.reward if paid is None else problem.in_order(paid)[i]
        final = problem.terminal_value
        if ends is not None:
            final = problem.in_order(ends)[i][:, rows.order]
        best_stages(
            stages,
            space,
            theta[i],
            rows.layout,
            read_only(reward),
            writable(final),
            problem.n_live,
            choice[i],
        )
        start = problem.of_columns(final)[0] @ rows.start
        live = slice(0, problem.n_live)
        out[i] = rows.start[live] @ space.value[0, 0, live] + start
    return out, choice
