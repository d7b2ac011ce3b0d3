"""From counts and a prior to rows, one a pair, independent of each other.

For every available pair, ``theta[s, a, :] ~ Dirichlet(alpha[s, a, :])`` with
``alpha = prior concentration + counts``. Where the prior doubts which next states are
possible, a row is a mixture of Dirichlets over sets of them (``sets``), and ``alpha``
says its mean alone. Rewards are known.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Sheet
from bayesmdp._typing import BoolArray, FloatArray, Seed
from bayesmdp.data import Counts, Transitions
from bayesmdp.errors import ArgumentError, PriorError
from bayesmdp.model import Availability, Dynamics, Rows, Task, align
from bayesmdp.posterior._draws import Draws
from bayesmdp.posterior._evidence import evidence_of
from bayesmdp.posterior._sets import SetTable, set_table
from bayesmdp.priors import Prior, Sets, is_restricted, tuned


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
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
    counts: Counts  # everything that was logged, unavailable pairs included
    prior: Prior
    availability: Availability
    rows: Rows
    alpha: FloatArray  # [E]
    sets: Sets | None = None  # of next states, where they are in doubt

    @cached_property
    def set_table(self) -> SetTable:
        """Sets of next states as samplers read them."""
        return set_table([(self.rows, self.alpha, self.sets)], self.rows)

    @property
    def available(self) -> BoolArray:
        """Pairs a policy may use, ``[S, A]``."""
        return self.availability.available

    @property
    def min_count(self) -> int:
        """Visits a pair needs to be available."""
        return self.availability.min_count

    @cached_property
    def _mean(self) -> Dynamics:
        total = self.rows.row_sums(self.alpha)
        probability = self.alpha / total[self.rows.row_of_entry]
        return Dynamics(self.rows, _checks.sealed(probability))

    def mean(self) -> Dynamics:
        """Posterior mean of the dynamics, the nominal model.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> posterior = bm.fit(bm.Counts.from_arrays([0, 0], [0, 0], [1, 1]), task)
        >>> posterior.mean().to_dense()[0, 0].tolist()
        [0.25, 0.75]
        """
        return self._mean

    def draws(self, n_draws: int, seed: Seed = 0) -> Draws:
        """Name draws from the posterior; they are sampled where they are used.

        Parameters
        ----------
        n_draws
            How many, at least 2.
        seed
            Which; the same seed gives the same draws to every policy.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> bm.fit(world.sample(100, seed=0), world.task).draws(500, seed=1)
        Draws(500 draws, seed 1)
        """
        n = _checks.integer("n_draws", n_draws, 2, ArgumentError)
        return Draws(self, n, _checks.seed_integer(seed))

    def update(self, data: Transitions | Counts) -> "Posterior":
        """Return the posterior after more data: the same as `fit` on all of it.

        States and actions of named data are found by their names, as in `fit`.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
        >>> posterior.update(world.sample(50, seed=1))
        Posterior(25 states, 4 actions, 150 transitions, 80 available pairs)
        """
        from bayesmdp.posterior._fit import fit

        more, task = align(data, self.task)
        return fit(self.counts + more, task, prior=self.prior, min_count=self.min_count)

    def log_evidence(self) -> float:
        """Log probability of the data on available pairs, the dynamics integrated out.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> posterior = bm.fit(bm.Counts.from_arrays([0, 0], [0, 0], [1, 1]), task)
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
        return evidence_of(self.prior, self.rows.pair, self.counts, self.task)

    def summary(self) -> str:
        """Say in a few lines what the belief rests on.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> print(bm.fit(world.sample(100, seed=0), world.task).summary())
        Posterior of 25 states (5 terminal) and 4 actions from 100 transitions
          prior: SymmetricPrior(concentration=1.0)
          80 of 80 pairs available
          2 states entered and never left (most often 6, 7 times): terminal?
          visits of a pair: median 1, from 0 to 5; 27 pairs never visited
          2000 possible transitions; log evidence -296.4725
        """
        return self._sheet().text()

    def _sheet(self) -> Sheet:
        tail = ""
        if not self.prior.looks_at_data:
            tail = f"; log evidence {self.log_evidence():.4f}"
        return self.describe([f"prior: {self.said_prior()}"], self.alpha.size, tail)

    def describe(self, prior: list[str], n_entries: int, tail: str) -> Sheet:
        """Put a summary together from what is said of the prior and the entries."""
        task = self.task
        visits = self.counts.pair_totals(task.n_states, task.n_actions)[self.available]
        title = (
            f"Posterior of {task.n_states} states ({task.terminal.size} terminal) and "
            f"{task.n_actions} actions from {self.counts.total} transitions"
        )
        lines = [
            *prior,
            *self.availability.report(task),
            *self._ignored(),
            f"visits of a pair: median {np.median(visits):g}, from {visits.min()} to "
            f"{visits.max()}; {int((visits == 0).sum())} pairs never visited",
            f"{n_entries} possible transitions{tail}",
        ]
        return Sheet(title, lines, indent="  ")

    def said_prior(self) -> str:
        """Name the prior, and what it chose where it looks for a number."""
        chosen = tuned(self.prior, self.rows.pair, self.counts, self.task)
        more = "" if chosen is self.prior else f", which chose {chosen}"
        where = ", on a given support" if is_restricted(self.prior) else ""
        return f"{self.prior}{where}{more}"

    def _ignored(self) -> list[str]:
        """Sentences about terminal states, and states that look like one."""
        task, counts = self.task, self.counts
        lines = []
        n = int(counts.count[task.is_terminal[counts.state]].sum())
        if n:
            lines.append(f"{n} logged transitions in terminal states ignored")
        entered = np.bincount(counts.next_state, counts.count, task.n_states)
        left = np.bincount(counts.state, counts.count, task.n_states)
        stuck = np.flatnonzero((entered > 0) & (left == 0) & ~task.is_terminal)
        if stuck.size:
            most = int(stuck[np.argmax(entered[stuck])])
            lines.append(
                f"{stuck.size} states entered and never left (most often "
                f"{task.state_name(most)}, {int(entered[most])} times): terminal?"
            )
        return lines

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def __repr__(self) -> str:
        return (
            f"Posterior({self.task.n_states} states, {self.task.n_actions} actions, "
            f"{self.counts.total} transitions, {self.rows.pair.size} available pairs)"
        )
