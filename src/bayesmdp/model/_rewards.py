"""Rewards of a task: their forms and sizes, and several of them by name.

Moments up to the fourth are taken of values, which are up to 1e16 rewards (discounts
end 1e-16 below 1). For rewards up to 1e50 in size, sums of fourth powers stay below the
largest number there is, 1e308; and where the largest is at least 1e-50, they stay above
the smallest.

Several rewards have a discount and a unit each. All have the same form, so that a
weighted sum of them (net benefit: ``k * effect - cost``) is a reward of that form, too.
Where discounts differ there is no such reward, and the sum is one of values: the
rewards are kept, with their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
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


_FORMS = (
    "by transition, in four columns",
    "by state, [S]",
    "by state and action, [S, A]",
    "by transition, [S, A, S]",
)


class Rewards(NamedTuple):
    """Named rewards, as a `Task` keeps them; a task takes it as a reward, too.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> reward = {"cost": [1, 5], "qaly": [1, 0.5]}
    >>> bm.Task(2, 1, reward, discount=0.97).reward.names
    ('cost', 'qaly')
    """

    names: tuple[str, ...]
    rewards: tuple[FloatArray | RewardTriplets, ...]
    discounts: tuple[float, ...]
    units: tuple[str | None, ...]
    weights: tuple[float, ...] | None = None  # of a sum of values; None: each by itself


def read_several(
    reward: Mapping[str, Any] | Rewards, discount: object, unit: object, task: Task
) -> Rewards:
    """Check rewards by name; the task knows its sizes, names and terminal states."""
    if isinstance(reward, Rewards):
        given = dict(zip(reward.names, reward.rewards, strict=True))
        discount = dict(zip(reward.names, reward.discounts, strict=True))
        unit = dict(zip(reward.names, reward.units, strict=True))
        return read_several(given, discount, unit, task)._replace(
            weights=reward.weights
        )
    if len(reward) < 2:
        raise TaskError(
            "`reward` by name must hold two or more; a single one is given as it is."
        )
    for name in reward:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise TaskError(
                f"`reward` must have names as keys, such as 'cost'; got {name!r:.60}."
            )
    found = []
    for name, one in reward.items():
        if np.ndim(one) == 0 and isinstance(one, int | float | np.number):
            raise TaskError(
                f"`reward` {name!r} is a number, and names are for several rewards, "
                "each as [S], [S, A] or [S, A, S]: give numbers of states as an array "
                "in their order, or as a pandas Series, which is matched by label."
            )
        try:
            found.append(read_reward(one, task))
        except TaskError as problem:
            raise TaskError(f"Reward {name!r}: {problem}") from None
    forms = [_form(one) for one in found]
    if other := next((i for i, form in enumerate(forms) if form != forms[0]), 0):
        names = tuple(reward)
        raise TaskError(
            f"`reward` must have one form for all: {names[0]!r} is {forms[0]}, and "
            f"{names[other]!r} {forms[other]}; give both by state and action, "
            "[S, A] (a reward of states once for each action; terminal states then "
            "earn nothing), or both by transition, [S, A, S], by which an arrival in a "
            "terminal state pays."
        )
    return Rewards(
        tuple(reward),
        tuple(found),
        tuple(_each("discount", discount, tuple(reward), _read_discount)),
        tuple(_each("reward_unit", unit, tuple(reward), read_unit)),
    )


def _form(reward: FloatArray | RewardTriplets) -> str:
    return _FORMS[0 if isinstance(reward, RewardTriplets) else reward.ndim]


def _each(what: str, given: object, names: tuple[str, ...], read: Any) -> list[Any]:
    """Return one for each reward, of one for all or of some by name."""
    if not isinstance(given, Mapping):
        if np.iterable(given) and not isinstance(given, str):
            raise TaskError(
                f"`{what}` must be one for all rewards, or by name, such as "
                f"{{{names[0]!r}: ..., {names[1]!r}: ...}}; got {given!r:.60}."
            )
        return [read(given)] * len(names)
    for name in given:
        if name not in names:
            hint = _checks.did_you_mean(name, names)
            raise TaskError(
                f"`{what}` names {name!r:.60}, which is none of the rewards: "
                f"{', '.join(names)}{hint}."
            )
    if what == "discount" and (missing := [x for x in names if x not in given]):
        raise TaskError(f"`discount` lacks reward {missing[0]!r}: give a number.")
    return [read(given.get(name), name) for name in names]


_RATE = 10  # numbers below may be 1 plus a rate


def _read_discount(value: object, name: str = "") -> float:
    what = f"discount[{name!r}]" if name else "discount"
    if isinstance(value, int | float) and 1 < value < _RATE:
        raise TaskError(
            f"`{what}` must be in [0, 1]; got {value:g}: it is the factor by which the "
            "next cycle counts less, 1 / (1 + rate)."
        )
    return _checks.real(what, value, TaskError, 0, 1)


def read_unit(unit: object, name: str = "") -> str | None:
    """Check what rewards are counted in."""
    if unit is None:
        return None
    if not isinstance(unit, str) or not unit.strip() or not unit.isprintable():
        raise TaskError(
            "`reward_unit` must be one line of text, such as 'life-years'; got "
            f"{unit!r:.60}."
        )
    return unit.strip()


def read_weights(
    choice: Mapping[str, Any], names: tuple[str, ...]
) -> tuple[float, ...]:
    """Return the weight of each reward; 0 for those that are not named."""
    if not choice:
        raise TaskError(
            f"`reward` weighs nothing: name some of {', '.join(names)}, such as "
            f"{{{names[-1]!r}: 50_000, {names[0]!r}: -1}}."
        )
    for name in choice:
        check_name(name, names)
    found = tuple(
        _checks.real(f"reward[{name!r}]", choice.get(name, 0.0), TaskError, -np.inf)
        for name in names
    )
    if not any(found):
        raise TaskError("`reward` has a weight of 0 for every reward.")
    return found


def check_name(name: object, names: tuple[str, ...]) -> None:
    """Refuse a name that no reward has."""
    if name not in names:
        hint = _checks.did_you_mean(str(name), names)
        raise TaskError(
            f"`reward` {name!r:.60} is none of the rewards: {', '.join(names)}{hint}."
        )


def weighted_sum(
    rewards: tuple[FloatArray | RewardTriplets, ...], weights: tuple[float, ...]
) -> FloatArray | RewardTriplets:
    """Add rewards of one form, times their weights."""
    arrays = [one for one in rewards if isinstance(one, np.ndarray)]
    if arrays:
        terms = [w * one for w, one in zip(weights, arrays, strict=True) if w]
        return np.asarray(sum(terms[1:], start=terms[0]))
    columns = [one for one in rewards if isinstance(one, RewardTriplets)]
    key = np.unique(np.concatenate([one.key for one in columns]))
    total = np.zeros(key.size)
    for w, some in zip(weights, columns, strict=True):
        total[np.searchsorted(key, some.key)] += w * some.reward
    return RewardTriplets(key, total)


def said_weights(names: tuple[str, ...], weights: tuple[float, ...]) -> str:
    """Write a weighted sum.

    Examples
    --------
    >>> said_weights(("cost", "qaly"), (-1.0, 50_000.0))
    '50000 qaly - cost'
    """
    terms = sorted(zip(weights, names, strict=True), key=lambda term: -term[0])
    out = ""
    for weight, name in terms:
        if weight:
            size = "" if abs(weight) == 1 else f"{abs(weight):g} "
            sign = "-" if weight < 0 else "+"
            out += (
                f" {sign} {size}{name}"
                if out
                else f"{sign * (sign == '-')}{size}{name}"
            )
    return out


def read_rewards(reward: Any, discount: Any, unit: Any, task: Task) -> dict[str, Any]:
    """Read rewards with what belongs to them: fields of the task."""
    if isinstance(reward, Mapping | Rewards):
        several = read_several(reward, discount, unit, task)
        same = len({*several.discounts}) == 1
        shared = several.discounts[0] if same else float("nan")
        return {"reward": several, "discount": shared, "reward_unit": None}
    for name, given in (("discount", discount), ("reward_unit", unit)):
        if isinstance(given, Mapping):
            raise TaskError(
                f"`{name}` by name needs rewards by name, "
                f"{{{next(iter(given), 'cost')!r}: ...}}."
            )
    return {
        "discount": _read_discount(discount),
        "reward_unit": read_unit(unit),
        "reward": read_reward(reward, task, "cost" if task.is_cost else "reward"),
    }


def check_cost(reward: Any, cost: Any) -> Any:
    """Return what was given of the two."""
    if (reward is None) == (cost is None):
        said = "either" if reward is None else "only one"
        raise TaskError(
            f"`reward` is what to have more of, `cost` what to have less of: give "
            f"{said} of them; several by name go into `reward`."
        )
    if isinstance(cost, Mapping | Rewards):
        raise TaskError(
            "`cost` must be a single one: several rewards by name are given as "
            "`reward`, {'cost': ..., 'qaly': ...}."
        )
    return reward if cost is None else cost


def minus(reward: Any) -> Any:
    """Return an array or triplets with the other sign, and no minus before a zero."""
    if isinstance(reward, RewardTriplets):
        return reward._replace(reward=_checks.sealed(0.0 - reward.reward))
    return _checks.sealed(0.0 - reward)


def unnamed(task: Task, remedy: str) -> str:
    """Say why a task has no reward of a name, and the remedy where it never had."""
    if task.chosen is not None:
        return (
            f"one was chosen before, {task.chosen!r:.60}, and the others are gone; "
            "give the posterior of all rewards"
        )
    return (
        f"the task has one unnamed reward; {remedy} (in a task file [reward.cost], "
        "[reward.qaly])"
    )


def choose_reward(task: Task, reward: str | Mapping[str, float]) -> Task:
    """Return a task with one of its rewards, or a weighted sum of them."""
    if not isinstance(task.reward, Rewards):
        why = unnamed(task, "leave `reward` out, or name rewards")
        raise TaskError(f"`reward` {reward!r:.60} cannot be chosen: {why}.")
    several = task.reward
    if isinstance(reward, Mapping):
        weights = read_weights(reward, several.names)
    else:
        check_name(reward, several.names)
        return task.parts[reward]
    said = said_weights(several.names, weights)
    counts = {g for g, w in zip(several.discounts, weights, strict=True) if w}
    if len(counts) > 1:
        rest = several._replace(weights=weights)
        own = {"reward": rest, "discount": float("nan")}
    else:
        total = read_reward(weighted_sum(several.rewards, weights), task)
        own = {"reward": total, "discount": counts.pop()}
    return task._but(**own, reward_unit=said, chosen=dict(reward))
