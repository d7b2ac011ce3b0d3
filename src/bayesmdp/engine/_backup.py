"""Backward induction on many draws at once, for multi-sample methods.

The draws are held, ``table [D, E]``, because every iteration visits them all.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._layout import Layout
from bayesmdp.engine._planner import (
    evaluate_choice,
    expect_rewards,
    lookahead,
    make_bench,
)
from bayesmdp.engine._solve import Dense, Krylov


@jit
def expect(
    table: FloatArray, rows: Layout, reward: FloatArray, paid: FloatArray
) -> None:
    """Fill ``paid`` [D, R] with expected rewards; ``reward`` is [1, E] or [D, E]."""
    for i in range(table.shape[0]):
        own = reward[i if reward.shape[0] > 1 else 0]
        expect_rewards(table[i], rows, own, paid[i])


@jit
def sum_lookahead(
    table: FloatArray,
    paid: FloatArray,
    rows: Layout,
    g: float,
    values: FloatArray,
    sums: FloatArray,
) -> None:
    """Add ``Q`` of every row over draws to ``sums`` [R]; ``values`` is [D, S]."""
    for i in range(table.shape[0]):
        for row in range(sums.size):
            sums[row] += lookahead(row, table[i], rows, paid[i], g, values[i])


@jit
def back_up(
    table: FloatArray,
    paid: FloatArray,
    rows: Layout,
    g: float,
    choice: IntArray,
    values: FloatArray,
) -> None:
    """Move ``values`` [D, S] one step back under a policy."""
    new = np.empty(choice.size)
    for i in range(table.shape[0]):
        for s in range(choice.size):
            new[s] = lookahead(choice[s], table[i], rows, paid[i], g, values[i])
        copy_to(values[i], new)


@jit
def settle(
    dense: Dense | None,
    krylov: Krylov | None,
    table: FloatArray,
    paid: FloatArray,
    rows: Layout,
    g: float,
    choice: IntArray,
    values: FloatArray,
) -> int:
    """Replace ``values`` by those of a policy for ever; return how many ended."""
    bench = make_bench(krylov, choice.size, values.shape[1])
    ended = 0
    for i in range(table.shape[0]):
        off = evaluate_choice(
            dense, krylov, table[i], rows, paid[i], g, choice, bench, values[i]
        )
        ended += off < np.inf
        bench.length[:] = 0.0  # a draw must not depend on the one before it
    return ended
