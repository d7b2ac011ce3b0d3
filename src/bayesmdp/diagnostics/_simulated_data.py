"""Simulated datasets: a true model, data, a posterior, and where the truth stands.

True models come from a prior that generates data, or are known. Dirichlet priors
generate rows by their own concentrations. A random-support prior generates a size, a
set of that size, and a Dirichlet on the set. With pseudo-counts ``w[t]`` (a fallback)
its density is multiplied by ``theta[t]^w[t]``: sets hold these states, sizes are
reweighted by the mean of that factor, and the Dirichlet has ``w[t]`` more. A mixture
draws a component by its weights before the data, then a model from it. Rows come from
NumPy's generator, draws of a posterior from the package's own: a fault of either would
show in the ranks.

For dataset ``i`` of a study, all from a stream of its own::

    theta* ~ truth            data ~ theta*            theta_1..theta_L ~ posterior
    rank = number of draws with f(theta_l) < f(theta*)

If the truth is drawn from the prior that is fitted, ranks are uniform on ``0..L`` for
every ``f``, also one that depends on the data (Talts et al. 2018; Modrák et al. 2023):
so the value of a policy *chosen* by the posterior has uniform ranks too. The test
quantities are the value and the aleatoric variance from the start, of a fixed policy
and of the chosen one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.diagnostics._advice import check_prior
from bayesmdp.errors import ArgumentError, BayesmdpError, EndlessError, PriorError
from bayesmdp.model import Dynamics, Rows, Task, as_policy, availability
from bayesmdp.posterior import Draws, Fitted, fit
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

if TYPE_CHECKING:
    from bayesmdp.engine import Pool


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
    ) -> RandomSets:
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


Choose = Callable[[Fitted], ArrayLike]

_OF_A_POLICY = ("value", "aleatoric variance")
_ROUNDING = 1e-12  # values that differ by this share are equal


class Pairs(NamedTuple):
    """What a policy is checked against before there is a posterior."""

    task: Task
    available: BoolArray  # [S, A]


@dataclass(frozen=True, eq=False)
class Episodes:
    """Data gathered by following a policy, for `check_calibration`.

    Parameters
    ----------
    policy
        Behaviour, ``[S, A]`` or ``[S]``.
    n_episodes
        Episodes in each dataset.
    max_steps
        When to stop an episode that has not ended.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.diagnostics.Episodes([0, 1, 0], n_episodes=20)
    Episodes(policy=[0, 1, 0], n_episodes=20, max_steps=100)
    """

    policy: ArrayLike
    n_episodes: int
    max_steps: int = 100

    def __post_init__(self) -> None:
        """Check the numbers; the policy is checked against the task."""
        for name in ("n_episodes", "max_steps"):
            checked = _checks.integer(name, getattr(self, name), 1, ArgumentError)
            object.__setattr__(self, name, checked)


class Outcome(NamedTuple):
    """What became of one dataset; every array ``[quantities]``."""

    rank: IntArray  # draws below the truth, ties broken at random
    below: IntArray  # draws below the truth
    ties: IntArray  # draws equal to it
    truth: FloatArray
    predicted: FloatArray  # mean of the draws


@dataclass(frozen=True, eq=False)
class Study:
    """All that a dataset depends on beside its number."""

    task: Task
    prior: AnyPrior
    source: Source
    visits: IntArray | Episodes  # [R], of the source's rows
    policy: FloatArray  # [S, A]
    choose: Choose | None
    min_count: int
    n_draws: int
    seed: int

    @property
    def quantities(self) -> tuple[str, ...]:
        """What is ranked."""
        if self.choose is None:
            return _OF_A_POLICY
        return (*_OF_A_POLICY, *(f"optimised {name}" for name in _OF_A_POLICY))


def outcomes(study: Study, datasets: list[int]) -> list[Outcome]:
    """Simulate datasets by number; the same ones in whatever company they come."""
    from bayesmdp.engine import workers

    with workers(1, None) as pool:
        return [_outcome(study, dataset, pool) for dataset in datasets]


def _outcome(study: Study, dataset: int, pool: Pool) -> Outcome:
    stream = np.random.SeedSequence(study.seed, spawn_key=(dataset,))
    rng = np.random.default_rng(stream)
    theta = study.source.draw(rng)
    counts = _simulate(study, theta, rng)
    try:
        posterior = fit(
            counts, study.task, prior=study.prior, min_count=study.min_count
        )
    except BayesmdpError as problem:
        said = f"Simulated dataset {dataset} cannot be fitted: {problem}"
        raise type(problem)(said) from problem
    policies = [as_policy(study.policy, posterior)]
    if study.choose is not None:
        chosen = as_policy(study.choose(posterior), posterior, "choose")
        true_pairs = Pairs(study.task, theta.available)
        policies.append(as_policy(chosen, true_pairs, "choose"))
    of_policies = np.stack(policies)
    key = int(rng.integers(0, 2**64, dtype=np.uint64))
    draws = Draws(posterior, study.n_draws, key, "calibrate")
    found = _of_draws(of_policies, draws, pool)
    truth = _of_truth(of_policies, theta, study.task)
    equal = np.abs(found - truth[:, None]) <= _rounding(found, truth)[:, None]
    below = ((found < truth[:, None]) & ~equal).sum(axis=1)
    ties = equal.sum(axis=1)
    return Outcome(
        below + rng.integers(0, ties + 1), below, ties, truth, found.mean(axis=1)
    )


def _rounding(found: FloatArray, truth: FloatArray) -> FloatArray:
    """Differences that are rounding, ``[quantities]``: quantities come in pairs.

    A variance is a sum of squares of differences of values, so what rounding of values
    leaves of a variance of 0 is their error squared.
    """
    largest = np.maximum(np.abs(found).max(axis=1), np.abs(truth)).reshape(-1, 2)
    limit = _ROUNDING * largest
    limit[:, 1] = np.maximum(limit[:, 1], limit[:, 0] ** 2)
    return np.asarray(limit.ravel())


def _simulate(study: Study, theta: Dynamics, rng: np.random.Generator) -> Counts:
    """Draw the data of a dataset from its true model."""
    if isinstance(study.visits, Episodes):
        log = MDP(theta, study.task).simulate(
            study.visits.policy,
            study.visits.n_episodes,
            rng,
            max_steps=study.visits.max_steps,
        )
        return log.counts()
    rows = theta.rows
    parts = np.split(theta.probability, rows.indptr[1:-1])
    count = np.concatenate(
        [rng.multinomial(n, p) for n, p in zip(study.visits, parts, strict=True)]
    )
    length = np.diff(rows.indptr)
    return Counts.from_arrays(
        np.repeat(rows.state, length),
        np.repeat(rows.action, length),
        rows.next_state,
        count,
        n_states=rows.n_states,
        n_actions=rows.n_actions,
    )


def _of_draws(policies: FloatArray, draws: Draws, pool: Pool) -> FloatArray:
    """Quantities of draws, ``[quantities, draws]``."""
    from bayesmdp import engine

    problem = engine.Problem.of_draws(draws, policies)
    engine.check_ending(problem, draws.belief)
    want = engine.Want(variance=True)
    n = draws.n_draws
    around = engine.nominal(problem, pool, control=False, want=want, n_draws=n)
    sums = engine.sweep(problem, around, n, want=want, pool=pool)
    if not sums.ended.all():
        left = int((~sums.ended.all(axis=0)).sum())
        raise EndlessError(
            f"{left} of {n} draws have episodes too long to resolve, and ranks need "
            "them all; use a smaller discount."
        )
    channels = [engine.channels.START_VALUE, engine.channels.START_VARIANCE]
    return np.asarray(sums.start[:, channels].reshape(-1, n))


def _of_truth(policies: FloatArray, theta: Dynamics, task: Task) -> FloatArray:
    """Quantities of the true model, ``[quantities]``."""
    from bayesmdp import engine

    problem = engine.Problem.of_dynamics(theta, task, policies)
    engine.check_ending(problem)
    solved = engine.solve_known(problem, engine.CPU(), engine.Want(variance=True))
    value = solved[0] + problem.rows.terminal_value  # [P, S]
    start = problem.rows.start
    mean = value @ start
    variance = (solved[1] + (value - mean[:, None]) ** 2) @ start
    return np.stack([mean, variance], axis=1).ravel()
