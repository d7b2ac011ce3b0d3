"""A policy's chain in compressed rows, filled again for every draw.

Where each state has one action, the sampled rows are the chain. Otherwise entries of a
state's rows that lead to the same next state share a slot. Which entry goes where
depends on the policy alone and is found once a task, at the cost of a pass.

Kernels are handed bundles of arrays, so that signatures stay readable. States are
numbered in *sweep order*: live ones first, terminal ones after.
"""

from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IndexArray, IntArray, StatusArray


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


class Setting(NamedTuple):
    """What is the same in all W draws of a sweep of one policy."""

    want: int  # bits of what is wanted, see `_solve`
    rows: Layout
    pi: FloatArray  # [R], probability of each row's action
    start: FloatArray  # [S]
    weights: FloatArray  # [W]
    nominal: References


class Results(NamedTuple):
    """What the sweep of a policy fills: W draws in B blocks, K rewards."""

    #: [B, C, K * S], sums over the draws of a block. Rewards stand beside each other,
    #: so that those of few states are one loop, and a second one costs little.
    state: FloatArray
    row: FloatArray  # [K, B, 2, R], of slopes and their squares; or [K, B, 2, 0]
    start: FloatArray  # [K, 4, W], of each draw
    #: [W], what became of each. Only those left out so far are looked at, so that a
    #: second call can try another method where the first failed.
    status: StatusArray
    products: IntArray  # [W], of iterations
    kept: FloatArray  # [K, 2, W, S], value and return variance; or [K, 2, 0, S]
    cross: FloatArray  # [X, W], covariances of returns of pairs of rewards; or [0, W]


class Held(NamedTuple):
    """Values and visits of a block of B draws, for the gradient of unused rows."""

    values: FloatArray  # [S, B], or [0, B] where nothing is held
    visits: FloatArray  # [S, B]
    weights: FloatArray  # [B], 0 where a draw is not held


class Chain(NamedTuple):
    """Where the entries of a policy's chain stand, and those of its transpose."""

    begin: IndexArray  # [N], where a state's entries start
    stop: IndexArray  # [N], and end
    column: IndexArray  # [K], next state
    slot: IndexArray  # [E], of each entry of the rows; empty where they are the chain
    t_begin: IndexArray  # [N] or [0]
    t_stop: IndexArray  # [N] or [0]
    t_column: IndexArray  # [L] or [0]
    t_slot: IndexArray  # [L] or [0], which of the K each is


@jit
def build_chain(pi: FloatArray, rows: Layout, n: int, transposed: bool) -> Chain:
    """Lay out the chain of a policy ``pi`` [R] over ``n`` live states."""
    begin, stop = np.zeros(n, dtype=np.uint32), np.zeros(n, dtype=np.uint32)
    single = True
    n_states = n
    for row in range(pi.size):
        if pi[row] > 0.0:
            i = rows.source[row]
            single = single and stop[i] == 0
            begin[i], stop[i] = rows.indptr[row], rows.indptr[row + 1]
            for e in range(begin[i], stop[i]):
                n_states = max(n_states, int(rows.target[e]) + 1)
    if single:
        column, slot = rows.target.copy(), np.empty(0, dtype=np.uint32)
    else:
        column, slot = _merge(pi, rows, n_states, begin, stop)
    if transposed:
        t_begin, t_stop, t_column, t_slot = _transpose(begin, stop, column)
    else:
        t_begin, t_stop = np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.uint32)
        t_column, t_slot = np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.uint32)
    return Chain(begin, stop, column, slot, t_begin, t_stop, t_column, t_slot)


@jit
def _transpose(
    begin: IndexArray, stop: IndexArray, column: IndexArray
) -> tuple[IndexArray, IndexArray, IndexArray, IndexArray]:
    """Lay out the transpose, live states only."""
    n = begin.size
    t_begin, t_stop = np.zeros(n, dtype=np.uint32), np.zeros(n, dtype=np.uint32)
    for i in range(n):
        for k in range(begin[i], stop[i]):
            if column[k] < n:
                t_stop[column[k]] += 1
    total = 0
    for i in range(n):
        t_begin[i] = total
        total += t_stop[i]
        t_stop[i] = t_begin[i]
    t_column = np.empty(total, dtype=np.uint32)
    t_slot = np.empty(total, dtype=np.uint32)
    for i in range(n):
        for k in range(begin[i], stop[i]):
            j = column[k]
            if j < n:
                t_column[t_stop[j]] = i
                t_slot[t_stop[j]] = k
                t_stop[j] += 1
    return t_begin, t_stop, t_column, t_slot


@jit
def _merge(
    pi: FloatArray,
    rows: Layout,
    n_states: int,
    begin: IndexArray,
    stop: IndexArray,
) -> tuple[IndexArray, IndexArray]:
    """Give entries with the same state and next state one slot; rows are sorted."""
    slot = np.zeros(rows.target.size, dtype=np.uint32)
    column = np.empty(rows.target.size, dtype=np.uint32)
    owner = np.full(n_states, -1)  # state that last saw a next state, and its slot
    place = np.zeros(n_states, dtype=np.int64)
    used, current = 0, -1
    for row in range(pi.size):
        if not pi[row] > 0.0:
            continue
        i = rows.source[row]
        if i != current:
            current = i
            begin[i] = used
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            j = rows.target[e]
            if owner[j] != i:
                owner[j], place[j] = i, used
                column[used] = j
                used += 1
            slot[e] = place[j]
        stop[i] = used
    return column[:used].copy(), slot


@jit
def fill_chain(
    chain: Chain, theta: FloatArray, pi: FloatArray, rows: Layout, value: FloatArray
) -> None:
    """Set ``value`` [K] for one draw of a chain whose entries share slots."""
    value[: chain.column.size] = 0.0
    for row in range(pi.size):
        weight = pi[row]
        if weight > 0.0:
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                value[chain.slot[e]] += weight * theta[e]
