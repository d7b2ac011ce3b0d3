"""Variances and covariances of returns with a horizon, a product for each cycle.

The maths is in `bayesmdp.engine._stages`, which fills the values first.
"""

from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit_uncounted
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._chain import Layout
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._solve import Solution


class Stages(NamedTuple):
    """Weights of rewards at each point of time: M columns of K rewards, T cycles."""

    own: FloatArray  # [M, K, T + 1], A
    arrival: FloatArray  # [M, K, T + 1], B
    visits: FloatArray  # [M, T + 1], weight of being in a live state, for occupancy
    ends: FloatArray  # [M, T + 1], weight of arriving in a terminal one, at t + 1
    phase: IntArray  # [T + 1], which rows are in force
    paid: IntArray  # [T + 1], whose rewards are counted: those of a phase, or a mix
    mixes: IntArray  # [X, 2], mixes of the rewards of two phases, half of each
    discount: FloatArray  # [K]
    moved: bool  # whether rewards are of transitions: they then differ within rows


class StageSpace(NamedTuple):
    """Work space of one thread; G phases and mixes."""

    #: [M, T + 2, S]; at terminal states, what arriving there pays.
    value: FloatArray
    row_own: FloatArray  # [K, G * R], mean rewards of rows, less those of arrivals
    visits: FloatArray  # [2, S]
    carry: FloatArray  # [3, 3, S]
    lanes: FloatArray  # [4, 4 S], interleaved
    found: Solution  # of a draw, [M, S] each
    covariance: FloatArray  # [X, S], of pairs of columns
    slope: FloatArray  # [M, R]
    ends: FloatArray  # [M, S], values of terminal states


@jit_uncounted
def row_reward(stages: Stages, table: FloatArray, m: int, t: int, at: int) -> float:
    """Return ``A_t o`` of a row in column ``m`` from means ``table`` [K, .]."""
    total = 0.0
    first, last = 0, stages.own.shape[1]
    if stages.own.shape[0] == last:  # a column is a reward
        first, last = m, m + 1
    for k in range(first, last):
        weight = stages.own[m, k, t]
        if weight != 0.0:
            total += weight * table[k, at]
    return total


@jit_uncounted
def spread_of_pair(
    stages: Stages,
    space: StageSpace,
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    reward: FloatArray,
    m: int,
    n: int,
    out: FloatArray,
) -> None:
    """Set ``out`` [3, S] to variances of two columns' returns and their covariance.

    Of one column, ``m == n``, the first alone.
    """
    entries, table = rows.target.size, space.row_own
    ahead, now = space.carry[0], space.carry[1]
    ahead[:] = 0.0
    for t in range(stages.phase.size - 1, -1, -1):
        base = stages.phase[t] * entries
        one, two = space.value[m, t + 1], space.value[n, t + 1]
        now[:] = 0.0
        for row in range(pi.size):
            if pi[row] == 0.0:
                continue
            s = rows.source[row]
            xx, yy, xy = 0.0, 0.0, 0.0
            x0, y0 = space.value[m, t, s], space.value[n, t, s]
            if not stages.moved:  # the same for all entries of the row
                at = stages.paid[t] * pi.size + row
                x0 -= row_reward(stages, table, m, t, at)
                y0 -= row_reward(stages, table, n, t, at)
            if not stages.moved and m == n:
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    j = rows.target[np.uint64(at)]
                    x = one[j] - x0
                    xx += theta[np.uint64(base + at)] * (x * x + ahead[0, j])
            else:
                for at in range(rows.indptr[row], rows.indptr[row + 1]):
                    e, j = np.uint64(base + at), rows.target[np.uint64(at)]
                    chance = theta[e]
                    x, y = one[j] - x0, two[j] - y0
                    for k in range(stages.discount.size):
                        x += stages.own[m, k, t] * reward[k, e]
                        y += stages.own[n, k, t] * reward[k, e]
                    xx += chance * (x * x + ahead[0, j])
                    yy += chance * (y * y + ahead[1, j])
                    xy += chance * (x * y + ahead[2, j])
            now[0, s] += pi[row] * xx
            now[1, s] += pi[row] * yy
            now[2, s] += pi[row] * xy
        ahead, now = now, ahead
    for i in range(3):
        copy_to(out[i], ahead[i])
