"""The row sampler the engine runs, apart so that only work that samples needs numba."""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, FloatArray, IntArray
from bayesmdp.posterior._random import dirichlet_row, open_stream, uniform

__all__ = ["dirichlet_row", "open_stream", "sample_rows", "uniform"]


@jit
def sample_rows(
    key: BitArray,
    draw: int,
    state: IntArray,
    action: IntArray,
    indptr: IntArray,
    alpha: FloatArray,
    theta: FloatArray,
) -> None:
    """Fill ``theta`` [E] with one draw of all rows."""
    stream = np.empty(4, dtype=np.uint64)
    for row in range(state.size):
        open_stream(stream, key, draw, state[row], action[row])
        first, last = indptr[row], indptr[row + 1]
        dirichlet_row(alpha[first:last], stream, theta[first:last])
