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

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray
from bayesmdp.engine._chain import Held, Layout, References
from bayesmdp.engine._dense import dot, times_transposed
from bayesmdp.engine._solve import (
    CONTROL_STATES,
    GRADIENT,
    OCCUPANCY,
    VARIANCE,
    run_of,
)

# Channels of the per-state sums. V value, R return variance, D occupancy (all minus
# their reference), Y, Z first and second control variate.
# Those that are not wanted at the end of the list are not held.
V, VV, VVV, VVVV, R, RR, VR, VVR, D, DD, Y, YY, Z, ZZ, VY, VZ, YZ = range(17)

# Per-draw results from the start distribution: value, aleatoric variance, controls.
START_VALUE, START_VARIANCE, START_Y, START_Z = range(4)
N_START = 4


def n_channels(want: int) -> int:
    """Count the channels that a sweep needs for what is wanted."""
    if want & CONTROL_STATES:
        return YZ + 1
    if want & (OCCUPANCY | GRADIENT):
        return DD + 1
    return (VVR if want & VARIANCE else VVVV) + 1


@jit
def add_gradient(
    weight: float,
    theta: FloatArray,
    pi: FloatArray,
    every_row: bool,
    rows: Layout,
    reward: FloatArray,
    g: float,
    value: FloatArray,
    occupancy: FloatArray,
    less: FloatArray,
    sums: FloatArray,
) -> None:
    """Add ``d (Q - V)`` and its square to ``sums`` [2, R], of rows in use or all.

    ``less`` [R] is taken off each slope; or [0].
    """
    for row in range(rows.source.size):
        if not (every_row or pi[row] > 0.0):
            continue
        q = 0.0
        for at in range(rows.indptr[row], rows.indptr[row + 1]):
            e = np.uint64(at)
            q += theta[e] * (reward[e] + g * value[rows.target[e]])
        i = rows.source[row]
        slope = occupancy[i] * (q - value[i])
        if less.size > 0:
            slope -= less[row]
        gain = weight * slope
        sums[0, row] += gain
        sums[1, row] += gain * gain


@jit
def add_mean_gradient(
    theta_bar: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: float,
    held: Held,
    sums: FloatArray,
) -> None:
    """Add the same for the other rows, a block of draws at once.

    Where rows are independent, one that the policy does not use is independent of its
    values and visits too, so its mean stands in for it: the expectation is the same,
    and the noise less. One pass over the entries serves all draws of the block.
    """
    values, visits, weights = held.values, held.visits, held.weights
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


@jit
def deviate(
    theta: FloatArray,
    theta_bar: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    paid: float,
    scale: FloatArray,
    x: FloatArray,
    out: FloatArray,
) -> None:
    """Set ``out = sum_a pi sum_t (theta - theta_bar) (paid r + scale x[t])``, [K, S].

    Row by row, so that entries are read once for all K rewards.
    """
    out[:] = 0.0
    for row in range(pi.size):
        if not pi[row] > 0.0:
            continue
        s = rows.source[row]
        for k in range(0, scale.size - 1, 2):  # two sums take no longer than one
            p, q = 0.0, 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                off, t = theta[e] - theta_bar[e], rows.target[e]
                p += off * (paid * reward[k, e] + scale[k] * x[k, t])
                q += off * (paid * reward[k + 1, e] + scale[k + 1] * x[k + 1, t])
            out[k, s] += pi[row] * p
            out[k + 1, s] += pi[row] * q
        if scale.size % 2:
            k, p = scale.size - 1, 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                h = paid * reward[k, e] + scale[k] * x[k, rows.target[e]]
                p += (theta[e] - theta_bar[e]) * h
            out[k, s] += pi[row] * p


@jit
def add_value(w: float, value: FloatArray, ref: FloatArray, sums: FloatArray) -> None:
    """Add powers of ``V`` to the channels."""
    for i in range(value.size):
        v = value[i] - ref[i]
        square = v * v
        sums[V, i] += w * v
        sums[VV, i] += w * square
        sums[VVV, i] += w * square * v
        sums[VVVV, i] += w * square * square


@jit
def add_variance(
    w: float,
    value: FloatArray,
    variance: FloatArray,
    value_ref: FloatArray,
    variance_ref: FloatArray,
    sums: FloatArray,
) -> None:
    """Add the return variance and its products with ``V``."""
    for i in range(value.size):
        v = value[i] - value_ref[i]
        r = variance[i] - variance_ref[i]
        sums[R, i] += w * r
        sums[RR, i] += w * r * r
        sums[VR, i] += w * v * r
        sums[VVR, i] += w * v * v * r


@jit
def add_controls(
    w: float,
    value: FloatArray,
    ref: FloatArray,
    y: FloatArray,
    z: FloatArray,
    sums: FloatArray,
) -> None:
    """Add the control variates and their products."""
    for i in range(value.size):
        v = value[i] - ref[i]
        sums[Y, i] += w * y[i]
        sums[YY, i] += w * y[i] * y[i]
        sums[Z, i] += w * z[i]
        sums[ZZ, i] += w * z[i] * z[i]
        sums[VY, i] += w * v * y[i]
        sums[VZ, i] += w * v * z[i]
        sums[YZ, i] += w * y[i] * z[i]


@jit
def reduce_draw(
    w: float,
    want: int,
    start: FloatArray,
    value: FloatArray,
    variance: FloatArray,
    occupancy: FloatArray,
    terminal_value: FloatArray,
    reference: FloatArray,
    sums: FloatArray,
    results: FloatArray,
) -> None:
    """Add one solved draw to the sums [C, S], and its start values to results [4]."""
    add_value(w, value, reference[0], sums)
    mean = dot(start, value) + dot(start, terminal_value)
    results[START_VALUE] = mean
    if want & (OCCUPANCY | GRADIENT):
        for s in range(occupancy.size):
            d = occupancy[s] - reference[2, s]
            sums[D, s] += w * d
            sums[DD, s] += w * d * d
    if want & VARIANCE:
        add_variance(w, value, variance, reference[0], reference[1], sums)
        spread = 0.0
        for s in range(value.size):
            gap = value[s] + terminal_value[s] - mean
            spread += start[s] * (variance[s] + gap * gap)
        results[START_VARIANCE] = spread


@jit
def control_draw(
    w: float,
    want: int,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: FloatArray,
    start: FloatArray,
    nominal: References,
    value: FloatArray,
    work: FloatArray,
    at: int,
    block: int,
    sums: FloatArray,
    results: FloatArray,
) -> None:
    """Add the control variates of K rewards of draw ``at`` to sums and results.

    These are of all blocks, [K, B, C, S], and of all draws, [K, 4, W].
    """
    bar, bars = nominal.theta_bar, nominal.reference[0]
    deviate(theta, bar, pi, rows, reward, 1.0, g, bars, work[0])
    if want & CONTROL_STATES:
        y, z = work[1], work[2]
        _times_inverse(nominal, g, work[0], y)
        deviate(theta, bar, pi, rows, reward, 0.0, g, y, work[0])
        _times_inverse(nominal, g, work[0], z)
        for k in range(g.size):
            add_controls(w, value[k], bars[k], y[k], z[k], sums[k, at // block])
            results[k, START_Y, at] = dot(start, y[k])
            results[k, START_Z, at] = dot(start, z[k])
    else:  # X is too large to hold: its product with the start is enough for y
        n = nominal.n_live
        for k in range(g.size):
            visits_bar = nominal.reference[2, k]
            results[k, START_Y, at] = dot(visits_bar[:n], work[0, k, :n])


@jit
def _times_inverse(
    nominal: References, g: FloatArray, x: FloatArray, out: FloatArray
) -> None:
    """Multiply by the inverse of each discount, once for all rewards that have it."""
    first = 0
    while first < g.size:
        last = run_of(g, first)
        times_transposed(nominal.inverse[first], x[first:last], out[first:last])
        first = last


@jit
def add_cross(
    start: FloatArray,
    value: FloatArray,
    terminal_value: FloatArray,
    covariance: FloatArray,
    results: FloatArray,
) -> None:
    """Covariance from the start of the returns of each pair of rewards, ``[X]``."""
    at = 0
    for i in range(value.shape[0]):
        mean_x = dot(start, value[i]) + dot(start, terminal_value[i])
        for j in range(i + 1, value.shape[0]):
            mean_y = dot(start, value[j]) + dot(start, terminal_value[j])
            total = 0.0
            for s in range(start.size):
                x = value[i, s] + terminal_value[i, s] - mean_x
                y = value[j, s] + terminal_value[j, s] - mean_y
                total += start[s] * (covariance[at, s] + x * y)
            results[at] = total
            at += 1


@jit
def take_off_first(  # noqa: C901 - loops over rewards, pairs of them and rows
    lost: float,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    final: FloatArray,
    g: FloatArray,
    start: FloatArray,
    value: FloatArray,
    variance: FloatArray,
    covariance: FloatArray,
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
    n_rewards = g.size
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
