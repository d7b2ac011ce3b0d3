"""The likeliest next states of a pair, with intervals of their probabilities.

Intervals are the belief's own: Betas for Dirichlet rows, quantiles of models for an
ensemble, a Beta of the same mean and variance otherwise.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.posterior import Belief

SHOWN = 20
LEVEL = 0.95
MAX_ENTRIES = 75_000  # of all pairs together, so that the page stays small


@dataclass(frozen=True, eq=False)
class NextStates:
    """The likeliest next states of some rows, one row after the other."""

    length: IntArray  # [R], how many of each row; 0: left out
    next_state: IntArray  # [L]
    probability: FloatArray  # [L], posterior mean
    low: FloatArray  # [L]
    high: FloatArray  # [L]
    count: IntArray | None  # [L], how often it was logged; None without counts


def next_states(belief: Belief, first: IntArray, others: IntArray) -> NextStates:
    """Collect the likeliest next states of rows: of ``first`` all that are shown.

    Where that is too much, those of ``others`` are cut to fewer, the same for all.
    """
    mean = belief.mean()
    rows = mean.rows
    length = np.zeros(rows.pair.size, dtype=np.int64)
    full = np.minimum(np.diff(rows.indptr), SHOWN)
    length[first] = full[first]
    room = MAX_ENTRIES - int(length.sum())
    most = next(
        (k for k in range(SHOWN, 0, -1) if np.minimum(full[others], k).sum() <= room), 0
    )
    length[others] = np.minimum(full[others], most)
    entry = np.concatenate(
        [
            np.empty(0, dtype=np.int64),
            *(
                _likeliest(mean.probability, rows.indptr, int(row), int(length[row]))
                for row in np.flatnonzero(length)
            ),
        ]
    )
    low, high = belief.intervals(entry, LEVEL)
    return NextStates(
        length=length,
        next_state=rows.next_state[entry],
        probability=mean.probability[entry],
        low=low,
        high=high,
        count=_counts(belief, entry),
    )


def _likeliest(
    probability: FloatArray, indptr: IntArray, row: int, many: int
) -> IntArray:
    """Entries of the likeliest next states of one row, the likeliest first."""
    begin, end = indptr[row], indptr[row + 1]
    order = np.argsort(-probability[begin:end], kind="stable")
    return np.asarray(begin + order[:many])


def _counts(belief: Belief, entry: IntArray) -> IntArray | None:
    """How often each entry was logged."""
    logged, rows = belief.counts, belief.rows().layout
    if logged is None:
        return None
    seen = np.zeros(rows.next_state.size, dtype=np.int64)
    _, at = rows.find(logged.state, logged.action, logged.next_state)
    seen[at[at >= 0]] = logged.count[at >= 0]
    return np.asarray(seen[entry])
