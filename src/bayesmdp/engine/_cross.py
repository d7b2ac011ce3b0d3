"""Covariances of the returns of several rewards of one draw."""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray
from bayesmdp.engine._chain import Chain
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._krylov import System, fill_inverse
from bayesmdp.engine._layout import Layout
from bayesmdp.engine._solve import (
    Band,
    Dense,
    Krylov,
    Space,
    bounded,
    eliminate,
    substitute,
)


@jit
def solve_cross(
    dense: Dense | None,
    band: Band | None,
    krylov: Krylov | None,
    chain: Chain | None,
    space: Space,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: FloatArray,
    length: FloatArray,
    value: FloatArray,
    out: FloatArray,
) -> None:
    """Fill ``out`` [X, S] with covariances of the returns of pairs of rewards.

    Pairs are (0, 1), (0, 2), ..., (1, 2), ...; after `solve_draw` of the same draw.
    NaN where iterations fail.
    """
    held, at = g[-1] * g[-1], 0
    for i in range(g.size):
        for j in range(i + 1, g.size):
            both = g[i] * g[j]
            bellman_cross(theta, pi, rows, reward, g, value, i, j, out[at])
            if krylov is not None and chain is not None:
                filled = space.value if chain.slot.size > 0 else theta
                system = System(
                    both,
                    krylov.backward,
                    chain.begin,
                    chain.stop,
                    chain.column,
                    filled,
                    space.inverse,
                )
                fill_inverse(system)
                copy_to(space.rhs, out[at])
                out[at] = 0.0
                if bounded(system, space, length, out[at]) < 0:
                    out[at] = np.nan
            else:
                if both != held:
                    held = both
                    eliminate(dense, band, space, theta, pi, rows, both)
                substitute(dense, band, space, out[at])
            at += 1


@jit
def bellman_cross(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: FloatArray,
    value: FloatArray,
    i: int,
    j: int,
    out: FloatArray,
) -> None:
    """Set ``out[s]`` to what `bellman_spread` has squared, of two rewards times."""
    out[:] = 0.0
    for row in range(pi.size):
        if pi[row] > 0.0:
            s = rows.source[row]
            total = 0.0
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                t = rows.target[e]
                x = reward[i, e] + g[i] * value[i, t] - value[i, s]
                total += (
                    theta[e] * x * (reward[j, e] + g[j] * value[j, t] - value[j, s])
                )
            out[s] += pi[row] * total
