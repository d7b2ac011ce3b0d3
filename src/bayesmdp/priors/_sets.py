"""Rows on a random set of next states: what a prior with random sets hands over."""

from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from bayesmdp._typing import FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.model import Rows, Task

#: States (or labels) and how often each is imagined to have been observed in every row.
Imagined: TypeAlias = tuple[tuple[Name, float], ...]


class Sets(NamedTuple):
    """What is known of the set of each row, after the data.

    Rows of a group have as many unseen next states and the same probabilities of how
    many of them are possible: ``cumulative[start[g] + j]`` for at most ``j``. Which
    ones is even. Given the set, a row is Dirichlet.
    """

    concentration: float  # of an unseen next state that is possible
    shape: FloatArray  # [E], of one that is possible for sure; 0 of others
    group: IntArray  # [R]
    start: IntArray  # [G + 1]
    cumulative: FloatArray  # [T]
    fallback: int  # state that takes the mass of all unseen ones; -1: each its own

    def mean_squares(self, rows: Rows) -> FloatArray:
        """Posterior mean of the square of each probability, ``[E]``.

        With ``T`` the sum of a Dirichlet's parameters, ``E theta[t]^2`` is
        ``alpha[t] (alpha[t] + 1) / (T (T + 1))``, averaged over the number ``j`` of
        unseen next states in the set, of ``U``: ``T = sum of shape + j a``, and the
        parameter of an unseen state is ``a`` with probability ``j / U`` and otherwise
        0; or, where one state takes the mass of all of them, its own plus ``j a``.
        """
        a, shape = self.concentration, self.shape
        sure = rows.row_sums(shape)
        _, first = np.unique(self.group, return_index=True)
        powers = np.array(  # [G, 3], means of 1, j and j^2 over T (T + 1)
            [self._powers(g, float(sure[row])) for g, row in enumerate(first)]
        ).reshape(-1, 3)
        n_unseen = np.maximum(np.diff(self.start) - 1, 1)
        at = self.group[rows.row_of_entry]
        none, one, two = powers[at].T
        square = shape * (shape + 1) * none
        if self.fallback < 0:
            unseen = a * (a + 1) * one / n_unseen[at]
            return np.asarray(np.where(shape > 0, square, unseen))
        more = a * (2 * shape + 1) * one + a**2 * two
        more = np.where(rows.next_state == self.fallback, more, 0.0)
        return np.asarray(square + more)

    def _powers(self, group: int, sure: float) -> tuple[float, float, float]:
        cumulative = self.cumulative[self.start[group] : self.start[group + 1]]
        chance = np.diff(cumulative, prepend=0.0)
        j = np.flatnonzero(chance)  # a row without anything has no chance
        total = sure + j * self.concentration
        share = chance[j] / total / (total + 1)
        return float(share.sum()), float(share @ j), float(share @ j**2)


@runtime_checkable
class OnSets(Protocol):
    """A prior whose rows live on random sets, also after pseudo-counts."""

    def on_sets(
        self, pair: IntArray, counts: Counts, task: Task, imagined: Imagined = ()
    ) -> tuple[Rows, FloatArray, Sets]:
        """Rows of sorted pairs ``[R]``, parameters before the data, and sets after."""

    def log_evidence(
        self, pair: IntArray, counts: Counts, task: Task, imagined: Imagined = ()
    ) -> float:
        """Log probability of the counts of sorted pairs ``[R]``."""
