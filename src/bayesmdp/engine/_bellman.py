"""Right-hand sides of the equations of one draw, by a pass over its entries.

Entries are counted with unsigned numbers: numba tests signed indices for counting from
the end, which costs more than the arithmetic.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray
from bayesmdp.engine._layout import Layout


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
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
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

    The same as the right-hand side of the equation in `_kernel`, because ``V[s]`` is
    the mean of what is squared, but without a difference of large numbers.
    """
    out[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            centre = value[rows.source[row]]
            total = 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                h = reward[e] + g * value[rows.target[e]] - centre
                total += theta[e] * h * h
            out[rows.source[row]] += pi[row] * total
