"""The row sampler the engine runs, apart so that only work that samples needs numba.

Rows of the hierarchical belief are sampled given states of its chains. Given tables
``m``, strengths ``c`` and ``k``, with ``M = sum_t m`` and ``N`` visits of a pair: the
latent row of a state has mean ``(k g + m) / (k + M)``, a row ``(c E[mu] + n) / (c +
N)``.
"""

import math
from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, BoolArray, FloatArray, IntArray
from bayesmdp.posterior._random import (
    advance,
    dirichlet_row,
    layers,
    open_stream,
    uniform,
    unit,
)

__all__ = [
    "SharedRows",
    "add_linear",
    "add_means",
    "advance",
    "dirichlet_row",
    "layers",
    "open_stream",
    "pick",
    "sample_dirichlet",
    "sample_members",
    "sample_random_support",
    "sample_shared",
    "uniform",
    "unit",
]


@jit
def sample_dirichlet(
    key: BitArray,
    draws: IntArray,
    state: IntArray,
    action: IntArray,
    indptr: IntArray,
    alpha: FloatArray,
    used: BoolArray,
    theta: FloatArray,
) -> None:
    """Fill the rows ``used`` [R] of draws [n] in ``theta`` [n, E]."""
    stream = np.empty(4, dtype=np.uint64)
    for i in range(draws.size):
        for row in range(state.size):
            if used[row]:
                open_stream(stream, key, draws[i], state[row], action[row])
                first, last = indptr[row], indptr[row + 1]
                dirichlet_row(alpha[first:last], stream, theta[i, first:last])


@jit
def possible_row(alpha: FloatArray, stream: BitArray, theta: FloatArray) -> None:
    """Fill one row whose impossible next states have the parameter 0.

    They get probability 0, and the others what a row without them would get.
    """
    n = 0
    for i in range(alpha.size):
        n += alpha[i] > 0.0
    if n == alpha.size:
        dirichlet_row(alpha, stream, theta)
        return
    shapes = np.empty(n)
    n = 0
    for i in range(alpha.size):
        if alpha[i] > 0.0:
            shapes[n] = alpha[i]
            n += 1
    dirichlet_row(shapes, stream, theta[:n])
    for i in range(alpha.size - 1, -1, -1):  # backwards: nothing is written over
        theta[i] = 0.0 if alpha[i] == 0.0 else theta[n - 1]
        n -= alpha[i] > 0.0


@jit
def pick(cumulative: FloatArray, u: float) -> int:
    """First index whose cumulative weight exceeds ``u`` times their total."""
    u *= cumulative[-1]
    for i in range(cumulative.size - 1):
        if u < cumulative[i]:
            return i
    return cumulative.size - 1


@jit
def set_row(
    alpha: FloatArray,
    shape: FloatArray,
    concentration: float,
    cumulative: FloatArray,
    lump: int,
    stream: BitArray,
    theta: FloatArray,
) -> None:
    """Fill one row on a random set of next states; those outside get exactly 0.

    How many unseen states are in it comes from ``cumulative`` (0, 1, ..., all of them),
    which ones by going through them once: each is taken with probability wanted / left.

    Parameters
    ----------
    alpha
        [L] above 0 where a next state may be possible.
    shape
        [L] concentration of those that are for sure, 0 of others.
    concentration
        Of the unseen ones that are taken.
    cumulative
        [U + 1] for ``U`` unseen states.
    lump
        Entry that has the concentrations of all of them; -1: each its own.
    stream, theta
        Open; [L] to be filled.
    """
    left = cumulative.size - 1
    wanted = pick(cumulative, uniform(stream))
    shapes = shape.copy()
    if lump >= 0:
        shapes[lump] += wanted * concentration
    elif wanted > 0:
        for i in range(alpha.size):
            if shape[i] == 0.0 and alpha[i] > 0.0:
                if uniform(stream) * left < wanted:
                    shapes[i] = concentration
                    wanted -= 1
                    if wanted == 0:
                        break
                left -= 1
    possible_row(shapes, stream, theta)


@jit
def sample_random_support(
    key: BitArray,
    draws: IntArray,
    state: IntArray,
    action: IntArray,
    indptr: IntArray,
    alpha: FloatArray,
    shape: FloatArray,
    group: IntArray,
    start: IntArray,
    cumulative: FloatArray,
    lump: IntArray,
    used: BoolArray,
    concentration: float,
    theta: FloatArray,
) -> None:
    """Fill the rows ``used`` [R] of draws [n] in ``theta`` [n, E], each on its own set.

    The arrays are those of `bayesmdp.priors.Sets`, and of `set_row` for every row.
    """
    stream = np.empty(4, dtype=np.uint64)
    for i in range(draws.size):
        for row in range(state.size):
            if used[row]:
                open_stream(stream, key, draws[i], state[row], action[row])
                first, last = indptr[row], indptr[row + 1]
                set_row(
                    alpha[first:last],
                    shape[first:last],
                    concentration,
                    cumulative[start[group[row]] : start[group[row] + 1]],
                    lump[row],
                    stream,
                    theta[i, first:last],
                )


@jit
def sample_members(
    key: BitArray, cumulative: FloatArray, draws: IntArray, members: IntArray
) -> None:
    """Fill ``members`` [n] of draws [n], by their cumulative weights [M]."""
    stream = np.empty(4, dtype=np.uint64)
    for i in range(draws.size):
        open_stream(stream, key, draws[i], 0, 0)
        members[i] = pick(cumulative, uniform(stream))


class SharedRows(NamedTuple):
    """Rows in order of states, and M states of the chains."""

    state: IntArray  # [R]
    action: IntArray  # [R]
    indptr: IntArray  # [R + 1]
    logged: FloatArray  # [E], visits
    cell: IntArray  # [R], first cell of each row
    base: FloatArray  # [K]
    tables: IntArray  # [M, K]
    strength: FloatArray  # [M, S], c
    k: FloatArray  # [M, S]


@jit
def sample_shared(  # noqa: C901 - one loop over rows, so that a latent row is drawn once
    key: BitArray,
    draws: IntArray,
    members: IntArray,
    rows: SharedRows,
    n_actions: int,
    used: BoolArray,
    theta: FloatArray,
) -> None:
    """Fill rows of draws [n] in ``theta`` [n, E]; rows stand in order of states.

    A row that is not ``used`` [R] gets its mean given the latent row of its state.
    """
    state, indptr, count, cell = rows.state, rows.indptr, rows.logged, rows.cell
    base, tables, strength, k = rows.base, rows.tables, rows.strength, rows.k
    stream = np.empty(4, dtype=np.uint64)
    longest = 0
    for row in range(state.size):
        longest = max(longest, indptr[row + 1] - indptr[row])
    mu, shape = np.empty(longest), np.empty(longest)
    for i in range(draws.size):
        member, last = members[i], -1
        for row in range(state.size):
            s, first, end = state[row], indptr[row], indptr[row + 1]
            n, at = end - first, cell[row]
            if s != last:  # the latent row has a stream of its own
                last = s
                open_stream(stream, key, draws[i], s, n_actions)
                for j in range(n):
                    shape[j] = k[member, s] * base[at + j] + tables[member, at + j]
                dirichlet_row(shape[:n], stream, mu[:n])
            c = strength[member, s]
            out = theta[i, first:end]
            if c == math.inf:
                for j in range(n):
                    out[j] = mu[j]
            elif used[row]:
                open_stream(stream, key, draws[i], s, rows.action[row])
                for j in range(n):
                    shape[j] = max(c * mu[j] + count[first + j], 1e-300)
                dirichlet_row(shape[:n], stream, out)
            else:
                total = c
                for j in range(n):
                    total += count[first + j]
                for j in range(n):
                    out[j] = (c * mu[j] + count[first + j]) / total


@jit
def add_means(  # noqa: C901 - one loop over rows
    rows: SharedRows,
    first: FloatArray,
    second: FloatArray,
) -> None:
    """Add means of probabilities, [E], over states of a chain; of squares unless [0].

    Sums of each row's factors are kept apart, so that the inner loop is one product.
    """
    state, indptr, count, cell = rows.state, rows.indptr, rows.logged, rows.cell
    base, tables, strength, k = rows.base, rows.tables, rows.strength, rows.k
    longest = 0
    for row in range(state.size):
        longest = max(longest, indptr[row + 1] - indptr[row])
    mu, square = np.empty(longest), np.empty(longest)
    own, own_square = np.zeros(state.size), np.zeros(state.size)
    visits = np.zeros(state.size)
    for row in range(state.size):
        for e in range(indptr[row], indptr[row + 1]):
            visits[row] += count[e]
    for member in range(k.shape[0]):
        last = -1
        for row in range(state.size):
            s, begin, n = state[row], indptr[row], indptr[row + 1] - indptr[row]
            if s != last:
                last, at, seated = s, cell[row], k[member, s]
                for j in range(n):
                    seated += tables[member, at + j]
                for j in range(n):
                    mu[j] = (
                        k[member, s] * base[at + j] + tables[member, at + j]
                    ) / seated
                    square[j] = mu[j] * (mu[j] * seated + 1.0) / (seated + 1.0)
            c = strength[member, s]
            whole = c + visits[row]
            lean, more = 1.0, 0.0
            if c < math.inf:
                lean, more = c / whole, 1.0 / whole
            own[row] += more
            for j in range(n):
                first[begin + j] += lean * mu[j]
            if second.size > 0:
                lean_square, lean_mu = 1.0, 0.0
                if more > 0.0:
                    lean_square = c * c / (whole * (whole + 1.0))
                    lean_mu = c / (whole * (whole + 1.0))
                    own_square[row] += 1.0 / (whole * (whole + 1.0))
                for j in range(n):
                    x = lean_mu * (2.0 * count[begin + j] + 1.0)
                    second[begin + j] += lean_square * square[j] + x * mu[j]
    for row in range(state.size):
        for e in range(indptr[row], indptr[row + 1]):
            first[e] += own[row] * count[e]
            if second.size > 0:
                second[e] += own_square[row] * count[e] * (count[e] + 1.0)


@jit
def add_linear(  # noqa: C901 - one loop over rows
    rows: SharedRows,
    h: FloatArray,
    weight: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """Add mean and variance [M, P] of ``sum_row weight[p,row] theta[row].h[row]``.

    Given each state of the chains. With ``x = theta.h``: rows of a state have their own
    variance around the latent row, and that of the latent row in common.
    """
    state, indptr, count, cell = rows.state, rows.indptr, rows.logged, rows.cell
    base, tables, strength, k = rows.base, rows.tables, rows.strength, rows.k
    n_policies = weight.shape[0]
    lean = np.zeros(n_policies)
    visits, paid, square = np.zeros((3, state.size))
    for row in range(state.size):
        for e in range(indptr[row], indptr[row + 1]):
            visits[row] += count[e]
            paid[row] += count[e] * h[e]
            square[row] += count[e] * h[e] * h[e]
    for member in range(k.shape[0]):
        last, seated, common = -1, 0.0, 0.0
        for row in range(state.size):
            s, begin, at = state[row], indptr[row], cell[row]
            n = indptr[row + 1] - begin
            if s != last:
                if last >= 0:
                    for p in range(n_policies):
                        variance[member, p] += lean[p] * lean[p] * common
                last, seated = s, k[member, s]
                for j in range(n):
                    seated += tables[member, at + j]
                lean[:] = 0.0
            x, xx = 0.0, 0.0
            for j in range(n):
                mu = (k[member, s] * base[at + j] + tables[member, at + j]) / seated
                x += mu * h[begin + j]
                xx += mu * h[begin + j] * h[begin + j]
            c = strength[member, s]
            common = max(xx - x * x, 0.0) / (seated + 1.0)
            share, own = 1.0, 0.0
            if c < math.inf:
                whole = c + visits[row]
                share, x = c / whole, (c * x + paid[row]) / whole
                own = max((c * xx + square[row]) / whole - x * x, 0.0) / (whole + 1.0)
            for p in range(n_policies):
                w = weight[p, row]
                mean[member, p] += w * x
                variance[member, p] += w * w * own
                lean[p] += w * share
        for p in range(n_policies):
            variance[member, p] += lean[p] * lean[p] * common
