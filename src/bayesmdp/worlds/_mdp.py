"""A known model with its task: a source of data, and an exact judge of policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._typing import (
    ArrayLike,
    BoolArray,
    FloatArray,
    IntArray,
    PolicyLike,
    Seed,
)
from bayesmdp.data import Transitions
from bayesmdp.errors import ArgumentError, DynamicsError
from bayesmdp.model import Dynamics, Task, as_dynamics, as_policy, check_start


@dataclass(frozen=True, init=False, eq=False)
class MDP:
    """A Markov decision process whose dynamics are known.

    Parameters
    ----------
    dynamics
        The true model; also an array ``[S, A, S]``, or matrices of scipy.sparse as
        `Dynamics.from_matrices` takes them.
    task
        The known part.
    support
        What an analyst may know in advance: which next states are possible, boolean
        ``[S, S]``; where not given, those that some action can lead to.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> coin = bm.Dynamics.from_dense([[[0.5, 0.5]], [[0.5, 0.5]]])
    >>> world = bm.MDP(coin, bm.Task(2, 1, reward=[1, 0], discount=0.5))
    >>> world.value([0, 0]).tolist()
    [1.5, 0.5]
    """

    dynamics: Dynamics
    task: Task
    _support: BoolArray | None = field(repr=False)

    def __init__(
        self, dynamics: Any, task: Task, *, support: ArrayLike | None = None
    ) -> None:
        dynamics = as_dynamics(dynamics)
        _checks.of_type("dynamics", dynamics, Dynamics, DynamicsError)
        _checks.of_type("task", task, Task, DynamicsError)
        check_start(task)
        task.no_cost("MDP")
        object.__setattr__(self, "dynamics", dynamics)
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "_support", _checked_support(support, task))
        self._check()

    def __repr__(self) -> str:
        said = _checks.sizes(state=self.task.n_states, action=self.task.n_actions)
        return f"{type(self).__name__}({said}, {self.task.said_time})"

    def _check(self) -> None:
        """Sizes must agree, and every live state must have an action."""
        for name in ("n_states", "n_actions"):
            has, wants = getattr(self.dynamics, name), getattr(self.task, name)
            if has != wants:
                raise DynamicsError(
                    f"`dynamics` and `task` disagree about `{name}`: {has} and {wants}."
                )
        stuck = ~self.available.any(axis=1) & ~self.task.is_terminal
        if stuck.any():
            state = self.task.state_name(int(np.argmax(stuck)))
            raise DynamicsError(
                f"`dynamics` has no action for state {state}, which is not terminal."
            )

    @property
    def available(self) -> BoolArray:
        """Pairs a policy may use, ``[S, A]``."""
        return self.dynamics.available

    @cached_property
    def support(self) -> BoolArray:
        """Which next states are possible from each state, boolean ``[S, S]``."""
        if self._support is not None:
            return self._support
        mask = np.zeros((self.task.n_states, self.task.n_states), dtype=np.bool_)
        rows = self.dynamics.rows
        mask[rows.state[rows.row_of_entry], rows.next_state] = True
        return _checks.sealed(mask)

    @cached_property
    def _cumulative(self) -> FloatArray:
        """Cumulative probability within each row, ``[E]``."""
        running = np.cumsum(self.dynamics.probability)
        before = np.concatenate([[0.0], running])[self.dynamics.indptr[:-1]]
        return _checks.sealed(
            running - np.repeat(before, np.diff(self.dynamics.indptr))
        )

    def value(self, policy: PolicyLike) -> FloatArray:
        """Exact value of a policy in every state, ``[S]``.

        Parameters
        ----------
        policy
            ``[S, A]`` or ``[S]``.

        Examples
        --------
        >>> import numpy as np, bayesmdp as bm
        >>> world = bm.worlds.gridworld(p_rand=0.0)
        >>> right_then_down = np.where(np.arange(25) % 5 == 4, 2, 1)
        >>> world.value(right_then_down)[[14, 19, 24]].tolist()
        [0.999, 1.0, 0.0]
        """
        from bayesmdp.engine import CPU, Problem, Want, check_ending, solve_known

        if self.task.reward_names:
            self.task.one_reward("value", "task")
        probabilities = as_policy(policy, self)[None]
        problem = Problem.of_dynamics(self.dynamics, self.task, probabilities)
        check_ending(problem)
        solved = solve_known(problem, CPU(), Want())[0, 0]
        if problem.lost:
            self.task.plain("value", "task")
        value = np.empty(self.task.n_states)
        value[problem.rows.order] = solved
        ends = problem.ends_of(None)
        return value if ends is None else value + ends[0, 0]

    def sample(self, n: int, seed: Seed = 0) -> Transitions:
        """Try available pairs at random, ``n`` times, independently.

        A smaller sample is the beginning of a larger one with the same seed.

        Parameters
        ----------
        n
            Number of transitions.
        seed
            Which.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.worlds.gridworld().sample(100, seed=0)
        Transitions(100 rows)
        """
        from bayesmdp.engine.simulation import sample_pairs

        n = _checks.integer("n", n, 1, ArgumentError)
        rows = self.dynamics.rows
        live = np.flatnonzero(~self.task.is_terminal[rows.state])
        row, entry = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        sample_pairs(
            _key(seed), rows.indptr, self._cumulative, _checks.sealed(live), row, entry
        )
        return self._transitions(row, entry, {})

    def simulate(
        self,
        policy: PolicyLike,
        n_episodes: int,
        seed: Seed = 0,
        *,
        max_steps: int = 1000,
    ) -> Transitions:
        """Run episodes of a policy from the start distribution.

        Fewer episodes are the beginning of more with the same seed. An episode that
        reaches ``max_steps`` is truncated, not terminated. The reward column is that of
        the transition (a reward ``[S]`` is converted); an episode that starts in a
        terminal state has no rows.

        Parameters
        ----------
        policy
            ``[S, A]`` or ``[S]``.
        n_episodes
            How many.
        seed
            Which.
        max_steps
            When to stop an episode that has not ended.

        Examples
        --------
        >>> import numpy as np, bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> log = world.simulate(np.full((25, 4), 0.25), 10, seed=0)
        >>> log.counts().total == log.n_rows
        True
        """
        from bayesmdp.engine.simulation import run_episodes

        n_episodes = _checks.integer("n_episodes", n_episodes, 1, ArgumentError)
        max_steps = _checks.integer("max_steps", max_steps, 1, ArgumentError)
        rows = self.dynamics.rows
        row_of_pair = np.full(rows.n_states * rows.n_actions, -1)
        row_of_pair[rows.pair] = np.arange(rows.pair.size)
        arguments: tuple[Any, ...] = (
            _key(seed),
            max_steps,
            _checks.sealed(np.cumsum(self.task.start)),
            _checks.sealed(np.cumsum(as_policy(policy, self), axis=1)),
            _checks.sealed(row_of_pair),
            rows.indptr,
            rows.next_state,
            self._cumulative,
            self.task.is_terminal,
        )
        walk: Callable[..., None] = run_episodes
        begin = np.zeros(n_episodes + 1, dtype=np.int64)
        nothing = np.empty(0, dtype=np.int64)
        walk(*arguments, begin, nothing, nothing)  # lengths: streams replay
        row = np.empty(begin[-1], dtype=np.int64)
        entry = np.empty(begin[-1], dtype=np.int64)
        if row.size:
            walk(*arguments, begin, row, entry)
        length = np.diff(begin)
        step = np.arange(row.size) - np.repeat(begin[:-1], length)
        terminated = self.task.is_terminal[rows.next_state[entry]]
        return self._transitions(
            row,
            entry,
            {
                "episode": np.repeat(np.arange(n_episodes), length),
                "step": step,
                "terminated": terminated,
                "truncated": (step == max_steps - 1) & ~terminated,
            },
        )

    def _transitions(
        self, row: IntArray, entry: IntArray, columns: dict[str, ArrayLike]
    ) -> Transitions:
        rows = self.dynamics.rows
        state, action = rows.state[row], rows.action[row]
        next_state = rows.next_state[entry]
        return Transitions.from_arrays(
            state,
            action,
            next_state,
            reward=None
            if self.task.reward_names  # a log has one column of them
            else self.task.transition_reward(state, action, next_state),
            n_states=self.task.n_states,
            n_actions=self.task.n_actions,
            **columns,
        )


def _key(seed: Seed) -> NDArray[np.uint64]:
    key = np.array([_checks.seed_integer(seed), 0x776F726C64], dtype=np.uint64)
    key.flags.writeable = False
    return key


def _checked_support(support: ArrayLike | None, task: Task) -> BoolArray | None:
    if support is None:
        return None
    shape = (task.n_states, task.n_states)
    support = in_order("support", support, ("state", "state"), DynamicsError, task)
    mask: BoolArray = _checks.any_array("support", support, DynamicsError)
    if mask.shape != shape or mask.dtype != np.bool_:
        raise DynamicsError(
            f"`support` must be boolean of shape {shape}; got {mask.dtype} of shape "
            f"{mask.shape}."
        )
    return _checks.frozen(mask)
