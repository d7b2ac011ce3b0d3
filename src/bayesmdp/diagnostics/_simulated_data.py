"""Simulated datasets: a true model, data, a posterior, and where the truth stands.

True models come from a prior that generates data, or are known: draws of its belief
before any data, so that a mixture draws a component by its weights before the data, and
a random-support prior a set of next states.

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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.diagnostics._advice import check_prior
from bayesmdp.errors import ArgumentError, BayesmdpError, EndlessError, PriorError
from bayesmdp.model import Dynamics, Rows, Task, as_policy
from bayesmdp.posterior import Draws, Fitted, fit, refit
from bayesmdp.priors import (
    AnyPrior,
    HierarchicalPrior,
    MixturePrior,
    OwnEvidence,
    Prior,
    RandomSupportPrior,
    Tuned,
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
class Before:
    """What a prior says before any data."""

    belief: Fitted

    @property
    def rows(self) -> Rows:
        """Pairs there are, and where they may lead."""
        return self.belief.rows().layout

    def draw(self, rng: np.random.Generator) -> Dynamics:
        """Draw a model; of a mixture from one component as a whole."""
        seed = int(rng.integers(0, 2**64, dtype=np.uint64))
        return Draws(self.belief, 1, seed, "calibration truth").dynamics(0)


Source = Known | Before


def source_of(truth: AnyPrior | MDP, task: Task, name: str) -> Source:
    """Return what true models are drawn from; refuse what generates none."""
    if isinstance(truth, MDP):
        _check_task(truth, task)
        return Known(truth.dynamics)
    check_prior(truth, name, " or a world")
    if isinstance(truth, MixturePrior):
        if truth.posterior_weights is not None:
            raise PriorError(
                "A mixture with `posterior_weights` generates no data: they were given "
                f"after them; {_REMEDY}"
            )
        truth.each(_check_generates)
    else:
        _check_generates(truth)
    sizes = {"n_states": task.n_states, "n_actions": task.n_actions}
    nothing = Counts.from_arrays([], [], [], **sizes)
    return Before(refit(nothing, task, truth, 0, empty=True))


def _check_generates(prior: Prior | HierarchicalPrior) -> None:
    """Refuse a prior that does not say how data come about without looking at any."""
    told = prior.looks_at_data
    if not isinstance(prior, HierarchicalPrior):  # which always does
        base, _ = without_fallbacks(prior)
        # otherwise rows before the data are not the model
        own = isinstance(base, Tuned | OwnEvidence)
        told |= own and not isinstance(base, RandomSupportPrior)
    if told:
        raise PriorError(
            f"{type(prior).__name__} generates no data: it is made by looking at them; "
            f"{_REMEDY}"
        )


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
