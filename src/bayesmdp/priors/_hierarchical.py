"""Doubt about which next states are possible at all (Friedman and Singer 1998).

Of the ``L`` states of a pair's support, an unknown set of ``k`` is possible. Sizes have
``P(k) ~ decay^k`` for ``k = 1..L``, sets of a size are equally likely, and ``theta`` is
Dirichlet with concentration ``a`` on each state of the set. After ``N`` visits to
``m`` different states, with counts ``n[t]``, ::

    P(k | data) ~ P(k) C(L - m, k - m) / C(L, k) * G(k a) / G(k a + N)
    P(t | data) = (a + n[t]) / (m a + N) * C              for a state that was seen
                = (1 - C) / (L - m)                       for one that was not
    C = sum_k P(k | data) (m a + N) / (k a + N)

(``G`` the gamma function): the more often the same few states came back, the less is
left for the others. The probability of the data is the sum of the first line over ``k``
times ``prod_t G(a + n[t]) / G(a)``.

**How draws treat it.** The posterior is a mixture of Dirichlets over sets. Given the
mass of the seen states, its split among them is exactly Dirichlet(``a + n[t]``) and
independent of that mass. Rows keep this part, and give the unseen states together the
concentration ``e = (m a + N) (1 - C) / C``, so that every predictive probability above
is the posterior mean. What is approximated is how the unseen mass is split (evenly
small concentrations, whose draws fall on few states, in place of a random set) and how
it varies: ``Beta(e, m a + N)`` in place of a mixture of betas with the same mean. The
second moment of such a beta is convex in its mean, so **draws understate the doubt
about the unseen mass**. At concentration 1 and decay 0.9 its variance is about half of
the exact one (a quarter to nine tenths, over 6 to 716 states and 1 to 50 visits a seen
state); smaller concentrations come closer, a decay of 1 can be far off where most
visits led to new states. A Dirichlet cannot have this mean, this variance and the exact
split among seen states. A pair never visited has the symmetric Dirichlet with the same
mean of ``sum_t theta[t]^2``.

Rows over the whole support are long. With a ``fallback`` the unseen mass lies on that
one state instead: rows stay as short as the data, and what was never seen is bad.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import (
    LEAST,
    check_rows,
    checked_concentration,
    counted,
    locate,
    rows_from_keys,
)
from bayesmdp.priors._marginal import log_rising
from bayesmdp.priors._support import (
    Support,
    checked_support,
    support_lengths,
    support_rows,
)


@dataclass(frozen=True, eq=False)
class HierarchicalSparsePrior:
    """Dirichlet on an unknown set of possible next states.

    The file's docstring has the formulas, and says what its draws approximate. The
    evidence is that of the exact model; with a ``fallback`` there is none. Means are
    exact too; draws understate the doubt about unseen next states.

    Parameters
    ----------
    concentration
        Pseudo-count of every next state that is possible, above 0.
    decay
        How fast large sets become unlikely, in (0, 1]: about ``1 / (1 - decay)`` next
        states where nothing was seen; 1 makes all sizes equally likely.
    support
        Which next states may be possible, as for `SymmetricPrior`.
    fallback
        State (or its label) that takes the mass of all unseen next states; None to
        spread it over them.

    References
    ----------
    Friedman and Singer (1998), Efficient Bayesian parameter estimation in large
    discrete domains, NeurIPS.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(50, 1, reward=[0] * 49 + [1], discount=0.9)
    >>> prior = bm.HierarchicalSparsePrior()
    >>> for visits in (1, 10, 100):  # always to state 3
    ...     counts = bm.Counts.from_arrays([0], [0], [3], [visits])
    ...     mean = bm.fit(counts, task, prior=prior).mean().to_dense()[0, 0]
    ...     print(visits, f"{1 - mean[3]:.2g}")  # mass of the 49 others
    1 0.65
    10 0.019
    100 0.00018
    """

    concentration: float = 1.0
    decay: float = 0.9
    support: Support = field(default=None, repr=False)
    fallback: Name | None = None

    def __post_init__(self) -> None:
        """Check the numbers, and copy the support."""
        checked = checked_concentration(self.concentration)
        object.__setattr__(self, "concentration", checked)
        decay = _checks.real("decay", self.decay, PriorError, 0, 1, open_low=True)
        object.__setattr__(self, "decay", decay)
        object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Only with a fallback, where rows hold what was observed."""
        return self.fallback is not None

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters which, with the counts, have the predictive mean."""
        if self.fallback is not None:
            return self._lumped(pair, counts, task, self.fallback)
        rows = support_rows(self.support, pair, task, n_bytes=32)
        check_rows(rows, task)
        row, entry = locate(rows, counts, task)
        inside = entry >= 0
        length = np.diff(rows.indptr)
        seen, visits = _totals(row[inside], counts.count[inside], pair.size)
        unseen = self._unseen(seen, visits, length)
        alpha = np.repeat(unseen / np.maximum(length - seen, 1), length)
        alpha[entry[inside]] = self.concentration
        return rows, np.maximum(alpha, LEAST, out=alpha)

    def _lumped(
        self, pair: IntArray, counts: Counts, task: Task, fallback: Name
    ) -> tuple[Rows, FloatArray]:
        """Rows of observed next states and the fallback, which takes the rest."""
        if self.support is not None:
            wide = support_rows(self.support, pair, task)
            check_rows(wide, task)
            locate(wide, counts, task)
        length = support_lengths(self.support, pair, task)
        row, next_state, count = counted(pair, counts, task)
        unseen = self._unseen(*_totals(row, count, pair.size), length)
        bad = np.arange(pair.size) * task.n_states + task.state(fallback, "fallback")
        key = row * task.n_states + next_state
        every = np.union1d(key, bad)
        alpha = np.where(np.isin(every, key), self.concentration, 0.0)
        alpha[np.searchsorted(every, bad)] += unseen
        return rows_from_keys(pair, every, task), np.maximum(alpha, LEAST)

    def log_evidence(self, pair: IntArray, counts: Counts, task: Task) -> float:
        """Log probability of the counts of sorted pairs ``[R]`` in the exact model."""
        row, _, count = counted(pair, counts, task)
        length = support_lengths(self.support, pair, task)
        groups, _, n_rows = _groups(*_totals(row, count, pair.size), length)
        from scipy.special import logsumexp

        sets = [float(logsumexp(self._sizes(*group)[1])) for group in groups]
        return float(n_rows @ sets + log_rising(self.concentration, count).sum())

    def _unseen(self, seen: IntArray, visits: IntArray, length: IntArray) -> FloatArray:
        """Concentration of each row's unseen states together, ``[R]``."""
        groups, inverse, _ = _groups(seen, visits, length)
        return np.array([self._unseen_of(*group) for group in groups])[inverse]

    def _unseen_of(self, seen: int, visits: int, length: int) -> float:
        a = self.concentration
        k, weight = self._sizes(seen, visits, length)
        weight = np.exp(weight - weight.max())
        weight /= weight.sum()
        if seen == 0:
            if length == 1:
                return a
            square = float(weight @ ((a + 1) / (k * a + 1)))
            return length * (1 - square) / (length * square - 1)
        known = seen * a + visits
        kept = float(weight @ (known / (k * a + visits)))
        left = float(weight @ ((k - seen) * a / (k * a + visits)))
        return known * left / kept

    def _sizes(
        self, seen: int, visits: int, length: int
    ) -> tuple[IntArray, FloatArray]:
        """Sizes of the set, and the log weight of each after the data."""
        from scipy.special import gammaln

        k = np.arange(max(seen, 1), length + 1)
        log_sets = gammaln(length - seen + 1) + gammaln(k + 1)
        log_sets -= gammaln(k - seen + 1) + gammaln(length + 1)
        rate = math.log(self.decay)
        sizes = np.arange(1, length + 1) * rate
        log_size = k * rate - (sizes[0] + math.log(np.exp(sizes - sizes[0]).sum()))
        return k, log_size + log_sets - log_rising(k * self.concentration, visits)


def _totals(row: IntArray, count: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Different next states and visits of each of ``n`` rows."""
    visits = np.zeros(n, dtype=np.int64)
    np.add.at(visits, row, count)
    return np.bincount(row, minlength=n), visits


def _groups(
    seen: IntArray, visits: IntArray, length: IntArray
) -> tuple[list[list[int]], IntArray, IntArray]:
    """Rows that are alike: what they have, the group of each, and its size."""
    groups, inverse, n_rows = np.unique(
        np.stack([seen, visits, length], axis=1),
        axis=0,
        return_inverse=True,
        return_counts=True,
    )
    return groups.tolist(), inverse.ravel(), n_rows
