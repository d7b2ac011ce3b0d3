"""Right-hand sides of the equations of one draw, by passes over its entries.

Rewards stand beside each other, and are taken row by row, so that a row's
probabilities are read once for all of them.

Entries are counted with unsigned numbers: numba tests signed indices for counting from
the end, which costs more than the arithmetic.
"""

import numpy as np

from bayesmdp._jit import jit_uncounted
from bayesmdp._typing import FloatArray
from bayesmdp.engine._chain import Layout


@jit_uncounted
def bellman_mean(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    out: FloatArray,
) -> None:
    """Set ``out[k, s] = b[k, s]``, the expected rewards [K, E] of a step."""
    out[:] = 0.0
    for row in range(pi.size):
        if not pi[row] > 0.0:
            continue
        s = rows.source[row]
        for k in range(0, reward.shape[0] - 1, 2):  # two sums take no longer than one
            x, y = 0.0, 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                x += theta[e] * reward[k, e]
                y += theta[e] * reward[k + 1, e]
            out[k, s] += pi[row] * x
            out[k + 1, s] += pi[row] * y
        if reward.shape[0] % 2:
            k, x = reward.shape[0] - 1, 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                x += theta[e] * reward[k, e]
            out[k, s] += pi[row] * x


@jit_uncounted
def bellman_spread(  # noqa: C901 - loops over rows, pairs of rewards and entries
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: FloatArray,
    value: FloatArray,
    out: FloatArray,
) -> None:
    """Set ``out[k, s] = sum_a pi sum_t theta x_k x_k``, ``x = r + g V[t] - V[s]``.

    The same as the right-hand side of the equation in `_kernel`, because ``V[s]`` is
    the mean of what is squared, but without a difference of large numbers. Where
    ``out`` has more rows than there are rewards, they are those of ``x_i x_j``, of all
    pairs (0, 1), (0, 2), ..., (1, 2), ...
    """
    n = g.size
    out[:] = 0.0
    for row in range(pi.size):
        if not pi[row] > 0.0:
            continue
        s, at = rows.source[row], n
        if n == 2 and out.shape[0] == 3:
            xx, yy, xy = 0.0, 0.0, 0.0
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(entry)
                t = rows.target[e]
                x = reward[0, e] + g[0] * value[0, t] - value[0, s]
                y = reward[1, e] + g[1] * value[1, t] - value[1, s]
                xx += theta[e] * x * x
                yy += theta[e] * y * y
                xy += theta[e] * x * y
            out[0, s] += pi[row] * xx
            out[1, s] += pi[row] * yy
            out[2, s] += pi[row] * xy
            continue
        if out.shape[0] == n:
            for k in range(n):
                xx = 0.0
                for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                    e = np.uint64(entry)
                    x = reward[k, e] + g[k] * value[k, rows.target[e]] - value[k, s]
                    xx += theta[e] * x * x
                out[k, s] += pi[row] * xx
            continue
        for i in range(n):
            for j in range(i + 1, n):
                xx, yy, xy = 0.0, 0.0, 0.0
                for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                    e = np.uint64(entry)
                    t = rows.target[e]
                    x = reward[i, e] + g[i] * value[i, t] - value[i, s]
                    y = reward[j, e] + g[j] * value[j, t] - value[j, s]
                    xx += theta[e] * x * x
                    yy += theta[e] * y * y
                    xy += theta[e] * x * y
                if j == i + 1:
                    out[i, s] += pi[row] * xx
                if i == n - 2:
                    out[n - 1, s] += pi[row] * yy
                out[at, s] += pi[row] * xy
                at += 1


@jit_uncounted
def add_arrivals(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    g: float,
    start: FloatArray,
    n: int,
    out: FloatArray,
) -> None:
    """Add discounted arrivals in terminal states to the visits ``out`` [S] of others.

    The first ``n`` states are live; a start in a terminal state counts there.
    """
    if n == start.size:
        return
    for s in range(n, start.size):
        out[s] = start[s]
    for row in range(pi.size):
        if pi[row] > 0.0:
            flow = g * pi[row] * out[rows.source[row]]
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                if rows.target[e] >= n:
                    out[rows.target[e]] += flow * theta[e]
