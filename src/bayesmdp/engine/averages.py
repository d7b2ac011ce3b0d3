"""Averages per step: planning by gain and bias, and the compiled loop over draws.

**Planning** is Howard's policy improvement. From a policy with one closed class, every
state takes the row that gains most over the bias, ``Q - h``, until none does. Where no
row gains, no policy has a higher average (Howard 1960). A policy with several closed
classes on the way is refused.

**A draw** takes one elimination, by renewals. Let the chain of a policy have one closed
class, and let ``z`` be a state of it, which is reached from everywhere. With ``M = I -
T`` without the column of ``z`` (who arrives there begins again), for one draw and
reward::

    tau  = M^-1 1                 steps until z
    R    = M^-1 b                 rewards until z
    gain = R[z] / tau[z]          mean reward per step
    mu   = M'^-1 e_z / tau[z]     share of time in each state
    h    = M^-1 (b - gain)        less mu.h: the bias, sum_t E[r_t] - gain
    x    = r + h[j] - h[s] - gain
    rate = sum_s mu[s] sum_a pi sum_j theta x^2       lim Var(r_0 + .. + r_n-1) / n
    grad = mu[s] (Q[s, a] - h[s]),  Q = sum_j theta (r + h[j]) - gain

``M`` is an M-matrix with row sums ``T[s, z]``, so elimination loses no digits. The rate
is that of the central limit theorem of Markov chains (of martingale differences ``x``);
rates of two rewards have products in place of squares. The control variate is the
derivative of the gain at the nominal model, times the deviation from it.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayesmdp._checks import read_only
from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._bellman import bellman_mean
from bayesmdp.engine._chain import Layout, Results, Setting
from bayesmdp.engine._dense import (
    ENDLESS,
    copy_to,
    dot,
    factorise,
    solve,
    solve_transposed,
)
from bayesmdp.engine._reduce import end_draw
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import (
    CROSS,
    ENDLESS_CHAIN,
    GRADIENT,
    LEFT_OUT,
    SOLVED,
    Solution,
)
from bayesmdp.errors import EndlessError


class Renewal(NamedTuple):
    """What one draw comes to; K rewards."""

    matrix: FloatArray  # [S, S]
    slack: FloatArray  # [S]
    steps: FloatArray  # [S], tau
    share: FloatArray  # [S], mu
    gain: FloatArray  # [K]
    bias: FloatArray  # [K, S]
    rate: FloatArray  # [K, K]


def make_renewal(n_states: int, n_rewards: int) -> Renewal:
    """Allocate."""
    n, k = n_states, n_rewards
    shapes = (n, n), (n,), (n,), (n,), (k,), (k, n), (k, k)
    return Renewal(*(np.zeros(shape) for shape in shapes))


@jit
def _assemble(
    theta: FloatArray, pi: FloatArray, rows: Layout, anchor: int, at: Renewal
) -> None:
    """Fill the matrix, with arrivals at the anchor as ends."""
    at.matrix[:] = 0.0
    at.slack[:] = 0.0
    for i in range(at.slack.size):
        at.matrix[i, i] = 1.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            i = rows.source[row]
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                j = rows.target[e]
                if j == anchor:
                    at.slack[i] += pi[row] * theta[e]
                else:
                    at.matrix[i, j] -= pi[row] * theta[e]


@jit
def solve_renewal(  # noqa: C901 - loops over rewards, pairs of them and entries
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    anchor: int,
    at: Renewal,
) -> bool:
    """Fill ``at`` for one draw; False where the anchor is not reached."""
    _assemble(theta, pi, rows, anchor, at)
    if not factorise(at.matrix, at.slack) > ENDLESS:
        return False
    at.steps[:] = 1.0
    solve(at.matrix, at.steps)
    length = at.steps[anchor]
    at.share[:] = 0.0
    at.share[anchor] = 1.0
    solve_transposed(at.matrix, at.share)
    for s in range(at.share.size):
        at.share[s] /= length
    n_rewards = reward.shape[0]
    bellman_mean(theta, pi, rows, reward, at.bias)
    for k in range(n_rewards):
        bias = at.bias[k]
        gain = dot(at.share, bias)
        at.gain[k] = gain
        for s in range(bias.size):
            bias[s] -= gain
        solve(at.matrix, bias)
        centre = dot(at.share, bias)
        for s in range(bias.size):
            bias[s] -= centre
    at.rate[:] = 0.0
    for row in range(pi.size):
        s = rows.source[row]
        weight = pi[row] * at.share[s]
        if weight > 0.0:
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                t, chance = rows.target[e], weight * theta[e]
                for k in range(n_rewards):
                    x = reward[k, e] + at.bias[k, t] - at.bias[k, s] - at.gain[k]
                    for j in range(k, n_rewards):
                        y = reward[j, e] + at.bias[j, t] - at.bias[j, s] - at.gain[j]
                        at.rate[k, j] += chance * x * y
    return True


@jit
def gains_of_rows(
    theta: FloatArray,
    rows: Layout,
    reward: FloatArray,
    gain: float,
    bias: FloatArray,
    out: FloatArray,
) -> None:
    """Set ``out`` [R] to ``Q - h``: what a row gains over what its state does."""
    for row in range(rows.source.size):
        total = -gain - bias[rows.source[row]]
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            total += theta[e] * (reward[e] + bias[rows.target[e]])
        out[row] = total


@jit
def sweep_average(  # noqa: C901 - one loop over draws
    begin: int,
    given: Setting,
    anchor: int,
    at: Renewal,
    theta: FloatArray,
    reward: FloatArray,
    direction: FloatArray,
    results: Results,
) -> None:
    """Sweep some draws of a range, as `bayesmdp.engine._kernel.sweep_policy` does.

    Values are gains, variances rates, the same in every state, and occupancies shares
    of time. ``kept`` [K, 2, W, S] takes the bias of each draw.
    """
    n_rewards, n_states = reward.shape[1], given.start.size
    pi, rows = given.pi, given.rows
    nothing = np.zeros((n_rewards, n_states))
    out = Solution(
        np.zeros((n_rewards, n_states)),
        np.zeros((n_rewards, n_states)),
        np.zeros((n_rewards, n_states)),
    )
    slope = np.zeros((n_rewards, pi.size))
    for d in range(theta.shape[0]):
        i = begin + d
        if given.weights[i] == 0.0 or results.status[i] != LEFT_OUT:
            continue
        paid = reward[d if reward.shape[0] > 1 else 0]
        if not solve_renewal(theta[d], pi, rows, paid, anchor, at):
            results.status[i] = ENDLESS_CHAIN
            continue
        results.status[i], pair = SOLVED, 0
        for k in range(n_rewards):
            for j in range(k + 1, n_rewards):
                if given.want & CROSS:
                    results.cross[pair, i] = at.rate[k, j]
                    pair += 1
            out.value[k, :] = at.gain[k]
            out.variance[k, :] = at.rate[k, k]
            copy_to(out.occupancy[k], at.share)
            if given.want & GRADIENT:
                own = slope[k]
                gains_of_rows(theta[d], rows, paid[k], at.gain[k], at.bias[k], own)
                for row in range(pi.size):
                    own[row] *= at.share[rows.source[row]]
        end_draw(i, given, out, nothing, theta[d], direction, slope, results)
        if results.kept.shape[2] > 0:
            for k in range(n_rewards):
                copy_to(results.kept[k, 0, i], at.bias[k])


@jit
def fill_derivative(
    pi: FloatArray, rows: Layout, reward: FloatArray, at: Renewal, out: FloatArray
) -> None:
    """Fill ``out`` [K, E] with derivatives of gains; after `solve_renewal`."""
    for row in range(pi.size):
        s = rows.source[row]
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            for k in range(reward.shape[0]):
                ahead = reward[k, e] + at.bias[k, rows.target[e]]
                out[k, e] = pi[row] * at.share[s] * ahead


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
            "that its average cannot be resolved; use criterion='discounted' with a "
            "discount below 1."
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
