"""From counts and a prior to rows, one for each pair, independent of each other.

For every available pair, ``theta[s, a, :] ~ Dirichlet(alpha[s, a, :])`` with
``alpha = prior concentration + counts``. Under a prior with random supports a row is a
mixture of Dirichlets over sets of next states (``sets``), and ``alpha`` gives its mean
alone. Rewards are known.

**Log evidence.** For a pair with prior concentrations ``p[t]`` (sum ``p0``) and counts
``n[t]`` (sum ``n0``), the probability of the observed sequence of next states is ::

    lgamma(p0) - lgamma(p0 + n0) + sum_t (lgamma(p[t] + n[t]) - lgamma(p[t]))

summed over pairs. Only entries with counts contribute to the inner sum.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._sheet import Sheet, Shown
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Availability, Data, Rows, Task, align
from bayesmdp.posterior._belief import Belief, BeliefRows, Exits
from bayesmdp.posterior._stream import DirichletStream, RandomSupportStream, Stream
from bayesmdp.priors import (
    MixturePrior,
    OnSets,
    OwnEvidence,
    Prior,
    Sets,
    is_restricted,
    log_rising,
    rows_of,
    tuned,
    without_fallbacks,
)


def evidence_of(prior: Prior, pair: IntArray, counts: Counts, task: Task) -> float:
    """Log probability of the counts of sorted pairs ``[R]`` under a prior."""
    base, imagined = without_fallbacks(prior)
    if isinstance(base, OnSets):
        return base.log_evidence(pair, counts, task, imagined)
    if isinstance(prior, OwnEvidence):
        found = prior.log_evidence(pair, counts, task)
        return _checks.real("log_evidence", found, PriorError, -np.inf)
    rows, before = rows_of(prior, pair, counts, task)
    row, entry = rows.find(counts.state, counts.action, counts.next_state)
    seen = entry >= 0
    return log_evidence(rows, before, row[seen], entry[seen], counts.count[seen])


def log_evidence(
    rows: Rows, before: FloatArray, row: IntArray, entry: IntArray, count: IntArray
) -> float:
    """Log probability of counts ``[K]`` at given rows and entries.

    ``before`` holds the prior concentrations ``[E]``.
    """
    inner = log_rising(before[entry], count)
    visits = np.bincount(row, count, minlength=rows.pair.size)
    outer = log_rising(rows.row_sums(before), visits)
    return float(inner.sum() - outer[visits > 0].sum())


_LARGE = 2**20  # entries; below, means and rewards are made once for all


class Fitted(Belief, Shown):
    """A belief that was learnt from counts, by `bayesmdp.fit`."""

    counts: Counts  # everything that was logged, unavailable pairs included
    prior: Prior | MixturePrior
    availability: Availability
    n_models = None

    @abstractmethod
    def log_evidence(self) -> float:
        """Log probability of the data on available pairs, the dynamics integrated out.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 1])
        >>> posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
        >>> round(posterior.log_evidence(), 6)  # log(1/2 * 2/3)
        -1.098612
        """

    @abstractmethod
    def parameters(self) -> tuple[FloatArray, ...]:
        """Arrays that draws are made from: they tell posteriors apart."""

    def kept(self) -> dict[str, NDArray[Any]]:
        """Arrays to be stored with data and prior, to make it again without fitting."""
        return {}

    @abstractmethod
    def _said_priors(self) -> list[str]:
        """Lines about the prior, for the summary."""

    @property
    def available(self) -> BoolArray:
        """Pairs a policy may use, ``[S, A]``."""
        return self.availability.available

    @property
    def min_count(self) -> int:
        """Visits a pair needs to be available."""
        return self.availability.min_count

    def _reward(self, layout: Rows) -> FloatArray:
        """Reward of each entry of a layout, ``[E]``."""
        return self.task.transition_reward(
            layout.state, layout.action, layout.next_state, np.diff(layout.indptr)
        )

    def with_task(self, task: Task) -> Self:
        """Return the same belief about the dynamics with another reward of its task."""
        other = Belief.with_task(self, task)
        rows = self.rows()  # its moments may have taken long
        reward = _checks.sealed(other._reward(rows.layout))
        rows = replace(rows, reward=reward, terminal_value=task.terminal_value)
        object.__setattr__(other, "_rows", rows)
        return other

    def update(self, data: Data) -> Self:
        """Return the posterior after more data: the same as `fit` on all of it.

        States and actions of named data are found by their names, as in `fit`. Weights
        of a mixture given as ``posterior_weights`` stay as they are.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
        >>> posterior.update(world.sample(50, seed=1))
        HierarchicalPosterior(25 states, 4 actions, 150 transitions, 80 available pairs)
        """
        from bayesmdp.posterior._fit import fit

        more, task = align(data, self.task)
        every = self.counts + more
        return fit(every, task, prior=self.prior, min_count=self.min_count)  # type: ignore[return-value]

    def relabelled(self, counts: Counts) -> Fitted:
        """Fit the same transitions with other actions, in less time where that goes."""
        from bayesmdp.posterior._fit import refit

        return refit(counts, self.task, self.prior, self.min_count)

    def _sheet(self, shown: int = 10) -> Sheet:
        task = self.task
        visits = self.counts.pair_totals(task.n_states, task.n_actions)[self.available]
        tail = ""
        if not self.prior.looks_at_data:
            tail = f"; log evidence {self.log_evidence():.4f}"
        n_possible = self.rows().layout.next_state.size
        title = (
            f"Posterior of {_checks.many(task.n_states, 'state')} "
            f"({task.terminal.size} terminal) and "
            f"{_checks.many(task.n_actions, 'action')} from "
            f"{_checks.many(self.counts.total, 'transition')}"
        )
        lines = [
            *self._said_priors(),
            *self.availability.report(task),
            *self._ignored(),
            f"visits of a pair: median {np.median(visits):g}, from {visits.min()} to "
            f"{visits.max()}; {_checks.many(int((visits == 0).sum()), 'pair')} never "
            "visited",
            f"{_checks.many(n_possible, 'possible transition')}{tail}",
        ]
        return Sheet(title, lines, indent="  ")

    def _ignored(self) -> list[str]:
        """Sentences about terminal states, and states that look like one."""
        task, counts = self.task, self.counts
        lines = []
        n = int(counts.count[task.is_terminal[counts.state]].sum())
        if n:
            said = _checks.many(n, "logged transition")
            lines.append(f"{said} in terminal states ignored")
        entered = np.bincount(counts.next_state, counts.count, task.n_states)
        left = np.bincount(counts.state, counts.count, task.n_states)
        stuck = np.flatnonzero((entered > 0) & (left == 0) & ~task.is_terminal)
        if stuck.size:
            most = int(stuck[np.argmax(entered[stuck])])
            remedy = "terminal?"
            if task.criterion == "average":
                remedy = "give a `discount` if episodes end there"
            lines.append(
                f"{_checks.many(stuck.size, 'state')} entered and never left (most "
                f"often {task.state_name(most)}, "
                f"{_checks.many(int(entered[most]), 'time')}): {remedy}"
            )
        return lines

    def _said_data(self) -> str:
        """Say what was learnt from, and what policies may use."""
        data = f"{self.counts.total:,} logged transitions"
        if not self.min_count:
            return f"{data}."
        return (
            f"{data}. Policies may use a pair of state and action only if it was "
            f"observed at least {_checks.many(self.min_count, 'time')}."
        )

    def __repr__(self) -> str:
        said = _checks.sizes(
            state=self.task.n_states,
            action=self.task.n_actions,
            transition=self.counts.total,
            available_pair=int(self.available.sum()),
        )
        return f"{type(self).__name__}({said})"


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Fitted):
    """Belief about the dynamics after the data; immutable. Made by `bayesmdp.fit`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> prior = bm.SymmetricPrior(support=world.support)
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task, prior=prior)
    >>> posterior
    Posterior(25 states, 4 actions, 100 transitions, 80 available pairs)
    """

    task: Task
    counts: Counts
    prior: Prior
    availability: Availability
    layout: Rows
    alpha: FloatArray  # [E]
    sets: Sets | None = None  # of next states, under a prior with random supports

    @cached_property
    def _rows(self) -> BeliefRows:
        total = self.layout.row_sums(self.alpha)
        mean = np.repeat(total, np.diff(self.layout.indptr))
        np.divide(self.alpha, mean, out=mean)  # as few arrays [E] at once as can be
        return BeliefRows(
            self.layout,
            _checks.sealed(mean),
            _checks.sealed(self._reward(self.layout)),
            self.task.terminal_value,
            None if self.sets is not None else _checks.sealed(total),
        )

    def rows(self) -> BeliefRows:
        """Return what is the same in every draw."""
        return self._rows

    def used_rows(self, used: BoolArray) -> tuple[IntArray, BeliefRows]:
        """Return which rows are ``used`` [S, A], and these rows alone.

        Where rows are long, means and rewards of all of them are not made for a few.
        """
        row = self.layout.of_pairs(used)
        few = row.size < self.layout.pair.size and self.alpha.size > _LARGE
        if "_rows" in self.__dict__ or not few:
            return row, self._rows.take(row)
        alpha = self.alpha[self.layout.entries_of(row)]
        return row, replace(self, layout=self.layout.take(row), alpha=alpha).rows()

    def stream(self, n_draws: int | None, seed: int, purpose: str) -> Stream:
        """Return the draws of a seed and a purpose."""
        key = _checks.stream_key(seed, purpose)
        if self.sets is None:
            return DirichletStream(key, self.layout, self.alpha)
        return RandomSupportStream(key, self.layout, self.alpha, self.sets)

    def exits(self) -> Iterator[Exits]:
        """Dirichlet parameters, and those that entries have in every draw."""
        yield Exits(self.alpha, self.alpha if self.sets is None else self.sets.shape)

    def mean_after(self, visits: FloatArray) -> FloatArray:
        """Mean probabilities ``[E]`` after further visits ``[E]``."""
        if self.sets is not None:
            return Fitted.mean_after(self, visits)
        alpha = self.alpha + visits
        return np.asarray(alpha / self.layout.row_sums(alpha)[self.layout.row_of_entry])

    def mean_squares(self) -> FloatArray:
        """Posterior mean of the square of each probability, ``[E]``."""
        if self.sets is None:
            return Fitted.mean_squares(self)
        return self.sets.mean_squares(self.layout)

    def log_evidence(self) -> float:
        """Log probability of the data on available pairs, the dynamics integrated out.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 1])
        >>> posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
        >>> round(posterior.log_evidence(), 6)  # log(1/2 * 2/3)
        -1.098612
        """
        if self.prior.looks_at_data:
            raise PriorError(
                f"{type(self.prior).__name__} has no evidence: its rows are made by "
                "looking at the data, so the data's probability before seeing them is "
                "not defined; compare it by held-out predictive density instead."
            )
        # the prior is asked again: a small number is lost in alpha beside a large count
        return evidence_of(self.prior, self.layout.pair, self.counts, self.task)

    def parameters(self) -> tuple[FloatArray, ...]:
        """Dirichlet parameters, and what is known of random supports."""
        if self.sets is None:
            return (self.alpha,)
        return (self.alpha, self.sets.shape, self.sets.cumulative)

    def said_prior(self) -> str:
        """Name the prior, and what it chose where it looks for a number."""
        chosen = tuned(self.prior, self.layout.pair, self.counts, self.task)
        more = "" if chosen is self.prior else f", which chose {chosen}"
        where = ", on a given support" if is_restricted(self.prior) else ""
        return f"{self.prior}{where}{more}"

    def _said_priors(self) -> list[str]:
        return [f"prior: {self.said_prior()}"]

    def describe(self) -> str:
        """Say what the belief is made of."""
        kind = "Dirichlet distributions"
        if self.sets is not None:
            kind = f"mixtures of {kind} over sets of possible next states"
        return (
            "The probabilities of next states of each pair of state and action have "
            f"independent {kind}: the prior, {self.said_prior()}, and the counts of "
            f"{self._said_data()}"
        )
