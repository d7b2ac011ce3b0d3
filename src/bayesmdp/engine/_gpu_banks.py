"""In what order a GPU reads the entries of rows, so that lanes do not wait.

Shared memory has 32 banks, and each serves one address at a time. The lanes of a warp
read a vector at the columns of their rows; the order within a row is free. Entries are
dealt out step by step, those of the most wanted bank first, so that few lanes meet in
a bank.
"""

import numpy as np
from numpy.typing import NDArray

from bayesmdp._jit import jit
from bayesmdp._typing import IntArray

_BANKS = 32


@jit
def _cheapest(
    waiting: IntArray, column: IntArray, used: IntArray, load: IntArray, late: bool
) -> int:
    """Which waiting slot to take: -1 if all would meet others, and can wait."""
    best, price = -1, 0
    for k, slot in enumerate(waiting):
        bank = column[slot] % _BANKS
        if used[bank] and not late:
            continue
        asked = used[bank] * column.size - load[bank]
        if best < 0 or asked < price:
            best, price = k, asked
    return best


@jit
def spread_over_banks(
    rows: IntArray,
    steps: IntArray,
    lanes: int,
    first: IntArray,
    length: IntArray,
    column: IntArray,
) -> tuple[IntArray, IntArray]:
    """Return step and lane of each slot.

    Rows of a slice ``[slices, n]`` (-1 for none) have ``lanes`` each and ``steps``
    [slices] of time; slots of a row stand from ``first`` on.
    """
    step, lane = np.zeros_like(column), np.zeros_like(column)
    waiting = np.empty((rows.shape[1], length.max()), dtype=np.int64)
    left = np.zeros(rows.shape[1], dtype=np.int64)
    for at in range(len(rows)):
        load = np.zeros(_BANKS, dtype=np.int64)
        for r, row in enumerate(rows[at]):
            left[r] = 0 if row < 0 else length[row]
            for k in range(left[r]):
                waiting[r, k] = first[row] + k
                load[column[first[row] + k] % _BANKS] += 1
        for t in range(steps[at]):
            used = np.zeros(_BANKS, dtype=np.int64)
            for x in range(left.size * lanes):
                r = (x // lanes + t) % left.size
                late = left[r] > (steps[at] - t - 1) * lanes
                best = _cheapest(waiting[r, : left[r]], column, used, load, late)
                if best < 0:
                    continue
                slot = waiting[r, best]
                step[slot], lane[slot] = t, x % lanes
                used[column[slot] % _BANKS] += 1
                load[column[slot] % _BANKS] -= 1
                left[r] -= 1
                waiting[r, best] = waiting[r, left[r]]
    return step, lane


def fill_up(column: IntArray, empty: NDArray[np.bool_], warp: int) -> None:
    """Let what fills rows up read where another lane of its warp reads anyway.

    Places are ``[quads, threads, 4]``.
    """
    by_warp = column.reshape(len(column), -1, warp, column.shape[-1])
    free = empty.reshape(by_warp.shape)
    other = np.take_along_axis(by_warp, free.argmin(axis=2)[:, :, None], axis=2)
    by_warp[:] = np.where(free, other, by_warp)
