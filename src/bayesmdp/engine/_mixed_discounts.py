"""A weighted sum of rewards of different discounts, without a horizon.

Each discount has a chain of its own, and the sum is one of values. For one draw, with
weights ``w_k`` and discounts ``g_k``, and what `bayesmdp.engine._kernel` finds of each
reward by itself::

    V    = sum_k w_k V_k
    var  = sum_ij w_i w_j C_ij                        (I - g_i g_j T) C_ij = ...
    grad = sum_k w_k d_k[s] (Q_k[s, a] - V_k[s])
    y    = sum_k w_k d_bar_k . sum_a pi sum_t (theta - theta_bar) (r_k + g_k V_bar_k[t])

No chain has ``V`` as its value, and no visits belong to the sum: those shown are of the
reward that is discounted least. The control variate ``y`` is linear in the rows, with
mean 0: the derivative of the start value at the nominal model, without what the first
point of time loses.
Gradients sample every row.
"""

from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit_uncounted
from bayesmdp._typing import FloatArray
from bayesmdp.engine._chain import Chain, Layout, Results, Setting
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._kernel import Draw, solve_draw
from bayesmdp.engine._reduce import end_draw, take_off_first
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import (
    GRADIENT,
    LEFT_OUT,
    SOLVED,
    Band,
    Dense,
    Krylov,
    Solution,
    Space,
)


class Parts(NamedTuple):
    """What is the same in all draws of a sum of K rewards."""

    given: Setting  # with references of each reward
    discount: FloatArray  # [K]
    weight: FloatArray  # [K]
    lost: float  # by how much the first point of time counts less than 1
    direction: FloatArray  # [1, E], derivative of the start value


class Total(NamedTuple):
    """What a draw comes to: one column."""

    found: Solution  # [1, S]
    ends: FloatArray  # [1, S]
    slope: FloatArray  # [1, R]


def make_total(n_states: int, n_rows: int) -> Total:
    """Allocate."""
    found = Solution(*np.zeros((3, 1, n_states)))
    return Total(found, np.zeros((1, n_states)), np.zeros((1, n_rows)))


def fill_direction(problem: Problem, p: int, found: Solution) -> FloatArray:
    """Return derivatives of the start value of policy ``p`` by mean rows, ``[1, E]``.

    ``found`` [K, S] is of the mean model.
    """
    rows, out = problem.rows, np.zeros((1, problem.rows.target.size))
    row = rows.row_of_entry
    for k, weight in enumerate(problem.weights or ()):
        ahead = problem.discounts[k] * found.value[k, rows.target]
        flow = problem.policies[p, row] * found.occupancy[k, rows.source[row]]
        out[0] += weight * flow * (problem.reward[k] + ahead)
    return out


@jit_uncounted
def add_up(weight: FloatArray, each: Solution, out: Solution) -> None:
    """Add values ``[K, S]`` and covariances ``[K + X, S]`` to those of the sum."""
    n = weight.size
    for s in range(out.value.shape[1]):
        value, variance, at = 0.0, 0.0, n
        for i in range(n):
            value += weight[i] * each.value[i, s]
            variance += weight[i] * weight[i] * each.variance[i, s]
            for j in range(i + 1, n):
                variance += 2.0 * weight[i] * weight[j] * each.variance[at, s]
                at += 1
        out.value[0, s] = value
        out.variance[0, s] = max(variance, 0.0)  # 0 may come out below, by rounding
        out.occupancy[0, s] = each.occupancy[0, s]


@jit_uncounted
def fill_slopes(
    parts: Parts,
    rows: Layout,
    theta: FloatArray,
    reward: FloatArray,
    value: FloatArray,
    occupancy: FloatArray,
    less: FloatArray,
    out: FloatArray,
) -> None:
    """Fill slopes ``[R]`` of the sum; ``less`` [K, R] is taken off each; or [K, 0]."""
    for row in range(rows.source.size):
        s, total = rows.source[row], 0.0
        for k in range(parts.weight.size):
            q = 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                ahead = parts.discount[k] * value[k, rows.target[e]]
                q += theta[e] * (reward[k, e] + ahead)
            slope = occupancy[k, s] * (q - value[k, s])
            if less.shape[1] > 0:
                slope -= less[k, row]
            total += parts.weight[k] * slope
        out[row] = total


@jit_uncounted
def sweep_sum(
    begin: int,
    given: Setting,
    parts: Parts,
    dense: Dense | None,
    band: Band | None,
    krylov: Krylov | None,
    chain: Chain | None,
    theta: FloatArray,
    reward: FloatArray,
    terminal_value: FloatArray,
    space: Space,
    draw: Draw,
    total: Total,
    results: Results,
) -> None:
    """Sweep some draws of a range, as `bayesmdp.engine._kernel.sweep_policy` does.

    ``given`` has the references of the sum. Every row is sampled where gradients are
    wanted.
    """
    each, plain, _, own, less, _ = draw
    g, n_rewards, n_states = parts.discount, parts.weight.size, given.start.size
    for d in range(theta.shape[0]):
        i = begin + d
        if given.weights[i] == 0.0 or results.status[i] != LEFT_OUT:
            continue
        paid = reward[d if reward.shape[0] > 1 else 0]
        final = terminal_value[d if terminal_value.shape[0] > 1 else 0]
        how = dense, band, krylov, chain, space
        results.status[i], more = solve_draw(*how, parts.given, theta[d], paid, g, each)
        results.products[i] += more
        if results.status[i] != SOLVED:
            continue
        for k in range(n_rewards):
            copy_to(plain[k], each.value[k])
        if parts.lost != 0.0:
            take_off_first(
                parts.lost, parts.given, theta[d], paid, final, g, each, own, less
            )
        add_up(parts.weight, each, total.found)
        for s in range(n_states):
            ends = 0.0
            for k in range(n_rewards):
                ends += parts.weight[k] * final[k, s]
            total.ends[0, s] = (1.0 - parts.lost) * ends
        if given.want & GRADIENT:
            visits, slope = each.occupancy, total.slope[0]
            fill_slopes(parts, given.rows, theta[d], paid, plain, visits, less, slope)
        found, ends_at, slopes = total.found, total.ends, total.slope
        direction = parts.direction
        end_draw(i, given, found, ends_at, theta[d], direction, slopes, results)
