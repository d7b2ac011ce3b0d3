"""The compiled loop over draws with a horizon: products, one for each cycle.

Everything is discounted to the start, so that a stage needs no discount. For one draw,
a policy ``pi`` and times ``t = 0 .. T``, with ``o`` the reward of being somewhere (or
of a transition), ``f`` that of a terminal state, and weights ``A``, ``B`` of both::

    h_t[s, a, j] = A_t o[s, a, j] + B_t f[j]
    V_t[s]  = sum_a pi sum_j theta (h_t + V_t+1[j])                       V_T+1 = 0
    x_t     = h_t + V_t+1[j] - V_t[s]
    C_t[s]  = sum_a pi sum_j theta (x_t y_t + C_t+1[j])     y: x of another column, or x
    d_0     = rho,   d_t+1 = d_t T                                        live states
    grad    = sum_t d_t[s] (Q_t[s, a] - V_t[s])

``A_t = w_t g^t`` and ``B_t = w_t+1 g^(t+1)``: who arrives in a terminal state after
cycle ``t`` is there at ``t + 1``. At ``T`` nobody moves: ``B_T = 0``, and ``o`` of a
row does not depend on where it leads, or has ``A_T = 0``. A column of results is one
reward or a weighted sum of several, whose discounts may differ: ``A`` and ``B`` hold
the weights. Rows may differ from cycle to cycle: ``phase[t]`` says which are in force.

The control variate is linear in the rows: the derivative of the start value at the
nominal model times the deviation from it, with mean 0.
"""

from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._chain import Layout, Results, Setting
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._reduce import add_cross, end_draw
from bayesmdp.engine._solve import (
    CROSS,
    GRADIENT,
    LEFT_OUT,
    OCCUPANCY,
    SOLVED,
    VARIANCE,
    Solution,
)


class Stages(NamedTuple):
    """Weights of rewards at each point of time: M columns of K rewards, T cycles."""

    own: FloatArray  # [M, K, T + 1], A
    arrival: FloatArray  # [M, K, T + 1], B
    visits: FloatArray  # [M, T + 1], weight of being in a live state, for occupancy
    ends: FloatArray  # [M, T + 1], weight of arriving in a terminal one, at t + 1
    phase: IntArray  # [T + 1], which rows are in force
    paid: IntArray  # [T + 1], whose rewards are counted: those of a phase, or a mix
    mixes: IntArray  # [X, 2], mixes of the rewards of two phases, half of each
    discount: FloatArray  # [K]
    moved: bool  # whether rewards are of transitions: they then differ within rows


class StageSpace(NamedTuple):
    """Work space of one thread; G phases and mixes."""

    #: [M, T + 2, S]; at terminal states, what arriving there pays.
    value: FloatArray
    row_own: FloatArray  # [K, G * R], mean rewards of rows, less those of arrivals
    visits: FloatArray  # [2, S]
    carry: FloatArray  # [2, 3, S]


def stage_space(stages: Stages, n_states: int, n_rows: int) -> StageSpace:
    """Allocate for so many rows of one phase."""
    n_columns, n_rewards, n_times = stages.own.shape
    n = int(max(stages.phase.max(), stages.paid.max())) + 1
    return StageSpace(
        np.zeros((n_columns, n_times + 1, n_states)),
        np.empty((n_rewards, n * n_rows)),
        np.zeros((2, n_states)),
        np.zeros((2, 3, n_states)),
    )


@jit
def fill_rewards(  # noqa: C901 - loops over rewards, phases, rows and times
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    final: FloatArray,
) -> None:
    """Take means of rewards over rows, and say what arrivals pay at each time."""
    rows = given.rows
    entries, n_rows = rows.target.size, rows.source.size
    n_phases = theta.size // entries
    for k in range(reward.shape[0]):
        g, table = stages.discount[k], space.row_own[k]
        for f in range(n_phases):
            for row in range(n_rows):
                own = 0.0
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    e = f * entries + at
                    own += theta[e] * (reward[k, e] - g * final[k, rows.target[at]])
                table[f * n_rows + row] = own
        for x in range(stages.mixes.shape[0]):
            one, two = stages.mixes[x, 0] * n_rows, stages.mixes[x, 1] * n_rows
            for row in range(n_rows):
                both = table[one + row] + table[two + row]
                table[(n_phases + x) * n_rows + row] = 0.5 * both
    for m in range(stages.own.shape[0]):
        for t in range(stages.phase.size):
            for s in range(given.nominal.n_live, final.shape[1]):
                paid = 0.0
                for k in range(final.shape[0]):
                    paid += stages.arrival[m, k, t] * final[k, s]
                space.value[m, t + 1, s] = paid


@jit
def row_reward(own: FloatArray, table: FloatArray, t: int, at: int) -> float:
    """Return ``A_t o`` of a row: weights ``own`` [K, T + 1], means ``table`` [K, .]."""
    total = 0.0
    for k in range(own.shape[0]):
        weight = own[k, t]
        if weight != 0.0:
            total += weight * table[k, at]
    return total


@jit
def row_ahead(
    theta: FloatArray, rows: Layout, base: int, row: int, ahead: FloatArray
) -> float:
    """Return the mean of values ``ahead`` [S] after a row."""
    total = 0.0
    for at in range(rows.indptr[row], rows.indptr[row + 1]):
        total += theta[np.uint64(base + at)] * ahead[rows.target[np.uint64(at)]]
    return total


@jit
def _backward(
    stages: Stages, space: StageSpace, given: Setting, theta: FloatArray
) -> None:
    """Fill the values of all times and columns: two read the entries together."""
    rows, pi, n_live = given.rows, given.pi, given.nominal.n_live
    n_columns, n_rows, table = stages.own.shape[0], pi.size, space.row_own
    for t in range(stages.phase.size - 1, -1, -1):
        space.value[:, t, :n_live] = 0.0
        base, paid = stages.phase[t] * rows.target.size, stages.paid[t] * n_rows
        for m in range(0, n_columns, 2):
            n = min(m + 1, n_columns - 1)
            one, two = space.value[m, t + 1], space.value[n, t + 1]
            for row in range(n_rows):
                if not pi[row] > 0.0:
                    continue
                p, q = 0.0, 0.0
                if n > m:
                    for at in range(rows.indptr[row], rows.indptr[row + 1]):
                        chance = theta[np.uint64(base + at)]
                        p += chance * one[rows.target[np.uint64(at)]]
                        q += chance * two[rows.target[np.uint64(at)]]
                    q += row_reward(stages.own[n], table, t, paid + row)
                    space.value[n, t, rows.source[row]] += pi[row] * q
                else:
                    p = row_ahead(theta, rows, base, row, one)
                p += row_reward(stages.own[m], table, t, paid + row)
                space.value[m, t, rows.source[row]] += pi[row] * p


@jit
def _spread(  # noqa: C901 - one loop over times
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    m: int,
    n: int,
    out: FloatArray,
) -> None:
    """Set ``out`` [3, S] to variances of two columns' returns and their covariance.

    Of one column, ``m == n``, the first alone.
    """
    rows, pi = given.rows, given.pi
    entries, table = rows.target.size, space.row_own
    ahead, now = space.carry[0], space.carry[1]
    ahead[:] = 0.0
    for t in range(stages.phase.size - 1, -1, -1):
        base = stages.phase[t] * entries
        one, two = space.value[m, t + 1], space.value[n, t + 1]
        now[:] = 0.0
        for row in range(pi.size):
            if pi[row] == 0.0:
                continue
            s = rows.source[row]
            xx, yy, xy = 0.0, 0.0, 0.0
            x0, y0 = space.value[m, t, s], space.value[n, t, s]
            if not stages.moved:  # the same for all entries of the row
                at = stages.paid[t] * pi.size + row
                x0 -= row_reward(stages.own[m], table, t, at)
                y0 -= row_reward(stages.own[n], table, t, at)
            if not stages.moved and m == n:
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    j = rows.target[np.uint64(at)]
                    x = one[j] - x0
                    xx += theta[np.uint64(base + at)] * (x * x + ahead[0, j])
            elif not stages.moved:
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    chance, j = theta[np.uint64(base + at)], rows.target[np.uint64(at)]
                    x, y = one[j] - x0, two[j] - y0
                    xx += chance * (x * x + ahead[0, j])
                    yy += chance * (y * y + ahead[1, j])
                    xy += chance * (x * y + ahead[2, j])
            else:
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    e, j = np.uint64(base + at), rows.target[np.uint64(at)]
                    chance = theta[e]
                    x, y = one[j] - x0, two[j] - y0
                    for k in range(stages.discount.size):
                        x += stages.own[m, k, t] * reward[k, e]
                        y += stages.own[n, k, t] * reward[k, e]
                    xx += chance * (x * x + ahead[0, j])
                    yy += chance * (y * y + ahead[1, j])
                    xy += chance * (x * y + ahead[2, j])
            now[0, s] += pi[row] * xx
            now[1, s] += pi[row] * yy
            now[2, s] += pi[row] * xy
        ahead, now = now, ahead
    for i in range(3):
        copy_to(out[i], ahead[i])


@jit
def fill_variances(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    variance: FloatArray,
    covariance: FloatArray,
) -> None:
    """Fill ``variance`` [M, S], and ``covariance`` [X, S] of all pairs, or of none."""
    n_columns = variance.shape[0]
    found = np.zeros((3, variance.shape[1]))
    if n_columns == 1 or covariance.shape[0] == 0:
        for m in range(n_columns):
            _spread(stages, space, given, theta, reward, m, m, found)
            copy_to(variance[m], found[0])
        return
    at = 0
    for m in range(n_columns):
        for n in range(m + 1, n_columns):
            _spread(stages, space, given, theta, reward, m, n, found)
            copy_to(variance[m], found[0])
            copy_to(variance[n], found[1])
            copy_to(covariance[at], found[2])
            at += 1


@jit
def _forward(  # noqa: C901 - one loop over times
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    occupancy: FloatArray,
    slope: FloatArray,
) -> None:
    """Add up visits ``[M, S]`` and, if wanted, the gradient ``[M, R]``."""
    rows, pi, start, n = given.rows, given.pi, given.start, given.nominal.n_live
    entries, last, table = rows.target.size, stages.phase.size - 1, space.row_own
    n_columns = stages.own.shape[0]
    now, after = space.visits[0], space.visits[1]
    copy_to(now, start)
    occupancy[:] = 0.0
    slope[:] = 0.0
    for s in range(n, start.size):  # who starts in a terminal state is there once
        for m in range(n_columns):
            occupancy[m, s] = stages.visits[m, 0] * start[s]
    for t in range(last + 1):
        base, paid = stages.phase[t] * entries, stages.paid[t] * pi.size
        for m in range(n_columns):
            for s in range(n):
                occupancy[m, s] += stages.visits[m, t] * now[s]
            if given.want & GRADIENT:
                own, ahead = stages.own[m], space.value[m, t + 1]
                for row in range(pi.size):
                    s = rows.source[row]
                    if now[s] != 0.0:
                        q = row_reward(own, table, t, paid + row)
                        q += row_ahead(theta, rows, base, row, ahead)
                        slope[m, row] += now[s] * (q - space.value[m, t, s])
        if t == last:
            break
        after[:] = 0.0
        for row in range(pi.size):
            flow = pi[row] * now[rows.source[row]]
            if flow > 0.0:
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    e, j = np.uint64(base + at), rows.target[np.uint64(at)]
                    after[j] += flow * theta[e]
        for s in range(n, start.size):
            for m in range(n_columns):
                occupancy[m, s] += stages.ends[m, t] * after[s]
        now, after = after, now


@jit
def solve_stages(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    final: FloatArray,
    out: Solution,
    covariance: FloatArray,
    slope: FloatArray,
) -> None:
    """Fill ``out`` [M, S], ``covariance`` [X or 0, S] and ``slope`` [M, R]."""
    n_live = given.nominal.n_live
    fill_rewards(stages, space, given, theta, reward, final)
    _backward(stages, space, given, theta)
    for m in range(stages.own.shape[0]):
        copy_to(out.value[m][:n_live], space.value[m, 0, :n_live])
    if given.want & VARIANCE:
        fill_variances(stages, space, given, theta, reward, out.variance, covariance)
    if given.want & (OCCUPANCY | GRADIENT):
        _forward(stages, space, given, theta, out.occupancy, slope)


@jit
def fill_direction(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    out: FloatArray,
) -> None:
    """Fill ``out`` [M, F * E], derivatives of start values; after `solve_stages`."""
    rows, pi, n_live = given.rows, given.pi, given.nominal.n_live
    entries, n_rewards = rows.target.size, stages.discount.size
    now, after = space.visits[0], space.visits[1]
    copy_to(now, given.start)
    out[:] = 0.0
    for t in range(stages.phase.size):
        base = stages.phase[t] * entries
        after[:] = 0.0
        for row in range(pi.size):
            flow = pi[row] * now[rows.source[row]]
            if flow > 0.0:
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    e, j = base + at, rows.target[at]
                    after[j] += flow * theta[e]
                    for m in range(stages.own.shape[0]):
                        x = space.value[m, t + 1, j]
                        if stages.moved:  # else the same within a row, which sums to 1
                            for k in range(n_rewards):
                                x += stages.own[m, k, t] * reward[k, e]
                        out[m, e] += flow * x
        after[n_live:] = 0.0
        now, after = after, now


@jit
def sweep_stages(
    begin: int,
    given: Setting,
    stages: Stages,
    space: StageSpace,
    theta: FloatArray,
    reward: FloatArray,
    terminal_value: FloatArray,
    direction: FloatArray,
    results: Results,
) -> None:
    """Sweep some draws of a range, as `bayesmdp.engine._kernel.sweep_policy` does.

    ``theta`` is [n, F * E], one set of rows for each phase; ``reward`` is [1 or n, K,
    F * E], ``terminal_value`` [1 or n, K, S]; ``direction`` [M, F * E] is of the
    nominal model. Every row is sampled where gradients are wanted.
    """
    n_columns, n_states = stages.own.shape[0], given.start.size
    n_live, cross = given.nominal.n_live, results.cross
    out = Solution(
        np.zeros((n_columns, n_states)),
        np.zeros((n_columns, n_states)),
        np.zeros((n_columns, n_states)),
    )
    slope = np.zeros((n_columns, given.pi.size))
    ends = np.zeros((n_columns, n_states))
    covariance = np.zeros((cross.shape[0], n_states))
    for d in range(theta.shape[0]):
        i = begin + d
        if given.weights[i] == 0.0 or results.status[i] != LEFT_OUT:
            continue
        paid = reward[d if reward.shape[0] > 1 else 0]
        final = terminal_value[d if terminal_value.shape[0] > 1 else 0]
        solve_stages(
            stages, space, given, theta[d], paid, final, out, covariance, slope
        )
        results.status[i] = SOLVED
        ends[:] = 0.0
        for m in range(n_columns):
            for k in range(final.shape[0]):
                for s in range(n_live, n_states):
                    ends[m, s] += stages.own[m, k, 0] * final[k, s]
        if given.want & CROSS:
            add_cross(given.start, out.value, ends, covariance, cross[:, i])
        end_draw(i, given, out, ends, theta[d], direction, slope, results)
