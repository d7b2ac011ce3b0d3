"""Readers of a task: terminal states, start, discount; and how it says them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import TaskError
from bayesmdp.model._names import index_of, names_given
from bayesmdp.model._reward import RewardTriplets
from bayesmdp.model._several import Rewards

if TYPE_CHECKING:
    from bayesmdp.model._task import Task


def read_terminal(terminal: object, task: "Task") -> IntArray:
    """Return the terminal states, sorted, ``[K]``."""
    names = names_given("terminal", terminal)
    found = np.array(
        sorted(
            {index_of("terminal", x, task.n_states, task.state_labels) for x in names}
        ),
        dtype=np.int64,
    )
    if found.size == task.n_states:
        raise TaskError("`terminal` holds every state: nothing is left to decide.")
    return _checks.sealed(found)


def read_start(start: Any, task: "Task") -> FloatArray:
    """Return the start distribution, ``[S]``."""
    weights = np.zeros(task.n_states)
    start = in_order("start", start, ("state",), TaskError, task)
    if isinstance(start, str) and start == "uniform":
        weights[task.live] = 1.0 / task.live.size
    elif isinstance(start, str) and start == "logged" and not _knows(task, start):
        return _checks.frozen(np.full(task.n_states, np.nan))  # until `fit` knows
    elif isinstance(start, str | int | np.integer):
        weights[index_of("start", start, task.n_states, task.state_labels)] = 1.0
    else:
        weights = _checks.shares("start", start, "state", task.n_states, TaskError)
    if not weights[task.live].any():
        state = int(np.argmax(weights > 0))
        raise TaskError(
            "`start` lies on terminal states only (first: state "
            f"{task.state_name(state)}): every episode would be over at once."
        )
    return _checks.frozen(weights)


def _knows(task: "Task", state: str) -> bool:
    return task.state_labels is not None and state in task.state_labels


def read_discount(discount: Any, task: "Task") -> Any:
    """Refuse a discount that is missing, or that averages do not have."""
    if task.criterion == "discounted":
        if discount is None:
            raise TaskError("`discount` is missing: give a number in [0, 1].")
        return discount
    for what, wrong in (
        ("discount", discount is not None and discount != 1),
        ("terminal", task.terminal.size > 0),
        ("horizon", task.horizon is not None),
        ("cycle", task.cycle != "start"),
    ):
        if wrong:
            raise TaskError(
                f"`{what}` cannot be given with criterion='average', which is the "
                "mean reward per step of a task without end: leave it out."
            )
    return 1.0


def said_reward(reward: FloatArray | RewardTriplets | Rewards) -> str:
    """Say what a reward is for, and between which numbers it lies."""
    assert not isinstance(reward, Rewards)
    if isinstance(reward, RewardTriplets):
        n, paid = reward.key.size, reward.reward
        what, tail = _checks.many(n, "transition"), "; 0 for others"
    else:
        what = ("of states", "of pairs", "of transitions")[reward.ndim - 1]
        paid, tail = reward, ""
    if not paid.size:
        return f"{what}{tail}"
    return f"{what}, from {paid.min() + 0.0:.6g} to {paid.max() + 0.0:.6g}{tail}"


def said_start(task: "Task") -> str:
    """Say where episodes begin."""
    if needs_log(task):
        return "as episodes of the log begin"
    at = np.flatnonzero(task.start)
    most = int(np.argmax(task.start))
    if at.size == 1:
        return f"in state {task.state_name(most)}"
    if np.ptp(task.start[at]) < _checks.SUM_TOLERANCE:
        return f"evenly in {at.size} states"
    return (
        f"in {at.size} states, most often {task.state_name(most)} "
        f"({task.start[most]:.3g})"
    )


def needs_log(task: "Task") -> bool:
    """Whether ``start`` is to be that of a log, which was not looked at yet."""
    return bool(np.isnan(task.start).any())


def check_start(task: "Task") -> None:
    """Refuse a task whose start only a log can say."""
    if needs_log(task):
        raise TaskError(
            "`start` is 'logged', and there is no log here to find it in: give states "
            "or probabilities."
        )
