r"""Curves of follow-up: what a log shows, and what a policy leads to.

Observed: with :math:`n_t` episodes at risk at step t, of which :math:`d_t` end, the
Kaplan-Meier estimate is :math:`S_t = \prod_{u < t} (1 - d_u / n_u)`. Greenwood's
variance of its logarithm is :math:`\sum_{u < t} d_u / (n_u (n_u - d_u))`; limits are
taken for :math:`\log(-\log S)`, which keeps them between 0 and 1.

Predicted: the shares of states :math:`x_{t+1} = x_t P_\pi`, for each draw of P, with
terminal states kept; no simulation.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray, PolicyLike, Seed
from bayesmdp.diagnostics._replicates import hazards
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import as_draws
from bayesmdp.model import Log, Task, as_log, as_policy, logged_episodes
from bayesmdp.posterior import Belief, Draws


@dataclass(frozen=True, eq=False)
class KaplanMeier:
    """Share of episodes that have not ended by each step, with its interval."""

    survival: FloatArray  # [T + 1]
    low: FloatArray  # [T + 1]
    high: FloatArray  # [T + 1]
    at_risk: IntArray  # [T], episodes observed from each step to the next
    start: FloatArray  # [S], share of episodes that begin in each state
    level: float


def kaplan_meier(log: Log, task: Task, *, level: float = 0.95) -> KaplanMeier:
    """Estimate from a log how many have not reached a terminal state by each step.

    Parameters
    ----------
    log
        With an ``episode`` column; episodes without an end are censored.
    task
        Its terminal states are the ends.
    level
        Of the pointwise interval (Greenwood, on the scale of log(-log S)).

    Returns
    -------
    KaplanMeier

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.Transitions.from_arrays(
    ...     [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 1, 0], episode=[0, 0, 1, 2]
    ... )
    >>> task = bm.Task(2, 1, reward="alive", discount=1, terminal=1)
    >>> bm.diagnostics.kaplan_meier(log, task).survival.round(3).tolist()
    [1.0, 0.667, 0.0]
    """
    _checks.of_type("task", task, Task, ArgumentError)
    level = _checks.real("level", level, ArgumentError, 0, 1, open_low=True)
    if not task.terminal.size:
        raise ArgumentError("`task` has no terminal states, so that nothing ends.")
    episodes = logged_episodes(as_log(log, task), task)
    n_steps = int(np.diff(episodes.start).max())
    at_risk, hazard = hazards(episodes.step, episodes.next_state, task, n_steps)
    ended = hazard.sum(axis=1)
    survival = np.append(1.0, np.cumprod(1 - ended))
    left = np.maximum(at_risk * (1 - ended), 1e-300)
    variance = np.append(0.0, np.cumsum(ended / left))
    first = np.bincount(episodes.first_state, minlength=task.n_states)
    low, high = _limits(survival, np.sqrt(variance), level)
    return KaplanMeier(
        survival=_checks.sealed(survival),
        low=_checks.sealed(low),
        high=_checks.sealed(high),
        at_risk=_checks.sealed(at_risk),
        start=_checks.sealed(first / first.sum()),
        level=level,
    )


def _limits(
    survival: FloatArray, sd: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    z = NormalDist().inv_cdf(0.5 + level / 2) if level < 1 else np.inf
    inside = (survival > 0) & (survival < 1)
    log = np.log(np.where(inside, survival, 0.5))
    width = z * np.where(inside, sd, 0.0) / np.abs(log)
    low, high = (np.exp(log * np.exp(sign * width)) for sign in (1, -1))
    return np.where(inside, low, survival), np.where(inside, high, survival)


def state_shares(
    policy: PolicyLike,
    draws: Draws | Belief,
    n_steps: int,
    *,
    start: Any = None,
    n_draws: int | None = None,
    seed: Seed | None = None,
) -> FloatArray:
    """Share of a cohort in each state at each step, for each draw.

    Parameters
    ----------
    policy
        ``[S, A]`` or ``[S]``.
    draws
        ``posterior.draws(n, seed)``, or a posterior.
    n_steps
        Steps to follow; step 0 is the start.
    start
        Shares ``[S]`` at step 0; the task's where not given.
    n_draws, seed
        As in `bayesmdp.evaluate`, where ``draws`` is a posterior.

    Returns
    -------
    FloatArray
        ``[D, T + 1, S]``; who ended stays in the terminal state.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task)
    >>> policy = bm.policies.behaviour(posterior)
    >>> shares = bm.diagnostics.state_shares(policy, posterior.draws(50), 10)
    >>> shares.shape, bool(abs(shares.sum(axis=2) - 1).max() < 1e-9)
    ((50, 11, 25), True)
    """
    draws = as_draws(draws, n_draws, seed)
    n_steps = _checks.integer("n_steps", n_steps, 0, ArgumentError)
    belief, task = draws.belief, draws.belief.task
    at = task.start if start is None else start
    at = _checks.shares("start", at, "state", task.n_states, ArgumentError)
    probabilities = as_policy(policy, belief)
    found = np.zeros((draws.n_draws, n_steps + 1, task.n_states))
    found[:, 0] = at
    for d in range(draws.n_draws):
        dynamics = draws.dynamics(d)
        pair = dynamics.rows.pair[dynamics.rows.row_of_entry]
        weight = dynamics.probability * probabilities.ravel()[pair]
        state, after = pair // task.n_actions, dynamics.next_state
        for t in range(n_steps):
            here = np.where(task.is_terminal, 0.0, found[d, t])
            moved = np.bincount(after, here[state] * weight, task.n_states)
            found[d, t + 1] = moved + np.where(task.is_terminal, found[d, t], 0.0)
    return found
