"""Elimination within a band, for chains that move step by step.

Queues, stocks, rings: after a suitable renumbering of the states every move goes to
states nearby, and elimination fills the band alone. Iterations are slow on just these
chains. The matrix is stored by diagonals, ``band[i, width + j - i]``; pivots are found
without subtraction, as in `bayesmdp.engine._dense`.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._layout import Layout


@jit
def assemble_band(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    g: float,
    position: IntArray,
    band: FloatArray,
    slack: FloatArray,
) -> None:
    """Fill ``band`` with ``I - g T`` and ``slack`` [N] with row sums, renumbered."""
    n, width = position.size, band.shape[1] // 2
    band[:] = 0.0
    for i in range(n):
        band[i, width] = 1.0
        slack[i] = 1.0 - g
    for row in range(pi.size):
        weight = g * pi[row]
        if weight > 0.0:
            i = position[rows.source[row]]
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                if rows.target[e] < n:
                    j = position[rows.target[e]]
                    band[i, width + j - i] -= weight * theta[e]
                else:
                    slack[i] += weight * theta[e]


@jit
def factorise_band(band: FloatArray, slack: FloatArray) -> float:
    """Overwrite by L (unit diagonal) and U; return the least pivot."""
    n, width = band.shape[0], band.shape[1] // 2
    least = np.inf
    for k in range(n):
        ahead = min(width, n - 1 - k)
        pivot = slack[k]
        for j in range(1, ahead + 1):
            pivot -= band[k, width + j]
        if not pivot > 0.0:
            return pivot
        band[k, width] = pivot
        least = min(least, pivot)
        top = band[k, width + 1 : width + 1 + ahead]
        for below in range(1, ahead + 1):
            i = k + below
            if band[i, width - below] != 0.0:
                factor = band[i, width - below] / pivot
                band[i, width - below] = factor
                slack[i] -= factor * slack[k]
                rest = band[i, width - below + 1 : width - below + 1 + ahead]
                for j in range(ahead):
                    rest[j] -= factor * top[j]
    return least


@jit
def solve_band(
    band: FloatArray, position: IntArray, x: FloatArray, work: FloatArray
) -> None:
    """Solve with the factorised matrix; ``x`` [N] in place, ``work`` [N] is used."""
    n, width = band.shape[0], band.shape[1] // 2
    for i in range(n):
        work[position[i]] = x[i]
    for i in range(n):
        total = work[i]
        for j in range(max(i - width, 0), i):
            total -= band[i, width + j - i] * work[j]
        work[i] = total
    for i in range(n - 1, -1, -1):
        total = work[i]
        for j in range(i + 1, min(i + width, n - 1) + 1):
            total -= band[i, width + j - i] * work[j]
        work[i] = total / band[i, width]
    for i in range(n):
        x[i] = work[position[i]]


@jit
def solve_band_transposed(
    band: FloatArray, position: IntArray, x: FloatArray, work: FloatArray
) -> None:
    """Solve with the transpose of the factorised matrix, as `solve_band`."""
    n, width = band.shape[0], band.shape[1] // 2
    for i in range(n):
        work[position[i]] = x[i]
    for i in range(n):
        work[i] /= band[i, width]
        for j in range(i + 1, min(i + width, n - 1) + 1):
            work[j] -= band[i, width + j - i] * work[i]
    for i in range(n - 1, -1, -1):
        for j in range(max(i - width, 0), i):
            work[j] -= band[i, width + j - i] * work[i]
    for i in range(n):
        x[i] = work[position[i]]
