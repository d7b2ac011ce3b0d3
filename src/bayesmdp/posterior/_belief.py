"""What a belief about the dynamics answers for itself: the one contract.

A belief says what is the same in all draws (`Belief.rows`: which next states a row may
lead to, mean probabilities, mean rewards), and which draws there are (`Belief.stream`:
rows of draws as pure functions of their number). Everything else, evaluation, search,
report, asks for these two. What only some beliefs have is asked for by name and may be
missing: logged ``counts``, the covariance of independent Dirichlet rows
(`BeliefRows.total`), a finite number of models to be swept exactly (`n_models`).

Rows of several models are laid over each other: a row then lists every next state that
some model allows; what a model rules out has the value 0 there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray, IntArray, Seed
from bayesmdp.data import Counts
from bayesmdp.errors import ArgumentError, BeliefError
from bayesmdp.model import Dynamics, Rows, Task

if TYPE_CHECKING:
    from bayesmdp.posterior._stream import Draws, Stream


def union(layouts: Sequence[Rows]) -> Rows:
    """Return rows of the same pairs with every next state that some layout allows."""
    first = layouts[0]
    if all(_alike(first, other) for other in layouts[1:]):
        return first
    keys = [x.row_of_entry * x.n_states + x.next_state for x in layouts]
    row, next_state = np.divmod(np.unique(np.concatenate(keys)), first.n_states)
    length = np.bincount(row, minlength=first.pair.size)
    return Rows(
        first.n_states,
        first.n_actions,
        first.pair,
        _checks.sealed(np.concatenate([[0], np.cumsum(length)])),
        _checks.sealed(next_state),
    )


def _alike(one: Rows, other: Rows) -> bool:
    return one is other or (
        np.array_equal(one.pair, other.pair)
        and np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.next_state, other.next_state)
    )


def place(rows: Rows, wide: Rows) -> IntArray | slice:
    """Entry of wider rows of the same pairs at which each entry stands, ``[E]``."""
    if _alike(rows, wide):
        return slice(None)
    row = rows.row_of_entry
    return wide.find(rows.state[row], rows.action[row], rows.next_state)[1]


def spread(rows: Rows, values: FloatArray, wide: Rows) -> FloatArray:
    """Values of the entries of rows at those of wider rows, ``[E]``; 0 elsewhere."""
    out = np.zeros(wide.next_state.size)
    out[place(rows, wide)] = values
    return out


@dataclass(frozen=True, eq=False)
class BeliefRows:
    """What is the same in every draw of a belief."""

    layout: Rows  # which next states are possible
    mean: FloatArray  # [E], mean of the draws
    reward: FloatArray  # [E], such that expected rewards of the mean model are exact
    terminal_value: FloatArray  # [S], mean over draws
    #: [R], sum of Dirichlet parameters where rows are independent Dirichlets: the
    #: covariance of a row is then ``(diag(mean) - mean mean') / (total + 1)``, and rows
    #: have none with each other. None: no such form.
    total: FloatArray | None
    #: Cycles after which other rows hold (`BeliefsByCycle`): ``mean`` and ``reward``
    #: are then ``[F * E]``, one set after the other.
    until: tuple[int, ...] = ()

    def take(self, row: IntArray) -> BeliefRows:
        """Keep some rows, in rising order ``[R']``."""
        entries, total = self.layout.entries_of(row), self.total

        def of(values: FloatArray) -> FloatArray:
            if not self.until:
                return np.ascontiguousarray(values[entries])
            return values.reshape(len(self.until) + 1, -1)[:, entries].ravel()

        return replace(
            self,
            layout=self.layout.take(row, entries),
            mean=of(self.mean),
            reward=of(self.reward),
            total=None if total is None else total[row],
        )


@cache
def _derived(kind: type) -> tuple[str, ...]:
    """Names of what a class derives from its fields when it is first asked for."""
    each = (vars(one).items() for one in kind.__mro__)
    return tuple(
        name for own in each for name, x in own if isinstance(x, cached_property)
    )


@dataclass(frozen=True, eq=False)
class Exits:
    """What decides at discount 1 how long an episode may stay in a set of states.

    One for each component: rows are Dirichlet given the component, or mixtures of
    Dirichlets that have at least the parameters ``sure``.
    """

    alpha: FloatArray  # [E], above 0 where a next state is possible
    sure: FloatArray  # [E], parameter that it has in every draw


class Belief(ABC):
    """A belief about the dynamics: a posterior, a mixture of some, an ensemble."""

    task: Task
    counts: Counts | None  # what was logged; None where the belief comes from elsewhere
    n_models: int | None  # where there are finitely many, which can be swept exactly

    @abstractmethod
    def rows(self) -> BeliefRows:
        """Return what is the same in every draw; made once."""

    def used_rows(self, used: BoolArray) -> tuple[IntArray, BeliefRows]:
        """Return which rows are ``used`` [S, A], and these rows alone."""
        rows = self.rows()
        row = rows.layout.of_pairs(used)
        return row, rows.take(row)

    @abstractmethod
    def stream(self, n_draws: int | None, seed: int, purpose: str) -> Stream:
        """Return the draws of a seed and a purpose, which keeps streams apart.

        ``n_draws`` None stands for every model once, where there are finitely many.
        """

    @abstractmethod
    def describe(self) -> str:
        """Say in a sentence or two what the belief is made of."""

    @abstractmethod
    def exits(self) -> Iterator[Exits]:
        """Say, for every component or model, what decides about endless episodes."""

    @property
    def components(self) -> tuple[Belief, ...]:
        """Beliefs of which one holds; itself where there is no choice."""
        return (self,)

    @property
    def component_weights(self) -> FloatArray:
        """Probability of each component, ``[C]``."""
        return np.ones(1)

    @property
    def chain_noise(self) -> float:
        """Share of a variance over draws by which means over all draws are off.

        Above 0 where draws come from finite Markov chains, or models are a sample.
        """
        return 0.0

    @property
    def available(self) -> BoolArray:
        """Pairs a policy may use, ``[S, A]``."""
        return self.rows().layout.available

    @cached_property
    def _mean(self) -> Dynamics:
        return Dynamics(self.rows().layout, self.rows().mean)

    def with_reward(self, reward: str | Mapping[str, float]) -> Self:
        """Return the same belief with one of the task's rewards, or a sum of them.

        Parameters
        ----------
        reward
            A name, or weights by name, as `Task.with_reward` takes them.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, {"cost": [9, 1], "qaly": [1, 0]}, discount=0.9)
        >>> counts = bm.Counts.from_arrays([0, 1], [0, 0], [1, 0])
        >>> posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
        >>> posterior.with_reward({"qaly": 10, "cost": -1}).task.reward.tolist()
        [1.0, -1.0]
        """
        return self.with_task(self.task.with_reward(reward))

    def with_task(self, task: Task) -> Self:
        """Return the same belief about the dynamics with another reward of its task."""
        other = copy(self)
        for name in _derived(type(self)):  # made of the old reward
            other.__dict__.pop(name, None)
        object.__setattr__(other, "task", task)
        return other

    def mean(self) -> Dynamics:
        """Mean of the dynamics over the belief, the nominal model.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> counts = bm.Counts.from_arrays([0, 0], [0, 0], [1, 1])
        >>> posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
        >>> posterior.mean().to_dense()[0, 0].tolist()
        [0.25, 0.75]
        >>> bm.worlds.casino().mean().row(0, 0)[1].tolist()
        [0.5, 0.5]
        """
        return self._mean

    def draws(self, n_draws: int | None = None, seed: Seed = 0) -> Draws:
        """Name draws from the belief; they are sampled where they are used.

        Parameters
        ----------
        n_draws
            How many, at least 2. None, for an ensemble only: every model with its
            weight, an exact sweep without Monte Carlo error.
        seed
            Which; the same seed gives the same draws to every policy.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> bm.fit(world.sample(100, seed=0), world.task).draws(500, seed=1)
        Draws(500 draws, seed 1)
        >>> bm.worlds.casino().draws()
        Draws(2 models, exact)
        """
        from bayesmdp.posterior._stream import Draws

        number = _checks.seed_integer(seed)
        if n_draws is None:
            if self.n_models is None:
                raise ArgumentError(
                    "`n_draws` must be given: a posterior has no finite number of "
                    "models to go through, as an ensemble has."
                )
            return Draws(self, self.n_models, number, exact=True)
        n = _checks.integer("n_draws", n_draws, 2, ArgumentError)
        return Draws(self, n, number)

    def mean_squares(self) -> FloatArray:
        """Mean of the square of each probability over the belief, ``[E]``."""
        rows = self.rows()
        if rows.total is None:
            raise BeliefError(
                f"{type(self).__name__} does not say how far its probabilities vary."
            )
        total = rows.total[rows.layout.row_of_entry]
        # alpha (alpha + 1) / (total (total + 1)) with alpha = mean total
        return np.asarray(rows.mean * (rows.mean * total + 1) / (total + 1))

    def state_covariance(self, h: FloatArray) -> FloatArray | None:
        """Covariance of ``theta[s, a].h`` between actions of a state, ``[S, A, A]``.

        ``h`` [E] is a number for each entry. None where only draws tell.
        """
        rows = self.rows()
        if rows.total is None:
            return None
        layout, task = rows.layout, self.task
        mean = layout.row_sums(rows.mean * h)
        square = layout.row_sums(rows.mean * (h - mean[layout.row_of_entry]) ** 2)
        found = np.zeros((task.n_states, task.n_actions, task.n_actions))
        at = layout.state, layout.action, layout.action
        found[at] = square / (rows.total + 1.0)
        return found

    def mean_after(self, visits: FloatArray) -> FloatArray:
        """Mean probabilities ``[E]`` after further visits ``[E]`` to the entries.

        What else was learnt, such as how far actions differ, is held.
        """
        raise BeliefError(
            f"{type(self).__name__} cannot be updated by visits alone; use a posterior "
            "of `bayesmdp.fit` under one prior with Dirichlet rows or the hierarchical "
            "one."
        )

    def intervals(self, entry: IntArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Return central intervals of the probability of some entries ``[K]``.

        Of the Beta distribution of the same mean and variance, which is exact for
        Dirichlet rows.
        """
        from scipy.special import betaincinv

        mean = self.rows().mean[entry]
        variance = np.maximum(self.mean_squares()[entry] - mean**2, 1e-300)
        total = np.maximum(mean * (1 - mean) / variance - 1, 1e-6)
        sure = (mean >= 1) | (mean <= 0)
        a = np.where(sure, 1.0, mean * total)
        b = np.where(sure, 1.0, (1 - mean) * total)
        ends = ((1 - level) / 2, (1 + level) / 2)
        low, high = (np.where(sure, mean, betaincinv(a, b, at)) for at in ends)
        return low, high


def check_belief(posterior: object) -> None:
    """Refuse what is no belief."""
    if not isinstance(posterior, Belief):
        raise BeliefError(
            "`posterior` must be a Posterior or an Ensemble; got "
            f"{type(posterior).__name__}."
        )


def logged_counts(what: str, posterior: Belief) -> Counts:
    """Return the counts behind a belief; refuse one that comes from elsewhere."""
    check_belief(posterior)
    if posterior.counts is None:
        raise BeliefError(
            f"`{what}` needs logged counts, which {type(posterior).__name__} does not "
            "have; use a posterior from `bayesmdp.fit`."
        )
    return posterior.counts


def dirichlet_total(what: str, posterior: Belief) -> FloatArray:
    """Return sums of Dirichlet parameters ``[R]``; refuse rows that have none."""
    total = posterior.rows().total
    if total is not None:
        return total
    if len(posterior.components) > 1:
        raise BeliefError(
            f"`{what}` needs independent Dirichlet rows, and those of a mixture share "
            "their prior; use one of `posterior.components`."
        )
    logged = posterior.counts is not None
    other = "another prior" if logged else "a posterior from `bayesmdp.fit`"
    raise BeliefError(
        f"`{what}` needs independent Dirichlet rows, which this "
        f"{type(posterior).__name__} does not have; use draws, or {other}."
    )
