"""What kernels are handed: bundles of arrays, so that signatures stay readable.

States are numbered in *sweep order*: live ones first, terminal ones after.
"""

from typing import NamedTuple

from bayesmdp._typing import BitArray, FloatArray, IndexArray, IntArray


class Layout(NamedTuple):
    """Where rows start and lead: what every kernel walks."""

    source: IntArray  # [R], state of each row
    indptr: IntArray  # [R + 1], where its entries start
    target: IndexArray  # [E], next state of each entry


class Models(NamedTuple):
    """How a draw gets its rows: sampled from ``alpha``, or taken from ``table``."""

    key: BitArray  # [2], of the streams
    row_id: IntArray  # [R, 2], state and action: the address of a row's stream
    alpha: FloatArray  # [C, E] of components, 0 where impossible; or [0, E]
    table: FloatArray  # [M, E] given models, or empty
    mean: FloatArray  # [C, E], of components
    member: IntArray  # [D], model or component of each draw; or empty: there is one
    rewards: FloatArray  # [1, E], or [M, E] where each model has its own
    terminal_values: FloatArray  # [1, S], or [M, S]


class References(NamedTuple):
    """What kernels know of the nominal model."""

    n_live: int
    reference: FloatArray  # [3, P, S] value, variance, occupancy
    length: FloatArray  # [2, P, S] of episodes, and its like for the transpose; or 0
    theta_bar: FloatArray  # [E]
    inverse: FloatArray  # [P, N, N], transposes of X; or [P, 0, 0]
