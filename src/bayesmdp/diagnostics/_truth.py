"""Where true models come from: a prior that generates data, or a known model.

Dirichlet priors generate rows by their own concentrations. A random-support prior
generates a size, a set of that size, and a Dirichlet on the set. With pseudo-counts
``w[t]`` (a fallback) its density is multiplied by ``theta[t]^w[t]``: sets hold these
states, sizes are reweighted by the mean of that factor, and the Dirichlet has ``w[t]``
more. A mixture draws a component by its weights before the data, then a model from it.
Rows come from NumPy's generator, draws of a posterior from the package's own: a fault
of either would show in the ranks.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.diagnostics._advice import check_prior
from bayesmdp.errors import ArgumentError, PriorError
from bayesmdp.model import Dynamics, Rows, Task, availability
from bayesmdp.priors import (
    AnyPrior,
    HierarchicalPrior,
    Imagined,
    MixturePrior,
    OwnEvidence,
    Prior,
    RandomSupportPrior,
    Tuned,
    check_rows,
    is_restricted,
    log_rising,
    rows_of,
    without_fallbacks,
)
from bayesmdp.worlds import MDP

_REMEDY = (
    "give `truth`: a prior that generates data, such as SymmetricPrior(1.0), or a "
    "world."
)


@dataclass(frozen=True, eq=False)
class Known:
    """The same model every time."""

    dynamics: Dynamics

    @property
    def rows(self) -> Rows:
        """Pairs there are, and where they may lead."""
        return self.dynamics.rows

    def draw(self, rng: np.random.Generator) -> Dynamics:
        """Return the model."""
        return self.dynamics


@dataclass(frozen=True, eq=False)
class DirichletRows:
    """Independent Dirichlet rows."""

    rows: Rows
    alpha: FloatArray  # [E]

    def draw(self, rng: np.random.Generator) -> Dynamics:
        """Draw a model."""
        parts = np.split(self.alpha, self.rows.indptr[1:-1])
        theta = np.concatenate([rng.dirichlet(part) for part in parts])
        return Dynamics(self.rows, _checks.sealed(theta))


@dataclass(frozen=True, eq=False)
class RandomSets:
    """Rows on random sets of next states (Friedman and Singer 1998)."""

    rows: Rows
    own: BoolArray  # [E], whether it is of the prior's support
    imagined: FloatArray  # [E], visits before the data
    concentration: float
    decay: float

    @classmethod
    def of(
        cls, prior: RandomSupportPrior, imagined: Imagined, task: Task
    ) -> "RandomSets":
        """Rows of every pair, before the data."""
        pair, nothing = every_pair(task), _nothing(task)
        rows, _, sets = prior.on_sets(pair, nothing, task, imagined)
        narrow, _ = prior.concentrations(pair, nothing, task)
        at = rows.row_of_entry
        _, entry = narrow.find(rows.state[at], rows.action[at], rows.next_state)
        own = entry >= 0
        extra = sets.shape - prior.concentration * (own & (sets.shape > 0))
        return cls(rows, own, extra, prior.concentration, prior.decay)

    @cached_property
    def _sizes(self) -> list[FloatArray]:
        """Probability of each size of a row's set, from 0."""
        rows = zip(self.rows.indptr[:-1], self.rows.indptr[1:], strict=True)
        return [self._sizes_of(slice(*ends)) for ends in rows]

    def _sizes_of(self, row: slice) -> FloatArray:
        own, extra = self.own[row], self.imagined[row]
        length, sure = int(own.sum()), int((own & (extra > 0)).sum())
        k = np.arange(length + 1)
        chance = np.ones(length + 1)  # that a set of the size holds all of them
        for i in range(sure):
            chance *= np.maximum(k - i, 0) / (length - i)
        inside, outside = extra[own].sum(), extra[~own].sum()
        whole = np.maximum(k, 1) * self.concentration + outside
        log = k * np.log(self.decay) - log_rising(whole, inside)
        weight = np.where(k > 0, chance * np.exp(log - log[1:].max()), 0.0)
        return np.asarray(weight / weight.sum())

    def draw(self, rng: np.random.Generator) -> Dynamics:
        """Draw sizes, sets and probabilities."""
        theta = np.zeros(self.rows.next_state.size)
        for first, last, size in zip(
            self.rows.indptr[:-1], self.rows.indptr[1:], self._sizes, strict=True
        ):
            own, extra = self.own[first:last], self.imagined[first:last]
            sure = np.flatnonzero(own & (extra > 0))
            more = rng.choice(size.size, p=size) - sure.size
            free = rng.choice(np.flatnonzero(own & (extra == 0)), more, replace=False)
            chosen = np.concatenate([sure, free, np.flatnonzero(~own)])
            alpha = extra[chosen] + self.concentration * own[chosen]
            theta[first + chosen] = rng.dirichlet(alpha)
        return Dynamics(self.rows, _checks.sealed(theta))


@dataclass(frozen=True, eq=False)
class OneOf:
    """One of several sources, all of the same pairs."""

    sources: tuple[DirichletRows | RandomSets, ...]  # [C]
    weights: FloatArray  # [C]

    @property
    def rows(self) -> Rows:
        """Pairs there are, and where the first source may lead."""
        return self.sources[0].rows

    def draw(self, rng: np.random.Generator) -> Dynamics:
        """Draw a source, then a model from it."""
        return self.sources[rng.choice(len(self.sources), p=self.weights)].draw(rng)


Source = Known | DirichletRows | RandomSets | OneOf


def source_of(truth: AnyPrior | MDP, task: Task, name: str) -> Source:
    """Return what true models are drawn from; refuse what generates none."""
    if isinstance(truth, MDP):
        _check_task(truth, task)
        return Known(truth.dynamics)
    check_prior(truth, name, " or a world")
    if isinstance(truth, MixturePrior):
        return _one_of(truth, task)
    return _own_source(truth, task)


def _one_of(truth: MixturePrior, task: Task) -> OneOf:
    if truth.posterior_weights is not None:
        raise PriorError(
            "A mixture with `posterior_weights` generates no data: they were given "
            f"after them; {_REMEDY}"
        )
    sources = truth.each(lambda prior: _own_source(prior, task))
    return OneOf(tuple(sources), truth.shares_before)


def _own_source(
    truth: Prior | HierarchicalPrior, task: Task
) -> DirichletRows | RandomSets:
    if isinstance(truth, HierarchicalPrior) or not generates(truth):
        raise PriorError(
            f"{type(truth).__name__} generates no data: it is made by looking at them; "
            f"{_REMEDY}"
        )
    base, imagined = without_fallbacks(truth)
    if isinstance(base, RandomSupportPrior):
        return RandomSets.of(base, imagined, task)
    rows, alpha = rows_of(truth, every_pair(task), _nothing(task), task)
    check_rows(rows, task, _nothing(task), widen=is_restricted(truth))
    return DirichletRows(rows, np.array(alpha))


def _nothing(task: Task) -> Counts:
    return Counts.from_arrays(
        [], [], [], n_states=task.n_states, n_actions=task.n_actions
    )


def every_pair(task: Task) -> IntArray:
    """Pairs of live states, ``[R]``."""
    visits = np.zeros((task.n_states, task.n_actions), dtype=np.int64)
    return np.flatnonzero(availability(visits, task, 0).available)


def generates(prior: Prior) -> bool:
    """Whether a prior says how data come about: without looking at any."""
    base, _ = without_fallbacks(prior)
    if isinstance(base, RandomSupportPrior):
        return not base.looks_at_data
    told = isinstance(base, Tuned | OwnEvidence)  # rows before data are not the model
    return not (prior.looks_at_data or told)


def _check_task(world: MDP, task: Task) -> None:
    for what in ("n_states", "n_actions"):
        has, wants = getattr(world.task, what), getattr(task, what)
        if has != wants:
            raise ArgumentError(
                f"`truth` and `task` disagree about `{what}`: {has} and {wants}."
            )
    missing = ~task.is_terminal & ~world.available.any(axis=1)
    if missing.any():
        state = task.state_name(int(np.argmax(missing)))
        raise ArgumentError(
            f"`truth` has no action for state {state}, which is not terminal in `task`."
        )
