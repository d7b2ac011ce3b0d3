"""Policies to compare with: uniform, as logged, the best of one model, and others'.

`second_order` is optimal for a second-order expansion of the value (Delage and Mannor
2010): good where the posterior is narrow; with little data the expansion can predict
what no model keeps, and the policy is then worse than the nominal one. `msbi` is
multi-sample backward induction (Dimitrakakis 2011), each draw a different one.
`named_policy` finds each by the word that the command line takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, overload

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray, Name, Seed
from bayesmdp.data import Counts
from bayesmdp.errors import (
    ArgumentError,
    BayesmdpWarning,
    PolicyError,
    TaskError,
    TooLargeError,
)
from bayesmdp.model import ALWAYS, POLICY_NAMES, Dynamics, Task
from bayesmdp.posterior import (
    Belief,
    Draws,
    check_belief,
    dirichlet_total,
    logged_counts,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

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
    """Return the behaviour policy of counts on available pairs ``[S, A]``."""
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


_SOFTNESS = 0.1
_N_STEPS = 100


def second_order(posterior: Belief) -> FloatArray:
    """Policy by ascent on the second-order objective, from the softened nominal one.

    Parameters
    ----------
    posterior
        From `bayesmdp.fit`, of up to 2,000 live states.

    Returns
    -------
    Array
        Policy ``[S, A]``, in general stochastic.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> data, prior = world.sample(200, seed=0), bm.SymmetricPrior()
    >>> posterior = bm.fit(data, world.task, prior=prior)
    >>> bm.policies.second_order(posterior).sum(axis=1).round(6).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    from bayesmdp.engine import MAX_INVERSE, Problem, Slopes
    from bayesmdp.engine.ascent import AscentState, climb, frank_wolfe_gap, soften
    from bayesmdp.engine.planning import plan, second_order_objective

    check_belief(posterior)
    posterior.task.plain("second_order")
    dirichlet_total("second_order", posterior)
    problem = Problem.of_belief(posterior)
    n, source = problem.n_live, problem.rows.source
    if n > MAX_INVERSE:
        raise TooLargeError(
            f"`second_order` inverts a matrix of {n} states ({8e-9 * n**2:.1f} GB and "
            f"more); it is offered up to {MAX_INVERSE}."
        )

    def oracle(policy: FloatArray) -> Slopes:
        found = second_order_objective(problem, policy)
        mean = np.bincount(source, policy * found.gradient, minlength=n)
        slope = found.gradient - mean[source]
        left = frank_wolfe_gap(slope, source, n)
        return Slopes(found.value, slope, found.visits, left, 0.0)

    chosen = plan(problem)
    rows = np.zeros(source.size)
    rows[chosen.choice] = 1.0
    scale = float(np.abs(chosen.value).max())
    state = AscentState(soften(rows, source, n, _SOFTNESS))
    climb(state, oracle, source, n, _N_STEPS, 1e-7 * scale)
    return _checks.sealed(problem.rows.as_policy(state.policy))


def msbi(
    posterior: Belief,
    n_draws: int = 2048,
    max_iterations: int = 500,
    seed: Seed = 0,
    *,
    memory_limit: int = 256_000_000,
    threads: int | None = None,
    executor: Executor | None = None,
) -> FloatArray:
    """Policy by backward induction on many draws at once, from the nominal policy.

    Keeps the best policy it settled on or met last, by exact value on its draws.
    Those draws are its own:
    ``posterior.draws`` with the same seed gives others.

    Parameters
    ----------
    posterior
        A posterior, or an ensemble, whose models are drawn by their weights.
    n_draws
        How many draws, at least 2; fewer, with a warning, where they do not fit.
    max_iterations
        When to stop.
    seed
        Which draws.
    memory_limit
        Bytes the draws may take, in each process that works on them.
    threads, executor
        As in `bayesmdp.evaluate`.

    Returns
    -------
    Array
        Deterministic policy ``[S, A]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> posterior = bm.fit(world.sample(200, seed=0), world.task)
    >>> bm.policies.msbi(posterior, n_draws=256).shape
    (5, 5)
    """
    from bayesmdp.engine import Problem
    from bayesmdp.engine.multisample import multi_sample_induction
    from bayesmdp.engine.planning import plan

    check_belief(posterior)
    posterior.task.plain("msbi")
    n_draws = _checks.integer("n_draws", n_draws, 2, ArgumentError)
    max_iterations = _checks.integer("max_iterations", max_iterations, 1, ArgumentError)
    problem = Problem.of_belief(posterior)
    memory_limit = _checks.integer("memory_limit", memory_limit, 1, ArgumentError)
    rows = problem.rows
    size = rows.target.size + rows.source.size + rows.start.size
    fits = max(2, memory_limit // (8 * size))
    if n_draws > fits:
        warnings.warn(
            f"`msbi` uses {fits} of {n_draws} draws: more would take over "
            f"{memory_limit / 1e6:.0f} MB; raise `memory_limit` to use them.",
            BayesmdpWarning,
            stacklevel=2,
        )
        n_draws = fits
    draws = Draws(posterior, n_draws, _checks.seed_integer(seed), "msbi")
    result = multi_sample_induction(
        problem.with_stream(draws.stream),
        plan(problem).choice,
        n_draws,
        max_iterations,
        threads,
        executor,
    )
    if not result.converged and result.iterations >= max_iterations:
        warnings.warn(
            f"`msbi` {result.status}; the best policy met is returned.",
            BayesmdpWarning,
            stacklevel=2,
        )
    return rows.of_choice(result.choice)


_NAMED: dict[str, Callable[..., FloatArray]] = dict(
    zip(
        POLICY_NAMES,
        (behaviour, mle, nominal, second_order, msbi, uniform),
        strict=True,
    )
)


def named_policy(
    name: str,
    posterior: Belief,
    *,
    seed: Seed = 0,
    threads: int | None = None,
    executor: Executor | None = None,
) -> FloatArray:
    """Make a policy ``[S, A]`` by its name, or by ``always:`` and an action."""
    if isinstance(name, str) and name.startswith(ALWAYS):
        action, task = name.removeprefix(ALWAYS), posterior.task
        numbered = task.action_labels is None and action.isdecimal()
        return constant(posterior, int(action) if numbered else action)
    if name not in _NAMED:
        hint = _checks.did_you_mean(name, _NAMED)
        raise PolicyError(
            f"`name` must be one of {', '.join(_NAMED)}, or {ALWAYS}ACTION; got "
            f"{name!r:.40}{hint}."
        )
    if name == "msbi":
        return msbi(posterior, seed=seed, threads=threads, executor=executor)
    return _NAMED[name](posterior)
