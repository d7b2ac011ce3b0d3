"""Several named rewards of one task, each with its discount and unit.

All have the same form, so that a weighted sum of them (net benefit: ``k * effect -
cost``) is a reward of that form, too. Where discounts differ there is no such reward,
and the sum is one of values: the rewards are kept, with their weights.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.errors import TaskError
from bayesmdp.model._reward import RewardTriplets, read_reward

if TYPE_CHECKING:
    from bayesmdp.model._task import Task

_FORMS = ("four columns", "[S]", "[S, A]", "[S, A, S]")


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
    reward: "Mapping[str, Any] | Rewards", discount: object, unit: object, task: "Task"
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
        try:
            found.append(read_reward(one, task))
        except TaskError as problem:
            raise TaskError(f"Reward {name!r}: {problem}") from None
    forms = [_form(one) for one in found]
    if other := next((i for i, form in enumerate(forms) if form != forms[0]), 0):
        names = tuple(reward)
        raise TaskError(
            f"`reward` must have one form for all: {names[0]!r} is {forms[0]} and "
            f"{names[other]!r} is {forms[other]}; give both as [S, A] (a reward of "
            "states once for each action), or both as [S, A, S]."
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


def _read_discount(value: object, name: str = "") -> float:
    return _checks.real(
        f"discount[{name!r}]" if name else "discount", value, TaskError, 0, 1
    )


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
    if not isinstance(rewards[0], RewardTriplets):
        parts = [w * one for w, one in zip(weights, rewards, strict=True) if w]
        return np.asarray(sum(parts[1:], start=parts[0]))
    key = np.unique(np.concatenate([one.key for one in rewards]))
    total = np.zeros(key.size)
    for w, one in zip(weights, rewards, strict=True):
        assert isinstance(one, RewardTriplets)
        total[np.searchsorted(key, one.key)] += w * one.reward
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
