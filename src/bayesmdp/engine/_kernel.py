"""The compiled loop over draws: sample, assemble, factorise once, solve, reduce.

For one draw of the rows ``theta[s, a, t]`` and one policy ``pi`` (axes as in
`bayesmdp._typing`)::

    T[s, t] = sum_a pi[s, a] theta[s, a, t]
    b[s]    = sum_a pi[s, a] sum_t theta[s, a, t] r[s, a, t]
    V       = (I - g T)^-1 b                                            value
    (I - g^2 T) var = sum_a pi sum_t theta (r + g V[t])^2 - V^2         Sobel 1982
    d       = (I - g T')^-1 rho                                         occupancy
    Q[s, a] = sum_t theta[s, a, t] (r[s, a, t] + g V[t])
    grad    = d[s] (Q[s, a] - V[s])                                     gradient

The variance is solved for itself, not as second moment minus square, which cancels
where ``|V| ~ 1 / (1 - g)``, and its right-hand side is summed as squares of deviations.
``grad`` differs from ``dJ/dpi = d Q`` by a constant in each state, which rows that sum
to 1 cannot feel.

Control variates (nominal model: ``theta_bar``, ``X = (I - g T_bar)^-1``, ``V_bar``)::

    u  = sum_a pi sum_t (theta - theta_bar) (r + g V_bar[t])
    y1 = X u                 mean 0
    y2 = g X (T - T_bar) y1  mean g X k  (evaluation/_control.py)

States stand in sweep order, live ones first, so that a vector of values continues with
zeros and no loop needs to ask where an episode ends.

Per-state results leave as sums of powers and products of deviations from a reference
(the nominal model's values), one set a block of draws: sums join by addition, and the
reference is close enough to the mean that nothing cancels.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, BoolArray, FloatArray
from bayesmdp.engine._dense import (
    dot,
    factorise,
    solve,
    solve_transposed,
    times_transposed,
)
from bayesmdp.engine._layout import Layout, Models
from bayesmdp.posterior.sampling import dirichlet_row, open_stream

# What is wanted, as bits.
VARIANCE, OCCUPANCY, GRADIENT, CONTROL = 1, 2, 4, 8

# Channels of the per-state sums. V value, R return variance, D occupancy (all minus
# their reference), Y, Z first and second control variate.
V, VV, VVV, VVVV, R, RR, VR, VVR, D, DD, Y, YY, Z, ZZ, VY, VZ, YZ = range(17)
N_CHANNELS = 17

# Per-draw results from the start distribution: value, aleatoric variance, controls.
START_VALUE, START_VARIANCE, START_Y, START_Z = range(4)
N_START = 4

# Below this pivot a chain counts as endless: fourth powers of its length overflow.
ENDLESS = 1e-70


@jit
def model_of(models: Models, draw: int) -> int:
    """Which given model a draw is; 0 where rows are sampled."""
    return models.member[draw] if models.member.size > 0 else 0


@jit
def sample(
    models: Models, rows: Layout, draw: int, stream: BitArray, theta: FloatArray
) -> None:
    """Fill ``theta`` [E] for one draw: sampled, or copied from the table."""
    if models.table.shape[0] > 0:
        theta[:] = models.table[model_of(models, draw)]
        return
    for row in range(rows.source.size):
        state, action = models.row_id[row, 0], models.row_id[row, 1]
        open_stream(stream, models.key, draw, state, action)
        first, last = rows.indptr[row], rows.indptr[row + 1]
        dirichlet_row(models.alpha[first:last], stream, theta[first:last])


@jit
def reward_of(models: Models, draw: int) -> FloatArray:
    """Reward of each entry in a draw, ``[E]``."""
    own = models.rewards.shape[0] > 1
    return models.rewards[model_of(models, draw) if own else 0]


@jit
def terminal_value_of(models: Models, draw: int) -> FloatArray:
    """Value of terminal states in a draw, ``[S]``."""
    own = models.terminal_values.shape[0] > 1
    return models.terminal_values[model_of(models, draw) if own else 0]


@jit
def assemble(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    g: float,
    matrix: FloatArray,
    slack: FloatArray,
) -> None:
    """Fill ``matrix`` [N, N] with ``I - g T`` and ``slack`` [N] with its row sums."""
    n = matrix.shape[0]
    matrix[:] = 0.0
    for i in range(n):
        matrix[i, i] = 1.0
        slack[i] = 1.0 - g
    for row in range(pi.size):
        weight = g * pi[row]
        if weight > 0.0:
            i = rows.source[row]
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                j = rows.target[e]
                if j < n:
                    matrix[i, j] -= weight * theta[e]
                else:
                    slack[i] += weight * theta[e]


@jit
def bellman_mean(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    out: FloatArray,
) -> None:
    """Set ``out[s] = b[s]``, the expected reward of a step."""
    out[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            total = 0.0
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                total += theta[e] * reward[e]
            out[rows.source[row]] += pi[row] * total


@jit
def bellman_spread(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: float,
    value: FloatArray,
    out: FloatArray,
) -> None:
    """Set ``out[s] = sum_a pi sum_t theta (r + g V[t] - V[s])^2``.

    The same as the right-hand side above, because ``V[s]`` is the mean of what is
    squared, but without a difference of large numbers.
    """
    out[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            centre = value[rows.source[row]]
            total = 0.0
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                h = reward[e] + g * value[rows.target[e]] - centre
                total += theta[e] * h * h
            out[rows.source[row]] += pi[row] * total


@jit
def occupy(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    g: float,
    start: FloatArray,
    lu: FloatArray,
    out: FloatArray,
) -> None:
    """Discounted visits [S] from the start; terminal states count on arrival."""
    n = lu.shape[0]
    out[:] = start
    solve_transposed(lu, out[:n])
    for row in range(pi.size):
        if pi[row] > 0.0:
            flow = g * pi[row] * out[rows.source[row]]
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                if rows.target[e] >= n:
                    out[rows.target[e]] += flow * theta[e]


@jit
def add_gradient(
    weight: float,
    theta: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: float,
    value: FloatArray,
    occupancy: FloatArray,
    sums: FloatArray,
) -> None:
    """Add ``d (Q - V)`` of every row and its square to ``sums`` [2, R]."""
    for row in range(rows.source.size):
        q = 0.0
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            q += theta[e] * (reward[e] + g * value[rows.target[e]])
        i = rows.source[row]
        slope = occupancy[i] * (q - value[i])
        sums[0, row] += weight * slope
        sums[1, row] += weight * slope * slope


@jit
def control_variates(
    theta: FloatArray,
    theta_bar: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: float,
    value_bar: FloatArray,
    inverse: FloatArray,
    work: FloatArray,
    y: FloatArray,
    z: FloatArray,
) -> None:
    """Fill ``y`` and ``z`` [S]; ``inverse`` is the transpose of ``X``."""
    work[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            total = 0.0
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                h = reward[e] + g * value_bar[rows.target[e]]
                total += (theta[e] - theta_bar[e]) * h
            work[rows.source[row]] += pi[row] * total
    times_transposed(inverse, work, y)
    work[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            total = 0.0
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                total += (theta[e] - theta_bar[e]) * y[rows.target[e]]
            work[rows.source[row]] += g * pi[row] * total
    times_transposed(inverse, work, z)


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
def sweep_blocks(  # noqa: C901 - one loop, so that a draw is sampled once for all
    first: int,
    stop: int,
    block: int,
    want: int,
    g: float,
    n_live: int,
    rows: Layout,
    models: Models,
    policies: FloatArray,
    start: FloatArray,
    weights: FloatArray,
    reference: FloatArray,
    theta_bar: FloatArray,
    inverse: FloatArray,
    state_sums: FloatArray,
    row_sums: FloatArray,
    start_draws: FloatArray,
    ended: BoolArray,
) -> None:
    """Sweep draws ``first..stop-1`` in blocks.

    Parameters
    ----------
    first, stop, block
        Range of draws; ``first`` is a multiple of ``block``.
    want
        Bits of VARIANCE, OCCUPANCY, GRADIENT, CONTROL.
    g, n_live
        Discount, number of live states.
    rows, models
        Where rows lead, and how a draw gets them.
    policies
        [P, R] probability of each row's action.
    start
        [S].
    weights
        [stop - first], one a draw.
    reference
        [3, P, S] value, variance and occupancy of the nominal model.
    theta_bar, inverse
        [E], [P, N, N]: nominal rows, transposes of ``X`` (CONTROL only).
    state_sums, row_sums
        [B, P, 17, S], [B, P, 2, R]: one set a block, zero on entry.
    start_draws, ended
        [P, 4, stop - first], [P, stop - first]: results of each draw, whether its
        chain ends.
    """
    n_policies = policies.shape[0]
    n_states = start.size
    theta = np.empty(rows.target.size)
    stream = np.empty(4, dtype=np.uint64)
    matrix, slack = np.empty((n_live, n_live)), np.empty(n_live)
    value, variance = np.zeros(n_states), np.zeros(n_states)
    occupancy, work = np.zeros(n_states), np.zeros(n_states)
    y, z = np.zeros(n_states), np.zeros(n_states)
    for draw in range(first, stop):
        i = draw - first
        w = weights[i]
        if w == 0.0:
            continue
        sample(models, rows, draw, stream, theta)
        reward, terminal_value = (
            reward_of(models, draw),
            terminal_value_of(models, draw),
        )
        for p in range(n_policies):
            pi, sums = policies[p], state_sums[i // block, p]
            assemble(theta, pi, rows, g, matrix, slack)
            if not factorise(matrix, slack) > ENDLESS:
                continue
            ended[p, i] = True
            bellman_mean(theta, pi, rows, reward, value)
            solve(matrix, value)
            add_value(w, value, reference[0, p], sums)
            mean = dot(start, value) + dot(start, terminal_value)
            start_draws[p, START_VALUE, i] = mean
            if want & (OCCUPANCY | GRADIENT):
                occupy(theta, pi, rows, g, start, matrix, occupancy)
                for s in range(n_states):
                    d = occupancy[s] - reference[2, p, s]
                    sums[D, s] += w * d
                    sums[DD, s] += w * d * d
            if want & GRADIENT:
                add_gradient(
                    w,
                    theta,
                    rows,
                    reward,
                    g,
                    value,
                    occupancy,
                    row_sums[i // block, p],
                )
            if want & CONTROL:
                control_variates(
                    theta,
                    theta_bar,
                    pi,
                    rows,
                    reward,
                    g,
                    reference[0, p],
                    inverse[p],
                    work,
                    y,
                    z,
                )
                add_controls(w, value, reference[0, p], y, z, sums)
                start_draws[p, START_Y, i] = dot(start, y)
                start_draws[p, START_Z, i] = dot(start, z)
            if want & VARIANCE:
                bellman_spread(theta, pi, rows, reward, g, value, variance)
                if g < 1.0:
                    assemble(theta, pi, rows, g * g, matrix, slack)
                    factorise(matrix, slack)
                solve(matrix, variance)
                add_variance(w, value, variance, reference[0, p], reference[1, p], sums)
                spread = 0.0
                for s in range(n_states):
                    gap = value[s] + terminal_value[s] - mean
                    spread += start[s] * (variance[s] + gap * gap)
                start_draws[p, START_VARIANCE, i] = spread
