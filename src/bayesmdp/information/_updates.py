"""Kernels of nested Monte Carlo: one row of a chain changed, in many draws."""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BoolArray, FloatArray, IntArray

__all__ = ["products", "updated"]


@jit
def products(
    theta: FloatArray, other: FloatArray, ends: IntArray, out: FloatArray
) -> None:
    """Fill ``out`` [A, M, K] with ``theta[m].other[k]`` over the entries of an action.

    ``theta`` [M, E] and ``other`` [K, E] hold actions one after the other, as ``ends``
    [A + 1] says.
    """
    for a in range(ends.size - 1):
        for m in range(theta.shape[0]):
            for k in range(other.shape[0]):
                total = 0.0
                for e in range(ends[a], ends[a + 1]):
                    total += theta[m, e] * other[k, e]
                out[a, m, k] = total


@jit
def updated(
    q: FloatArray,
    y: FloatArray,
    own_q: FloatArray,
    own_y: FloatArray,
    chance: FloatArray,
    known: BoolArray,
    value: FloatArray,
    length: FloatArray,
    visits: FloatArray,
    out: FloatArray,
) -> None:
    """Fill ``out`` [M, K]: change of the start value where rows of a state change.

    ``q`` and ``y`` [A, M, K] are of new rows, ``own`` ones [A, K] of those that a draw
    has, which stay where an action is not ``known`` [A].
    """
    n_draws = value.size
    over, under = np.empty(n_draws), np.empty(n_draws)
    for k in range(n_draws):
        over[k], under[k] = -value[k], length[k]
        for a in range(chance.size):
            if not known[a]:
                over[k] += chance[a] * own_q[a, k]
                under[k] -= chance[a] * own_y[a, k]
    for m in range(out.shape[0]):
        for k in range(n_draws):
            top, bottom = over[k], under[k]
            for a in range(chance.size):
                if known[a]:
                    top += chance[a] * q[a, m, k]
                    bottom -= chance[a] * y[a, m, k]
            out[m, k] = visits[k] * top / bottom
