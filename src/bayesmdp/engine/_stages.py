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
from bayesmdp._typing import FloatArray, IntArray, StatusArray
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._layout import Layout
from bayesmdp.engine._reduce import START_Y, add_cross, reduce_draw
from bayesmdp.engine._solve import (
    CONTROL,
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


class StageSpace(NamedTuple):
    """Work space of one thread; G phases and mixes."""

    value: FloatArray  # [M, T + 2, S]
    own: FloatArray  # [K, G * E], reward of entries less what terminal states pay
    final: FloatArray  # [K, G * E], what the terminal states they lead to pay
    row_own: FloatArray  # [K, G * R], means over rows
    row_final: FloatArray  # [K, G * R]
    visits: FloatArray  # [2, S]
    carry: FloatArray  # [2, S]


def stage_space(stages: Stages, n_states: int, n_rows: int, entries: int) -> StageSpace:
    """Allocate for ``entries`` and ``n_rows`` of one phase."""
    n_columns, n_rewards, n_times = stages.own.shape
    n = int(max(stages.phase.max(), stages.paid.max())) + 1
    return StageSpace(
        np.zeros((n_columns, n_times + 1, n_states)),
        np.empty((n_rewards, n * entries)),
        np.empty((n_rewards, n * entries)),
        np.empty((n_rewards, n * n_rows)),
        np.empty((n_rewards, n * n_rows)),
        np.zeros((2, n_states)),
        np.zeros((2, n_states)),
    )


@jit
def _fill_rewards(
    stages: Stages,
    space: StageSpace,
    theta: FloatArray,
    rows: Layout,
    reward: FloatArray,
    final: FloatArray,
) -> None:
    """Split rewards of entries, and take means over rows."""
    entries, n_rows = rows.target.size, rows.source.size
    for k in range(reward.shape[0]):
        g = stages.discount[k]
        for f in range(theta.size // entries):
            for row in range(n_rows):
                own, ends = 0.0, 0.0
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    e = f * entries + at
                    paid = final[k, rows.target[at]]
                    space.final[k, e] = paid
                    space.own[k, e] = reward[k, e] - g * paid
                    own += theta[e] * space.own[k, e]
                    ends += theta[e] * paid
                space.row_own[k, f * n_rows + row] = own
                space.row_final[k, f * n_rows + row] = ends
    for x in range(stages.mixes.shape[0]):
        f = theta.size // entries + x
        _mix(stages.mixes[x], f, entries, space.own)
        _mix(stages.mixes[x], f, entries, space.final)
        _mix(stages.mixes[x], f, n_rows, space.row_own)
        _mix(stages.mixes[x], f, n_rows, space.row_final)


@jit
def _mix(parts: IntArray, f: int, size: int, table: FloatArray) -> None:
    """Set part ``f`` of a table [K, G * size] to half of two others each."""
    one, two = parts[0] * size, parts[1] * size
    for k in range(table.shape[0]):
        for i in range(size):
            table[k, f * size + i] = 0.5 * (table[k, one + i] + table[k, two + i])


@jit
def _row_value(
    stages: Stages,
    space: StageSpace,
    theta: FloatArray,
    rows: Layout,
    m: int,
    t: int,
    row: int,
) -> float:
    """``Q_t`` of a row, column ``m``."""
    f, entries = stages.phase[t], rows.target.size
    base, ahead = f * entries, space.value[m, t + 1]
    total = 0.0
    for at in range(rows.indptr[row], rows.indptr[row + 1]):
        e = np.uint64(at)
        total += theta[np.uint64(base + at)] * ahead[rows.target[e]]
    paid = stages.paid[t] * rows.source.size + row
    ends = f * rows.source.size + row
    for k in range(stages.discount.size):
        total += stages.own[m, k, t] * space.row_own[k, paid]
        total += stages.arrival[m, k, t] * space.row_final[k, ends]
    return total


@jit
def _backward(
    stages: Stages,
    space: StageSpace,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
) -> None:
    """Fill the values of all times and columns."""
    for m in range(stages.own.shape[0]):
        for t in range(stages.phase.size - 1, -1, -1):
            value = space.value[m, t]
            value[:] = 0.0
            for row in range(pi.size):
                if pi[row] > 0.0:
                    q = _row_value(stages, space, theta, rows, m, t, row)
                    value[rows.source[row]] += pi[row] * q


@jit
def _spread(
    stages: Stages,
    space: StageSpace,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    m: int,
    n: int,
    out: FloatArray,
) -> None:
    """Set ``out`` [S] to the covariance of the returns of two columns."""
    entries, n_rewards = rows.target.size, stages.discount.size
    ahead, now = space.carry[0], space.carry[1]
    ahead[:] = 0.0
    for t in range(stages.phase.size - 1, -1, -1):
        base, paid = stages.phase[t] * entries, stages.paid[t] * entries
        now[:] = 0.0
        for row in range(pi.size):
            if pi[row] > 0.0:
                s, total = rows.source[row], 0.0
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    e, j = np.uint64(base + at), rows.target[np.uint64(at)]
                    x = space.value[m, t + 1, j] - space.value[m, t, s]
                    y = space.value[n, t + 1, j] - space.value[n, t, s]
                    for k in range(n_rewards):
                        own = space.own[k, np.uint64(paid + at)]
                        final = space.final[k, e]
                        x += stages.own[m, k, t] * own + stages.arrival[m, k, t] * final
                        y += stages.own[n, k, t] * own + stages.arrival[n, k, t] * final
                    total += theta[e] * (x * y + ahead[j])
                now[s] += pi[row] * total
        ahead, now = now, ahead
    copy_to(out, ahead)


@jit
def _forward(  # noqa: C901 - one loop over times
    stages: Stages,
    space: StageSpace,
    want: int,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    start: FloatArray,
    n: int,
    occupancy: FloatArray,
    slope: FloatArray,
) -> None:
    """Add up visits ``[M, S]`` and, if wanted, the gradient ``[M, R]``."""
    entries, last = rows.target.size, stages.phase.size - 1
    n_columns = stages.own.shape[0]
    now, after = space.visits[0], space.visits[1]
    copy_to(now, start)
    occupancy[:] = 0.0
    slope[:] = 0.0
    for s in range(n, start.size):  # who starts in a terminal state is there once
        for m in range(n_columns):
            occupancy[m, s] = stages.visits[m, 0] * start[s]
    for t in range(last + 1):
        for m in range(n_columns):
            for s in range(n):
                occupancy[m, s] += stages.visits[m, t] * now[s]
            if want & GRADIENT:
                for row in range(pi.size):
                    s = rows.source[row]
                    if now[s] != 0.0:
                        q = _row_value(stages, space, theta, rows, m, t, row)
                        slope[m, row] += now[s] * (q - space.value[m, t, s])
        if t == last:
            break
        base = stages.phase[t] * entries
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
    want: int,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    final: FloatArray,
    start: FloatArray,
    n_live: int,
    out: Solution,
    slope: FloatArray,
) -> None:
    """Fill ``out`` [M, S] and ``slope`` [M, R] for one draw."""
    _fill_rewards(stages, space, theta, rows, reward, final)
    _backward(stages, space, theta, pi, rows)
    for m in range(stages.own.shape[0]):
        copy_to(out.value[m], space.value[m, 0])
        if want & VARIANCE:
            _spread(stages, space, theta, pi, rows, m, m, out.variance[m])
    if want & (OCCUPANCY | GRADIENT):
        _forward(
            stages, space, want, theta, pi, rows, start, n_live, out.occupancy, slope
        )


@jit
def fill_direction(
    stages: Stages,
    space: StageSpace,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    start: FloatArray,
    out: FloatArray,
) -> None:
    """Fill ``out`` [M, F * E], derivatives of start values; after `solve_stages`."""
    entries, n_rewards = rows.target.size, stages.discount.size
    now, after = space.visits[0], space.visits[1]
    copy_to(now, start)
    out[:] = 0.0
    for t in range(stages.phase.size):
        base, paid = stages.phase[t] * entries, stages.paid[t] * entries
        after[:] = 0.0
        for row in range(pi.size):
            flow = pi[row] * now[rows.source[row]]
            if flow > 0.0:
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    e, j = base + at, rows.target[at]
                    after[j] += flow * theta[e]
                    for m in range(stages.own.shape[0]):
                        x = space.value[m, t + 1, j]
                        for k in range(n_rewards):
                            x += stages.own[m, k, t] * space.own[k, paid + at]
                            x += stages.arrival[m, k, t] * space.final[k, e]
                        out[m, e] += flow * x
        now, after = after, now


@jit
def sweep_stages(  # noqa: C901 - one loop over draws
    begin: int,
    block: int,
    want: int,
    stages: Stages,
    space: StageSpace,
    rows: Layout,
    theta: FloatArray,
    reward: FloatArray,
    terminal_value: FloatArray,
    pi: FloatArray,
    start: FloatArray,
    weights: FloatArray,
    n_live: int,
    reference: FloatArray,
    theta_bar: FloatArray,
    direction: FloatArray,
    state_sums: FloatArray,
    row_sums: FloatArray,
    start_draws: FloatArray,
    status: StatusArray,
    kept: FloatArray,
    cross: FloatArray,
) -> None:
    """Sweep some draws of a range, as `bayesmdp.engine._kernel.sweep_policy` does.

    ``theta`` is [n, F * E], one set of rows for each phase; ``reward`` is [1 or n, K,
    F * E], ``terminal_value`` [1 or n, K, S]; ``reference`` [3, M, S] and ``direction``
    [M, F * E] are of the nominal model. Every row is sampled where gradients are
    wanted.
    """
    n_columns, n_states = stages.own.shape[0], start.size
    out = Solution(
        np.zeros((n_columns, n_states)),
        np.zeros((n_columns, n_states)),
        np.zeros((n_columns, n_states)),
    )
    slope = np.zeros((n_columns, pi.size))
    ends = np.zeros((n_columns, n_states))
    covariance = np.zeros((cross.shape[0], n_states))
    for d in range(theta.shape[0]):
        i = begin + d
        if weights[i] == 0.0 or status[i] != LEFT_OUT:
            continue
        paid = reward[d if reward.shape[0] > 1 else 0]
        final = terminal_value[d if terminal_value.shape[0] > 1 else 0]
        solve_stages(
            stages,
            space,
            want,
            theta[d],
            pi,
            rows,
            paid,
            final,
            start,
            n_live,
            out,
            slope,
        )
        status[i] = SOLVED
        ends[:] = 0.0
        for m in range(n_columns):
            for k in range(final.shape[0]):
                for s in range(n_live, n_states):
                    ends[m, s] += stages.own[m, k, 0] * final[k, s]
        if want & CROSS:
            at = 0
            for m in range(n_columns):
                for n in range(m + 1, n_columns):
                    _spread(stages, space, theta[d], pi, rows, m, n, covariance[at])
                    at += 1
            add_cross(start, out.value, ends, covariance, cross[:, i])
        for m in range(n_columns):
            if kept.shape[2] > 0:
                copy_to(kept[m, 0, i], out.value[m])
                copy_to(kept[m, 1, i], out.variance[m])
            reduce_draw(
                weights[i],
                want,
                start,
                out.value[m],
                out.variance[m],
                out.occupancy[m],
                ends[m],
                reference[:, m],
                state_sums[m, i // block],
                start_draws[m, :, i],
            )
            if want & CONTROL:
                y = 0.0
                for e in range(theta_bar.size):
                    if direction[m, e] != 0.0:  # rows that are not used are not filled
                        y += (theta[d, e] - theta_bar[e]) * direction[m, e]
                start_draws[m, START_Y, i] = y
            if want & GRADIENT:
                sums = row_sums[m, i // block]
                for row in range(pi.size):
                    gain = weights[i] * slope[m, row]
                    sums[0, row] += gain
                    sums[1, row] += gain * gain


@jit
def best_stages(
    stages: Stages,
    space: StageSpace,
    theta: FloatArray,
    rows: Layout,
    reward: FloatArray,
    final: FloatArray,
    n_live: int,
    choice: IntArray,
) -> None:
    """Fill the first column's values by the best row of each state and time.

    No policy, stationary or not, has a higher one; ``choice`` [N] is the row at the
    start.
    """
    _fill_rewards(stages, space, theta, rows, reward, final)
    for t in range(stages.phase.size - 1, -1, -1):
        value = space.value[0, t]
        value[:n_live] = -np.inf
        for row in range(rows.source.size):
            q, s = _row_value(stages, space, theta, rows, 0, t, row), rows.source[row]
            if q > value[s]:
                value[s] = q
                choice[s] = row
