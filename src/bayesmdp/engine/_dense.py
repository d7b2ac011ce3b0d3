"""Dense LU without pivoting, for the matrices of policies' chains.

``I - g T`` with rows of ``T`` that sum to at most 1 is an M-matrix: elimination in the
natural order is stable. Nor does it cancel, if pivots are never found by subtraction
(Grassmann, Taksar and Heyman 1985): every row carries its sum, the slack
``(1 - g) + g P(end)``, and a pivot is the slack plus the off-diagonal entries still to
the right, all of one sign. So values are accurate in every digit that matters also with
``g = 1`` and episodes of length 10^12. A pivot of 0 is a chain that does not end.

The loops skip zeros, which keeps sparse chains (grids, clinical pairs) cheap, and take
four pivot rows at a time, so that each element of the rest is loaded once for four
multiply-adds.

**Within a band**, for chains that move step by step. Queues, stocks, rings: after a
suitable renumbering of the states every move goes to states nearby, and elimination
fills the band alone. Iterations are slow on just these chains. The matrix is stored by
diagonals, ``band[i, width + j - i]``; pivots are found without subtraction, as above.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp._jit import jit_uncounted
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._chain import Layout

# Below this pivot a chain counts as endless: fourth powers of its length overflow.
ENDLESS = 1e-70


@jit_uncounted
def copy_to(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Set ``target`` to ``source`` of the same length.

    A slice assigned to would do, but numba takes seconds to compile what it says where
    lengths differ.
    """
    for i in range(source.size):
        target[i] = source[i]


@jit_uncounted
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


@jit_uncounted
def factorise(matrix: FloatArray, slack: FloatArray) -> float:
    """Overwrite ``[N, N]`` by L (unit diagonal, below) and U; return the least pivot.

    ``slack`` [N] holds the row sums and is used up. Stops early where a pivot is not
    positive, and returns it.
    """
    n = matrix.shape[0]
    least = np.inf
    for first in range(0, n, 4):
        last = min(first + 4, n)
        for k in range(first, last):  # rows first..last-1 by each other
            pivot = slack[k]
            for j in range(k + 1, n):
                pivot -= matrix[k, j]
            if not pivot > 0.0:
                return pivot
            matrix[k, k] = pivot
            least = min(least, pivot)
            for i in range(k + 1, last):
                _eliminate(matrix, slack, i, k, n)
        if last - first == 4:
            _eliminate_four(matrix, slack, first, n)
    return least


@jit_uncounted
def _eliminate(matrix: FloatArray, slack: FloatArray, i: int, k: int, n: int) -> None:
    """Subtract row ``k`` from row ``i``."""
    if matrix[i, k] != 0.0:
        factor = matrix[i, k] / matrix[k, k]
        matrix[i, k] = factor
        slack[i] -= factor * slack[k]
        for j in range(k + 1, n):
            matrix[i, j] -= factor * matrix[k, j]


@jit_uncounted
def _eliminate_four(matrix: FloatArray, slack: FloatArray, k: int, n: int) -> None:
    """Subtract rows ``k..k+3``, already reduced among themselves, from those below."""
    u01, u02, u03 = matrix[k, k + 1], matrix[k, k + 2], matrix[k, k + 3]
    u12, u13, u23 = matrix[k + 1, k + 2], matrix[k + 1, k + 3], matrix[k + 2, k + 3]
    u0, u1 = 1.0 / matrix[k, k], 1.0 / matrix[k + 1, k + 1]
    u2, u3 = 1.0 / matrix[k + 2, k + 2], 1.0 / matrix[k + 3, k + 3]
    row0, row1 = matrix[k, k + 4 :], matrix[k + 1, k + 4 :]
    row2, row3 = matrix[k + 2, k + 4 :], matrix[k + 3, k + 4 :]
    for i in range(k + 4, n):
        f0 = matrix[i, k] * u0
        f1 = (matrix[i, k + 1] - f0 * u01) * u1
        f2 = (matrix[i, k + 2] - f0 * u02 - f1 * u12) * u2
        f3 = (matrix[i, k + 3] - f0 * u03 - f1 * u13 - f2 * u23) * u3
        if f0 == 0.0 and f1 == 0.0 and f2 == 0.0 and f3 == 0.0:
            continue
        matrix[i, k] = f0
        matrix[i, k + 1] = f1
        matrix[i, k + 2] = f2
        matrix[i, k + 3] = f3
        slack[i] -= (f0 * slack[k] + f1 * slack[k + 1]) + (
            f2 * slack[k + 2] + f3 * slack[k + 3]
        )
        row = matrix[i, k + 4 :]
        for j in range(row.size):
            row[j] -= (f0 * row0[j] + f1 * row1[j]) + (f2 * row2[j] + f3 * row3[j])


@jit_uncounted
def dot(x: FloatArray, y: FloatArray) -> float:
    """Inner product in four interleaved sums: fast, and in a fixed order."""
    n = x.size
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        s0 += x[i] * y[i]
        s1 += x[i + 1] * y[i + 1]
        s2 += x[i + 2] * y[i + 2]
        s3 += x[i + 3] * y[i + 3]
    for i in range(whole, n):
        s0 += x[i] * y[i]
    return (s0 + s1) + (s2 + s3)


@jit_uncounted
def solve(lu: FloatArray, x: FloatArray) -> None:
    """Solve with the factorised matrix, in place."""
    n = lu.shape[0]
    for i in range(1, n):
        x[i] -= dot(lu[i, :i], x[:i])
    for i in range(n - 1, -1, -1):
        x[i] = (x[i] - dot(lu[i, i + 1 :], x[i + 1 : n])) / lu[i, i]


@jit_uncounted
def _dot_three(
    row: FloatArray, x: FloatArray, first: int, stop: int
) -> tuple[float, float, float]:
    """Return `dot` of a row with three others between two places, each to the bit.

    The last of two is taken twice, which takes no longer. (Four, as inverses of many
    states take, are slower: their sums no longer fit into registers.)
    """
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
    whole = stop - (stop - first) % 4
    xa, xb, xc = x[0], x[1], x[x.shape[0] - 1]
    for i in range(first, whole, 4):
        r0, r1, r2, r3 = row[i], row[i + 1], row[i + 2], row[i + 3]
        a0 += r0 * xa[i]
        a1 += r1 * xa[i + 1]
        a2 += r2 * xa[i + 2]
        a3 += r3 * xa[i + 3]
        b0 += r0 * xb[i]
        b1 += r1 * xb[i + 1]
        b2 += r2 * xb[i + 2]
        b3 += r3 * xb[i + 3]
        c0 += r0 * xc[i]
        c1 += r1 * xc[i + 1]
        c2 += r2 * xc[i + 2]
        c3 += r3 * xc[i + 3]
    for i in range(whole, stop):
        a0 += row[i] * xa[i]
        b0 += row[i] * xb[i]
        c0 += row[i] * xc[i]
    return (a0 + a1) + (a2 + a3), (b0 + b1) + (b2 + b3), (c0 + c1) + (c2 + c3)


@jit_uncounted
def _solve_three(lu: FloatArray, x: FloatArray) -> None:
    """Solve for two or three right-hand sides: a row of the matrix is read once."""
    n, last = lu.shape[0], x.shape[0] - 1
    for i in range(1, n):
        a, b, c = _dot_three(lu[i], x, 0, i)
        x[0, i] -= a
        x[1, i] -= b
        if last == 2:
            x[2, i] -= c
    for i in range(n - 1, -1, -1):
        a, b, c = _dot_three(lu[i], x, i + 1, n)
        x[0, i] = (x[0, i] - a) / lu[i, i]
        x[1, i] = (x[1, i] - b) / lu[i, i]
        if last == 2:
            x[2, i] = (x[2, i] - c) / lu[i, i]


@jit_uncounted
def solve_all(lu: FloatArray, x: FloatArray) -> None:
    """Solve for several ``x`` [K, S or N], three at a time."""
    k = 0
    while k < x.shape[0] - 1:
        _solve_three(lu, x[k : k + 3])
        k += 3
    if k < x.shape[0]:
        solve(lu, x[k])


@jit_uncounted
def solve_transposed(lu: FloatArray, x: FloatArray) -> None:
    """Solve with the transpose of the factorised matrix, in place."""
    n = lu.shape[0]
    for i in range(n):
        x[i] /= lu[i, i]
        for j in range(i + 1, n):
            x[j] -= lu[i, j] * x[i]
    for i in range(n - 1, 0, -1):
        for j in range(i):
            x[j] -= lu[i, j] * x[i]


@jit_uncounted
def times_transposed(transposed: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """Multiply: ``out[k] = transposed' x[k]`` for ``[N, N]``, which is read once."""
    n, last = transposed.shape[0], x.shape[0] - x.shape[0] % 2
    out[:, :n] = 0.0
    for i in range(n):
        for k in range(0, last, 2):  # two in one loop, which few states hardly fill
            a, b, to, beside = x[k, i], x[k + 1, i], out[k], out[k + 1]
            for j in range(n):
                to[j] += a * transposed[i, j]
                beside[j] += b * transposed[i, j]
        if last < x.shape[0] and x[last, i] != 0.0:
            a, to = x[last, i], out[last]
            for j in range(n):
                to[j] += a * transposed[i, j]


@jit_uncounted
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


@jit_uncounted
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


@jit_uncounted
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


@jit_uncounted
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
