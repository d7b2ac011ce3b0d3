"""Monte Carlo roll-outs in every posterior draw (Joshi, Parbhoo and Doshi-Velez 2021).

Every live state is left ``n`` times in each of ``D`` draws, for at most ``H`` steps
(``engine/simulation.py``); what is made of the returns stands in `_errors`. What a walk
has not earned after ``H`` steps is lost, however many there are: up to ``g^H Vmax`` of
the value (paper, appendix A).

**How many draws a guarantee takes** (paper, appendix A). Values lie in ``[-Vmax,
Vmax]`` with ``Vmax = rmax / (1 - g)``, so by Hoeffding's inequality the mean of ``n``
draws is within ``e`` of the posterior mean with probability ``1 - q`` if ::

    n >= log(2 / q) 2 Vmax^2 / e^2

Roll-outs of length ``H`` lose up to ``g^H Vmax`` of each return, whatever their number:
the same with ``e - g^H Vmax`` in place of ``e``. (The appendix prints ``n^2`` in the
exponent of the roll-out bound and puts the least horizon at 0.999 and 0.001 near 10^5;
it is 13,809.)

The bound holds for any posterior and is far from what is needed in practice:
``Evaluation.start_value_mcse`` says what was reached.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import read_only
from bayesmdp._resources import check_room, progress_bar
from bayesmdp._typing import FloatArray, IndexArray, IntArray, PolicyLike, Seed
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.evaluation._errors import (
    Estimates,
    from_start,
    of_start,
    of_states,
    plain_mcse,
)
from bayesmdp.evaluation._evaluate import as_draws, share_of_visits
from bayesmdp.evaluation._evaluation import Evaluation
from bayesmdp.model import RewardTriplets, Task, as_policy
from bayesmdp.posterior import Belief, Draws

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from bayesmdp.engine import Ending, Problem
    from bayesmdp.engine.simulation import Ground


_PURPOSE = int.from_bytes(b"rollouts", "little")  # keeps walks apart from draws
_MOST = 10**12  # steps, or roll-outs
_TASKS_A_WORKER = 8


def truncation_bound(task: Task, horizon: int) -> float:
    """Most that a roll-out of some length can miss of a value.

    ``g^H Vmax`` with ``Vmax = rmax / (1 - g)``, for the largest absolute reward of the
    task. It holds for any dynamics and policy, so most tasks stay far below it: where
    episodes end before the horizon, nothing is missed.

    Parameters
    ----------
    task
        Its rewards and discount; infinite with discount 1.
    horizon
        Steps of a roll-out.

    Returns
    -------
    float

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.worlds.gridworld().task
    >>> [round(bm.evaluation.truncation_bound(task, h), 5) for h in (1000, 13_809)]
    [367.69542, 0.001]
    """
    _checks.of_type("task", task, Task, ArgumentError)
    horizon = _number("horizon", horizon, 1)
    task.plain("truncation_bound", "task")
    reward = task.reward
    paid = reward.reward if isinstance(reward, RewardTriplets) else np.asarray(reward)
    return _bound(task.discount, horizon, paid)


def _bound(discount: float, horizon: int, rewards: FloatArray) -> float:
    largest = float(np.abs(rewards).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    return discount**horizon * largest / (1.0 - discount) if discount < 1 else math.inf


def rollout_evaluate(
    policy: PolicyLike,
    draws: Draws | Belief,
    n_rollouts: int,
    horizon: int,
    *,
    seed: Seed = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
) -> Evaluation:
    """Value of a policy with both uncertainties, by Monte Carlo roll-outs.

    Every state is left ``n_rollouts`` times in every draw. The walks are a function of
    (seed, draw, state, number) alone. `bayesmdp.evaluate` finds the same without any,
    and on the same draws differs from this by the noise of roll-outs.

    Parameters
    ----------
    policy
        ``[S, A]`` probabilities or ``[S]`` actions, on available pairs.
    draws
        From ``posterior.draws(n, seed)``; of an ensemble, ``ensemble.draws(n, seed)``.
        Of a posterior itself, 1,000 draws with seed 0.
    n_rollouts
        Roll-outs from each state in each draw, 2 or more.
    horizon
        Steps of a roll-out at most. What it cuts off is no part of the errors: a note
        says how much it may be (`truncation_bound`), and warns where that, times the
        share of roll-outs that were cut, is more than the error of the start value.
    seed
        Of the roll-outs; that of the posterior's draws is their own.
    threads, executor, progress
        As in `bayesmdp.evaluate`. Results do not depend on them.

    Returns
    -------
    Evaluation
        ``*_mcse`` hold the noise of draws and of roll-outs. Of ``start_values`` each
        is a mean of roll-outs, so their spread is wider than the uncertainty;
        ``epistemic_sd`` is corrected for that.

    References
    ----------
    Joshi, Parbhoo and Doshi-Velez (2021), *Pre-emptive learning-to-defer for sequential
    medical decision-making under uncertainty*; the paper, appendix A.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(1000, seed=0), world.task)
    >>> policy, draws = np.full((25, 4), 0.25), posterior.draws(500, seed=0)
    >>> found = bm.evaluation.rollout_evaluate(
    ...     policy, draws, n_rollouts=10, horizon=1000
    ... )
    >>> exact = bm.evaluate(policy, draws)
    >>> bool(abs(found.start_value - exact.start_value) < 4 * found.start_value_mcse)
    True
    """
    from bayesmdp import engine
    from bayesmdp.engine.simulation import Ground

    draws = as_draws(draws)
    draws.belief.task.plain("rollout_evaluate")
    n = _number("n_rollouts", n_rollouts, 2)
    horizon = _number("horizon", horizon, 1)
    number = _checks.seed_integer(seed)
    if draws.exact:
        raise ArgumentError(
            "`draws` must be sampled for roll-outs; take `ensemble.draws(n, seed)`."
        )
    probabilities = as_policy(policy, draws.belief)
    _check_memory(draws)
    problem = engine.Problem.of_draws(draws, probabilities[None])
    ending = engine.check_ending(problem, draws.belief)[0]
    ground = Ground(
        np.array([number, _PURPOSE], dtype=np.uint64),
        problem.rows.order[: problem.n_live].copy(),
        _first_entries(problem),
        problem.rows.start.copy(),
        n,
        horizon,
        draws.belief.task.discount,
    )
    walked = _walk_all(problem, ground, draws.n_draws, threads, executor, progress)
    result, alarms = _evaluation(walked, ground, problem, draws, probabilities, ending)
    for note in alarms:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    return result


def _number(name: str, value: int, low: int) -> int:
    """Check a number that no walk would live to exceed."""
    number = _checks.integer(name, value, low, ArgumentError)
    if number > _MOST:
        raise ArgumentError(f"`{name}` must be at most {_MOST}; got {value!r:.40}.")
    return number


def _check_memory(draws: Draws) -> None:
    """Refuse what cannot be held: four numbers a draw and state, twice for a moment."""
    n, needed = draws.n_draws, 64 * draws.n_draws * draws.belief.task.n_states
    what = f"Roll-outs of {n} draws take"
    check_room(needed, what, lambda there: f"take {int(n * there / needed)} draws")


def _first_entries(problem: Problem) -> IndexArray:
    """First entry of each live state, ``[N + 1]``: rows stand in their order."""
    row = np.searchsorted(problem.rows.source, np.arange(problem.n_live + 1))
    return problem.rows.indptr[row].astype(np.uint32)


class _Part(NamedTuple):
    """What walks in a range of draws came to, states in sweep order."""

    mean: FloatArray  # [D, N]
    variance: FloatArray  # [D, N]
    visits: FloatArray  # [D, S]
    cut: IntArray  # [N], walks that the horizon cut


def _walk_all(
    problem: Problem,
    ground: Ground,
    n_draws: int,
    threads: int | None,
    executor: Executor | None,
    progress: bool | None,
) -> _Part:
    """Walk in all draws, on all workers."""
    from bayesmdp import engine

    parts: list[_Part] = []
    with (
        engine.workers(threads, executor) as pool,
        progress_bar("rolling out", n_draws, progress) as show,
    ):
        size = -(-n_draws // (_TASKS_A_WORKER * pool.in_flight))
        jobs = (
            (problem, ground, first, min(size, n_draws - first))
            for first in range(0, n_draws, size)
        )
        with engine.results(pool, _walk_range, jobs) as found:
            for part in found:
                parts.append(part)
                show(min(len(parts) * size, n_draws))
    mean, variance, visits = (
        np.concatenate([part[i] for part in parts]) for i in range(3)
    )
    return _Part(mean, variance, visits, np.sum([part.cut for part in parts], axis=0))


def _walk_range(problem: Problem, ground: Ground, first: int, n: int) -> _Part:
    """Walk in ``n`` draws from ``first`` on."""
    from bayesmdp.engine.simulation import roll_out

    n_live, rows, stream = problem.n_live, problem.rows, problem.stream
    assert stream is not None
    part = _Part(
        np.empty((n, n_live)),
        np.empty((n, n_live)),
        np.zeros((n, rows.start.size)),
        np.zeros(n_live, dtype=np.int64),
    )
    theta = np.empty((1, rows.target.size))
    for i in range(n):
        draws = np.array([first + i])
        stream.fill(draws, problem.used, theta)
        own = stream.rewards(draws)
        roll_out(
            first + i,
            rows.layout,
            read_only(theta),
            read_only(rows.reward[None] if own is None else own),
            read_only(problem.policies[0]),
            ground,
            part.mean[i : i + 1],
            part.variance[i : i + 1],
            part.visits[i : i + 1],
            part.cut,
        )
    return part


def _every_state(walked: _Part, problem: Problem) -> tuple[FloatArray, FloatArray]:
    """Means and variances of all states of the task, ``[D, S]``."""
    n_draws, n_live = walked.mean.shape
    rows, stream = problem.rows, problem.stream
    final = None if stream is None else stream.terminal_values(np.arange(n_draws))
    m, v = np.zeros((2, n_draws, rows.order.size))
    m[:, rows.order] = rows.terminal_value if final is None else final[:, rows.order]
    m[:, rows.order[:n_live]] = walked.mean
    v[:, rows.order[:n_live]] = walked.variance
    return m, v


def _evaluation(
    walked: _Part,
    ground: Ground,
    problem: Problem,
    draws: Draws,
    policy: FloatArray,
    ending: Ending,
) -> tuple[Evaluation, list[str]]:
    """Put the record together, and say what to warn of."""
    task, n = draws.belief.task, ground.n_rollouts
    m, v = _every_state(walked, problem)
    states, whole = of_states(m, v, n), of_start(m, v, n, task.start)
    visits = np.empty_like(walked.visits)
    visits[:, problem.rows.order] = walked.visits
    occupancy = visits.mean(axis=0)
    error = plain_mcse(visits.T)
    if not ending.visits_exist:
        occupancy[task.live] = error[task.live] = np.nan
    hidden, matters = _truncation(walked, ground, problem, draws, whole)
    alarms = [*ending.notes, *(hidden if matters else [])]
    fields: dict[str, Any] = {}
    for name, x in vars(states).items():
        fields[name] = _checks.sealed(x)
    for name, x in vars(whole).items():
        fields[f"start_{name}"] = float(x[0])
    result = Evaluation(
        **fields,
        occupancy=_checks.sealed(occupancy),
        occupancy_mcse=_checks.sealed(error),
        start_values=_checks.sealed(from_start(m, task.start)),
        values=_checks.sealed(m),
        n_draws=draws.n_draws,
        exact=False,
        n_endless=0,
        n_unsolved=0,
        n_retried=0,
        solver="roll-outs",
        variance_reduction=1.0,
        prior_share=share_of_visits(occupancy, policy, draws, fewer_than=1),
        notes=(*ending.notes, *hidden, *_below_noise(states, whole, task)),
        seed=draws.seed,
        policy=_checks.frozen(policy),
        task=task,
    )
    return result, alarms


def _truncation(
    walked: _Part, ground: Ground, problem: Problem, draws: Draws, whole: Estimates
) -> tuple[list[str], bool]:
    """Say what the horizon may hide, and whether that is more than the error."""
    task = draws.belief.task
    bound = truncation_bound(task, ground.horizon)
    own = draws.stream.rewards(np.arange(draws.n_draws))
    if own is not None:  # each model has its own
        bound = _bound(task.discount, ground.horizon, own)
    if bound == 0.0:
        return [], False
    share = walked.cut / (draws.n_draws * ground.n_rollouts)
    most = f"at most {bound:.3g} (g^H Vmax)" if bound < math.inf else "without a bound"
    left = f"{100 * share.mean():.3g} %" if share.any() else "none"
    note = (
        f"Roll-outs stop after {ground.horizon} steps, when {left} of them had not "
        f"ended: no error holds what a cut may hide of a value, {most}."
    )
    cut = float(share @ ground.start[: share.size])
    return [note], cut > 0 and cut * bound > float(whole.value_mcse[0])


def _below_noise(states: Estimates, whole: Estimates, task: Task) -> list[str]:
    """Say where chance explains all of the spread between draws, and more."""
    lost = np.flatnonzero((states.epistemic_sd == 0) & (states.aleatoric_sd > 0))
    where = [f"state {task.state_name(int(lost[0]))}"] if lost.size else []
    where += [f"{lost.size - 1} more"] if lost.size > 1 else []
    if whole.epistemic_sd[0] == 0 and whole.aleatoric_sd[0] > 0:
        where.insert(0, "the start")
    if not where:
        return []
    return [
        "`epistemic_sd` is below the noise of roll-outs, and 0, for "
        f"{', '.join(where)}: its error says how large it may be; take more roll-outs "
        "or draws."
    ]


def draws_needed(
    error: float,
    *,
    discount: float,
    max_reward: float = 1.0,
    failure: float = 0.05,
    horizon: int | None = None,
) -> int:
    """Draws after which the value is within ``error`` with a stated probability.

    Parameters
    ----------
    error
        Largest deviation, above 0.
    discount
        In [0, 1); with 1, values have no bound.
    max_reward
        Largest absolute reward of a step.
    failure
        Probability that the deviation is larger, in (0, 1].
    horizon
        Length of simulated roll-outs; None for exact moments.

    Returns
    -------
    int

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.evaluation.draws_needed(0.1, discount=0.9)
    73778
    >>> bm.evaluation.draws_needed(0.1, discount=0.9, horizon=100)
    74172
    """
    error = _checks.real("error", error, ArgumentError, 0, open_low=True)
    failure = _checks.real("failure", failure, ArgumentError, 0, 1, open_low=True)
    max_reward = _checks.real("max_reward", max_reward, ArgumentError, 0)
    discount = _checks.real("discount", discount, ArgumentError, 0, 1)
    if discount == 1.0:
        raise ArgumentError("`discount` must be below 1: values have no bound at 1.")
    bound = max_reward / (1.0 - discount)
    left = error
    if horizon is not None:
        horizon = _checks.integer("horizon", horizon, 1, ArgumentError)
        left = error - discount**horizon * bound
        if left <= 0:
            raise ArgumentError(
                f"`horizon` {horizon} truncates more than `error` {error:g}; it must "
                f"be at least {_least_horizon(error, discount, bound)}."
            )
    ratio = bound / left
    if ratio > 1e100:
        raise ArgumentError(f"`error` {error:g} is too small for any number of draws.")
    return max(1, math.ceil(math.log(2.0 / failure) * 2.0 * ratio**2))


def _least_horizon(error: float, discount: float, bound: float) -> int:
    """Smallest horizon whose truncation is below the error."""
    return math.floor(math.log(error / bound) / math.log(discount)) + 1
