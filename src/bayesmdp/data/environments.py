"""Transitions from a Gymnasium environment, made or by name, that is run here."""

from __future__ import annotations

import operator
import warnings
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._resources import progress_bar
from bayesmdp._typing import ArrayLike, FloatArray, Seed
from bayesmdp.data._transitions import Transitions
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError, PolicyError

__all__ = ["discrete", "opened"]


@contextmanager
def opened(env: Any, needed_by: str) -> Iterator[Any]:
    """Yield an environment; one that was made here, from its name, is closed again."""
    gymnasium = _checks.extra("gymnasium", "gym", needed_by)
    if isinstance(env, gymnasium.Env):
        yield env
        return
    if not isinstance(env, str):
        raise ArgumentError(
            "`env` must be a single Gymnasium environment or the name of one, such as "
            f"'FrozenLake-v1'; got {type(env).__name__}."
        )
    try:
        made = gymnasium.make(env)
    except (gymnasium.error.Error, ImportError) as problem:
        said = " ".join(str(problem).split()).rstrip(".")
        raise ArgumentError(
            f"`env` {env!r:.80} cannot be made: {said:.300}."
        ) from problem
    try:
        yield made
    finally:
        made.close()


def discrete(space: Any, name: str) -> tuple[int, int]:
    """Size and first id of a discrete space; ``name`` says whose, in messages."""
    if type(space).__name__ != "Discrete":
        raise ArgumentError(
            f"`{name}` must be Discrete; got {space!r:.80}; number its elements from "
            "0 first."
        )
    return int(space.n), int(space.start)


_MAX_STEPS = 1000  # where neither the caller nor the environment sets a limit
_SUM_TOLERANCE = 1e-6


def collect(
    env: Any,
    policy: ArrayLike | str | None,
    n_episodes: int,
    seed: Seed = 0,
    *,
    max_steps: int | None = None,
    add_end: bool = False,
) -> Transitions:
    """Run a Gymnasium environment and log what happens.

    Each episode has its own seed, for the environment and for the policy, found from
    ``seed`` and its number: fewer episodes are the beginning of more. Ids are counted
    from 0, wherever the environment's spaces start. Masks of actions are not looked at.

    Parameters
    ----------
    env
        An environment with discrete observations and actions, or the name of one;
        wrappers count. It is reset, and closed only where its name was given.
    policy
        ``[S, A]``, ``[S]``, or ``"uniform"``, which None means too. Rows of zeros are
        for states where nothing is decided.
    n_episodes
        How many.
    seed
        Which.
    max_steps
        When to cut an episode off, unless the environment does so earlier; where not
        given, the environment's own limit, or 1,000.
    add_end
        Whether steps that end an episode lead to a state of their own, after all
        others, instead of the last observation; `worlds.from_gymnasium` adds the same
        state, labelled ``"end"``, where episodes can both end in a state and go on from
        it. Without it, such states are warned of.

    Returns
    -------
    Transitions
        ``terminated`` as the environment says; ``truncated`` where it, or
        ``max_steps``, cut the episode off. Both kinds of last steps are counted.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.data.collect("FrozenLake-v1", "uniform", n_episodes=20, seed=0)
    >>> lake = bm.worlds.from_gymnasium("FrozenLake-v1", discount=0.99)
    >>> bm.fit(log, lake.task).counts.total == log.n_rows
    True
    """
    n_episodes = _checks.integer("n_episodes", n_episodes, 1, ArgumentError)
    if max_steps is not None:
        max_steps = _checks.integer("max_steps", max_steps, 1, ArgumentError)
    if not isinstance(add_end, bool):
        raise ArgumentError(f"`add_end` must be True or False; got {add_end!r:.80}.")
    key = _checks.seed_integer(seed)
    with opened(env, "collect") as made, progress_bar("collect", n_episodes) as show:
        runner = _runner(made, policy, max_steps, add_end)
        log: _Log = {name: array(kind) for name, kind in _KINDS.items()}
        for episode in range(n_episodes):
            runner.run(episode, key, log)
            show(episode + 1)
    columns = {
        name: np.array(x, dtype=np.bool_ if x.typecode == "b" else None)
        for name, x in log.items()
    }
    if add_end:
        columns["next_state"][columns["terminated"]] = runner.n_states - 1
    else:
        _warn_of_ends_that_go_on(columns)
    return Transitions.from_arrays(
        **columns, n_states=runner.n_states, n_actions=runner.n_actions
    )


#: Columns that grow, without a Python object a number; flags are bytes.
_KINDS = {"state": "q", "action": "q", "next_state": "q", "reward": "d"}
_KINDS |= {"episode": "q", "step": "q", "terminated": "b", "truncated": "b"}
_Log = dict[str, "array[Any]"]


@dataclass(frozen=True, eq=False)
class _Runner:
    """An environment, and how to act in it."""

    env: Any
    n_states: int
    n_actions: int
    first_state: int  # what the environment calls state 0
    first_action: int
    cumulative: list[list[float] | None]  # [S][A] of the policy; None: it has no row
    max_steps: int

    def run(self, episode: int, seed: int, log: _Log) -> None:
        """Log one episode."""
        source = np.random.SeedSequence([seed, episode])
        choose = np.random.default_rng(source.spawn(1)[0])
        seen, _ = self.env.reset(seed=int(source.generate_state(1)[0]))
        state = self._state(seen, episode)
        for step in range(self.max_steps):
            action = self._action(state, choose.random(), episode)
            sent = action + self.first_action
            seen, reward, terminated, truncated, _ = self.env.step(sent)
            next_state = self._state(seen, episode)
            last = step == self.max_steps - 1 and not terminated
            flags = bool(terminated), bool(truncated) or last
            paid = _reward(reward, episode)
            row = (state, action, next_state, paid, episode, step, *flags)
            for column, value in zip(log.values(), row, strict=True):
                column.append(value)
            if terminated or truncated:
                return
            state = next_state

    def _state(self, seen: Any, episode: int) -> int:
        n_seen = len(self.cumulative)
        try:
            state = operator.index(seen) - self.first_state
        except TypeError:
            state = -1
        if not 0 <= state < n_seen:
            raise CountsError(
                f"`env` must show observations in {self.first_state}.."
                f"{self.first_state + n_seen - 1}, as its space says: episode "
                f"{episode} met {seen!r:.80}."
            )
        return state

    def _action(self, state: int, uniform: float, episode: int) -> int:
        row = self.cumulative[state]
        if row is None:
            raise PolicyError(
                f"`policy` has no action for state {state}, which episode {episode} "
                "met."
            )
        return bisect_right(row, uniform)


def _runner(
    env: Any, policy: ArrayLike | str | None, max_steps: int | None, add_end: bool
) -> _Runner:
    n_seen, first_state = discrete(env.observation_space, "env.observation_space")
    n_actions, first_action = discrete(env.action_space, "env.action_space")
    n_states = n_seen + add_end
    rows = _probabilities(policy, n_states, n_actions)[:n_seen]
    spec = env.spec
    return _Runner(
        env,
        n_states,
        n_actions,
        first_state,
        first_action,
        [_cumulative(row) if row.any() else None for row in rows],
        max_steps or (spec and spec.max_episode_steps) or _MAX_STEPS,
    )


def _probabilities(
    policy: ArrayLike | str | None, n_states: int, n_actions: int
) -> FloatArray:
    """Return ``[S, A]``, every row a distribution or all zero.

    A policy for a task leaves out its terminal states; here no task says which.
    """
    shape = (n_states, n_actions)
    if policy is None or (isinstance(policy, str) and policy == "uniform"):
        return np.full(shape, 1.0 / n_actions)
    policy = in_order("policy", policy, ("state", "action"), PolicyError)
    found = _checks.any_array("policy", policy, PolicyError)
    if found.shape == shape[:1]:
        chosen = _checks.index_array("policy", found, PolicyError, n_actions, "state")
        return np.asarray(np.eye(n_actions)[chosen])
    rows = _checks.float_array("policy", found, ("state", "action"), PolicyError, shape)
    if (rows < 0).any():
        state, action = _checks.first_true(rows < 0)
        raise PolicyError(
            f"`policy` must not be negative: state {state}, action {action} has "
            f"{rows[state, action]:g}."
        )
    total = rows.sum(axis=1)
    off = (np.abs(total - 1.0) > _SUM_TOLERANCE) & (total > 0)
    if off.any():
        state = int(np.argmax(off))
        raise PolicyError(
            f"`policy` rows must sum to 1: state {state} sums to {total[state]:.6g}."
        )
    return rows


def _cumulative(row: FloatArray) -> list[float]:
    """Add up a row; the last action that has any probability ends at 1 exactly."""
    total = np.cumsum(row)
    return (total / total[-1]).tolist()  # type: ignore[no-any-return]


def _reward(reward: Any, episode: int) -> float:
    try:
        return float(reward)
    except (TypeError, ValueError):
        raise CountsError(
            f"`env` must pay numbers: episode {episode} was paid {reward!r:.80}."
        ) from None


def _warn_of_ends_that_go_on(columns: dict[str, NDArray[Any]]) -> None:
    """Say where a state both ended an episode and was left in one."""
    ends = columns["terminated"]
    both = np.intersect1d(columns["next_state"][ends], columns["state"])
    if both.size:
        warnings.warn(
            f"`collect`: episodes both ended in and went on from {both.size} of the "
            f"states (first: state {both[0]}), which counts cannot tell apart; "
            "`add_end=True` gives ends a state of their own.",
            BayesmdpWarning,
            stacklevel=3,
        )
