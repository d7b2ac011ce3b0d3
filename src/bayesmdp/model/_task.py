"""What is decided in advance: sizes, reward, discount, start and terminal states.

Rewards come in two kinds, which differ by one factor of the discount ``g``.

* ``[S]`` is for *being* in a state: counted at every step including the first. A
  terminal state's is earned once, on arrival, and the episode ends; its value is
  its reward.
* ``[S, A]``, ``[S, A, S]`` and triplets are for a *transition*, discounted by the
  time it starts. A terminal state has value 0.

Inside, everything is a transition reward. The first kind becomes ::

    r[s, a, t] = r[s] + g r[t] [t terminal]
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._sheet import Sheet, Shown
from bayesmdp._typing import (
    ArrayLike,
    BoolArray,
    FloatArray,
    IntArray,
    Name,
)
from bayesmdp.errors import TaskError
from bayesmdp.model._from_data import task_from_data
from bayesmdp.model._names import index_of, listed, names_given, read_labels
from bayesmdp.model._reward import RewardTriplets, check_size, columns_of

_AXES = ("state", "action", "next_state")


@dataclass(frozen=True, init=False, eq=False)
class Task(Shown):
    """The known part of the decision problem.

    Parameters
    ----------
    n_states, n_actions
        Sizes.
    reward
        ``[S]``, ``[S, A]``, ``[S, A, S]``, or a tuple of four columns (state, action,
        next_state, reward) with zero elsewhere; also ``reward`` of another task, or
        ``"alive"``: 1 in every state that is not terminal, as for life-years.
        ``[S]`` is for being in a state, the others for a transition; they differ by one
        factor of the discount. The largest is 0 or between 1e-50 and 1e50 in size. No
        transition leaves a terminal state: what the other forms say about its rows is
        ignored. A pandas object with an index of labels, or a polars table with a
        column of them, is matched by label.
    discount
        In [0, 1]. With 1, every policy that is evaluated must end.
    start
        ``"uniform"`` over the states that are not terminal, a state, or
        probabilities ``[S]``, which may be labelled, too; or ``"logged"``: the share of
        episodes that begin in each state of the log that the task is fitted with.
    terminal
        States in which the episode ends.
    state_labels, action_labels
        Names; wherever a state is asked for, its label will do.
    reward_unit
        What rewards are counted in, such as ``"life-years"``; tables and the report
        then say so.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(3, 2, reward=[0, 0, 1], discount=0.9, terminal=["home"],
    ...                state_labels=["ward", "icu", "home"])
    >>> task.terminal.tolist(), task.start.tolist(), task.state("icu")
    ([2], [0.5, 0.5, 0.0], 1)
    """

    n_states: int
    n_actions: int
    reward: FloatArray | RewardTriplets = field(repr=False)
    discount: float
    start: FloatArray = field(repr=False)  # [S]
    terminal: IntArray  # [K], sorted
    state_labels: tuple[str, ...] | None = field(repr=False)
    action_labels: tuple[str, ...] | None = field(repr=False)
    reward_unit: str | None = field(repr=False)

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        reward: Literal["alive"]
        | ArrayLike
        | tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike]
        | RewardTriplets,
        *,
        discount: float,
        start: Name | ArrayLike = "uniform",
        terminal: Name | Sequence[Name] | IntArray = (),
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
        reward_unit: str | None = None,
    ) -> None:
        put = object.__setattr__
        n_states = _checks.size("n_states", n_states, TaskError)
        n_actions = _checks.size("n_actions", n_actions, TaskError)
        put(self, "n_states", n_states)
        put(self, "n_actions", n_actions)
        put(self, "discount", _checks.real("discount", discount, TaskError, 0, 1))
        put(self, "state_labels", read_labels("state_labels", state_labels, n_states))
        put(
            self,
            "action_labels",
            read_labels("action_labels", action_labels, n_actions),
        )
        put(self, "reward_unit", _read_unit(reward_unit))
        put(self, "terminal", self._read_terminal(terminal))
        put(self, "reward", self._read_reward(reward))
        put(self, "start", self._read_start(start))

    @classmethod
    def from_data(
        cls,
        data: Any,
        *,
        discount: float,
        reward: Any = None,
        terminal: Name | Sequence[Name] | IntArray | None = None,
        start: Name | ArrayLike = "uniform",
        n_states: int | None = None,
        n_actions: int | None = None,
        reward_unit: str | None = None,
    ) -> "Task":
        """Read a task off a log: sizes, names, rewards and ends.

        What is doubtful is said in a `BayesmdpWarning` with figures; ``summary`` says
        what was found.

        Parameters
        ----------
        data
            Transitions, or a dataframe of them.
        discount
            In [0, 1]; no log says it. With 1, every episode must end, so there must be
            terminal states.
        reward
            As `Task` takes it. Where not given, each transition's logged mean: paid for
            the transition, and 0 for those never observed, which a posterior may hold
            possible. Where the logged reward varies for the same transition, only its
            mean is kept, and a warning says how much it varies
            (``data.reward_statistics()`` has the spread of each).
        terminal
            States in which episodes end. Where not given, those whose every arrival is
            flagged ``terminated`` and that were never left; rows that stay where they
            are count as neither. A state with some arrivals flagged and others not is
            warned of and not taken. Without flags none is.
        start
            As `Task` takes it, or ``"logged"``: the share of episodes that begin in
            each state, which needs ``episode`` and ``step`` columns.
        n_states, n_actions
            Sizes; where not given, the data's: the number of names, or the largest id.
        reward_unit
            As `Task` takes it.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> log = bm.Transitions.from_arrays(
        ...     [0, 1, 0], [0, 1, 0], [1, 2, 1],
        ...     reward=[0, 5, 0], terminated=[False, True, False],
        ... )
        >>> print(bm.Task.from_data(log, discount=0.9).summary())
        Task of 3 states and 2 actions, discount 0.9
          terminal: 2
          reward: 2 transitions, from 0 to 5; 0 for others
          start: evenly in 2 states
        """
        return task_from_data(
            cls,
            data,
            discount=discount,
            reward=reward,
            terminal=terminal,
            start=start,
            n_states=n_states,
            n_actions=n_actions,
            reward_unit=reward_unit,
        )

    def with_labels(
        self,
        *,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
    ) -> "Task":
        """Return the same task with other names, where they are given.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> task.with_labels(state_labels=["ward", "icu"]).state("icu")
        1
        """
        other = copy(self)
        for name, labels, size in (
            ("state_labels", state_labels, self.n_states),
            ("action_labels", action_labels, self.n_actions),
        ):
            if labels is not None:
                object.__setattr__(other, name, read_labels(name, labels, size))
        return other

    @property
    def needs_log(self) -> bool:
        """Whether ``start`` is to be that of a log, which was not looked at yet."""
        return bool(np.isnan(self.start).any())

    def with_start(self, start: Name | ArrayLike) -> "Task":
        """Return the same task with another start."""
        other = copy(self)
        object.__setattr__(other, "start", other._read_start(start))
        return other

    def check_start(self) -> None:
        """Refuse a task whose start only a log can say."""
        if self.needs_log:
            raise TaskError(
                "`start` is 'logged', and there is no log here to find it in: give "
                "states or probabilities."
            )

    def summary(self) -> str:
        """Say in a few lines what is known.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> print(bm.worlds.gridworld().task.summary())
        Task of 25 states and 4 actions, discount 0.999
          terminal: 20, 21, 22, 23, 24
          reward: 80 transitions, from 1 to 1; 0 for others
          start: evenly in 20 states
        """
        return self._sheet().text()

    def _sheet(self) -> Sheet:
        ends = listed([self.state_name(s) for s in self.terminal])
        title = (
            f"Task of {_checks.many(self.n_states, 'state')} and "
            f"{_checks.many(self.n_actions, 'action')}, discount {self.discount:g}"
        )
        lines = [
            f"terminal: {ends or 'none'}",
            f"reward: {self._reward_summary()}"
            + (f", in {self.reward_unit}" if self.reward_unit else ""),
            f"start: {self._start_summary()}",
        ]
        return Sheet(title, lines, indent="  ")

    def _reward_summary(self) -> str:
        if isinstance(self.reward, RewardTriplets):
            n, paid = self.reward.key.size, self.reward.reward
            what, tail = _checks.many(n, "transition"), "; 0 for others"
        else:
            what = ("of states", "of pairs", "of transitions")[self.reward.ndim - 1]
            paid, tail = self.reward, ""
        if not paid.size:
            return f"{what}{tail}"
        return f"{what}, from {paid.min() + 0.0:.6g} to {paid.max() + 0.0:.6g}{tail}"

    def _start_summary(self) -> str:
        if self.needs_log:
            return "as episodes of the log begin"
        at = np.flatnonzero(self.start)
        most = int(np.argmax(self.start))
        if at.size == 1:
            return f"in state {self.state_name(most)}"
        if np.ptp(self.start[at]) < _checks.SUM_TOLERANCE:
            return f"evenly in {at.size} states"
        return (
            f"in {at.size} states, most often {self.state_name(most)} "
            f"({self.start[most]:.3g})"
        )

    def state(self, name: Name, what: str = "state") -> int:
        """Index of a state given by index or label.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.worlds.gridworld().task.state(7)
        7
        """
        return index_of(what, name, self.n_states, self.state_labels)

    def action(self, name: Name) -> int:
        """Index of an action given by index or label.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.worlds.gridworld().task.action("down")
        2
        """
        return index_of("action", name, self.n_actions, self.action_labels)

    def state_name(self, state: int) -> str:
        """How a state is called in messages and tables."""
        return self.state_labels[state] if self.state_labels else str(state)

    def action_name(self, action: int) -> str:
        """How an action is called in messages and tables."""
        return self.action_labels[action] if self.action_labels else str(action)

    def pair_name(self, state: int, action: int) -> str:
        """How a pair is called in messages."""
        return f"state {self.state_name(state)}, action {self.action_name(action)}"

    @property
    def pays(self) -> bool:
        """Whether some reward is not 0."""
        reward = self.reward
        paid = reward if isinstance(reward, np.ndarray) else reward.reward
        return bool(np.any(paid))

    @cached_property
    def is_terminal(self) -> BoolArray:
        """Mask of terminal states, ``[S]``."""
        mask = np.zeros(self.n_states, dtype=np.bool_)
        mask[self.terminal] = True
        return _checks.sealed(mask)

    @cached_property
    def live(self) -> IntArray:
        """States that are not terminal, ``[N]``."""
        return _checks.sealed(np.flatnonzero(~self.is_terminal))

    @cached_property
    def terminal_value(self) -> FloatArray:
        """Value of each terminal state, 0 for the others, ``[S]``."""
        value = np.zeros(self.n_states)
        if isinstance(self.reward, np.ndarray) and self.reward.ndim == 1:
            value[self.terminal] = self.reward[self.terminal]
        return _checks.sealed(value)

    def transition_reward(
        self,
        state: IntArray,
        action: IntArray,
        next_state: IntArray,
        length: IntArray | None = None,
    ) -> FloatArray:
        """Reward of transitions ``[K]`` in the transition form (see the module).

        With ``length`` the first two are of rows, each with so many next states.
        """
        reward = self.reward
        if length is None:
            state, action, next_state = np.broadcast_arrays(state, action, next_state)
        if isinstance(reward, RewardTriplets):
            return self._triplet_reward(reward, state, action, next_state, length)

        def each(values: FloatArray | IntArray) -> Any:
            return values if length is None else np.repeat(values, length)

        if reward.ndim == 1:
            paid = each(reward[state])
            ends = self.terminal_value
            if ends.any():
                paid = paid + self.discount * ends[next_state]
            return np.asarray(paid)
        if reward.ndim == 2:
            return np.asarray(each(reward[state, action]))
        return np.asarray(reward[each(state), each(action), next_state])

    def _triplet_reward(
        self,
        reward: RewardTriplets,
        state: IntArray,
        action: IntArray,
        next_state: IntArray,
        length: IntArray | None,
    ) -> FloatArray:
        """Look up only transitions to next states that some transition pays for."""
        paid = np.zeros(next_state.shape)
        pays = np.zeros(self.n_states, dtype=np.bool_)
        pays[reward.key % self.n_states] = True
        at = np.asarray(pays[next_state])
        if not at.any():
            return paid
        row: BoolArray | IntArray = at
        if length is not None:
            row = np.searchsorted(np.cumsum(length), np.flatnonzero(at), side="right")
        key = (state[row] * self.n_actions + action[row]) * self.n_states
        key = key + next_state[at]
        found = np.minimum(np.searchsorted(reward.key, key), reward.key.size - 1)
        paid[at] = np.where(reward.key[found] == key, reward.reward[found], 0.0)
        return paid

    def _read_terminal(self, terminal: object) -> IntArray:
        names = names_given("terminal", terminal)
        ids = {self.state(x, "terminal") for x in names}  # type: ignore[arg-type]
        found = np.array(sorted(ids), dtype=np.int64)
        if found.size == self.n_states:
            raise TaskError("`terminal` holds every state: nothing is left to decide.")
        return _checks.sealed(found)

    def _read_reward(self, reward: Any) -> FloatArray | RewardTriplets:
        shape = (self.n_states, self.n_actions, self.n_states)
        if isinstance(reward, str) and reward == "alive":
            reward = (~self.is_terminal).astype(np.float64)
        if isinstance(reward, RewardTriplets):
            key = _checks.index_array("reward.key", reward.key, TaskError)
            return self._read_triplets(*columns_of(key, *shape[:2]), reward.reward)
        four = isinstance(reward, tuple) and len(reward) == 4
        if four and not np.isscalar(reward[0]):
            sizes = {_checks.any_array("reward", x, TaskError).shape for x in reward}
            if shape[0] == 4 and sizes == {shape[1:2]}:
                raise TaskError(
                    "`reward` as a tuple of four could be [S, A] or four columns; give "
                    "it as an array, [S, A] or [S, A, S]."
                )
            return self._read_triplets(*reward)
        reward = in_order("reward", reward, _AXES[:2], TaskError, self)
        n_axes = _checks.any_array("reward", reward, TaskError).ndim
        expected = {1: shape[:1], 2: shape[:2], 3: shape}.get(n_axes)
        if expected is None:
            raise TaskError(
                "`reward` must be [S], [S, A], [S, A, S] or four columns; got "
                f"{n_axes} axes."
            )
        axes = _AXES[:n_axes]
        found = _checks.float_array("reward", reward, axes, TaskError, expected)
        check_size(found, axes)
        return found

    def _read_triplets(
        self,
        state: ArrayLike,
        action: ArrayLike,
        next_state: ArrayLike,
        reward: ArrayLike,
    ) -> RewardTriplets:
        ids, sizes = (state, action, next_state), (self.n_states, self.n_actions)
        columns = _checks.triplets(*ids, *sizes, TaskError, of="reward ")
        values = _checks.float_array("reward", reward, ("row",), TaskError)
        _checks.same_length(
            {**columns, "reward": values}, TaskError, "`reward` columns"
        )
        check_size(values, ("row",))
        s, a, t = columns.values()
        key, first = np.unique(
            (s * self.n_actions + a) * self.n_states + t, return_index=True
        )
        if key.size < s.size:
            twice = np.setdiff1d(np.arange(s.size), first)[0]
            raise TaskError(
                f"`reward` names a transition twice: row {twice} repeats state "
                f"{s[twice]}, action {a[twice]}, next_state {t[twice]}."
            )
        return RewardTriplets(_checks.sealed(key), _checks.sealed(values[first]))

    def _knows(self, state: str) -> bool:
        return self.state_labels is not None and state in self.state_labels

    def _read_start(self, start: Any) -> FloatArray:
        weights = np.zeros(self.n_states)
        start = in_order("start", start, _AXES[:1], TaskError, self)
        if isinstance(start, str) and start == "uniform":
            weights[self.live] = 1.0 / self.live.size
        elif isinstance(start, str) and start == "logged" and not self._knows(start):
            return _checks.frozen(np.full(self.n_states, np.nan))  # until `fit` knows
        elif isinstance(start, str | int | np.integer):
            weights[self.state(start, "start")] = 1.0  # type: ignore[arg-type]
        else:
            weights = _checks.shares("start", start, "state", self.n_states, TaskError)
        if not weights[self.live].any():
            state = int(np.argmax(weights > 0))
            raise TaskError(
                "`start` lies on terminal states only (first: state "
                f"{self.state_name(state)}): every episode would be over at once."
            )
        return _checks.frozen(weights)


def _read_unit(unit: object) -> str | None:
    """Check what rewards are counted in."""
    if unit is None:
        return None
    if not isinstance(unit, str) or not unit.strip() or not unit.isprintable():
        raise TaskError(
            "`reward_unit` must be one line of text, such as 'life-years'; got "
            f"{unit!r:.60}."
        )
    return unit.strip()
