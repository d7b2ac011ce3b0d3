"""Backward induction on many draws at once, for multi-sample methods.

The draws are held, ``table [D, E]``, because every iteration visits them all.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, FloatArray, IntArray
from bayesmdp.engine._kernel import sample
from bayesmdp.engine._planner import evaluate_choice, lookahead


@jit
def fill_table(
    key: BitArray,
    first: int,
    row_id: IntArray,
    indptr: IntArray,
    alpha: FloatArray,
    reward: FloatArray,
    table: FloatArray,
    paid: FloatArray,
) -> None:
    """Sample draws ``first...`` into ``table`` [D, E]; expected rewards to ``paid``."""
    stream = np.empty(4, dtype=np.uint64)
    none = np.empty((0, table.shape[1]))
    for i in range(table.shape[0]):
        sample(key, first + i, 0, row_id, indptr, alpha, none, stream, table[i])
        for row in range(row_id.shape[0]):
            total = 0.0
            for e in range(indptr[row], indptr[row + 1]):
                total += table[i, e] * reward[e]
            paid[i, row] = total


@jit
def sum_lookahead(
    table: FloatArray,
    paid: FloatArray,
    indptr: IntArray,
    target: IntArray,
    g: float,
    values: FloatArray,
    sums: FloatArray,
) -> None:
    """Add ``Q`` of every row over draws to ``sums`` [R]; ``values`` is [D, S]."""
    for i in range(table.shape[0]):
        for row in range(sums.size):
            sums[row] += lookahead(row, table[i], indptr, target, paid[i], g, values[i])


@jit
def back_up(
    table: FloatArray,
    paid: FloatArray,
    indptr: IntArray,
    target: IntArray,
    g: float,
    choice: IntArray,
    values: FloatArray,
) -> None:
    """Move ``values`` [D, S] one step back under a policy."""
    new = np.empty(choice.size)
    for i in range(table.shape[0]):
        for s in range(choice.size):
            new[s] = lookahead(
                choice[s], table[i], indptr, target, paid[i], g, values[i]
            )
        values[i, : choice.size] = new


@jit
def settle(
    table: FloatArray,
    paid: FloatArray,
    indptr: IntArray,
    target: IntArray,
    g: float,
    choice: IntArray,
    values: FloatArray,
) -> int:
    """Replace ``values`` by those of a policy for ever; return draws that end."""
    matrix = np.empty((choice.size, choice.size))
    ended = 0
    for i in range(table.shape[0]):
        ended += evaluate_choice(
            table[i], indptr, target, paid[i], g, choice, matrix, values[i]
        )
    return ended
