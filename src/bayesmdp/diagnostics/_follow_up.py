r"""Follow-up: replicates of a log, what a log shows, and what a policy leads to.

**Replicates** are posterior predictive: as many episodes, from the same starts. Each
takes one draw of the dynamics and the behaviour policy. An episode that was censored is
censored at its length in every replicate too; one that ended may last as long as the
longest of the log. What is made of rows, observed or replicated alike ::

    h[t, k] = rows at step t that end in k / rows at step t     hazards
    S[t]    = prod_{u < t} (1 - sum_k h[u, k])      not ended (Kaplan-Meier)
    F[k]    = sum_t S[t] h[t, k]                    endings (Aalen-Johansen)

and the share of each state among rows at some steps: prevalence among those who are
still observed.

**Observed**: with :math:`n_t` episodes at risk at step t, of which :math:`d_t` end, the
Kaplan-Meier estimate is :math:`S_t = \prod_{u < t} (1 - d_u / n_u)`. Greenwood's
variance of its logarithm is :math:`\sum_{u < t} d_u / (n_u (n_u - d_u))`; limits are
taken for :math:`\log(-\log S)`, which keeps them between 0 and 1.

**Predicted**: the shares of states :math:`x_{t+1} = x_t P_\pi`, for each draw of P,
with terminal states kept; no simulation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import read_only
from bayesmdp._typing import FloatArray, IntArray, PolicyLike, Seed
from bayesmdp.diagnostics._markov_tests import ScoredRows
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import as_draws
from bayesmdp.model import Log, LoggedEpisodes, Task, as_log, as_policy, logged_episodes
from bayesmdp.posterior import Belief, Draws

_PURPOSE = int.from_bytes(b"check", "little")
_GRID = 8  # steps at which prevalence is looked at
_MOST_STATES = 100
_LEAST = 10  # episodes that are still observed at a step


@dataclass(frozen=True, eq=False)
class Grid:
    """Where curves are looked at."""

    n_steps: int  # of the longest episode
    ends: IntArray  # [K], terminal states
    steps: IntArray  # [G]
    states: IntArray  # [J], the most visited

    @classmethod
    def of(cls, episodes: LoggedEpisodes) -> Grid:
        """Take steps that most episodes reach, and the states visited most."""
        length = np.diff(episodes.start)
        at_risk = np.bincount(episodes.step)
        last = max(int((at_risk >= _LEAST).sum()) - 1, 1)
        far = min(max(int(np.quantile(length, 0.9)), _GRID), last)
        steps = np.unique(np.linspace(1, far, _GRID).round().astype(np.int64))
        visits = np.bincount(episodes.state, minlength=episodes.task.n_states)
        most = np.argsort(-visits, kind="stable")[:_MOST_STATES]
        return cls(
            int(length.max()),
            episodes.task.terminal,
            steps,
            np.sort(most[visits[most] > 0]),
        )


class Curves(NamedTuple):
    """What is made of rows."""

    survival: FloatArray  # [T + 1]
    endings: FloatArray  # [K]
    at_risk: FloatArray  # [G], rows at the steps of the grid
    counts: FloatArray  # [G, J], of states among them


def hazards(
    step: IntArray, next_state: IntArray, task: Task, n_steps: int
) -> tuple[IntArray, FloatArray]:
    """Rows at each step ``[T]``, and the share of them that ends in each way [T, K]."""
    n_ends, number = task.terminal.size, np.full(task.n_states, -1)
    number[task.terminal] = np.arange(n_ends)
    at_risk = np.bincount(step, minlength=n_steps)
    ended = np.flatnonzero(task.is_terminal[next_state])
    cell = step[ended] * n_ends + number[next_state[ended]]
    count = np.bincount(cell, minlength=n_steps * n_ends).astype(np.float64)
    return at_risk, count.reshape(n_steps, n_ends) / np.maximum(at_risk, 1)[:, None]


def curves(
    step: IntArray, state: IntArray, next_state: IntArray, task: Task, grid: Grid
) -> Curves:
    """Survival, endings and prevalence of rows ``[N]``."""
    at_risk, hazard = hazards(step, next_state, task, grid.n_steps)
    survival = np.append(1.0, np.cumprod(1 - hazard.sum(axis=1)))
    place = np.full(task.n_states, -1)
    place[grid.states] = np.arange(grid.states.size)
    of_grid = np.full(grid.n_steps + 1, -1)
    of_grid[grid.steps] = np.arange(grid.steps.size)
    at, which = of_grid[step], place[state]
    known = (at >= 0) & (which >= 0)
    counts = np.bincount(
        at[known] * grid.states.size + which[known],
        minlength=grid.steps.size * grid.states.size,
    )
    return Curves(
        survival,
        survival[:-1] @ hazard,
        np.append(at_risk, 0)[grid.steps].astype(np.float64),
        counts.reshape(grid.steps.size, -1).astype(np.float64),
    )


def observed_rows(
    episodes: LoggedEpisodes, pair: IntArray, value: FloatArray
) -> ScoredRows:
    """Score the rows of the log by values ``[S]``; ``pair`` [R] are those there are."""
    task = episodes.task
    row = np.searchsorted(pair, episodes.state * task.n_actions + episodes.action)
    return ScoredRows(
        row,
        episodes.action,
        episodes.follows,
        episodes.step,
        episodes.episode,
        value[episodes.state],
        episodes.reward + task.discount * _after(value, task)[episodes.next_state],
    )


def _after(value: FloatArray, task: Task) -> FloatArray:
    """Value of what comes after a transition: ends are paid by it."""
    return np.where(task.is_terminal, 0.0, value)


@dataclass(frozen=True, eq=False)
class Replicates:
    """Logs made again, one for each draw."""

    episodes: LoggedEpisodes
    policy: FloatArray  # [S, A], that of the log
    value: FloatArray  # [S], that scores next states
    draws: Draws
    grid: Grid

    @cached_property
    def _used(self) -> IntArray:
        """Rows that the behaviour policy uses."""
        pair = self.draws.belief.rows().layout.pair
        return np.flatnonzero(self.policy.ravel()[pair] > 0)

    @property
    def pairs(self) -> IntArray:
        """Their pairs; `ScoredRows.row` counts among them."""
        return self.draws.belief.rows().layout.pair[self._used]

    def __iter__(self) -> Iterator[tuple[ScoredRows, Curves]]:
        """Simulate draw after draw."""
        from bayesmdp.engine.simulation import replicate_episodes  # numba

        task, used = self.episodes.task, self._used
        rows = self.draws.belief.rows().layout.take(used)
        stream = self.draws.stream.of_rows(used)
        of_entry = rows.row_of_entry
        state, action = rows.state[of_entry], rows.action[of_entry]
        chance = self.policy.ravel()[rows.pair][of_entry]
        paid = task.transition_reward(
            rows.state, rows.action, rows.next_state, np.diff(rows.indptr)
        )
        worth = paid + task.discount * _after(self.value, task)[rows.next_state]
        begin = np.searchsorted(state, np.arange(task.n_states + 1))
        first, longest = self.episodes.first_state, self._longest()
        key = read_only(np.array([self.draws.seed, _PURPOSE], dtype=np.uint64))
        theta = np.empty((1, rows.next_state.size))
        start = np.empty(first.size + 1, dtype=np.int64)
        entry = np.empty(2 * self.episodes.n_rows, dtype=np.int64)
        for draw in range(self.draws.n_draws):
            stream.fill(np.array([draw]), np.ones(used.size, dtype=np.bool_), theta)
            running = np.cumsum(chance * theta[0])
            before = np.append(0.0, running)[begin[:-1]]
            cumulative = running - before[state]
            while True:
                n = replicate_episodes(
                    key,
                    draw,
                    read_only(first),
                    read_only(longest),
                    read_only(begin),
                    read_only(cumulative),
                    read_only(rows.next_state),
                    read_only(task.is_terminal),
                    start,
                    entry,
                )
                if n <= entry.size:
                    break
                entry = np.empty(2 * n, dtype=np.int64)
            e = entry[:n]
            length = np.diff(start)
            step = np.arange(n) - np.repeat(start[:-1], length)
            scored = ScoredRows(
                of_entry[e],
                action[e],
                step > 0,
                step,
                np.repeat(np.arange(first.size), length),
                self.value[state[e]],
                worth[e],
            )
            yield scored, curves(step, state[e], rows.next_state[e], task, self.grid)

    def _longest(self) -> IntArray:
        length = np.diff(self.episodes.start)
        return np.where(self.episodes.ended, length.max(), length)


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
