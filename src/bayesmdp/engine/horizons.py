"""Planning with a horizon: a stationary policy, and the best values of draws.

The best policy of a finite horizon changes with time. Policies here do not, and the
best of these is hard to find for sure: `improve_stationary` goes from the first
decisions of the time-dependent optimum to a policy that no change in a single state
betters, by the gradient ``sum_t d_t (Q_t - V_t)``. `best_start_values` has what the
time-dependent optimum of each draw reaches, which no stationary policy can pass.
"""

from collections.abc import Callable, Iterator

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._chain import Setting
from bayesmdp.engine._kernel import setting
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import GRADIENT, OCCUPANCY
from bayesmdp.engine._stages import (
    Stages,
    StageSpace,
    fill_rewards,
    row_ahead,
    row_reward,
    stage_space,
)
from bayesmdp.engine._timed import solved_by_time

_MOST = 200  # changes
_TIE = 1e-12  # share of a value; what is smaller is rounding


def improve_stationary(problem: Problem) -> tuple[IntArray, FloatArray, int]:
    """Rows ``[N]`` of a good stationary policy, its values ``[S]``, and evaluations."""
    choice = np.zeros(problem.n_live, dtype=np.int64)
    mean = problem.rows.mean.copy(), problem.reward, problem.terminal_value
    _best_stages(problem, *mean, choice)
    return improve_from(problem, choice, _solved)


#: Start value, values [S] and gradient [R] of a policy.
Solved = tuple[float, FloatArray, FloatArray]


def improve_from(
    problem: Problem, choice: IntArray, solve: Callable[[Problem, IntArray], Solved]
) -> tuple[IntArray, FloatArray, int]:
    """Change rows ``[N]`` while that betters the start value; return the same.

    By the gradient: all states at once, or else one of them, that of most gain first.
    """
    reached, value, slope = solve(problem, choice)
    for step in range(1, _MOST):
        better = _best_rows(problem, slope, choice)
        changed = np.flatnonzero(better != choice)
        tries = [better] if changed.size else []
        order = changed[np.argsort(-slope[better[changed]], kind="stable")]
        tries += [_with(choice, s, better[s]) for s in order if changed.size > 1]
        for candidate in tries:
            found = solve(problem, candidate)
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


def _solved(problem: Problem, choice: IntArray) -> Solved:
    """Start value, values ``[S]`` and gradient ``[R]`` of rows ``[N]``."""
    rows = problem.rows
    policy = np.zeros((1, rows.source.size))
    policy[0, choice] = 1.0
    given = setting(problem.with_policies(policy), 0, OCCUPANCY | GRADIENT)
    model = rows.mean, problem.reward, problem.terminal_value
    space = solved_by_time(problem, given, *model)
    value = space.found.value[0]
    return float(rows.start @ value), value, space.slope[0]


def sum_over_draws(
    problem: Problem, draws: IntArray, weights: FloatArray, around: FloatArray
) -> FloatArray:
    """Weighted sums of four powers of values less ``around``, ``[4, T + 1, S]``.

    By time, discounted to the start, of the first policy; ``around`` [T + 1, S].
    """
    out = np.zeros((4, *around.shape))
    for i, theta, reward, final in _models(problem, draws):
        off = _values_by_time(problem, theta, reward, final) - around
        out += weights[i] * np.stack([off, off**2, off**3, off**4])
    return out


def mean_values_by_time(problem: Problem) -> FloatArray:
    """Values of the mean model by time, ``[T + 1, S]``, as `sum_over_draws` has."""
    given = problem.rows.mean, problem.reward, problem.terminal_value
    return _values_by_time(problem, *given)


def _values_by_time(
    problem: Problem, theta: FloatArray, reward: FloatArray, final: FloatArray
) -> FloatArray:
    given = setting(problem, 0, 0)
    space = solved_by_time(problem, given, theta, reward, final)
    out = space.value[0, :-1].copy()  # at terminal states what arriving there pays
    out[0, problem.n_live :] = problem.of_columns(final)[0, problem.n_live :]
    return out


def _models(
    problem: Problem, draws: IntArray
) -> Iterator[tuple[int, FloatArray, FloatArray, FloatArray]]:
    """Rows, rewards and terminal values of each draw, with its place among them."""
    rows, stream = problem.rows, problem.stream
    assert stream is not None
    theta = np.empty((1, rows.mean.size))
    for i in range(draws.size):
        one = draws[i : i + 1]
        stream.fill(one, np.ones(rows.source.size, dtype=np.bool_), theta)
        paid, ends = stream.rewards(one), stream.terminal_values(one)
        reward = problem.reward if paid is None else problem.in_order(paid)[0]
        final = problem.terminal_value
        if ends is not None:
            final = problem.in_order(ends)[0][:, rows.order]
        yield i, theta[0], reward, final


def best_start_values(problem: Problem, draws: IntArray) -> tuple[FloatArray, IntArray]:
    """Start values ``[n]`` of the best decisions of each draw, made as time goes by.

    And the rows that they begin with, ``[n, N]``.
    """
    rows, live = problem.rows, slice(0, problem.n_live)
    out = np.empty(draws.size)
    choice = np.zeros((draws.size, problem.n_live), dtype=np.int64)
    for i, theta, reward, final in _models(problem, draws):
        space = _best_stages(problem, theta, reward, final, choice[i])
        start = problem.of_columns(final)[0] @ rows.start
        out[i] = rows.start[live] @ space.value[0, 0, live] + start
    return out, choice


def _best_stages(
    problem: Problem,
    theta: FloatArray,
    reward: FloatArray,
    final: FloatArray,
    choice: IntArray,
) -> StageSpace:
    """Call `best_stages` for one model."""
    stages, rows = problem.stages, problem.rows
    assert stages is not None
    space = stage_space(stages, rows.start.size, rows.source.size)
    given, paid = setting(problem, 0, 0), (read_only(reward), writable(final))
    best_stages(stages, space, given, theta, *paid, choice)
    return space


@jit
def best_stages(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    final: FloatArray,
    choice: IntArray,
) -> None:
    """Fill the first column's values by the best row of each state and time.

    No policy, stationary or not, has a higher one; ``choice`` [N] is the row at the
    start.
    """
    rows, n_live = given.rows, given.nominal.n_live
    fill_rewards(stages, space, given, theta, reward, final)
    for t in range(stages.phase.size - 1, -1, -1):
        value, ahead = space.value[0, t], space.value[0, t + 1]
        n_rows, s = rows.source.size, 0
        base, paid = stages.phase[t] * rows.target.size, stages.paid[t] * n_rows
        value[:n_live] = -np.inf
        for row in range(n_rows):
            q = row_reward(stages, space.row_own, 0, t, paid + row)
            q += row_ahead(theta, rows, base, row, ahead)
            s = rows.source[row]
            if q > value[s]:
                value[s] = q
                choice[s] = row
