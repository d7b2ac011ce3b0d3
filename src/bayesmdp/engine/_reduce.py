"""What a solved draw adds to the sums over draws.

Per-state results leave as sums of powers and products of deviations from a reference
(the nominal model's values), one set a block of draws: sums join by addition, and the
reference is close enough to the mean that nothing cancels.

Control variates (nominal model: ``theta_bar``, ``X = (I - g T_bar)^-1``, ``V_bar``)::

    u  = sum_a pi sum_t (theta - theta_bar) (r + g V_bar[t])
    y1 = X u                 mean 0
    y2 = g X (T - T_bar) y1  mean g X k  (evaluation/_measure.py)
"""

import numpy as np

from bayesmdp._jit import jit, jit_uncounted
from bayesmdp._typing import FloatArray
from bayesmdp.engine import _backend as c
from bayesmdp.engine._backend import BLOCK
from bayesmdp.engine._chain import Held, References, Results, Setting
from bayesmdp.engine._dense import copy_to, dot, times_transposed
from bayesmdp.engine._solve import (
    CONTROL,
    CONTROL_STATES,
    GRADIENT,
    OCCUPANCY,
    VARIANCE,
    Solution,
    run_of,
)


@jit_uncounted
def add_gradient(
    i: int,
    k: int,
    given: Setting,
    theta: FloatArray,
    every_row: bool,
    reward: FloatArray,
    g: float,
    value: FloatArray,
    occupancy: FloatArray,
    less: FloatArray,
    out: Results,
) -> None:
    """Add ``d (Q - V)`` and its square to the sums of rows in use or all.

    Of draw ``i`` and reward ``k``; ``less`` [R] is taken off each slope; or [0].
    """
    rows, pi, sums = given.rows, given.pi, out.row[k, i // BLOCK]
    for row in range(rows.source.size):
        if not (every_row or pi[row] > 0.0):
            continue
        q = 0.0
        for at in range(rows.indptr[row], rows.indptr[row + 1]):
            e = np.uint64(at)
            q += theta[e] * (reward[e] + g * value[rows.target[e]])
        s = rows.source[row]
        slope = occupancy[s] * (q - value[s])
        if less.size > 0:
            slope -= less[row]
        gain = given.weights[i] * slope
        sums[0, row] += gain
        sums[1, row] += gain * gain


@jit
def add_mean_gradient(
    given: Setting, reward: FloatArray, g: float, held: Held, sums: FloatArray
) -> None:
    """Add the same for the other rows, a block of draws at once.

    Where rows are independent, one that the policy does not use is independent of its
    values and visits too, so its mean stands in for it: the expectation is the same,
    and the noise less. One pass over the entries serves all draws of the block.
    """
    values, visits, weights = held.values, held.visits, held.weights
    rows, pi, theta_bar = given.rows, given.pi, given.nominal.theta_bar
    n = weights.size
    q = np.empty(n)
    for row in range(rows.source.size):
        if pi[row] > 0.0:
            continue
        q[:] = 0.0
        paid = 0.0
        for at in range(rows.indptr[row], rows.indptr[row + 1]):
            e = np.uint64(at)
            share = theta_bar[e]
            paid += share * reward[e]
            ahead = values[rows.target[e]]
            for k in range(n):
                q[k] += share * ahead[k]
        i = rows.source[row]
        for k in range(n):
            slope = visits[i, k] * (paid + g * q[k] - values[i, k])
            gain = weights[k] * slope
            sums[0, row] += gain
            sums[1, row] += gain * gain


@jit_uncounted
def deviate(
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    paid: bool,
    scale: FloatArray,
    x: FloatArray,
    out: FloatArray,
) -> None:
    """Set ``out = sum_a pi sum_t (theta - theta_bar) (r + scale x[t])``, [K, S].

    Without ``r`` where it is not ``paid``. Row by row, so that entries are read once
    for all K rewards.
    """
    rows, pi, theta_bar = given.rows, given.pi, given.nominal.theta_bar
    out[:] = 0.0
    for row in range(pi.size):
        if not pi[row] > 0.0:
            continue
        s = rows.source[row]
        for k in range(0, scale.size - 1, 2):  # two sums take less than twice as long
            first, second = 0.0, 0.0
            one, two, a, b = x[k], x[k + 1], scale[k], scale[k + 1]
            r, q = reward[k], reward[k + 1]
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                t, off = np.uint64(rows.target[e]), theta[e] - theta_bar[e]
                h, m = a * one[t], b * two[t]
                if paid:
                    h, m = h + r[e], m + q[e]
                first += off * h
                second += off * m
            out[k, s] += pi[row] * first
            out[k + 1, s] += pi[row] * second
        if scale.size % 2:
            k, total = scale.size - 1, 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                h = scale[k] * x[k, rows.target[e]]
                if paid:
                    h += reward[k, e]
                total += (theta[e] - theta_bar[e]) * h
            out[k, s] += pi[row] * total


@jit_uncounted
def reduce_draw(
    i: int, given: Setting, found: Solution, ends: FloatArray, out: Results
) -> None:
    """Add draw ``i`` of K rewards to the sums of its block, and what starts get.

    ``ends`` [K, S] are the values of terminal states. All rewards in one call: handing
    over so many arrays takes as long as the sums of a few states.
    """
    w, start, want = given.weights[i], given.start, given.want
    reference, n_rewards, n = given.nominal.reference, *ends.shape
    sums, values = out.state[i // BLOCK], found.value.reshape(ends.size)
    bars = reference[0].reshape(ends.size)
    for s in range(values.size):
        v = values[s] - bars[s]
        square = v * v
        sums[c.V, s] += w * v
        sums[c.VV, s] += w * square
        sums[c.VVV, s] += w * square * v
        sums[c.VVVV, s] += w * square * square
    if want & (OCCUPANCY | GRADIENT):
        visits, usual = (
            found.occupancy.reshape(ends.size),
            reference[2].reshape(ends.size),
        )
        for s in range(visits.size):
            d = visits[s] - usual[s]
            sums[c.D, s] += w * d
            sums[c.DD, s] += w * d * d
    if want & VARIANCE:
        spreads = found.variance[:n_rewards].reshape(ends.size)
        usual = reference[1].reshape(ends.size)
        for s in range(spreads.size):
            v, r = values[s] - bars[s], spreads[s] - usual[s]
            sums[c.R, s] += w * r
            sums[c.RR, s] += w * r * r
            sums[c.VR, s] += w * v * r
            sums[c.VVR, s] += w * v * v * r
    for k in range(n_rewards):
        value, variance = found.value[k], found.variance[k]
        mean = dot(start, value) + dot(start, ends[k])
        out.start[k, c.START_VALUE, i] = mean
        if want & VARIANCE:
            spread = 0.0
            for s in range(n):  # apart, so that the sums are vectorised
                gap = value[s] + ends[k, s] - mean
                spread += start[s] * (variance[s] + gap * gap)
            out.start[k, c.START_VARIANCE, i] = spread
        if out.kept.shape[2] > 0:
            copy_to(out.kept[k, 0, i], value)
            copy_to(out.kept[k, 1, i], variance)


@jit_uncounted
def end_draw(
    i: int,
    given: Setting,
    found: Solution,
    ends: FloatArray,
    theta: FloatArray,
    direction: FloatArray,
    slope: FloatArray,
    out: Results,
) -> None:
    """Add draw ``i`` of all columns, with a control linear in the rows, and slopes.

    ``ends`` is [K, S], ``direction`` [K, F * E], of which unused rows do not count, and
    ``slope`` [K, R].
    """
    rows, pi, theta_bar = given.rows, given.pi, given.nominal.theta_bar
    reduce_draw(i, given, found, ends, out)
    for k in range(found.value.shape[0]):
        if given.want & CONTROL:
            total = 0.0
            for base in range(0, theta_bar.size, rows.target.size):
                for row in range(pi.size):
                    if pi[row] > 0.0:
                        for at in range(rows.indptr[row], rows.indptr[row + 1]):
                            e = np.uint64(base + at)
                            total += (theta[e] - theta_bar[e]) * direction[k, e]
            out.start[k, c.START_Y, i] = total
        if given.want & GRADIENT:
            sums = out.row[k, i // BLOCK]
            for row in range(pi.size):
                gain = given.weights[i] * slope[k, row]
                sums[0, row] += gain
                sums[1, row] += gain * gain


@jit_uncounted
def control_draw(
    i: int,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    g: FloatArray,
    value: FloatArray,
    work: FloatArray,
    out: Results,
) -> None:
    """Add the control variates of K rewards of draw ``i`` to sums and results."""
    start, nominal, bars = given.start, given.nominal, given.nominal.reference[0]
    deviate(given, theta, reward, True, g, bars, work[0])
    if given.want & CONTROL_STATES:
        y, z = work[1], work[2]
        _times_inverse(nominal, g, work[0], y)
        deviate(given, theta, reward, False, g, y, work[0])
        _times_inverse(nominal, g, work[0], z)
        sums, w, size = out.state[i // BLOCK], given.weights[i], value.size
        values, usual = value.reshape(size), bars.reshape(size)
        first, second = y.reshape(size), z.reshape(size)
        for s in range(size):
            v = values[s] - usual[s]
            sums[c.Y, s] += w * first[s]
            sums[c.YY, s] += w * first[s] * first[s]
            sums[c.VY, s] += w * v * first[s]
        for s in range(size):  # apart, so that both are vectorised
            v = values[s] - usual[s]
            sums[c.Z, s] += w * second[s]
            sums[c.ZZ, s] += w * second[s] * second[s]
            sums[c.VZ, s] += w * v * second[s]
            sums[c.YZ, s] += w * first[s] * second[s]
        for k in range(g.size):
            out.start[k, c.START_Y, i] = dot(start, y[k])
            out.start[k, c.START_Z, i] = dot(start, z[k])
    else:  # X is too large to hold: its product with the start is enough for y
        n = nominal.n_live
        for k in range(g.size):
            visits_bar = nominal.reference[2, k]
            out.start[k, c.START_Y, i] = dot(visits_bar[:n], work[0, k, :n])


@jit_uncounted
def _times_inverse(
    nominal: References, g: FloatArray, x: FloatArray, out: FloatArray
) -> None:
    """Multiply by the inverse of each discount, once for all rewards that have it."""
    first = 0
    while first < g.size:
        last = run_of(g, first)
        times_transposed(nominal.inverse[first], x[first:last], out[first:last])
        first = last


@jit_uncounted
def add_cross(
    i: int,
    start: FloatArray,
    value: FloatArray,
    ends: FloatArray,
    covariance: FloatArray,
    out: Results,
) -> None:
    """Covariance from the start of the returns of each pair; after `reduce_draw`."""
    pair = 0
    for k in range(value.shape[0]):
        mean_x = out.start[k, c.START_VALUE, i]
        for j in range(k + 1, value.shape[0]):
            mean_y = out.start[j, c.START_VALUE, i]
            total = 0.0
            for s in range(start.size):
                x = value[k, s] + ends[k, s] - mean_x
                y = value[j, s] + ends[j, s] - mean_y
                total += start[s] * (covariance[pair, s] + x * y)
            out.cross[pair, i] = total
            pair += 1


@jit
def take_off_first(  # noqa: C901 - loops over rewards, pairs of them and rows
    lost: float,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    final: FloatArray,
    g: FloatArray,
    found: Solution,
    own: FloatArray,
    less: FloatArray,
) -> None:
    """Count the first point of time ``lost`` less: ``G - lost r(s_0, a_0)``.

    With ``o`` the reward of a pair, ``o_s`` its mean over the policy's actions, and
    ``x = Q - V``::

        V   <- V - lost o_s
        C_ij <- C_ij + sum_a pi (lost^2 e_i e_j - lost (e_i x_j + e_j x_i))

    with ``e = o - o_s``.
    ``own`` [K, R] and ``less`` [K, R] are filled: ``o``, and what the gradient loses.
    """
    rows, pi, start, n_rewards = given.rows, given.pi, given.start, g.size
    value, variance, covariance = found.value, found.variance, found.variance[g.size :]
    of_state = np.zeros((n_rewards, start.size))
    gain = np.zeros((n_rewards, pi.size))
    for k in range(n_rewards):
        for row in range(pi.size):
            total, q = 0.0, 0.0
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                t = rows.target[e]
                total += theta[e] * (reward[k, e] - g[k] * final[k, t])
                q += theta[e] * (reward[k, e] + g[k] * value[k, t])
            own[k, row] = total
            i = rows.source[row]
            gain[k, row] = q - value[k, i]
            if pi[row] > 0.0:
                of_state[k, i] += pi[row] * total
    at = 0
    for i in range(n_rewards):
        for j in range(i, n_rewards):
            for row in range(pi.size):
                if pi[row] > 0.0:
                    s = rows.source[row]
                    x, y = own[i, row] - of_state[i, s], own[j, row] - of_state[j, s]
                    more = lost * x * y - (x * gain[j, row] + y * gain[i, row])
                    if i == j:
                        variance[i, s] += pi[row] * lost * more
                    elif covariance.shape[0] > 0:
                        covariance[at, s] += pi[row] * lost * more
            at += i != j
    for k in range(n_rewards):
        for row in range(pi.size):
            s = rows.source[row]
            less[k, row] = lost * start[s] * (own[k, row] - of_state[k, s])
        for s in range(start.size):
            value[k, s] -= lost * of_state[k, s]
