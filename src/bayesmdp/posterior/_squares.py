"""Second moments of rows, exact: how far probabilities are in doubt.

With ``T`` the sum of a row's Dirichlet parameters, ``E theta[t]^2`` is ::

    alpha[t] (alpha[t] + 1) / (T (T + 1))

Where the set of next states is in doubt, that is averaged over the number ``j`` of
unseen ones in it, of ``U``: ``T = sum of shape + j a``, and the parameter of an unseen
state is ``a`` with probability ``j / U`` and otherwise 0; or, where one state takes the
mass of all of them, its own plus ``j a``.
"""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.model import Rows
from bayesmdp.posterior._posterior import Posterior
from bayesmdp.priors import Sets


def mean_squares(posterior: Posterior) -> FloatArray:
    """Posterior mean of the square of each probability, ``[E]``."""
    rows, alpha = posterior.rows, posterior.alpha
    if posterior.sets is not None:
        return _on_sets(rows, posterior.sets)
    total = rows.row_sums(alpha)[rows.row_of_entry]
    return np.asarray(alpha * (alpha + 1) / total / (total + 1))


def _on_sets(rows: Rows, sets: Sets) -> FloatArray:
    a, shape = sets.concentration, sets.shape
    sure = rows.row_sums(shape)
    _, first = np.unique(sets.group, return_index=True)
    powers = np.array(  # [G, 3], means of 1, j and j^2 over T (T + 1)
        [_powers(_table(sets, g), float(sure[row]), a) for g, row in enumerate(first)]
    ).reshape(-1, 3)
    n_unseen = np.maximum(np.diff(sets.start) - 1, 1)
    at = sets.group[rows.row_of_entry]
    none, one, two = powers[at].T
    square = shape * (shape + 1) * none
    if sets.fallback < 0:
        square = np.where(shape > 0, square, a * (a + 1) * one / n_unseen[at])
        return np.asarray(square)
    more = a * (2 * shape + 1) * one + a**2 * two
    return np.asarray(square + np.where(rows.next_state == sets.fallback, more, 0.0))


def _table(sets: Sets, group: int) -> FloatArray:
    """Probability of each number of unseen states in the set, from 0."""
    cumulative = sets.cumulative[sets.start[group] : sets.start[group + 1]]
    return np.diff(cumulative, prepend=0.0)


def _powers(chance: FloatArray, sure: float, a: float) -> tuple[float, float, float]:
    j = np.flatnonzero(chance)  # a row without anything has no chance
    total = sure + j * a
    share = chance[j] / total / (total + 1)
    return float(share.sum()), float(share @ j), float(share @ j**2)
