"""What is decided in advance: sizes, reward, discount, start and terminal states.

Rewards come in two kinds, which differ by one factor of the discount ``g``.

* ``[S]`` is for *being* in a state: counted at every step including the first. A
  terminal state's is earned once, on arrival, and the episode ends; its value is
  its reward.
* ``[S, A]``, ``[S, A, S]`` and triplets are for a *transition*, discounted by the
  time it starts. A terminal state has value 0.

Inside, everything is a transition reward. The first kind becomes ::

    r[s, a, t] = r[s] + g r[t] [t terminal]

A task may have several rewards by name (`bayesmdp.model._rewards`), a horizon with
weights of the points of time (`bayesmdp.model._task_readers`), or ask for averages
per step. docs/rewards.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Sheet, Shown
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray, Name
from bayesmdp.errors import TaskError
from bayesmdp.model._from_data import task_from_data
from bayesmdp.model._rewards import (
    Rewards,
    RewardTriplets,
    array_reward,
    check_cost,
    choose_reward,
    minus,
    read_rewards,
    triplet_reward,
)
from bayesmdp.model._task_readers import (
    cycle_weights,
    first_weight,
    index_of,
    read_criterion,
    read_cycle,
    read_discount,
    read_horizon,
    read_labels,
    read_start,
    read_terminal,
    refuse_cost,
    refuse_several,
    refuse_unless_plain,
    said_time,
    task_sheet,
    warn_of_rates,
)


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
        ``"alive"``: 1 in every state that is not terminal, as for life-years. ``[S]``
        is for being in a state, the others for a transition; they differ by one factor
        of the discount. The largest is 0 or between 1e-50 and 1e50 in size. No
        transition leaves a terminal state: entries of the other forms for its rows are
        ignored. A pandas object with an index of labels, or a polars table with a
        column of them, is matched by label. Several rewards are given by name,
        ``{"cost": ..., "qaly": ...}``, all in the same form.
    discount
        Factor per step, in [0, 1]: ``1 / (1 + rate)`` of a rate such as 3 % a year.
        With 1, every policy that is evaluated must end, or there must be a horizon.
        With several rewards, by name where they differ.
    start
        ``"uniform"`` over the states that are not terminal, a state, or probabilities,
        ``[S]`` (also labelled) or a dict by state; or ``"logged"``: the states in which
        the episodes of the fitted log begin.
    terminal
        States in which the episode ends.
    state_labels, action_labels
        Names; a label may be used wherever a state or an action is expected.
    reward_unit
        Unit of the rewards, such as ``"life-years"``; tables and the report then show
        it. With several rewards, by name.
    horizon
        Number of cycles after which everything ends; None for no end.
    cycle
        At which points of time rewards for being in a state, ``[S]`` or ``[S, A]``, are
        counted: ``start``, ``end``, ``both``, ``half`` or ``darth`` (docs/rewards.md).
        Those of transitions are counted as they happen, once in each cycle.
    criterion
        ``"discounted"``, or ``"average"``: the mean reward per step of a task without
        end, which has no discount, no terminal states and no horizon.
    cost
        In place of ``reward``, a cost to be minimised, in the same forms.
        `bayesmdp.evaluate`, `compare` and `optimise` then show costs, and lower is
        better. Internally, ``reward`` is ``-cost``.
    is_cost
        Whether ``reward`` is minus a cost; ``cost`` sets it.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(3, 2, reward=[0, 0, 1], discount=0.9, terminal=["home"],
    ...                state_labels=["ward", "icu", "home"])
    >>> task.terminal.tolist(), task.start.tolist(), task.state("icu")
    ([2], [0.5, 0.5, 0.0], 1)
    >>> both = {"cost": [[9, 0], [9, 0], [0, 0]], "qaly": [[1, 1], [1, 0.5], [0, 0]]}
    >>> task = bm.Task(3, 2, both, discount=0.97, terminal=[2], horizon=20,
    ...                cycle="half")
    >>> task.reward_names, task.with_reward({"qaly": 50, "cost": -1}).reward.tolist()
    (('cost', 'qaly'), [[41.0, 50.0], [41.0, 25.0], [0.0, 0.0]])
    """

    n_states: int
    n_actions: int
    reward: FloatArray | RewardTriplets | Rewards = field(repr=False)
    discount: float  # NaN where several rewards differ in it
    start: FloatArray = field(repr=False)  # [S]
    terminal: IntArray  # [K], sorted
    state_labels: tuple[str, ...] | None = field(repr=False)
    action_labels: tuple[str, ...] | None = field(repr=False)
    reward_unit: str | None = field(repr=False)
    horizon: int | None
    cycle: str = field(repr=False)
    criterion: str = field(repr=False)
    is_cost: bool = field(repr=False)  # `reward` is minus a cost
    #: Which of several rewards it was made with, by `with_reward`.
    chosen: str | Mapping[str, float] | None = field(init=False, repr=False)

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        reward: Literal["alive"]
        | ArrayLike
        | tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike]
        | RewardTriplets
        | Mapping[str, Any]
        | Rewards
        | None = None,
        *,
        discount: float | Mapping[str, float] | None = None,
        start: Name | ArrayLike | Mapping[Name, float] = "uniform",
        terminal: Name | Sequence[Name] | IntArray = (),
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
        reward_unit: str | Mapping[str, str] | None = None,
        horizon: int | None = None,
        cycle: str = "start",
        criterion: str = "discounted",
        cost: Any = None,
        is_cost: bool = False,
    ) -> None:
        put = object.__setattr__
        _checks.of_type("is_cost", is_cost, bool, TaskError)
        put(self, "is_cost", is_cost or cost is not None)
        put(self, "n_states", _checks.size("n_states", n_states, TaskError))
        put(self, "n_actions", _checks.size("n_actions", n_actions, TaskError))
        put(self, "chosen", None)
        put(self, "horizon", read_horizon(horizon))
        put(self, "cycle", read_cycle(cycle, self.horizon))
        put(self, "criterion", read_criterion(criterion))
        sizes = {"state": self.n_states, "action": self.n_actions}
        for of, given in (("state", state_labels), ("action", action_labels)):
            name = f"{of}_labels"
            put(self, name, read_labels(name, given, sizes[of]))
        put(self, "terminal", read_terminal(terminal, self))
        paid = check_cost(reward, cost)
        own = read_rewards(paid, read_discount(discount, self), reward_unit, self)
        if self.is_cost and isinstance(own["reward"], Rewards):
            raise TaskError("`is_cost` is for a single reward; got several by name.")
        if cost is not None:
            own["reward"] = minus(own["reward"])
        for name, found in own.items():
            put(self, name, found)
        put(self, "start", read_start(start, self))
        warn_of_rates(self)

    @classmethod
    def from_data(
        cls,
        data: Any,
        *,
        discount: float | Mapping[str, float] | None = None,
        reward: Any = None,
        terminal: Name | Sequence[Name] | IntArray | None = None,
        start: Name | ArrayLike | Mapping[Name, float] = "uniform",
        n_states: int | None = None,
        n_actions: int | None = None,
        reward_unit: str | Mapping[str, str] | None = None,
        horizon: int | None = None,
        cycle: str = "start",
        criterion: str = "discounted",
        cost: Any = None,
    ) -> Task:
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
            the transition. Of those never observed, which a posterior may hold
            possible, arrivals in a terminal state pay as the observed ones do, where
            several pairs led there and all pay the same; others pay 0. Where the
            logged reward varies for the same transition, only its mean is kept, and a
            warning says how much it varies (``data.reward_statistics()`` has the
            spread of each).
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
        reward_unit, horizon, cycle, criterion
            As `Task` takes it.
        cost
            As `Task` takes it; or ``"logged"``: the rewards of the log are costs.

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
            horizon=horizon,
            cycle=cycle,
            criterion=criterion,
            cost=cost,
        )

    @property
    def cost(self) -> FloatArray | RewardTriplets | None:
        """What is to be kept small: minus the reward; None where that is no cost."""
        return minus(self.reward) if self.is_cost else None

    @property
    def as_reward(self) -> Task:
        """The task of the reward ``-cost``; itself where it has a reward."""
        return self._but(is_cost=False) if self.is_cost else self

    def with_labels(
        self,
        *,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
    ) -> Task:
        """Return the same task with other names, where they are given.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
        >>> task.with_labels(state_labels=["ward", "icu"]).state("icu")
        1
        """
        changed = {
            name: read_labels(name, labels, size)
            for name, labels, size in (
                ("state_labels", state_labels, self.n_states),
                ("action_labels", action_labels, self.n_actions),
            )
            if labels is not None
        }
        return self._but(**changed)

    @property
    def reward_names(self) -> tuple[str, ...]:
        """Names of the rewards; none where there is a single one, or a sum of them."""
        several = isinstance(self.reward, Rewards) and self.reward.weights is None
        return self.reward.names if several else ()  # type: ignore[union-attr]

    @cached_property
    def parts(self) -> Mapping[str, Task]:
        """The task with each of its rewards alone, by name; itself where it has one."""
        if not isinstance(self.reward, Rewards):
            return {"": self}
        found = {}
        for name, reward, discount, unit in zip(*self.reward[:4], strict=True):
            own = {"reward": reward, "discount": discount, "reward_unit": unit}
            found[name] = self._but(**own, chosen=name)
        return found

    def with_reward(self, reward: str | Mapping[str, float]) -> Task:
        """Return the same task with one of its rewards, or a weighted sum of them.

        Parameters
        ----------
        reward
            A name, or weights by name such as ``{"qaly": 50_000, "cost": -1}``: net
            benefit. Where the rewards that count have different discounts, the sum is
            one of values, which `evaluate`, `compare`, `optimise` and `improve` know.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> reward = {"cost": [10, 20], "qaly": [1, 0.5]}
        >>> discount = {"cost": 0.94, "qaly": 1.0}
        >>> task = bm.Task(2, 1, reward, discount=discount, horizon=9)
        >>> task.with_reward("qaly").discount
        1.0
        """
        return choose_reward(self, reward)

    def _but(self, **changed: Any) -> Task:
        """Return a copy with other fields, and nothing derived of the old ones."""
        other = object.__new__(type(self))
        kept = {x.name: getattr(self, x.name) for x in fields(self)}
        for name, value in {**kept, **changed}.items():
            object.__setattr__(other, name, value)
        return other

    def with_discount(self, discount: float) -> Task:
        """Return the same task, of one reward, discounted without end."""
        plain = {"horizon": None, "cycle": "start", "criterion": "discounted"}
        return self._but(discount=discount, **plain)

    @property
    def first(self) -> Task:
        """The task with its first reward alone."""
        return next(iter(self.parts.values()))

    def one_reward(self, what: str, by: str = "posterior") -> None:
        """Refuse several rewards, where ``what`` looks at one."""
        refuse_several(self, what, by)

    @property
    def is_plain(self) -> bool:
        """Whether one reward is discounted and counted from the start without end."""
        several = isinstance(self.reward, Rewards) or self.criterion == "average"
        return not several and self.horizon is None and self.cycle == "start"

    def no_cost(self, what: str) -> None:
        """Refuse costs, where ``what`` would show them as rewards."""
        refuse_cost(self, what)

    def plain(self, what: str, by: str = "posterior", *, sums: bool = False) -> None:
        """Refuse what only some functions know: rewards by name, horizons, averages."""
        if self.is_cost or not self.is_plain:
            refuse_unless_plain(self, what, by, sums)

    def __repr__(self) -> str:
        said = _checks.sizes(state=self.n_states, action=self.n_actions)
        return f"Task({said}, {self.said_time})"

    def _sheet(self, shown: int = 10) -> Sheet:
        return task_sheet(self)

    @property
    def said_time(self) -> str:
        """What discount, horizon and criterion are, in words."""
        return said_time(self)

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
        return any(
            np.any(x if isinstance(x, np.ndarray) else x.reward)
            for task in self.parts.values()
            if not isinstance(x := task.reward, Rewards)
        )

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
        """Value of each terminal state, 0 for the others, ``[S]``.

        NaN where there are several rewards: none of them stands for the others.
        """
        value = np.zeros(self.n_states)
        if isinstance(self.reward, Rewards):
            value[:] = np.nan
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

        With ``length`` the first two are of rows, each with so many next states. NaN
        where there are several rewards: none of them stands for the others.
        """
        reward = self.reward
        if isinstance(reward, Rewards):
            return np.full(np.asarray(next_state).shape, np.nan)
        if length is None:
            state, action, next_state = np.broadcast_arrays(state, action, next_state)
        if isinstance(reward, RewardTriplets):
            return triplet_reward(self, reward, state, action, next_state, length)
        return array_reward(self, reward, state, action, next_state, length)

    @property
    def of_states(self) -> bool:
        """Whether rewards are for being somewhere, ``[S]`` or ``[S, A]``."""
        reward = self.first.reward
        return isinstance(reward, np.ndarray) and reward.ndim < 3

    @cached_property
    def time_weights(self) -> FloatArray:
        """Weights of the points of time, ``[T + 1]``; of the first alone, ``[1]``."""
        if self.horizon is None:
            lone = first_weight(self.cycle) if self.of_states else 1.0
            return _checks.sealed(np.array([lone]))
        cycle = self.cycle if self.of_states else "start"
        return _checks.sealed(cycle_weights(cycle, self.horizon))
