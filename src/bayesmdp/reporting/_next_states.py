"""The likeliest next states of a pair, with intervals of their probabilities.

A Dirichlet row has Beta marginals. For a mixture of priors, and where it is in doubt
which next states are possible, a Beta of the same mean and variance stands in; an
ensemble has the quantiles of its models.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.posterior import (
    Belief,
    Ensemble,
    MixturePosterior,
    Posterior,
    has_dirichlet_rows,
    mean_squares,
    spread,
)

SHOWN = 20
LEVEL = 0.9
MAX_ENTRIES = 75_000  # of all pairs together, so that the page stays small
_BLOCK = 2_000_000  # probabilities of models that are sorted at once


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
    low, high = _interval(belief, entry)
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


def _interval(belief: Belief, entry: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the central interval of the probability of each entry."""
    if isinstance(belief, Ensemble):
        return _ensemble_interval(belief, entry)
    from scipy.special import betaincinv

    if has_dirichlet_rows(belief):
        mean, total = _beta(belief, entry)
    else:
        mean, total = _matched(belief, entry)
    sure = (mean >= 1) | (mean <= 0)
    a = np.where(sure, 1.0, mean * total)
    b = np.where(sure, 1.0, (1 - mean) * total)
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = (np.where(sure, mean, betaincinv(a, b, at)) for at in ends)
    return low, high


def _beta(belief: Posterior, entry: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean and concentration of each entry's Beta distribution."""
    rows = belief.rows
    row = np.searchsorted(rows.indptr, entry, side="right") - 1
    return belief.mean().probability[entry], rows.row_sums(belief.alpha)[row]


def _matched(
    belief: Posterior | MixturePosterior, entry: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the same for a Beta with the entry's mean and variance."""
    mean = belief.mean().probability[entry]
    variance = np.maximum(_squares(belief)[entry] - mean**2, 1e-300)
    return mean, np.maximum(mean * (1 - mean) / variance - 1, 1e-6)


def _squares(belief: Posterior | MixturePosterior) -> FloatArray:
    """Posterior mean of the square of each probability, ``[E]``."""
    if isinstance(belief, Posterior):
        return mean_squares(belief)
    parts = [spread(c.rows, mean_squares(c), belief.rows) for c in belief.components]
    return np.asarray(belief.weights @ np.stack(parts))


def _ensemble_interval(
    belief: Ensemble, entry: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Weighted quantiles over models."""
    ends = np.empty((2, entry.size))
    many = max(1, _BLOCK // belief.n_models)
    for begin in range(0, entry.size, many):
        part = slice(begin, begin + many)
        table = belief.table[:, entry[part]]  # [M, L]
        order = np.argsort(table, axis=0, kind="stable")
        mass = np.cumsum(belief.weights[order], axis=0)
        ordered = np.take_along_axis(table, order, axis=0)
        for i, level in enumerate(((1 - LEVEL) / 2, (1 + LEVEL) / 2)):
            at = np.argmax(mass >= level * (1 - 1e-12), axis=0)
            ends[i, part] = np.take_along_axis(ordered, at[None], axis=0)[0]
    return ends[0], ends[1]


def _counts(belief: Belief, entry: IntArray) -> IntArray | None:
    """How often each entry was logged."""
    if isinstance(belief, Ensemble):
        return None
    seen = np.zeros(belief.rows.next_state.size, dtype=np.int64)
    logged = belief.counts
    _, at = belief.rows.find(logged.state, logged.action, logged.next_state)
    seen[at[at >= 0]] = logged.count[at >= 0]
    return np.asarray(seen[entry])
