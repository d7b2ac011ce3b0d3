"""What other treatments of the same state led to.

The base measure of a pair is made of the other pairs' data; its own are left out, so
that no transition counts twice. With ``n[s, a, t]`` counts of live states (those of
pairs that are not available too), and sums over the pair's ``K`` possible next states,

::

    marginal[t] = (n[., ., t] - n[s, a, t] + 1 / K) / (n[., ., .] - n[s, a, .] + 1)
    base[t] = (n[s, -a, t] + smoothing marginal[t]) / (n[s, -a, .] + smoothing)
    worth = 1 / (1 / concentration + 1 / (n[s, -a, .] + smoothing))
    alpha[s, a, t] = worth base[t]

The second line pools the state's other actions and smooths them by where all pairs
lead; a last pseudo-visit is spread evenly, so that nothing possible has mass zero. The
third adds two variances, by which the base misses the pair's own ``theta``: actions
differ, and the base is itself an estimate. It is never worth more visits than it rests
on.

**The concentration.** With ``"evidence"`` it maximises the sum over pairs of the log
probability of the pair's counts given the base made of the others. That is a
leave-one-out pseudo-likelihood, not an evidence: the factors share their data, and no
one prior of all pairs has them as conditionals. So the prior ``looks_at_data``, and
`Posterior.log_evidence` refuses it; compare it by held-out density. Where it rises
without end (actions do not differ) every base is worth all it rests on.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import (
    LEAST,
    check_rows,
    checked_concentration,
    locate,
)
from bayesmdp.priors._marginal import log_rising
from bayesmdp.priors._search import find_peak, rounded
from bayesmdp.priors._support import Support, checked_support, support_rows


@dataclass(frozen=True, eq=False)
class _Base:
    """Base measures of all rows, and how the data lie on them."""

    rows: Rows
    measure: FloatArray  # [E], sums to 1 in each row
    rests_on: FloatArray  # [R], visits
    row: IntArray  # [K], of entries with counts of their own
    entry: IntArray  # [K]
    count: IntArray  # [K]
    visits: IntArray  # [R]

    def worth(self, concentration: float) -> FloatArray:
        """Pseudo-visits of each row, ``[R]``."""
        return 1 / (1 / concentration + 1 / self.rests_on)

    def score(self, concentration: float) -> float:
        """Leave-one-out log pseudo-likelihood of a concentration."""
        total = self.worth(concentration)
        alpha = np.maximum(total[self.row] * self.measure[self.entry], LEAST)
        seen = self.visits > 0
        outer = log_rising(total[seen], self.visits[seen])
        return float(log_rising(alpha, self.count).sum() - outer.sum())


@dataclass(frozen=True, eq=False)
class PooledPrior:
    """Dirichlet around the next states of the same state's other actions.

    The file's docstring has the formulas. A pair's row depends on other pairs' data,
    and with ``"evidence"`` also on which pairs `fit` keeps.

    Parameters
    ----------
    concentration
        Pseudo-visits that a base measure resting on endless data would be worth in
        all, above 0; ``"evidence"`` to choose the number by leave-one-out
        pseudo-likelihood.
    smoothing
        Pseudo-visits of the marginal over all states in each base measure, above 0.
    support
        Which next states are possible, as for `SymmetricPrior`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(3, 2, reward=[0, 0, 1], discount=0.9, terminal=[1, 2])
    >>> counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 2], [30, 10])
    >>> posterior = bm.fit(counts, task, prior=bm.PooledPrior(concentration=8))
    >>> posterior.mean().to_dense()[0, 1].round(2).tolist()  # action 1: never tried
    [0.0, 0.75, 0.25]
    """

    concentration: float | str = "evidence"
    smoothing: float = 1.0
    support: Support = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check the numbers, and copy the support."""
        if isinstance(self.concentration, str):
            if self.concentration != "evidence":
                raise PriorError(
                    "`concentration` must be a number above 0 or 'evidence'; got "
                    f"{self.concentration!r:.40}."
                )
        else:
            checked = checked_concentration(self.concentration)
            object.__setattr__(self, "concentration", checked)
        smoothing = checked_concentration(self.smoothing, "smoothing")
        object.__setattr__(self, "smoothing", smoothing)
        object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Always: base measures are made of other pairs' data."""
        return True

    def tuned(self, pair: IntArray, counts: Counts, task: Task) -> "PooledPrior":
        """Return the prior with the concentration it chooses for pairs ``[R]``."""
        if not isinstance(self.concentration, str):
            return self
        base = self._base(pair, counts, task)
        return replace(self, concentration=_best(base))

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the pair's own data, for sorted pairs ``[R]``."""
        base = self._base(pair, counts, task)
        chosen = self.concentration
        number = _best(base) if isinstance(chosen, str) else chosen
        length = np.diff(base.rows.indptr)
        alpha = base.measure * np.repeat(base.worth(number), length)
        return base.rows, np.maximum(alpha, LEAST, out=alpha)

    def _base(self, pair: IntArray, counts: Counts, task: Task) -> _Base:
        rows = support_rows(self.support, pair, task, n_bytes=60)
        check_rows(rows, task, counts, widen=True, add=False)
        row, entry = locate(rows, counts, task)
        inside = entry >= 0
        row, entry, count = row[inside], entry[inside], counts.count[inside]
        length = np.diff(rows.indptr)
        live = ~task.is_terminal[counts.state]  # padding after the end is no data
        into = np.bincount(
            counts.next_state[live], counts.count[live], minlength=task.n_states
        )
        marginal = into[rows.next_state].astype(np.float64, copy=False)
        marginal[entry] -= count
        marginal += np.repeat(1 / length, length)
        marginal *= np.repeat(self.smoothing / rows.row_sums(marginal), length)
        measure = _of_state(rows, counts)
        measure[entry] -= count
        rests_on = rows.row_sums(measure) + self.smoothing
        measure += marginal
        measure /= np.repeat(rests_on, length)
        visits = np.zeros(pair.size, dtype=np.int64)
        np.add.at(visits, row, count)
        return _Base(rows, measure, rests_on, row, entry, count, visits)


def _of_state(rows: Rows, counts: Counts) -> FloatArray:
    """Count each entry's next state after any action of its state, ``[E]``."""
    n_states = rows.n_states
    key, inverse = np.unique(
        counts.state * n_states + counts.next_state, return_inverse=True
    )
    pooled = np.bincount(inverse, counts.count, minlength=key.size)
    state, next_state = np.divmod(key, n_states)
    first = np.searchsorted(state, rows.state)
    length = np.searchsorted(state, rows.state, side="right") - first
    row = np.repeat(np.arange(rows.pair.size), length)
    start = np.concatenate([[0], np.cumsum(length)[:-1]])
    at = np.arange(row.size) - start[row] + first[row]
    _, entry = rows.find(rows.state[row], rows.action[row], next_state[at])
    out = np.zeros(rows.next_state.size)
    out[entry[entry >= 0]] = pooled[at[entry >= 0]]
    return out


def _best(base: _Base) -> float:
    """Concentration with the highest pseudo-likelihood."""
    peak = find_peak(base.score)
    remedy = "give a number, as in PooledPrior(10.0)"
    return rounded(peak.needs_inside("PooledPrior", remedy, high=True))
