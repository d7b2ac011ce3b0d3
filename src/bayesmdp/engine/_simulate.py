"""Episodes and single transitions of a known model, each a pure function of its number.

Row ``i`` of a sample and episode ``i`` of a simulation have a stream of their own, so a
smaller data set is always the beginning of a larger one with the same seed.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, BoolArray, FloatArray, IntArray
from bayesmdp.posterior.sampling import open_stream, pick, uniform

_SAMPLE, _EPISODE = 1, 2  # purposes, in the place of a state


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
def run_episode(
    key: BitArray,
    episode: int,
    max_steps: int,
    start: FloatArray,
    policy: FloatArray,
    row_of_pair: IntArray,
    indptr: IntArray,
    next_state: IntArray,
    cumulative: FloatArray,
    terminal: BoolArray,
    row: IntArray,
    entry: IntArray,
) -> int:
    """Walk one episode, recording rows and entries; return its length.

    ``start`` [S] and ``policy`` [S, A] hold cumulative probabilities. With empty
    ``row`` and ``entry`` only the length is found.
    """
    stream = np.empty(4, dtype=np.uint64)
    open_stream(stream, key, episode, _EPISODE, 0)
    state = pick(start, uniform(stream))
    n_actions = policy.shape[1]
    for step in range(max_steps):
        if terminal[state]:
            return step
        action = pick(policy[state], uniform(stream))
        at = row_of_pair[state * n_actions + action]
        first, last = indptr[at], indptr[at + 1]
        chosen = first + pick(cumulative[first:last], uniform(stream))
        if row.size:
            row[step] = at
            entry[step] = chosen
        state = next_state[chosen]
    return max_steps


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
    """Fill ``begin`` [n + 1] with offsets, or, where known, ``row`` and ``entry``."""
    measure = row.size == 0
    for episode in range(begin.size - 1):
        first, last = begin[episode], begin[episode + 1]
        length = run_episode(
            key,
            episode,
            max_steps,
            start,
            policy,
            row_of_pair,
            indptr,
            next_state,
            cumulative,
            terminal,
            row[first:last],
            entry[first:last],
        )
        if measure:
            begin[episode + 1] = first + length
