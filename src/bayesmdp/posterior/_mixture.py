"""A belief that is a mixture of posteriors, one for each of several priors.

With probability ``weights[c]`` prior ``c`` is the right one, and the dynamics follow
its posterior::

    P(theta | D) = sum_c weights[c] prod_rows Dirichlet(theta[row]; alpha[c, row])

(or, for a row, the component's own mixture over sets of next states). Rows are not
independent: they share the component. Given the component they are. The component of a
draw is a pure function of (purpose, seed, draw), from a stream of its own, and a draw
of component ``c`` is the draw of that number and seed of the component's own posterior,
to the bit.
"""

from collections.abc import Iterable
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
from bayesmdp.posterior._overlay import overlay
from bayesmdp.posterior._posterior import Posterior
from bayesmdp.posterior._sets import SetTable, set_table
from bayesmdp.priors import MixturePrior

_NEVER = 1e-16  # a weight below is 0: no draw would ever meet it


@dataclass(frozen=True, eq=False, repr=False)
class MixturePosterior:
    """Belief under several priors at once; immutable. Made by `bayesmdp.fit`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> prior = bm.MixturePrior([bm.ScaledPrior(1.0), bm.ScaledPrior(3.0)])
    >>> posterior = bm.fit(world.sample(50, seed=0), world.task, prior=prior)
    >>> posterior
    MixturePosterior(2 components, 25 states, 4 actions, 50 transitions)
    >>> posterior.weights.round(3).tolist()
    [0.907, 0.093]
    """

    task: Task
    counts: Counts  # everything that was logged, unavailable pairs included
    prior: MixturePrior
    availability: Availability
    components: tuple[Posterior, ...]  # one a prior, all of the same pairs
    weights: FloatArray  # [C], probability of each after the data

    @property
    def available(self) -> BoolArray:
        """Pairs a policy may use, ``[S, A]``."""
        return self.availability.available

    @property
    def min_count(self) -> int:
        """Visits a pair needs to be available."""
        return self.availability.min_count

    @cached_property
    def _overlaid(self) -> tuple[Rows, FloatArray]:
        parts = [(c.rows, c.alpha) for c in self.components]
        return overlay(parts, self.components[0].rows.pair)

    @property
    def rows(self) -> Rows:
        """Next states that some component allows."""
        return self._overlaid[0]

    @property
    def alpha(self) -> FloatArray:
        """Dirichlet parameters, ``[C, E]``; 0 where a component rules a state out."""
        return self._overlaid[1]

    @cached_property
    def set_table(self) -> SetTable:
        """Sets of next states of every component, as samplers read them."""
        parts = [(c.rows, c.alpha, c.sets) for c in self.components]
        return set_table(parts, self.rows)

    @cached_property
    def _mean(self) -> Dynamics:
        mean = np.zeros(self.rows.next_state.size)
        for weight, alpha in zip(self.weights, self.alpha, strict=True):
            total = self.rows.row_sums(alpha)
            mean += weight * (alpha / total[self.rows.row_of_entry])
        return Dynamics(self.rows, _checks.sealed(mean))

    def mean(self) -> Dynamics:
        """Posterior mean of the dynamics: the weighted mean of the components'.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 1])
        >>> prior = bm.MixturePrior([bm.SymmetricPrior(1.0), bm.SymmetricPrior(0.5)])
        >>> bm.fit(counts, task, prior=prior).mean().to_dense()[0, 0].round(4).tolist()
        [0.2059, 0.7941]
        """
        return self._mean

    def draws(self, n_draws: int, seed: Seed = 0) -> Draws:
        """Name draws from the mixture; they are sampled where they are used.

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
        >>> prior = bm.MixturePrior([bm.ScaledPrior(1.0), bm.ScaledPrior(3.0)])
        >>> posterior = bm.fit(world.sample(50, seed=0), world.task, prior=prior)
        >>> draws = posterior.draws(1000, seed=1)
        >>> bool(850 < (draws.members == 0).sum() < 950)  # of the first component
        True
        """
        n = _checks.integer("n_draws", n_draws, 2, ArgumentError)
        return Draws(self, n, _checks.seed_integer(seed))

    def update(self, data: Transitions | Counts) -> "MixturePosterior":
        """Return the belief after more data: the same as `fit` on all of it.

        Weights given as ``posterior_weights`` stay as they are.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> prior = bm.MixturePrior([bm.ScaledPrior(1.0), bm.ScaledPrior(3.0)])
        >>> posterior = bm.fit(world.sample(50, seed=0), world.task, prior=prior)
        >>> posterior.update(world.sample(50, seed=1)).counts.total
        100
        """
        from bayesmdp.posterior._fit import fit

        more, task = align(data, self.task)
        return fit(self.counts + more, task, prior=self.prior, min_count=self.min_count)

    def log_evidence(self) -> float:
        """Log probability of the data on available pairs, components averaged.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 1])
        >>> prior = bm.MixturePrior([bm.SymmetricPrior(1.0), bm.SymmetricPrior(0.5)])
        >>> posterior = bm.fit(counts, task, prior=prior)
        >>> round(posterior.log_evidence(), 6)  # log((1/3 + 3/8) / 2)
        -1.037988
        """
        if self.prior.looks_at_data:
            raise PriorError(
                "A mixture with `posterior_weights` has no evidence: its weights were "
                "given after the data; give `weights` instead, and only priors that do "
                "not look at the data."
            )
        from scipy.special import logsumexp

        return float(
            logsumexp(
                _log_shares(self.prior, (c.log_evidence() for c in self.components))
            )
        )

    def summary(self) -> str:
        """Say in a few lines what the belief rests on.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> prior = bm.MixturePrior([bm.ScaledPrior(1.0), bm.ScaledPrior(3.0)])
        >>> posterior = bm.fit(world.sample(50, seed=0), world.task, prior=prior)
        >>> print(posterior.summary())
        Posterior of 25 states (5 terminal) and 4 actions from 50 transitions
          prior: a mixture of 2, weighted by evidence
            0.907  ScaledPrior(total=1.0)
            0.093  ScaledPrior(total=3.0)
          80 of 80 pairs available
          3 states entered and never left (most often 6, 5 times): terminal?
          visits of a pair: median 0, from 0 to 4; 43 pairs never visited
          2000 possible transitions; log evidence -145.9891
        """
        return self._sheet().text()

    def _sheet(self) -> Sheet:
        by, tail = "as given", ""
        if not self.prior.looks_at_data:
            by, tail = "by evidence", f"; log evidence {self.log_evidence():.4f}"
        prior = [f"prior: a mixture of {self.weights.size}, weighted {by}"]
        prior += [
            f"  {weight:.3f}  {component.said_prior()}"
            for weight, component in zip(self.weights, self.components, strict=True)
        ]
        return self.components[0].describe(prior, self.rows.next_state.size, tail)

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def __repr__(self) -> str:
        return (
            f"MixturePosterior({self.weights.size} components, {self.task.n_states} "
            f"states, {self.task.n_actions} actions, {self.counts.total} transitions)"
        )


def weights_after(prior: MixturePrior, log_evidence: Iterable[float]) -> FloatArray:
    """Probability of each component after the data, ``[C]``.

    The log evidence of the components is not asked for where weights are given.
    """
    if prior.posterior_weights is not None:
        weights = np.array(prior.posterior_weights, dtype=np.float64)
    else:
        log_share = _log_shares(prior, log_evidence)
        weights = np.exp(log_share - log_share.max())
    weights /= weights.sum()
    weights[weights < _NEVER] = 0.0
    return _checks.sealed(weights)


def _log_shares(prior: MixturePrior, log_evidence: Iterable[float]) -> FloatArray:
    """Log of weight before the data times evidence, ``[C]``."""
    before = prior.shares_before
    with np.errstate(divide="ignore"):  # a component may be ruled out in advance
        log_before = np.log(before)
    return np.array(log_before + np.fromiter(log_evidence, np.float64))
