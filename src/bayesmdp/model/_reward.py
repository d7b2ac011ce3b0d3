"""Rewards: their sizes, and those of some transitions in a form of their own.

Moments up to the fourth are taken of values, which are up to 1e16 rewards (discounts
end 1e-16 below 1). For rewards up to 1e50 in size, sums of fourth powers stay below the
largest number there is, 1e308; and where the largest is at least 1e-50, they stay above
the smallest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray
from bayesmdp.errors import TaskError

if TYPE_CHECKING:
    from bayesmdp.model._task import Task

MOST, LEAST = 1e50, 1e-50
_AXES = ("state", "action", "next_state")


class RewardTriplets(NamedTuple):
    """Rewards of some transitions, zero elsewhere: how a `Task` keeps four columns.

    A task takes it as a reward, too. Of four states, four columns as long as there are
    actions might be ``[S, A]``; this cannot.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(3, 2, reward=([0, 1], [0, 1], [2, 2], [1.0, 5.0]), discount=0.9)
    >>> task.reward.key.tolist(), task.reward.reward.tolist()
    ([2, 11], [1.0, 5.0])
    >>> bm.Task(3, 2, task.reward, discount=1, terminal=2).discount
    1.0
    """

    key: IntArray  # [K], (state * n_actions + action) * n_states + next_state
    reward: FloatArray  # [K]


def check_size(reward: FloatArray, axes: tuple[str, ...], name: str = "reward") -> None:
    """Refuse rewards whose fourth powers would overflow, or vanish."""
    size = np.abs(reward)
    largest = float(size.max(initial=0.0))
    if largest > MOST:
        at = _checks.first_true(size > MOST)
        raise TaskError(
            f"`{name}` must be at most {MOST:g} in size, so that fourth moments of "
            f"values stay finite: {_checks.place(at, axes)} has {reward[at]:g}; give "
            "it in larger units."
        )
    if 0 < largest < LEAST:
        raise TaskError(
            f"`{name}` must reach {LEAST:g} in size, so that variances do not vanish: "
            f"the largest is {largest:g}; give it in smaller units, or 0."
        )


def reward_triplets(
    state: IntArray,
    action: IntArray,
    next_state: IntArray,
    reward: FloatArray,
    *,
    n_states: int,
    n_actions: int,
) -> RewardTriplets:
    """Join columns ``[K]`` of valid ids into triplets.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> columns = (np.array([0]), np.array([1]), np.array([2]), np.array([5.0]))
    >>> bm.model.reward_triplets(*columns, n_states=3, n_actions=2).key.tolist()
    [5]
    """
    return RewardTriplets((state * n_actions + action) * n_states + next_state, reward)


def columns_of(
    key: IntArray, n_states: int, n_actions: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return state, action and next state of keys, ``[K]`` each."""
    pair, next_state = np.divmod(key, n_states)
    return *np.divmod(pair, n_actions), next_state


def read_reward(
    reward: Any, task: Task, name: str = "reward"
) -> FloatArray | RewardTriplets:
    """Check one reward of a task that knows its sizes, names and terminal states."""
    shape = (task.n_states, task.n_actions, task.n_states)
    if isinstance(reward, str) and reward == "alive":
        reward = (~task.is_terminal).astype(np.float64)
    if isinstance(reward, RewardTriplets):
        key = _checks.index_array(f"{name}.key", reward.key, TaskError)
        return _read_triplets(name, task, *columns_of(key, *shape[:2]), reward.reward)
    four = isinstance(reward, tuple) and len(reward) == 4
    if four and not np.isscalar(reward[0]):
        sizes = {_checks.any_array(name, x, TaskError).shape for x in reward}
        if shape[0] == 4 and sizes == {shape[1:2]}:
            raise TaskError(
                f"`{name}` as a tuple of four could be [S, A] or four columns; give "
                "it as an array, [S, A] or [S, A, S]."
            )
        return _read_triplets(name, task, *reward)
    reward = in_order(name, reward, _AXES[:2], TaskError, task)
    n_axes = _checks.any_array(name, reward, TaskError).ndim
    expected = {1: shape[:1], 2: shape[:2], 3: shape}.get(n_axes)
    if expected is None:
        raise TaskError(
            f"`{name}` must be [S], [S, A], [S, A, S] or four columns; got "
            f"{n_axes} axes."
        )
    axes = _AXES[:n_axes]
    found = _checks.float_array(name, reward, axes, TaskError, expected)
    check_size(found, axes, name)
    return found


def _read_triplets(
    name: str,
    task: Task,
    state: ArrayLike,
    action: ArrayLike,
    next_state: ArrayLike,
    reward: ArrayLike,
) -> RewardTriplets:
    columns = _checks.triplets(
        state,
        action,
        next_state,
        task.n_states,
        task.n_actions,
        TaskError,
        of=f"{name} ",
    )
    values = _checks.float_array(name, reward, ("row",), TaskError)
    _checks.same_length({**columns, name: values}, TaskError, f"`{name}` columns")
    check_size(values, ("row",), name)
    s, a, t = columns.values()
    key, first = np.unique(
        (s * task.n_actions + a) * task.n_states + t, return_index=True
    )
    if key.size < s.size:
        twice = np.setdiff1d(np.arange(s.size), first)[0]
        raise TaskError(
            f"`{name}` names a transition twice: row {twice} repeats state "
            f"{s[twice]}, action {a[twice]}, next_state {t[twice]}."
        )
    return RewardTriplets(_checks.sealed(key), _checks.sealed(values[first]))


def array_reward(
    task: Task,
    reward: FloatArray,
    state: IntArray,
    action: IntArray,
    next_state: IntArray,
    length: IntArray | None,
) -> FloatArray:
    """Look up transitions in ``[S]``, ``[S, A]`` or ``[S, A, S]``."""

    def each(values: FloatArray | IntArray) -> Any:
        return values if length is None else np.repeat(values, length)

    if reward.ndim == 1:
        paid = each(reward[state])
        ends = task.terminal_value
        if ends.any():
            paid = paid + task.discount * ends[next_state]
        return np.asarray(paid)
    if reward.ndim == 2:
        return np.asarray(each(reward[state, action]))
    return np.asarray(reward[each(state), each(action), next_state])


def triplet_reward(
    task: Task,
    reward: RewardTriplets,
    state: IntArray,
    action: IntArray,
    next_state: IntArray,
    length: IntArray | None,
) -> FloatArray:
    """Look up only transitions to next states that some transition pays for."""
    paid = np.zeros(next_state.shape)
    pays = np.zeros(task.n_states, dtype=np.bool_)
    pays[reward.key % task.n_states] = True
    at = np.asarray(pays[next_state])
    if not at.any():
        return paid
    row: BoolArray | IntArray = at
    if length is not None:
        row = np.searchsorted(np.cumsum(length), np.flatnonzero(at), side="right")
    key = (state[row] * task.n_actions + action[row]) * task.n_states
    key = key + next_state[at]
    found = np.minimum(np.searchsorted(reward.key, key), reward.key.size - 1)
    paid[at] = np.where(reward.key[found] == key, reward.reward[found], 0.0)
    return paid
