"""The row sampler the engine runs, apart so that only work that samples needs numba."""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, BoolArray, FloatArray, IntArray
from bayesmdp.posterior._random import (
    advance,
    dirichlet_row,
    layers,
    open_stream,
    uniform,
    unit,
)

__all__ = [
    "advance",
    "dirichlet_row",
    "layers",
    "open_stream",
    "pick",
    "sample_dirichlet",
    "sample_members",
    "sample_random_support",
    "uniform",
    "unit",
]


@jit
def sample_dirichlet(
    key: BitArray,
    draws: IntArray,
    state: IntArray,
    action: IntArray,
    indptr: IntArray,
    alpha: FloatArray,
    used: BoolArray,
    theta: FloatArray,
) -> None:
    """Fill the rows ``used`` [R] of draws [n] in ``theta`` [n, E]."""
    stream = np.empty(4, dtype=np.uint64)
    for i in range(draws.size):
        for row in range(state.size):
            if used[row]:
                open_stream(stream, key, draws[i], state[row], action[row])
                first, last = indptr[row], indptr[row + 1]
                dirichlet_row(alpha[first:last], stream, theta[i, first:last])


@jit
def possible_row(alpha: FloatArray, stream: BitArray, theta: FloatArray) -> None:
    """Fill one row whose impossible next states have the parameter 0.

    They get probability 0, and the others what a row without them would get.
    """
    n = 0
    for i in range(alpha.size):
        n += alpha[i] > 0.0
    if n == alpha.size:
        dirichlet_row(alpha, stream, theta)
        return
    shapes = np.empty(n)
    n = 0
    for i in range(alpha.size):
        if alpha[i] > 0.0:
            shapes[n] = alpha[i]
            n += 1
    dirichlet_row(shapes, stream, theta[:n])
    for i in range(alpha.size - 1, -1, -1):  # backwards: nothing is written over
        theta[i] = 0.0 if alpha[i] == 0.0 else theta[n - 1]
        n -= alpha[i] > 0.0


@jit
def pick(cumulative: FloatArray, u: float) -> int:
    """First index whose cumulative weight exceeds ``u`` times their total."""
    u *= cumulative[-1]
    for i in range(cumulative.size - 1):
        if u < cumulative[i]:
            return i
    return cumulative.size - 1


@jit
def set_row(
    alpha: FloatArray,
    shape: FloatArray,
    concentration: float,
    cumulative: FloatArray,
    lump: int,
    stream: BitArray,
    theta: FloatArray,
) -> None:
    """Fill one row on a random set of next states; those outside get exactly 0.

    How many unseen states are in it comes from ``cumulative`` (0, 1, ..., all of them),
    which ones by going through them once: each is taken with probability wanted / left.

    Parameters
    ----------
    alpha
        [L] above 0 where a next state may be possible.
    shape
        [L] concentration of those that are for sure, 0 of others.
    concentration
        Of the unseen ones that are taken.
    cumulative
        [U + 1] for ``U`` unseen states.
    lump
        Entry that has the concentrations of all of them; -1: each its own.
    stream, theta
        Open; [L] to be filled.
    """
    left = cumulative.size - 1
    wanted = pick(cumulative, uniform(stream))
    shapes = shape.copy()
    if lump >= 0:
        shapes[lump] += wanted * concentration
    elif wanted > 0:
        for i in range(alpha.size):
            if shape[i] == 0.0 and alpha[i] > 0.0:
                if uniform(stream) * left < wanted:
                    shapes[i] = concentration
                    wanted -= 1
                    if wanted == 0:
                        break
                left -= 1
    possible_row(shapes, stream, theta)


@jit
def sample_random_support(
    key: BitArray,
    draws: IntArray,
    state: IntArray,
    action: IntArray,
    indptr: IntArray,
    alpha: FloatArray,
    shape: FloatArray,
    group: IntArray,
    start: IntArray,
    cumulative: FloatArray,
    lump: IntArray,
    used: BoolArray,
    concentration: float,
    theta: FloatArray,
) -> None:
    """Fill the rows ``used`` [R] of draws [n] in ``theta`` [n, E], each on its own set.

    The arrays are those of `bayesmdp.priors.Sets`, and of `set_row` for every row.
    """
    stream = np.empty(4, dtype=np.uint64)
    for i in range(draws.size):
        for row in range(state.size):
            if used[row]:
                open_stream(stream, key, draws[i], state[row], action[row])
                first, last = indptr[row], indptr[row + 1]
                set_row(
                    alpha[first:last],
                    shape[first:last],
                    concentration,
                    cumulative[start[group[row]] : start[group[row] + 1]],
                    lump[row],
                    stream,
                    theta[i, first:last],
                )


@jit
def sample_members(
    key: BitArray, cumulative: FloatArray, draws: IntArray, members: IntArray
) -> None:
    """Fill ``members`` [n] of draws [n], by their cumulative weights [M]."""
    stream = np.empty(4, dtype=np.uint64)
    for i in range(draws.size):
        open_stream(stream, key, draws[i], 0, 0)
        members[i] = pick(cumulative, uniform(stream))
