"""Logs made again: episodes simulated in one draw, next states permuted within pairs.

Apart, as few need it; each result is a pure function of its key. Beside them, the one
sum over rows of a log that takes a loop.
"""

import math

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, BoolArray, FloatArray, IntArray
from bayesmdp.posterior.sampling import open_stream, uniform

__all__ = ["add_past_surplus", "permute_within", "replicate_episodes"]

_REPLICATE, _PERMUTE = 3, 4  # purposes, in the place of a state


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
