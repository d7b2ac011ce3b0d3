"""Readers of a task: names, terminal states, start, discount, horizon and cycle.

At the end, what refuses tasks in a sentence where a function does not know them.

``horizon`` and ``cycle`` say at which points of time rewards are counted. With states
``s_0 .. s_T`` at the ends of ``T`` cycles, rewards for being somewhere are counted as
``sum_t w_t g^t r(s_t)``, and ``cycle`` names the weights::

    start   1  1  1  ...  1  0       t = 0 .. T - 1
    end     0  1  1  ...  1  1       t = 1 .. T
    both    1  1  1  ...  1  1       t = 0 .. T
    half   1/2 1  1  ...  1 1/2      trapezoid: half a cycle at either end
    darth  1/3 2/3 4/3 2/3 .. 1/3    of the tutorial of Alarid-Escudero et al. (2023)

The last differ from Simpson's rule, which has 4/3 where they have 2/3. Without a
horizon only the first weight is left of the rule; that of ``darth`` is not defined.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import argument
from bayesmdp._labelled import in_order
from bayesmdp._sheet import Sheet
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import BayesmdpWarning, TaskError
from bayesmdp.model._rewards import Rewards, RewardTriplets

if TYPE_CHECKING:
    from bayesmdp.model._task import Task


def read_labels(
    name: str, labels: Sequence[str] | None, size: int
) -> tuple[str, ...] | None:
    """Check names of states or actions."""
    if labels is None:
        return None
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TaskError(f"`{name}` must be a list of names; got {labels!r:.80}.")
    found = tuple(labels)
    for label in found:
        if not isinstance(label, str):
            raise TaskError(f"`{name}` must hold text; got {label!r:.40}.")
    if len(found) != size:
        raise TaskError(f"`{name}` must have {size} entries; got {len(found)}.")
    if len(set(found)) < size:
        twice = next(x for x in found if found.count(x) > 1)
        raise TaskError(f"`{name}` must be distinct: {twice!r} is repeated.")
    return found


def index_of(what: str, name: object, size: int, labels: tuple[str, ...] | None) -> int:
    """Turn an index or a label into an index."""
    if isinstance(name, str):
        if labels is None:
            raise TaskError(
                f"`{what}` {name!r} is a label, but the task has none; "
                "give an index or set the labels."
            )
        if name not in labels:
            hint = _checks.did_you_mean(name, labels) or f": {listed(labels)}"
            raise TaskError(f"`{what}` {name!r} is not among the labels{hint}.")
        return labels.index(name)
    index = _checks.integer(what, name, 0, TaskError)
    if index >= size:
        raise TaskError(f"`{what}` must be in 0..{size - 1}; got {index}.")
    return index


def names_given(value: object) -> list[object]:
    """Return terminal states as a list, also where one stands alone."""
    if isinstance(value, np.ndarray):
        value = np.atleast_1d(value).tolist()
    if isinstance(value, str | int | np.integer):
        value = [value]
    if not isinstance(value, Iterable):
        raise TaskError(f"`terminal` must hold states; got {type(value).__name__}.")
    return list(value)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Write the first few names in a row."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


CYCLES = ("start", "end", "both", "half", "darth")
CRITERIA = ("discounted", "average")
_MOST_CYCLES = 10**6  # hours of a century; 100 bytes and a sweep of the rows for each


def read_horizon(horizon: object) -> int | None:
    """Return a checked number of cycles, or None for no end."""
    if horizon is None:
        return None
    found = _checks.integer("horizon", horizon, 1, TaskError)
    if found > _MOST_CYCLES:
        raise TaskError(
            f"`horizon` must be at most {_MOST_CYCLES:,} cycles, each of which is laid "
            f"out and counted; got {found}: take longer cycles, or with a discount "
            "below 1 leave it out."
        )
    return found


def read_cycle(cycle: object, horizon: int | None) -> str:
    """Return the checked name of a rule."""
    _one_of("cycle", cycle, CYCLES)
    if cycle == "darth" and horizon is None:
        raise TaskError(
            "`cycle='darth'` needs a `horizon`: its weights alternate up to the last "
            "cycle; take 'half' where there is none."
        )
    return str(cycle)


def read_criterion(criterion: object) -> str:
    """Return the checked name of a criterion."""
    _one_of("criterion", criterion, CRITERIA)
    return str(criterion)


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        hint = _checks.did_you_mean(str(value), known)
        raise TaskError(
            f"`{name}` must be one of {', '.join(known)}; got {value!r:.60}{hint}."
        )


def first_weight(cycle: str) -> float:
    """Weight of the start of the first cycle.

    Examples
    --------
    >>> first_weight("half"), first_weight("end")
    (0.5, 0.0)
    """
    return {"end": 0.0, "half": 0.5, "darth": 1 / 3}.get(cycle, 1.0)


def cycle_weights(cycle: str, horizon: int) -> FloatArray:
    """Weights ``w_t`` of the points of time ``0 .. horizon``, ``[T + 1]``.

    Examples
    --------
    >>> cycle_weights("half", 3).tolist()
    [0.5, 1.0, 1.0, 0.5]
    >>> (3 * cycle_weights("darth", 5)).tolist()
    [1.0, 2.0, 4.0, 2.0, 4.0, 1.0]
    """
    weights = np.ones(horizon + 1)
    if cycle == "darth":
        weights[1::2], weights[2::2] = 2 / 3, 4 / 3
    weights[0] = first_weight(cycle)
    weights[-1] = {"start": 0.0, "half": 0.5, "darth": 1 / 3}.get(cycle, 1.0)
    return weights


def read_terminal(terminal: object, task: "Task") -> IntArray:
    """Return the terminal states, sorted, ``[K]``."""
    names = names_given(terminal)
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
    if start is None:
        raise TaskError(
            "`start` must be 'uniform', 'logged', a state, or probabilities; got None."
        )
    if isinstance(start, Mapping):
        for name, share in start.items():
            at = index_of("start", name, task.n_states, task.state_labels)
            weights[at] += _checks.real(f"start[{name!r}]", share, TaskError, 0)
        start, weights = weights, np.zeros(task.n_states)
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


def warn_of_rates(task: "Task") -> None:
    """Warn of a discount that looks like a rate, where an economist may give one."""
    if task.horizon is None and len(task.parts) == 1:
        return
    shared = {"": task.first}  # where they do not differ
    for name, part in (task.parts if np.isnan(task.discount) else shared).items():
        if 0 < part.discount < 0.5:
            of = f"[{name!r}]" if name else ""
            warnings.warn(
                f"`discount{of}` {part.discount:g} looks like a rate; it is the factor "
                "by which the next cycle counts less: of this rate, 1 / (1 + rate) = "
                f"{1 / (1 + part.discount):.4g}.",
                BayesmdpWarning,
                stacklevel=3,
            )


def with_gaps_at_0(found: FloatArray, where: str, task: "Task") -> FloatArray:
    """Put 0 for NaN in rewards ``[S, A]``; warn where a state has NaN and numbers."""
    gaps = np.isnan(found)
    some = ~gaps.all(axis=1) & ~task.is_terminal
    left_out = np.argwhere(gaps & some[:, None])
    if left_out.size:
        state, action = left_out[0].tolist()
        warnings.warn(
            f"`{where}` leaves out {_checks.many(len(left_out), 'action')} of states "
            f"that it names (first: {task.pair_name(state, action)}) and pays 0 there: "
            "give every action of these states a number, 0 where that is meant.",
            BayesmdpWarning,
            stacklevel=6,
        )
    return np.where(gaps, 0.0, found)


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


def task_sheet(task: "Task") -> Sheet:
    """Return what a task says of itself."""
    ends = listed([task.state_name(s) for s in task.terminal])
    title = (
        f"Task of {_checks.many(task.n_states, 'state')} and "
        f"{_checks.many(task.n_actions, 'action')}, {task.said_time}"
    )
    lines = [f"terminal: {ends or 'none'}"]
    for name, part in task.parts.items():
        unit = f", in {part.reward_unit}" if part.reward_unit else ""
        own = f", discount {part.discount:g}" if np.isnan(task.discount) else ""
        called = "cost" if task.is_cost else f"reward {name}".strip()
        paid = part.reward if part.cost is None else part.cost
        lines.append(f"{called}: {said_reward(paid)}{unit}{own}")
    lines.append(f"start: {said_start(task)}")
    return Sheet(title, lines, indent="  ")


def said_time(task: "Task") -> str:
    """Say what discount, horizon and criterion are."""
    if task.criterion == "average":
        return "average per step"
    said = f"discount {task.discount:g}"
    if np.isnan(task.discount):
        said = "discounts by reward"
    if task.horizon is not None:
        said += f", {_checks.many(task.horizon, 'cycle')}"
    return said if task.cycle == "start" else f"{said}, cycle '{task.cycle}'"


def said_terms(task: "Task") -> str:
    """Say discounts and horizon, and what several rewards are called."""
    names: Iterable[str] = task.reward_names
    if np.isnan(task.discount):  # also of a sum
        names = [f"{x} (discount {one.discount:g})" for x, one in task.parts.items()]
    return task.said_time + (f"; rewards {', '.join(names)}" if names else "")


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


def refuse_cost(task: "Task", what: str) -> None:
    """Refuse a cost, where ``what`` would show it as a reward."""
    if task.is_cost:
        raise TaskError(
            f"`{what}` knows rewards, not `cost`: give the task minus the cost as "
            "`reward` (`with_task(task.as_reward)` of a posterior; negative numbers "
            "in a task file or log); `evaluate`, `compare`, `optimise` and `report` "
            "know costs."
        )


_COMPARED = ("discount", "criterion", "horizon", "cycle", "terminal", "start")


def difference(one: "Task", other: "Task") -> str | None:
    """Say in what two tasks differ, if they do."""
    if (one.n_states, one.n_actions) != (other.n_states, other.n_actions):
        return "number of states or actions"
    if one.is_cost != other.is_cost:
        return "cost"
    if one.chosen != other.chosen or not _equal(one.reward, other.reward):
        return "cost" if one.is_cost else "reward"
    names = *_COMPARED, "state_labels", "action_labels"
    pairs = ((x, getattr(one, x), getattr(other, x)) for x in names)
    return next((x for x, mine, its in pairs if not _equal(mine, its)), None)


def _equal(one: Any, other: Any) -> bool:
    """Whether two numbers, arrays, or tuples of them are the same; NaN are."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, float | np.ndarray) and isinstance(other, float | np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    return type(one) is type(other) and bool(one == other)


def refuse_several(task: "Task", what: str, by: str) -> None:
    """Refuse several rewards, where ``what`` looks at one, chosen ``by`` a name."""
    if not isinstance(task.reward, Rewards):
        return
    if task.reward.weights is not None:
        raise TaskError(
            f"`{what}` knows no sums of rewards of different discounts, such as "
            f"{task.reward_unit}: choose one reward, or give them one discount; "
            "`evaluate`, `compare`, `optimise`, `improve`, `risk_frontier`, "
            "`value_of_information` and `policies.nominal` know such sums."
        )
    raise TaskError(
        f"`{what}` looks at one reward, and this task has several "
        f"({', '.join(task.reward.names)}): choose one, "
        f"{argument(by, task.reward.names[-1])}."
    )


def refuse_unless_plain(task: "Task", what: str, by: str, sums: bool) -> None:
    """Refuse horizons, cycles and averages, which no choice helps, and rewards.

    With ``sums``, those of rewards of different discounts are let pass.
    """
    sums = sums or bool(task.reward_names)
    if not sums:  # perhaps a sum, which is said first
        refuse_several(task, what, by)
    given = {"horizon": task.horizon is not None, "cycle": task.cycle != "start"}
    if wrong := [name for name in given if given[name]]:
        said = ", ".join(f"{name}={getattr(task, name)!r}" for name in wrong)
        raise TaskError(
            f"`{what}` knows tasks without `horizon` and `cycle`, and this one has "
            f"{said}: fit the same log under a task without "
            f"{' and '.join(f'`{name}`' for name in wrong)}."
        )
    if task.criterion == "average":
        raise TaskError(
            f"`{what}` knows discounted rewards, not criterion='average': give a "
            "task with a discount."
        )
    if task.reward_names:
        refuse_several(task, what, by)
    refuse_cost(task, what)
