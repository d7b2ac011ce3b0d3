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

Of two columns at once each entry is read once for both: values stand side by side,
``x[2 s]`` and ``x[2 s + 1]``; variances of both and their covariance, too, in four
lanes per state of which the last repeats the third.
"""

import numpy as np

from bayesmdp._jit import jit_uncounted
from bayesmdp._typing import FloatArray
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
from bayesmdp.engine._stage_variances import (
    Stages,
    StageSpace,
    row_reward,
    spread_of_pair,
)
from bayesmdp.engine._vectors import mean_two, spread_four


def stage_space(stages: Stages, n_states: int, n_rows: int) -> StageSpace:
    """Allocate for so many rows of one phase."""
    n_columns, n_rewards, n_times = stages.own.shape
    n = int(max(stages.phase.max(), stages.paid.max())) + 1
    return StageSpace(
        np.zeros((n_columns, n_times + 1, n_states)),
        np.empty((n_rewards, n * n_rows)),
        np.zeros((2, n_states)),
        np.zeros((3, 3, n_states)),
        np.zeros((4, 4 * n_states)),
        Solution(*np.zeros((3, n_columns, n_states))),
        np.zeros((n_columns * (n_columns - 1) // 2, n_states)),
        np.zeros((n_columns, n_rows)),
        np.zeros((n_columns, n_states)),
    )


@jit_uncounted
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


@jit_uncounted
def row_ahead(
    theta: FloatArray, rows: Layout, base: int, row: int, ahead: FloatArray
) -> float:
    """Return the mean of values ``ahead`` [S] after a row."""
    total = 0.0
    for at in range(rows.indptr[row], rows.indptr[row + 1]):
        total += theta[np.uint64(base + at)] * ahead[rows.target[np.uint64(at)]]
    return total


@jit_uncounted
def _backward(
    stages: Stages, space: StageSpace, given: Setting, theta: FloatArray, m: int
) -> None:
    """Fill the values of all times of one column."""
    rows, pi, n_live = given.rows, given.pi, given.nominal.n_live
    table = space.row_own
    for t in range(stages.phase.size - 1, -1, -1):
        space.value[m, t, :n_live] = 0.0
        base, paid = stages.phase[t] * rows.target.size, stages.paid[t] * pi.size
        ahead = space.value[m, t + 1]
        for row in range(pi.size):
            if pi[row] > 0.0:
                total = row_ahead(theta, rows, base, row, ahead)
                total += row_reward(stages, table, m, t, paid + row)
                space.value[m, t, rows.source[row]] += pi[row] * total


@jit_uncounted
def _fill_variances(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    known: bool,
) -> None:
    """Fill variances, and covariances of all pairs if wanted; values, unless known."""
    pi, rows, n_columns = given.pi, given.rows, stages.own.shape[0]
    variance, covariance = space.found.variance, space.covariance
    found = space.carry[2]
    if n_columns == 1 or not given.want & CROSS:
        for m in range(n_columns):
            spread_of_pair(stages, space, theta, pi, rows, reward, m, m, found)
            copy_to(variance[m], found[0])
        return
    at = 0
    for m in range(n_columns):
        for n in range(m + 1, n_columns):
            if stages.moved:
                spread_of_pair(stages, space, theta, pi, rows, reward, m, n, found)
            else:
                sweep_pair(stages, space, given, theta, (m, n), known, True, found)
            copy_to(variance[m], found[0])
            copy_to(variance[n], found[1])
            copy_to(covariance[at], found[2])
            at += 1


@jit_uncounted
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
                ahead = space.value[m, t + 1]
                for row in range(pi.size):
                    s = rows.source[row]
                    if now[s] != 0.0:
                        q = row_reward(stages, table, m, t, paid + row)
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


@jit_uncounted
def solve_stages(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    final: FloatArray,
) -> None:
    """Fill what was found of a draw in ``space``."""
    want, n_live, n_columns = given.want, given.nominal.n_live, stages.own.shape[0]
    out = space.found
    fill_rewards(stages, space, given, theta, reward, final)
    # with their variances and covariance, where that is all there is
    later = n_columns == 2 and want & VARIANCE and want & CROSS and not stages.moved
    if not later:
        for m in range(0, n_columns - 1, 2):
            pair = m, m + 1
            sweep_pair(stages, space, given, theta, pair, False, False, space.carry[2])
        if n_columns % 2:
            _backward(stages, space, given, theta, n_columns - 1)
    if want & VARIANCE:
        _fill_variances(stages, space, given, theta, reward, not later)
    for m in range(n_columns):
        copy_to(out.value[m][:n_live], space.value[m, 0, :n_live])
    if want & (OCCUPANCY | GRADIENT):
        _forward(stages, space, given, theta, out.occupancy, space.slope)


@jit_uncounted
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


@jit_uncounted
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
    n_live = given.nominal.n_live
    out, ends = space.found, space.ends
    for d in range(theta.shape[0]):
        i = begin + d
        if given.weights[i] == 0.0 or results.status[i] != LEFT_OUT:
            continue
        paid = reward[d if reward.shape[0] > 1 else 0]
        final = terminal_value[d if terminal_value.shape[0] > 1 else 0]
        solve_stages(stages, space, given, theta[d], paid, final)
        results.status[i] = SOLVED
        ends[:] = 0.0
        for m in range(n_columns):
            for k in range(final.shape[0]):
                for s in range(n_live, n_states):
                    ends[m, s] += stages.own[m, k, 0] * final[k, s]
        end_draw(i, given, out, ends, theta[d], direction, space.slope, results)
        if given.want & CROSS:
            add_cross(i, given.start, out.value, ends, space.covariance, results)


@jit_uncounted
def sweep_pair(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    pair: tuple[int, int],
    known: bool,
    spread: bool,
    out: FloatArray,
) -> None:
    """Fill the values of all times of two columns, unless they are known.

    With ``spread``, set ``out`` [3, S] to variances of their returns and covariance, of
    rewards that do not differ within rows.
    """
    x, x_now, z, z_now = space.lanes[0], space.lanes[1], space.lanes[2], space.lanes[3]
    one, two = space.value[pair[0]], space.value[pair[1]]
    _interleave(one[stages.phase.size], two[stages.phase.size], x)
    z[:] = 0.0
    for t in range(stages.phase.size - 1, -1, -1):
        _interleave(one[t], two[t], x_now)
        if not known:
            _pair_values(stages, space, given, theta, pair, t, x, x_now)
        if spread:
            _pair_spread(stages, space, given, theta, pair, t, x, x_now, z, z_now)
        x, x_now = x_now, x
        z, z_now = z_now, z
    if spread:
        for s in range(out.shape[1]):
            for lane in range(3):
                out[lane, s] = z[4 * s + lane]


@jit_uncounted
def _interleave(one: FloatArray, two: FloatArray, out: FloatArray) -> None:
    """Put two vectors [S] side by side."""
    for s in range(one.size):
        out[2 * s] = one[s]
        out[2 * s + 1] = two[s]


@jit_uncounted
def _pair_values(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    pair: tuple[int, int],
    t: int,
    ahead: FloatArray,
    now: FloatArray,
) -> None:
    """Set the values of live states at time ``t`` from those after."""
    (m, n), table, rows, pi = pair, space.row_own, given.rows, given.pi
    base, paid = stages.phase[t] * rows.target.size, stages.paid[t] * pi.size
    for i in range(2 * given.nominal.n_live):
        now[i] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            at, s = (rows.indptr[row], rows.indptr[row + 1], base), rows.source[row]
            p, q = mean_two(theta, rows.target, ahead, *at)
            p += row_reward(stages, table, m, t, paid + row)
            q += row_reward(stages, table, n, t, paid + row)
            now[2 * s] += pi[row] * p
            now[2 * s + 1] += pi[row] * q
    for s in range(given.nominal.n_live):
        space.value[m, t, s] = now[2 * s]
        space.value[n, t, s] = now[2 * s + 1]


@jit_uncounted
def _pair_spread(
    stages: Stages,
    space: StageSpace,
    given: Setting,
    theta: FloatArray,
    pair: tuple[int, int],
    t: int,
    x: FloatArray,
    x_now: FloatArray,
    z: FloatArray,
    z_now: FloatArray,
) -> None:
    """Set variances and covariances at time ``t`` from those after."""
    (m, n), table, rows, pi = pair, space.row_own, given.rows, given.pi
    base, paid = stages.phase[t] * rows.target.size, stages.paid[t] * pi.size
    z_now[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            s = rows.source[row]
            x0 = x_now[2 * s] - row_reward(stages, table, m, t, paid + row)
            y0 = x_now[2 * s + 1] - row_reward(stages, table, n, t, paid + row)
            at = rows.indptr[row], rows.indptr[row + 1], base, 4 * s
            spread_four(theta, rows.target, x, z, z_now, *at, x0, y0, pi[row])
