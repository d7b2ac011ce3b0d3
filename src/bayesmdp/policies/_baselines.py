"""Policies without draws or search: even, as logged, or the best of one model."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray, Name
from bayesmdp.data import Counts
from bayesmdp.errors import TaskError
from bayesmdp.model import ALWAYS, Dynamics, Task
from bayesmdp.posterior import Belief, check_belief, logged_counts

if TYPE_CHECKING:
    from bayesmdp.engine import Problem


def uniform(posterior: Belief) -> FloatArray:
    """Equal probability on every available action.

    Parameters
    ----------
    posterior
        A posterior or an ensemble.

    Returns
    -------
    Array
        Policy ``[S, A]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(2, 2, reward=[1, 0], discount=0.9)
    >>> counts = bm.Counts.from_arrays([0, 0, 1], [0, 1, 1], [1, 1, 0])
    >>> bm.policies.uniform(bm.fit(counts, task, min_count=1)).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    check_belief(posterior)
    policy = posterior.available.astype(np.float64)
    total = policy.sum(axis=1, keepdims=True)
    np.divide(policy, total, policy, where=total > 0)
    return _checks.sealed(policy)


@overload
def constant(posterior: Belief, action: Name) -> FloatArray: ...
@overload
def constant(posterior: Name) -> str: ...
def constant(posterior: Belief | Name, action: Name | None = None) -> FloatArray | str:
    """One action in every state, as an arm of a trial that is kept.

    Parameters
    ----------
    posterior
        A posterior or an ensemble; or the action alone, for a policy that is taken
        wherever one is asked for, as ``"always:ACTION"`` is.
    action
        Label or index.

    Returns
    -------
    Array or str
        Policy ``[S, A]``, or how it is called. Where the action is not available,
        `bayesmdp.restrict` takes the others.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(2, 2, reward=[1, 0], discount=0.9, action_labels=["no", "drug"])
    >>> counts = bm.Counts.from_arrays([0, 0, 1], [0, 1, 1], [1, 1, 0])
    >>> posterior = bm.fit(counts, task)
    >>> bm.policies.constant(posterior, "drug").tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    >>> bm.evaluate(bm.policies.constant("drug"), posterior.draws(100)).n_draws
    100
    """
    if action is None and isinstance(posterior, str | int | np.integer):
        return f"{ALWAYS}{posterior}"
    check_belief(posterior)
    assert not isinstance(posterior, str | int)
    task = posterior.task
    policy = np.zeros((task.n_states, task.n_actions))
    policy[task.live, task.action(action)] = 1.0  # type: ignore[arg-type]
    return _checks.sealed(policy)


def behaviour(posterior: Belief) -> FloatArray:
    """Frequency of each available action in each state of the log.

    A state never visited, or only with actions that are not available, chooses evenly
    among its available ones.

    Parameters
    ----------
    posterior
        From `bayesmdp.fit`.

    Returns
    -------
    Array
        Policy ``[S, A]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(2, 2, reward=[1, 0], discount=0.9)
    >>> counts = bm.Counts.from_arrays([0, 0, 1], [0, 1, 1], [1, 1, 0], [3, 1, 2])
    >>> bm.policies.behaviour(bm.fit(counts, task)).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    counts = logged_counts("behaviour", posterior)
    return logged_policy(counts, posterior.task, posterior.available)


def logged_policy(counts: Counts, task: Task, available: BoolArray) -> FloatArray:
    """Return the behaviour policy of counts on available pairs ``[S, A]``.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> task = bm.Task(2, 2, reward=[1, 0], discount=0.9)
    >>> counts = bm.Counts.from_arrays([0, 0, 1], [0, 1, 1], [1, 1, 0], [3, 1, 2])
    >>> bm.policies.logged_policy(counts, task, np.ones((2, 2), dtype=bool)).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    visits = counts.pair_totals(task.n_states, task.n_actions)
    weight = np.where(available, visits, 0).astype(np.float64)
    unseen = (weight.sum(axis=1) == 0) & ~task.is_terminal
    weight[unseen] = available[unseen]
    total = weight.sum(axis=1, keepdims=True)
    policy: FloatArray = np.zeros_like(weight)
    np.divide(weight, total, policy, where=total > 0)
    return _checks.sealed(policy)


def nominal(posterior: Belief) -> FloatArray:
    """Policy that is optimal for the mean of the belief.

    Parameters
    ----------
    posterior
        A posterior or an ensemble.

    Returns
    -------
    Array
        Deterministic policy ``[S, A]``; tied actions are decided, always alike.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld(p_rand=0.0)
    >>> posterior = bm.fit(world.sample(20_000, seed=0), world.task)
    >>> bm.policies.nominal(posterior)[19].tolist()  # above the goal: down
    [0.0, 0.0, 1.0, 0.0]
    """
    from bayesmdp.engine import Problem
    from bayesmdp.engine.planning import plan, warn_unfinished

    check_belief(posterior)
    if posterior.task.reward_names:
        posterior.task.one_reward("nominal")
    known = Problem.of_belief(posterior)
    _check_first("nominal", known)
    result = plan(known)
    warn_unfinished("nominal", result)
    return result.policy


def mle(posterior: Belief) -> FloatArray:
    """Policy that is optimal for the maximum-likelihood model.

    Parameters
    ----------
    posterior
        From `bayesmdp.fit`; only its counts and support matter.

    Returns
    -------
    Array
        Deterministic policy ``[S, A]``; tied actions are decided, always alike.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld(p_rand=0.0)
    >>> posterior = bm.fit(world.sample(2_000, seed=0), world.task)
    >>> bm.policies.mle(posterior)[19].tolist()  # above the goal: down
    [0.0, 0.0, 1.0, 0.0]
    """
    from bayesmdp.engine import Problem
    from bayesmdp.engine.planning import plan, warn_unfinished

    if posterior.task.reward_names:
        posterior.task.one_reward("mle")
    known = Problem.of_dynamics(frequencies(posterior), posterior.task)
    _check_first("mle", known)
    who = "no policy ends at the visit frequencies; take another one than `mle`"
    result = plan(known, who)
    warn_unfinished("mle", result)
    return result.policy


def _check_first(what: str, known: Problem) -> None:
    """Refuse where the best first action depends on what follows it, and back."""
    from bayesmdp.engine.planning import first_reward_differs

    if first_reward_differs(known):
        raise TaskError(
            f"`{what}` has no exact answer for cycle={known.task.cycle!r} without a "
            "horizon where the first reward depends on the action: give a `horizon`, "
            "or cycle='start'; `optimise` knows the task as it is."
        )


def frequencies(posterior: Belief) -> Dynamics:
    """Return the maximum-likelihood model on the available pairs.

    Next states of a pair are taken to be as likely as they were frequent. A pair that
    was never observed has no frequencies; its next states are taken as equally likely
    over the support its prior gave it. At discount 1 there is no optimal policy where
    frequencies lead to no terminal state, whatever the prior allows besides.
    """
    counts, layout = logged_counts("mle", posterior), posterior.rows().layout
    usable = posterior.available[layout.state, layout.action]
    rows = layout.take(np.flatnonzero(usable))
    _, entry = rows.find(counts.state, counts.action, counts.next_state)
    seen = entry >= 0
    count = np.zeros(rows.next_state.size)
    count[entry[seen]] = counts.count[seen]
    total = rows.row_sums(count)
    unseen = total == 0
    count[unseen[rows.row_of_entry]] = 1.0
    total[unseen] = np.diff(rows.indptr)[unseen]
    return Dynamics(rows, _checks.sealed(count / total[rows.row_of_entry]))
