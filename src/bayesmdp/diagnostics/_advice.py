"""What a prior advises once the data are in: a plan for its mean model."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import (
    ArgumentError,
    BayesmdpError,
    BayesmdpWarning,
    CountsError,
    ExecutorError,
    PriorWarning,
)
from bayesmdp.model import Task
from bayesmdp.posterior import Fitted, fit
from bayesmdp.priors import AnyPrior, HierarchicalPrior, MixturePrior, tuned
from bayesmdp.worlds import MDP

_TIE = 1e-9  # of the largest value; what differs by less is rounding
NO_ACTION = -1  # what is advised where there is nothing to decide


@dataclass(frozen=True, eq=False)
class Advice:
    """The nominal policy of a belief, and what the belief expects of it."""

    policy: FloatArray  # [S, A], deterministic
    start_value: float  # in the mean model, exact; of a mixture, in each component's
    action_value: FloatArray  # [S, A], then as planned; NaN if not available
    best: BoolArray  # [S, A], actions as good as the policy's, up to rounding
    notes: tuple[str, ...]


def check_prior(prior: object, name: str, also: str = "") -> None:
    """Refuse what is neither a prior nor a mixture of some."""
    if isinstance(prior, type) or not isinstance(prior, AnyPrior):
        raise ArgumentError(
            f"`{name}` must be a prior such as SymmetricPrior(1.0){also}; got "
            f"{prior!r:.80}."
        )


def checked_priors(priors: object) -> dict[str, AnyPrior]:
    """Refuse anything but one or more priors by name."""
    if not isinstance(priors, Mapping) or not priors:
        raise ArgumentError(
            "`priors` must map at least one name to a prior, as in {'flat': "
            f"SymmetricPrior(1.0)}}; got {type(priors).__name__}."
        )
    for name, prior in priors.items():
        _checks.of_type("priors", name, str, ArgumentError)
        check_prior(prior, f"priors[{name!r}]")
    return dict(priors)


@contextmanager
def naming(name: str, where: str = "") -> Iterator[None]:
    """Say which prior an error is about; data and workers are none's fault."""
    try:
        yield
    except (CountsError, ExecutorError):
        raise
    except BayesmdpError as problem:
        raise type(problem)(f"`priors[{name!r}]`{where}: {problem}") from problem


@contextmanager
def unwarned() -> Iterator[None]:
    """Fit priors that are to be judged without a warning of how much they weigh."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorWarning)
        yield


@contextmanager
def noted() -> Iterator[list[str]]:
    """Hold warnings of many fits back, and note each once; on the caller's thread.

    That a prior weighs much is said by `fit`.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield notes
    ours = Counter(
        str(x.message)
        for x in said
        if issubclass(x.category, BayesmdpWarning)
        and not issubclass(x.category, PriorWarning)
    )
    notes += [x if n == 1 else f"{x} ({n} times)" for x, n in ours.items()]


def fit_named(
    name: str,
    prior: AnyPrior,
    counts: Counts,
    task: Task,
    min_count: int,
    fitted: Fitted | None = None,
) -> Fitted:
    """Fit one of several priors, unless it is that of a posterior of these counts."""
    if (
        fitted is not None
        and fitted.prior is prior
        and fitted.task is task
        and fitted.min_count == min_count
    ):
        return fitted
    with naming(name), unwarned():
        return fit(counts, task, prior=prior, min_count=min_count)


def settled(prior: AnyPrior, pair: IntArray, counts: Counts, task: Task) -> AnyPrior:
    """Return a prior with every number chosen by looking at pairs ``[R]``."""
    if isinstance(prior, MixturePrior):
        priors = prior.each(lambda x: settled(x, pair, counts, task))
        return replace(prior, priors=priors)  # type: ignore[arg-type]
    if isinstance(prior, HierarchicalPrior):
        return prior
    return tuned(prior, pair, counts, task)


def advise(name: str, posterior: Fitted) -> Advice:
    """Plan for the mean model of one of several priors."""
    from bayesmdp.engine import Problem
    from bayesmdp.engine.planning import plan

    with naming(name):
        found = plan(Problem.of_belief(posterior))
    q = _action_values(posterior, found.value)
    return Advice(
        found.policy,
        _predicted(posterior, found.policy, found.value),
        q,
        _best_actions(q, found.policy),
        () if found.converged else (f"The plan of {name!r} {found.status}.",),
    )


def _predicted(posterior: Fitted, policy: FloatArray, value: FloatArray) -> float:
    """Predict the start value of a plan with values ``[S]`` in the mean model.

    A mixture holds models that differ as wholes: the value in their average is not the
    average of values.
    """
    task = posterior.task
    if len(posterior.components) == 1:
        return float(task.start @ value)
    models = [MDP(component.mean(), task) for component in posterior.components]
    values = [task.start @ model.value(policy) for model in models]
    return float(posterior.component_weights @ values)


def actions(policies: FloatArray, task: Task) -> IntArray:
    """Read the actions ``[P, S]`` of deterministic policies ``[P, S, A]``."""
    chosen = policies.argmax(axis=2)
    chosen[:, task.is_terminal] = NO_ACTION
    return _checks.sealed(chosen)


def state_visits(counts: Counts, task: Task) -> IntArray:
    """Count the transitions from each live state, ``[S]``."""
    visits = counts.pair_totals(task.n_states, task.n_actions).sum(axis=1)
    visits[task.terminal] = 0
    if not visits.any():
        raise CountsError(
            "`data` holds no transition from a state that is not terminal."
        )
    return _checks.sealed(visits)


def common_best(best: BoolArray) -> BoolArray:
    """Find the live states ``[S]`` where an action is best for all of ``[P, S, A]``."""
    return np.asarray(np.any(np.all(best, axis=0), axis=1))


def _action_values(posterior: Fitted, value: FloatArray) -> FloatArray:
    """Value of each action followed by a plan worth ``value`` ``[S]``, ``[S, A]``."""
    task, mean = posterior.task, posterior.mean()
    rows = mean.rows
    after = np.where(task.is_terminal, 0.0, value)  # ends are paid by the transition
    worth = task.transition_reward(
        rows.state, rows.action, rows.next_state, np.diff(rows.indptr)
    )
    worth = worth + task.discount * after[rows.next_state]
    found = np.full(task.n_states * task.n_actions, np.nan)
    found[rows.pair] = rows.row_sums(mean.probability * worth)
    found[~posterior.available.ravel()] = np.nan
    return _checks.sealed(found.reshape(task.n_states, task.n_actions))


def _best_actions(q: FloatArray, policy: FloatArray) -> BoolArray:
    """Find ties: the planner takes one of equal actions, not always the same."""
    scale = np.fmax.reduce(np.abs(q), axis=None)  # NaN if the plan has no value
    top = np.fmax.reduce(q, axis=1)[:, None]
    return _checks.sealed((policy > 0) | (q >= top - _TIE * scale))
