"""What kernels are handed: bundles of arrays, so that signatures stay readable.

States are numbered in *sweep order*: live ones first, terminal ones after.
"""

from typing import NamedTuple

from bayesmdp._typing import FloatArray, IndexArray, IntArray


class Layout(NamedTuple):
    """Where rows start and lead: what every kernel walks."""

    source: IntArray  # [R], state of each row
    indptr: IntArray  # [R + 1], where its entries start
    target: IndexArray  # [E], next state of each entry


class References(NamedTuple):
    """What kernels know of the nominal model of one policy."""

    n_live: int
    reference: FloatArray  # [3, K, S] value, variance, occupancy
    length: FloatArray  # [2, S] of episodes, and its like for the transpose; or 0
    theta_bar: FloatArray  # [E]
    inverse: FloatArray  # [K, N, N], the transposes of X; or [K, 0, 0]


class Held(NamedTuple):
    """Values and visits of a block of B draws, for the gradient of unused rows."""

    values: FloatArray  # [S, B], or [0, B] where nothing is held
    visits: FloatArray  # [S, B]
    weights: FloatArray  # [B], 0 where a draw is not held
