"""A belief that is a mixture of posteriors, one for each of several priors.

With probability ``weights[c]`` prior ``c`` is the right one, and the dynamics follow
its posterior::

    P(theta | D) = sum_c weights[c] prod_rows Dirichlet(theta[row]; alpha[c, row])

Rows are not
independent: they share the component. Given the component they are. The component of a
draw is a pure function of (purpose, seed, draw), from a stream of its own, and a draw
of component ``c`` is the draw of that number and seed of the component's own posterior,
to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Availability, Task
from bayesmdp.posterior._belief import BeliefRows, Exits, place, spread, union
from bayesmdp.posterior._hierarchical import HierarchicalPosterior
from bayesmdp.posterior._posterior import Fitted, Posterior
from bayesmdp.posterior._stream import Membership, MixtureStream, Part
from bayesmdp.priors import MixturePrior

_NEVER = 1e-16  # a weight below is 0: no draw would ever meet it


@dataclass(frozen=True, eq=False, repr=False)
class MixturePosterior(Fitted):
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
    counts: Counts
    prior: MixturePrior
    availability: Availability
    posteriors: tuple[Posterior | HierarchicalPosterior, ...]  # one for each prior
    weights: FloatArray  # [C], probability of each after the data

    @property
    def components(self) -> tuple[Posterior | HierarchicalPosterior, ...]:
        """Posteriors of which one holds, one for each prior."""
        return self.posteriors

    def with_task(self, task: Task) -> MixturePosterior:
        """Return the same belief about the dynamics with another reward of its task."""
        other = Fitted.with_task(self, task)
        parts = tuple(part.with_task(task) for part in self.posteriors)
        object.__setattr__(other, "posteriors", parts)
        return other

    @property
    def component_weights(self) -> FloatArray:
        """Probability of each component after the data, ``[C]``."""
        return self.weights

    @cached_property
    def chain_noise(self) -> float:
        """Share of a variance over draws that means owe to finite chains."""
        return max(x.chain_noise for x in self.posteriors)

    @cached_property
    def _rows(self) -> BeliefRows:
        layout = union([p.layout for p in self.posteriors])
        mean = np.zeros(layout.next_state.size)
        for weight, posterior in zip(self.weights, self.posteriors, strict=True):
            own = posterior.rows()
            mean += weight * spread(own.layout, own.mean, layout)
        return BeliefRows(
            layout,
            _checks.sealed(mean),
            _checks.sealed(self._reward(layout)),
            self.task.terminal_value,
            None,
        )

    def rows(self) -> BeliefRows:
        """Return what is the same in every draw: next states that any prior allows."""
        return self._rows

    def stream(self, n_draws: int | None, seed: int, purpose: str) -> MixtureStream:
        """Return the draws of a seed and a purpose: each of one component."""
        layout = self._rows.layout
        parts = []
        for posterior in self.posteriors:
            own = posterior.rows()
            parts.append(
                Part(
                    posterior.stream(n_draws, seed, purpose),
                    own.layout,
                    own.mean,
                    place(own.layout, layout),
                )
            )
        key = _checks.stream_key(seed, f"{purpose}: component")
        return MixtureStream(Membership(key, self.weights), layout, tuple(parts))

    def exits(self) -> Iterator[Exits]:
        """Parameters of every component that has a weight."""
        layout = self._rows.layout
        for weight, part in zip(self.weights, self.posteriors, strict=True):
            for own in part.exits() if weight > 0 else ():
                wide = (spread(part.layout, x, layout) for x in (own.alpha, own.sure))
                yield Exits(*wide)

    def mean_squares(self) -> FloatArray:
        """Posterior mean of the square of each probability, ``[E]``."""
        layout = self._rows.layout
        parts = [spread(p.layout, p.mean_squares(), layout) for p in self.posteriors]
        return np.asarray(self.weights @ np.stack(parts))

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
                _log_shares(self.prior, (c.log_evidence() for c in self.posteriors))
            )
        )

    def parameters(self) -> tuple[FloatArray, ...]:
        """Weights, and what draws of every component are made from."""
        of_each = (array for part in self.posteriors for array in part.parameters())
        return (self.weights, *of_each)

    def kept(self) -> dict[str, NDArray[Any]]:
        """Return what components keep, with their number in front."""
        return keep_components(self.posteriors)

    def _said_priors(self) -> list[str]:
        by = "as given" if self.prior.looks_at_data else "by evidence"
        said = [f"prior: a mixture of {self.weights.size}, weighted {by}"]
        return said + [
            f"  {weight:.3f}  {posterior.said_prior()}"
            for weight, posterior in zip(self.weights, self.posteriors, strict=True)
        ]

    def describe(self) -> str:
        """Say what the belief is made of."""
        return (
            f"The belief is a mixture of {self.weights.size} posteriors, one for each "
            f"of several priors ({self.prior!r}), given {self._said_data()}"
        )

    def __repr__(self) -> str:
        said = _checks.sizes(
            component=self.weights.size,
            state=self.task.n_states,
            action=self.task.n_actions,
            transition=self.counts.total,
        )
        return f"MixturePosterior({said})"


def keep_components(parts: Iterable[Fitted]) -> dict[str, NDArray[Any]]:
    """Return what each of them keeps, with its number in front."""
    return {
        component_prefix(i) + name: array
        for i, part in enumerate(parts)
        for name, array in part.kept().items()
    }


def component_prefix(number: int) -> str:
    """Say how names of what a component keeps begin."""
    return f"component_{number}_"


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
