"""Rows on a random set of next states: which ones are possible is uncertain, too.

After Friedman and Singer (1998). Of the ``L`` states of a pair's support, an unknown
set of ``k`` is possible. Sizes have ``P(k) ~ decay^k`` for ``k = 1..L``, sets of a size
are equally likely, and ``theta`` is Dirichlet with concentration ``a`` on each state of
the set. After ``N`` visits to ``m`` different states, with counts ``n[t]``, ::

    P(k | data) ~ P(k) C(L - m, k - m) / C(L, k) * G(k a) / G(k a + N)
    P(t | data) = (a + n[t]) / (m a + N) * C              for a state that was observed
                = (1 - C) / (L - m)                       for one that was not
    C = sum_k P(k | data) (m a + N) / (k a + N)

(``G`` the gamma function): the more often the same few states came back, the less is
left for the others. The probability of the data is the sum of the first line over ``k``
times ``prod_t G(a + n[t]) / G(a)``.

**How draws treat it.** Exactly: a row of a draw has a set of its own. The number of
unseen states in it, ``k - m``, comes from ``P(k | data)``, which states these are is
even among the ``L - m``, and ``theta`` is Dirichlet with ``a + n[t]`` on seen states,
``a`` on chosen ones, and exactly 0 on others. ``P(k | data)`` is the same for all rows
of equal (``m``, ``N``, ``L``), which form a group and share a table.

Dirichlet parameters stand for a row where only its mean is asked for (``alpha / sum of
alpha``): ``a + n[t]`` for seen states, and ``(m a + N) (1 - C) / C`` for the others
together. A row so made would have the exact mean, and too little uncertainty about the
unseen mass. A pair never visited has the symmetric Dirichlet with the same mean of
``sum_t theta[t]^2``.

**Fallback.** Rows over the whole support are long. With a ``fallback`` the unseen mass
lies on that one state instead: rows stay as short as the data, and what never occurred
is bad. The posterior is the one above, with the sum of ``theta`` over unseen states
moved: given ``k``, the row is Dirichlet with ``a + n[t]`` on seen states and
``(k - m) a`` more on the fallback, which is exactly 0 where ``k = m`` and it was not
seen itself.

**pseudo-counts** (`FallbackPrior`) to a state of the support count as visits that
need not be whole: the state is one of the ``m``, and ``N`` holds them. A state outside
the support has its pseudo-counts ``w`` as its concentration in every set, so that
``k a`` becomes ``k a + w``. The probability of the data is then that of both, over that
of the pseudo-counts alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import (
    LEAST,
    Support,
    check_rows,
    checked_concentration,
    checked_support,
    counted,
    including,
    locate,
    rows_from_keys,
    support_lengths,
    support_rows,
)
from bayesmdp.priors._evidence import log_rising

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


@dataclass(frozen=True, eq=False)
class RandomSupportPrior:
    """Dirichlet on an unknown set of possible next states.

    The module docstring has the formulas. Means, draws and evidence are those of the
    exact model; with a ``fallback`` there is no evidence. A next state may have
    probability 0 in one draw and not in another.

    Parameters
    ----------
    concentration
        Pseudo-count of every next state that is possible, above 0.
    decay
        How fast large sets become unlikely, in (0, 1]: about ``1 / (1 - decay)`` next
        states where nothing was observed; 1 makes all sizes equally likely.
    support
        Which next states may be possible, as for `SymmetricPrior`.
    fallback
        State (or its label) that receives the probability of all unobserved next
        states; None to spread it over them.

    References
    ----------
    Friedman and Singer (1998), Efficient Bayesian parameter estimation in large
    discrete domains, NeurIPS.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(50, 1, reward=[0] * 49 + [1], discount=0.9)
    >>> prior = bm.RandomSupportPrior()
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
        return self.on_sets(pair, counts, task)[:2]

    def on_sets(
        self, pair: IntArray, counts: Counts, task: Task, imagined: Imagined = ()
    ) -> tuple[Rows, FloatArray, Sets]:
        """Rows of sorted pairs ``[R]``, parameters before the data, and sets after.

        Parameters
        ----------
        pair, counts, task
            As for ``concentrations``.
        imagined
            States (or labels), and visits to each in every row before the data.
        """
        fallback = -1
        if self.fallback is not None:
            fallback = task.state(self.fallback, "fallback")
        known = self._known(pair, counts, task, imagined, fallback)
        groups, group, _ = known.groups(known.visits)
        sizes = [self._sizes(*x) for x in groups]
        unseen = np.array(
            [self._unseen(*x, *y) for x, y in zip(groups, sizes, strict=True)]
        )[group]
        # visits become shapes in place: rows may be many and long
        before, shape = known.imagined, known.visits
        before[known.sure] += self.concentration
        shape[known.sure] += self.concentration
        if fallback < 0:
            left = ~known.sure & known.own
            seen = np.array([x[0] for x in groups])[group]
            each = unseen / np.maximum(known.length - seen, 1)
            before[left] = each[known.rows.row_of_entry[left]]
        else:
            before[known.rows.next_state == fallback] += unseen
        np.maximum(before, LEAST, out=before)
        start, cumulative = _tables(groups, sizes)
        sets = Sets(
            self.concentration,
            _checks.sealed(shape),
            _checks.sealed(group),
            start,
            cumulative,
            fallback,
        )
        return known.rows, before, sets

    def log_evidence(
        self, pair: IntArray, counts: Counts, task: Task, imagined: Imagined = ()
    ) -> float:
        """Log probability of the counts of sorted pairs ``[R]``.

        Visits ``imagined`` before the data are as for ``on_sets``.
        """
        known = self._known(pair, counts, task, imagined, None)
        _, entry = locate(known.rows, counts, task)
        entry, count = entry[entry >= 0], counts.count[entry >= 0]
        at = known.imagined[entry] + self.concentration * known.own[entry]
        total = self._log_sets(known, known.visits) + float(log_rising(at, count).sum())
        if imagined:
            total -= self._log_sets(known, known.imagined)
        return total

    def _log_sets(self, known: _Known, visits: FloatArray) -> float:
        """Log of the sums over sizes of all rows after visits ``[E]``."""
        from scipy.special import logsumexp

        groups, _, n_rows = known.groups(visits)
        return float(n_rows @ [logsumexp(self._sizes(*x)[1]) for x in groups])

    def _known(
        self,
        pair: IntArray,
        counts: Counts,
        task: Task,
        imagined: Imagined,
        fallback: int | None,
    ) -> _Known:
        """Gather visits; rows hold the support where ``fallback`` is -1.

        Otherwise they hold what was observed or imagined, and the fallback unless it is
        None.
        """
        states = [task.state(name, "fallback") for name, _ in imagined]
        if fallback == -1:
            rows, own = self._wide(pair, counts, task, states)
            length = np.bincount(rows.row_of_entry[own], minlength=pair.size)
        else:
            more = states if fallback is None else [*states, fallback]
            rows, own = self._short(pair, counts, task, states, more)
            length = support_lengths(self.support, pair, task)
        before = np.zeros(own.size)
        for state, (_, weight) in zip(states, imagined, strict=True):
            before[rows.next_state == state] += weight
        visits = before.copy()
        _, entry = locate(rows, counts, task)
        visits[entry[entry >= 0]] += counts.count[entry >= 0]
        return _Known(rows, own, length, before, visits)

    def _wide(
        self, pair: IntArray, counts: Counts, task: Task, states: list[int]
    ) -> tuple[Rows, BoolArray]:
        """Rows of the support and given states, and which entries are the support's."""
        rows = support_rows(self.support, pair, task, n_bytes=60)
        check_rows(rows, task, counts, widen=True, add=False)
        own = np.ones(rows.next_state.size, dtype=np.bool_)
        for state in states:
            rows, at = including(rows, state, task)
            own = np.insert(own, at, False)
        return rows, own

    def _short(
        self,
        pair: IntArray,
        counts: Counts,
        task: Task,
        states: list[int],
        more: list[int],
    ) -> tuple[Rows, BoolArray]:
        """Rows of what was observed and ``more``; which entries are the support's.

        Data outside the support are refused, but for those that lead to ``states``.
        """
        row, next_state, _ = counted(pair, counts, task)
        first = np.arange(pair.size) * task.n_states
        keys = [row * task.n_states + next_state, *(first + state for state in more)]
        rows = rows_from_keys(pair, np.unique(np.concatenate(keys)), task)
        if self.support is None:
            return rows, np.ones(rows.next_state.size, dtype=np.bool_)
        wide = support_rows(self.support, pair, task)
        check_rows(wide, task, counts, widen=True, add=False)
        at = rows.row_of_entry
        _, entry = wide.find(rows.state[at], rows.action[at], rows.next_state)
        for state in states:
            wide, _ = including(wide, state, task)
        locate(wide, counts, task)
        return rows, entry >= 0

    def _unseen(
        self,
        seen: int,
        visits: float,
        outside: float,
        length: int,
        k: IntArray,
        log_weight: FloatArray,
    ) -> float:
        """Concentration of a row's unseen states together, for its mean."""
        a, weight = self.concentration, _normalised(log_weight)
        known = seen * a + outside + visits
        if known == 0:
            if length == 1:
                return a
            square = float(weight @ ((a + 1) / (k * a + 1)))
            return length * (1 - square) / (length * square - 1)
        total = k * a + outside + visits
        kept = float(weight @ (known / total))
        left = float(weight @ ((k - seen) * a / total))
        return known * left / kept

    def _sizes(
        self, seen: int, visits: float, outside: float, length: int
    ) -> tuple[IntArray, FloatArray]:
        """Sizes of the set, and the log weight of each after the data."""
        from scipy.special import gammaln

        k = np.arange(max(seen, 1), length + 1)
        log_sets = gammaln(length - seen + 1) + gammaln(k + 1)
        log_sets -= gammaln(k - seen + 1) + gammaln(length + 1)
        rate = math.log(self.decay)
        sizes = np.arange(1, length + 1) * rate
        log_size = k * rate - (sizes[0] + math.log(np.exp(sizes - sizes[0]).sum()))
        whole = k * self.concentration + outside
        return k, log_size + log_sets - log_rising(whole, visits)


_Group = tuple[int, float, float, int]  # seen, visits, concentration outside, length


@dataclass(frozen=True, eq=False)
class _Known:
    """Visits to the entries of rows, before anything is made of them."""

    rows: Rows
    own: BoolArray  # [E], whether it is of the support
    length: IntArray  # [R], of the support
    imagined: FloatArray  # [E]
    visits: FloatArray  # [E], imagined ones included

    @cached_property
    def sure(self) -> BoolArray:
        """Whether a state of the support is possible for sure, ``[E]``."""
        return np.asarray(self.own & (self.visits > 0))

    def groups(self, visits: FloatArray) -> tuple[list[_Group], IntArray, IntArray]:
        """Rows alike after visits ``[E]``: groups, the group of each, their sizes."""
        at, n = self.rows.row_of_entry, self.length.size
        outside = np.bincount(at, np.where(self.own, 0.0, self.imagined), n)
        seen = np.bincount(at[self.own & (visits > 0)], minlength=n)
        total = np.bincount(at, visits, n) - outside
        groups, inverse, n_rows = np.unique(
            np.stack([seen, total, outside, self.length], axis=1),
            axis=0,
            return_inverse=True,
            return_counts=True,
        )
        found = [(int(m), v, w, int(length)) for m, v, w, length in groups.tolist()]
        return found, inverse.ravel(), n_rows


def _normalised(log_weight: FloatArray) -> FloatArray:
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())


def _tables(
    groups: list[_Group], sizes: list[tuple[IntArray, FloatArray]]
) -> tuple[IntArray, FloatArray]:
    """Probability of at most 0, 1, ... unseen states in the set, group by group."""
    tables = [
        np.concatenate([np.zeros(k[0] - seen), np.cumsum(_normalised(log_weight))])
        for (seen, *_), (k, log_weight) in zip(groups, sizes, strict=True)
    ]
    start = np.cumsum([0, *(table.size for table in tables)])
    return _checks.sealed(start), _checks.sealed(np.concatenate([[], *tables]))
