"""Simulation, each walk a pure function of its address; apart, as few need it.

**Of a known model**: row ``i`` of a sample and episode ``i`` of a simulation have a
stream of their own, so a smaller data set is always the beginning of a larger one with
the same seed.

**Roll-outs of a policy in posterior draws.** In one draw, the policy's chain leaves
live state ``s`` by entry ``e`` (an action and a next state) with probability ``p[e] =
pi[s, a] theta[s, a, t]``. The entries of a state stand together, so one alias table a
state (Walker 1977, built as Vose 1991) picks one of them from one uniform number,
however many there are::

    i, f = whole part and fraction of u n        n entries
    e    = i where f < keep[i], else other[i]

The return of a walk of at most ``H`` steps is ``sum_{t < H} g^t r[e_t]``. The stream of
a walk is that of (seed, draw, state, number), whoever walks it.

**Logs made again**: episodes simulated in one draw, next states permuted within pairs.
Beside them, the one sum over rows of a log that takes a loop.
"""

import math
from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, BoolArray, FloatArray, IndexArray, IntArray
from bayesmdp.engine._chain import Layout
from bayesmdp.posterior.sampling import advance, open_stream, pick, uniform, unit

__all__ = [
    "Ground",
    "add_past_surplus",
    "permute_within",
    "replicate_episodes",
    "roll_out",
    "run_episodes",
    "sample_pairs",
]

# purposes, in the place of a state
_SAMPLE, _EPISODE, _REPLICATE, _PERMUTE = 1, 2, 3, 4


@jit
def sample_pairs(
    key: BitArray,
    indptr: IntArray,
    cumulative: FloatArray,
    rows: IntArray,
    row: IntArray,
    entry: IntArray,
) -> None:
    """Pick one of ``rows`` evenly, and one of its entries, many times."""
    stream = np.empty(4, dtype=np.uint64)
    for i in range(row.size):
        open_stream(stream, key, i, _SAMPLE, 0)
        row[i] = rows[min(int(uniform(stream) * rows.size), rows.size - 1)]
        first, last = indptr[row[i]], indptr[row[i] + 1]
        entry[i] = first + pick(cumulative[first:last], uniform(stream))


@jit
def run_episodes(
    key: BitArray,
    max_steps: int,
    start: FloatArray,
    policy: FloatArray,
    row_of_pair: IntArray,
    indptr: IntArray,
    next_state: IntArray,
    cumulative: FloatArray,
    terminal: BoolArray,
    begin: IntArray,
    row: IntArray,
    entry: IntArray,
) -> None:
    """Fill ``begin`` [n + 1] with offsets, or, where known, ``row`` and ``entry``.

    ``start`` [S] and ``policy`` [S, A] hold cumulative probabilities.
    """
    stream = np.empty(4, dtype=np.uint64)
    measure, n_actions = row.size == 0, policy.shape[1]
    for episode in range(begin.size - 1):
        open_stream(stream, key, episode, _EPISODE, 0)
        state, length = pick(start, uniform(stream)), 0
        while length < max_steps and not terminal[state]:
            action = pick(policy[state], uniform(stream))
            at = row_of_pair[state * n_actions + action]
            first, last = indptr[at], indptr[at + 1]
            chosen = first + pick(cumulative[first:last], uniform(stream))
            if not measure:
                row[begin[episode] + length] = at
                entry[begin[episode] + length] = chosen
            state = next_state[chosen]
            length += 1
        if measure:
            begin[episode + 1] = begin[episode] + length


class Ground(NamedTuple):
    """Where walks start and how long they may be."""

    key: BitArray  # [2], of the walks' streams
    state: IntArray  # [N], number of each live state: the address of its walks
    begin: IndexArray  # [N + 1], first entry of each live state
    start: FloatArray  # [S]
    n_rollouts: int
    horizon: int
    discount: float


class Table(NamedTuple):
    """Alias tables of all live states in one draw, and space to build them."""

    keep: FloatArray  # [E]
    other: IndexArray  # [E]
    waiting: IndexArray  # [E]


@jit
def fill_table(begin: IndexArray, p: FloatArray, table: Table) -> None:
    """Turn entries' probabilities ``p`` [E] into alias tables; each state sums to 1."""
    for s in range(begin.size - 1):
        first, last = np.int64(begin[s]), np.int64(begin[s + 1])
        n = last - first
        low, high = first, last  # too small from the left, the others from the right
        for e in range(first, last):
            table.keep[e] = p[e] * n
            table.other[e] = e
            if table.keep[e] < 1.0:
                table.waiting[low] = e
                low += 1
            else:
                high -= 1
                table.waiting[high] = e
        while low > first and high < last:
            small, large = table.waiting[low - 1], table.waiting[high]
            table.other[small] = large
            table.keep[large] -= 1.0 - table.keep[small]
            low -= 1
            if table.keep[large] < 1.0:  # now it waits on the other side
                high += 1
                table.waiting[low] = large
                low += 1
        for at in range(first, low):  # 1 but for rounding
            table.keep[table.waiting[at]] = 1.0
        for at in range(high, last):
            table.keep[table.waiting[at]] = 1.0


@jit
def fill_chain_entries(
    rows: Layout, policy: FloatArray, theta: FloatArray, p: FloatArray
) -> None:
    """Fill ``p`` [E] with the probability of leaving a state by each entry."""
    for row in range(rows.source.size):
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            p[e] = policy[row] * theta[e]


@jit
def walk(
    ground: Ground,
    target: IndexArray,
    reward: FloatArray,
    table: Table,
    stream: BitArray,
    state: int,
    weight: float,
    visits: FloatArray,
) -> tuple[float, int]:
    """Return of one walk, and whether it was cut at the horizon.

    Adds ``weight`` times discounted visits to ``visits`` [S].
    """
    n_live = np.uint64(ground.state.size)
    one = np.uint64(1)
    at, total, factor = np.uint64(state), 0.0, 1.0
    words = (stream[0], stream[1], stream[2], stream[3])
    for _ in range(ground.horizon):
        visits[at] += weight * factor
        first, last = np.int64(ground.begin[at]), np.int64(ground.begin[at + one])
        bits, words = advance(words)
        u = unit(bits) * np.float64(last - first)
        whole = np.int64(u)
        e = np.uint64(first + whole)
        other = np.uint64(table.other[e])  # read in any case: no branch to guess
        e = e if u - np.float64(whole) < table.keep[e] else other
        total += factor * reward[e]
        factor *= ground.discount
        at = np.uint64(target[e])
        if at >= n_live:
            visits[at] += weight * factor
            return total, 0
    return total, 1


@jit
def roll_out(
    first: int,
    rows: Layout,
    theta: FloatArray,
    reward: FloatArray,
    policy: FloatArray,
    ground: Ground,
    mean: FloatArray,
    variance: FloatArray,
    visits: FloatArray,
    cut: IntArray,
) -> None:
    """Walk from every live state of draws ``first, first + 1, ...``, again and again.

    Their rows are ``theta`` [D, E], rewards [1, E] or [D, E].
    Fills, of each draw and state, the mean and the unbiased variance of returns
    ``[D, N]``; adds discounted visits from the start to ``visits`` [D, S] and walks cut
    at the horizon to ``cut`` [N].
    """
    n_entries = rows.target.size
    p = np.empty(n_entries)
    table = Table(
        np.empty(n_entries),
        np.empty(n_entries, dtype=np.uint32),
        np.empty(n_entries, dtype=np.uint32),
    )
    stream = np.empty(4, dtype=np.uint64)
    n = ground.n_rollouts
    for i in range(mean.shape[0]):
        draw = first + i
        fill_chain_entries(rows, policy, theta[i], p)
        fill_table(ground.begin, p, table)
        paid = reward[i if reward.shape[0] > 1 else 0]
        for s in range(ground.state.size):
            average, squares = 0.0, 0.0
            weight = ground.start[s] / n
            for k in range(n):
                open_stream(stream, ground.key, draw, ground.state[s], k)
                found, was_cut = walk(
                    ground, rows.target, paid, table, stream, s, weight, visits[i]
                )
                off = found - average
                average += off / (k + 1)
                squares += off * (found - average)
                cut[s] += was_cut
            mean[i, s] = average
            variance[i, s] = squares / (n - 1)
        for s in range(ground.state.size, ground.start.size):
            visits[i, s] += ground.start[s]


@jit
def replicate_episodes(
    key: BitArray,
    draw: int,
    first_state: IntArray,
    longest: IntArray,
    begin: IntArray,
    cumulative: FloatArray,
    next_state: IntArray,
    terminal: BoolArray,
    start: IntArray,
    entry: IntArray,
) -> int:
    """Walk each episode from its first state, for at most ``longest`` [N] steps.

    State ``s`` is left by one of the entries ``begin[s]..begin[s + 1]``, with weights
    whose running sums are ``cumulative`` [E]. Fills ``start`` [N + 1] and, as far as
    it reaches, ``entry`` with the entry of every step; returns how many there are.
    """
    stream = np.empty(4, dtype=np.uint64)
    n = 0
    for episode in range(first_state.size):
        open_stream(stream, key, draw, _REPLICATE, episode)
        start[episode] = n
        state = first_state[episode]
        for _ in range(longest[episode]):
            low, high = begin[state], begin[state + 1] - 1
            u = uniform(stream) * cumulative[high]
            while low < high:
                middle = (low + high) // 2
                if cumulative[middle] > u:
                    high = middle
                else:
                    low = middle + 1
            if n < entry.size:
                entry[n] = low
            n += 1
            state = next_state[low]
            if terminal[state]:
                break
    start[first_state.size] = n
    return n


@jit
def permute_within(
    key: BitArray,
    start: IntArray,
    context: IntArray,
    successor: IntArray,
    n_log_n: FloatArray,
    total: FloatArray,
) -> None:
    """Permute successors within pairs; sum ``n log n`` over (context, successor).

    Rows are sorted by pair, then by context: pair ``x`` has rows ``start[x]..start[x +
    1]``. Fills ``total`` [B] with the sums of as many permutations.
    """
    stream = np.empty(4, dtype=np.uint64)
    after = successor.copy()
    seen = np.zeros(successor.max() + 1, dtype=np.int64)
    for b in range(total.size):
        open_stream(stream, key, b, _PERMUTE, 0)
        for x in range(start.size - 1):
            for i in range(start[x + 1] - 1, start[x], -1):
                j = start[x] + min(
                    int(uniform(stream) * (i - start[x] + 1)), i - start[x]
                )
                after[i], after[j] = after[j], after[i]
        found = 0.0
        first = 0
        for i in range(after.size):
            if context[i] != context[first]:
                for j in range(first, i):
                    seen[after[j]] = 0
                first = i
            n = seen[after[i]] + 1
            seen[after[i]] = n
            found += n_log_n[n] - n_log_n[n - 1]
        for j in range(first, after.size):
            seen[after[j]] = 0
        total[b] = found


@jit
def add_past_surplus(
    row: IntArray,
    action: IntArray,
    episode: IntArray,
    follows: BoolArray,
    policy: FloatArray,
    y: FloatArray,
    first: FloatArray,
    second: FloatArray,
    product: FloatArray,
) -> None:
    """Sum the surplus h of each action in the earlier steps of an episode.

    It is how often the action was taken beyond its probability ``policy`` [X, A] in the
    states there, over the root of their number. Over rows that follow another one, adds
    h to ``first`` [X, A] and its square to ``second`` [X, A], by pair, and h times
    ``y`` [N] to ``product`` [A].
    """
    surplus = np.zeros(product.size)
    n = 0
    for i in range(row.size):
        x = row[i]
        if i > 0 and episode[i] != episode[i - 1]:
            surplus[:] = 0.0
            n = 0
        if follows[i]:
            for a in range(product.size):
                h = surplus[a] / math.sqrt(n)
                first[x, a] += h
                second[x, a] += h * h
                product[a] += h * y[i]
        for a in range(product.size):
            surplus[a] -= policy[x, a]
        surplus[action[i]] += 1.0
        n += 1
