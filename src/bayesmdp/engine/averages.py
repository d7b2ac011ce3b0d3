"""Planning for averages per step: Howard's policy improvement by gain and bias.

From a policy with one closed class, every state takes the row that gains most over the
bias, ``Q - h``, until none does. Where no row gains, no policy has a higher average
(Howard 1960). A policy with several closed classes on the way is refused.
"""

from dataclasses import replace

import numpy as np

from bayesmdp._checks import read_only
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._average import (
    Renewal,
    gains_of_rows,
    make_renewal,
    solve_renewal,
)
from bayesmdp.engine._rows import Problem
from bayesmdp.errors import EndlessError

_MOST = 1000
_TIE = 1e-10  # share of the largest reward or bias; what is smaller is rounding


def improve_average(
    problem: Problem, choice: IntArray
) -> tuple[IntArray, float, FloatArray, int]:
    """Rows ``[N]`` of the best policy of the mean model, gain, bias, evaluations.

    The number is below 0 where the limit was reached.
    """
    at = make_renewal(problem.n_live, 1)
    for step in range(1, _MOST):
        better = _better_rows(problem, choice, at)
        if np.array_equal(better, choice):
            return choice, float(at.gain[0]), at.bias[0].copy(), step
        choice = better
    return choice, float(at.gain[0]), at.bias[0].copy(), -_MOST


def _better_rows(problem: Problem, choice: IntArray, at: Renewal) -> IntArray:
    """Solve for rows ``[N]``, and return what gains most over them."""
    rows = problem.rows
    policy = np.zeros(rows.source.size)
    policy[choice] = 1.0
    (anchor,) = problem.with_policies(policy[None]).anchors
    theta, reward = rows.mean.copy(), read_only(problem.reward[:1])
    if not solve_renewal(theta, read_only(policy), rows.layout, reward, anchor, at):
        raise EndlessError(
            f"A policy comes back to state {problem.task.state_name(anchor)} so rarely "
            "that its average cannot be resolved; use a discount below 1."
        )
    gains = np.empty(rows.source.size)
    bias = at.bias[0]
    gains_of_rows(theta, rows.layout, reward[0], at.gain[0], bias, gains)
    size = max(np.abs(reward).max(), np.ptp(bias), 1e-300)
    order = np.argsort(gains, kind="stable")
    best = choice.copy()
    best[rows.source[order]] = order  # the last, so the largest, stays
    return np.where(gains[best] > gains[choice] + _TIE * size, best, choice)


def best_averages(
    problem: Problem, draws: IntArray, warm: IntArray
) -> tuple[FloatArray, IntArray]:
    """Highest average of each draw ``[n]``, NaN where none was found; its rows."""
    rows, stream = problem.rows, problem.stream
    assert stream is not None
    theta = np.empty((draws.size, rows.mean.size))
    stream.fill(draws, np.ones(rows.source.size, dtype=np.bool_), theta)
    paid = stream.rewards(draws)
    out, choice = np.full(draws.size, np.nan), np.tile(warm, (draws.size, 1))
    for i in range(draws.size):
        reward = rows.reward if paid is None else problem.in_order(paid)[i, 0]
        known = replace(rows, mean=theta[i], reward=reward)
        model = Problem(known, problem.policies[:1])
        try:
            choice[i], gain, _, steps = improve_average(model, warm)
        except EndlessError:  # a better policy has several classes
            continue
        if steps > 0:
            out[i] = gain
    return out, choice
