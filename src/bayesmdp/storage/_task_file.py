"""Task files: what is decided in advance, as TOML that people write.

::

    discount = 0.99
    terminal = ["home", "death"]        # names, or ids; [] for none
    start = "uniform"                   # or "logged", a state, { ward = 0.7, ... }
    n_states = 4                        # sizes and names: from the data if left out
    n_actions = 2
    state_labels = ["death", "home", "icu", "ward"]
    action_labels = ["treat", "wait"]

    [reward]                            # one of these; zero where nothing is said
    state = { home = 1.0 }              # for being in a state
    state_action.icu.treat = -0.1       # for an action
    transition = [{ state = "icu", action = "wait", next_state = "home", value = 1.0 }]
    from_data = true                    # as it was logged

``[cost]`` in place of ``[reward]`` says what is to be kept small, in the same forms.
A key such as ``home`` is a label where states have labels, else an id. Several rewards
have a table each, of one form, and may have a discount each::

    discount = { cost = 0.94, qaly = 1.0 }
    horizon = 20                        # cycles; and when rewards are counted:
    cycle = "half"
    reward.cost.state_action = { icu = { treat = 900.0 } }
    reward.qaly.state_action = { icu = { treat = 0.4, wait = 0.4 } }
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._io import as_path, check_plain, worded
from bayesmdp._resources import check_room
from bayesmdp._typing import FloatArray
from bayesmdp.data import Transitions
from bayesmdp.errors import BayesmdpError, TaskError, TooLargeError
from bayesmdp.model import RewardTriplets, Task, reward_triplets

_TIMED = ("horizon", "cycle", "criterion")
_KEYS = (
    "discount",
    "terminal",
    "start",
    "n_states",
    "n_actions",
    "state_labels",
    "action_labels",
    "reward",
    "cost",
    "reward_unit",
    *_TIMED,
)
_LABELS = ("state_labels", "action_labels")
_LOGGED = "logged"


_ALIVE = "alive"  # 1 in every state that is not terminal
_REWARDS = ("state", "state_action", "transition", "from_data")
_TRANSITION = ("state", "action", "next_state", "value")


def read_task(
    source: str | os.PathLike[str] | Mapping[str, Any], data: Transitions | None = None
) -> Task:
    """Read a task file.

    Parameters
    ----------
    source
        A TOML file with a ``discount``, and what it says about ``terminal`` states,
        ``start``, sizes, labels and ``[reward]``; `write_template` writes one. Or a
        dict of what such a file says.
    data
        Where sizes, labels, rewards and terminal states come from if the file does
        not say them.

    Examples
    --------
    >>> import pathlib, tempfile, bayesmdp as bm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "task.toml")
    >>> _ = path.write_text('''
    ... discount = 0.99
    ... n_actions = 2
    ... terminal = ["home"]
    ... state_labels = ["ward", "icu", "home"]
    ... [reward]
    ... state = { home = 1.0 }
    ... ''')
    >>> bm.storage.read_task(path).reward.tolist()
    [0.0, 0.0, 1.0]
    """
    settings, origin = (
        (source, "the task") if isinstance(source, Mapping) else _settings(source)
    )
    if data is not None:
        _checks.of_type("data", data, Transitions, TaskError)
    try:
        _check_keys(settings, _KEYS, "")
        return _make(settings, data)
    except MemoryError:
        raise TooLargeError(f"{origin}: a task of these sizes does not fit.") from None
    except BayesmdpError as problem:
        raise type(problem)(f"{origin}: {problem}") from problem


def _settings(path: Any) -> tuple[dict[str, Any], str]:
    """Return what a file says, and how it is called."""
    file = as_path(path)
    with worded(file, "read"):
        check_plain(file)
        content = file.read_bytes()
    try:
        return tomllib.loads(content.decode("utf-8-sig")), f"`{file}`"
    except UnicodeDecodeError:
        raise TaskError(f"`{file}` is not UTF-8 text: save it as UTF-8.") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as problem:
        said = " ".join(str(problem).split())
        raise TaskError(f"`{file}` is not a task file in TOML: {said}.") from problem


def _make(settings: Mapping[str, Any], data: Transitions | None) -> Task:
    if "discount" not in settings and settings.get("criterion") != "average":
        raise TaskError("`discount` is missing: give a number in [0, 1].")
    known = _names(settings, data)
    pays = "cost" if "cost" in settings else "reward"
    if {"cost", "reward"} <= {*settings}:
        raise TaskError("`reward` and `cost` cannot both be given: leave one out.")
    reward = _read_reward(settings.get(pays, {"from_data": True}), known)
    if pays == "cost" and isinstance(reward, dict):
        raise TaskError("`cost` must be a single one: several go by name in `reward`.")
    terminal = settings.get("terminal")
    if terminal is not None:
        if not isinstance(terminal, list):
            raise TaskError(
                "`terminal` must be a list of states, [] for none; got "
                f"{terminal!r:.40}."
            )
        terminal = [
            known.state(_as_name(x, known.state_labels), "terminal") for x in terminal
        ]
    start = _start(settings.get("start", "uniform"), known)
    rest = {"discount": settings.get("discount"), "start": start, "terminal": terminal}
    rest["reward_unit"] = settings.get("reward_unit")
    rest |= {name: settings[name] for name in _TIMED if name in settings}
    if reward is None or terminal is None or start is _LOGGED:
        given = _LOGGED if pays == "cost" and reward is None else reward
        return _from_data(data, known, {**rest, pays: given})
    labels = {x: getattr(known, x) for x in _LABELS}
    rest[pays] = reward
    return Task(known.n_states, known.n_actions, **rest, **labels)


def _from_data(data: Transitions | None, names: Task, known: dict[str, Any]) -> Task:
    """Have the data say what the file leaves out."""
    if data is None:
        wanted = {
            "`reward`": _is_logged(known),
            "`terminal` ([] for none)": known["terminal"] is None,
            "another `start`": True,
        }
        lacking = next(name for name, missing in wanted.items() if missing)
        raise TaskError(f"There are no data to read the task off: give {lacking}.")
    for name in _LABELS:
        seen = getattr(data, name)
        wanted = getattr(names, name)
        if seen is not None and [str(x) for x in seen] != list(wanted):
            raise TaskError(
                f"`{name}` and the data name things differently, so that rewards or "
                f"terminal states cannot come from the data: leave out `{name}`, or "
                "give both `reward` and `terminal`."
            )
    if data.state_labels is not None:
        known = _by_name(known, [str(x) for x in data.state_labels])
    found = Task.from_data(
        data, n_states=names.n_states, n_actions=names.n_actions, **known
    )
    return found.with_labels(
        state_labels=names.state_labels, action_labels=names.action_labels
    )


def _is_logged(known: dict[str, Any]) -> bool:
    """Whether the data are to say what is paid."""
    paid = known.get("reward", known.get("cost"))
    return paid is None or (isinstance(paid, str) and paid == _LOGGED)


def _by_name(known: dict[str, Any], labels: list[str]) -> dict[str, Any]:
    """Give ends by name and a start by weights: names may be numbers, like ids."""
    terminal, start = known["terminal"], known["start"]
    if terminal is not None:
        terminal = [labels[state] for state in terminal]
    if isinstance(start, int):
        start = np.eye(1, len(labels), start)[0]
    return {**known, "terminal": terminal, "start": start}


def _names(settings: Mapping[str, Any], data: Transitions | None) -> Task:
    """Return a task that does nothing but know its sizes and names."""
    found: dict[str, Any] = {}
    for what in ("state", "action"):
        labels = settings.get(f"{what}_labels")
        if labels is None and data is not None:
            seen = getattr(data, f"{what}_labels")
            labels = None if seen is None else [str(x) for x in seen]
        elif labels is not None and not isinstance(labels, list):
            raise TaskError(f"`{what}_labels` must be a list of names.")
        size = settings.get(f"n_{what}s", None if labels is None else len(labels))
        if size is None:
            if data is None:
                raise TaskError(
                    f"`n_{what}s` is missing: give it, or `{what}_labels`, or data."
                )
            size = getattr(data.counts(), f"n_{what}s")
        size = _checks.size(f"n_{what}s", size, TaskError)
        if labels is not None and len(labels) != size:
            raise TaskError(
                f"`n_{what}s` is {size}, but there are {len(labels)} names: leave it "
                f"out, or list {size} names in `{what}_labels`."
            )
        found |= {f"n_{what}s": size, f"{what}_labels": labels}
    return Task(**found, reward=np.zeros(found["n_states"]), discount=0.0)


def _start(start: Any, known: Task) -> Any:
    """Return a start in a form a task takes, or that it is as logged."""
    if start == _LOGGED:
        return _LOGGED
    if isinstance(start, dict):
        return _by_state(start, known, "start")
    if isinstance(start, str | int) and start != "uniform":
        return known.state(_as_name(start, known.state_labels), "start")
    return start


def _read_reward(reward: Any, known: Task) -> Any:
    """Return a reward in a form a task takes; None where the data say it."""
    if reward == _ALIVE:
        return _ALIVE
    if not isinstance(reward, dict):
        raise TaskError(
            f"`reward` must be {_ALIVE!r}, or a table: [reward] with one of "
            f"{', '.join(_REWARDS)}; got {reward!r:.40}."
        )
    if len(reward) > 1 and all(map(_is_reward, reward.values())):
        return {name: _one_of_several(name, reward[name], known) for name in reward}
    _check_keys(reward, _REWARDS, "reward.")
    if len(reward) != 1:
        raise TaskError(
            f"`reward` must say one of {', '.join(_REWARDS)}; it has "
            f"{' and '.join(reward) or 'none'}."
        )
    ((kind, content),) = reward.items()
    if kind == "from_data":
        if content is not True:
            raise TaskError("`reward.from_data` must be true, or left out.")
        return None
    if kind == "state":
        return _by_state(content, known, "reward.state")
    if kind == "state_action":
        return _by_action(content, known)
    return _by_transition(content, known)


def _is_reward(said: Any) -> bool:
    """Whether a value of ``[reward]`` is a reward by name, and no part of one."""
    return said == _ALIVE or (isinstance(said, dict) and bool({*said} & {*_REWARDS}))


def _one_of_several(name: str, said: Any, known: Task) -> Any:
    try:
        found = _read_reward(said, known)
    except TaskError as problem:
        raise TaskError(f"`reward.{name:.40}`: {problem}") from None
    if found is None:
        raise TaskError(
            f"`reward.{name:.40}.from_data` cannot be one of several: a log holds one "
            "reward; say what pays."
        )
    return found


def _by_state(content: Any, known: Task, where: str) -> FloatArray:
    """Numbers by state, ``[S]``."""
    values = np.zeros(known.n_states)
    for key, value in _table(content, where, "{ home = 1.0 }").items():
        state = known.state(_as_name(key, known.state_labels), where)
        values[state] = _number(value, f"{where}.{key}")
    return values


def _by_action(content: Any, known: Task) -> FloatArray:
    """Numbers by state and action, ``[S, A]``."""
    where, needed = "reward.state_action", 16 * known.n_states * known.n_actions
    check_room(needed, f"`{where}` takes", lambda _: "say `reward.transition`")
    values = np.zeros((known.n_states, known.n_actions))
    for key, row in _table(content, where, "{ icu = { treat = -1.0 } }").items():
        state = known.state(_as_name(key, known.state_labels), where)
        for name, value in _table(row, f"{where}.{key}", "{ treat = -1.0 }").items():
            action = known.action(_as_name(name, known.action_labels))
            values[state, action] = _number(value, f"{where}.{key}.{name}")
    return values


def _by_transition(content: Any, known: Task) -> RewardTriplets:
    """Numbers by state, action and next state."""
    where = "reward.transition"
    if not isinstance(content, list):
        raise TaskError(f"`{where}` must be a list of tables: [[{where}]].")
    rows: dict[tuple[int, int, int], float] = {}
    for i, row in enumerate(content):
        said = _table(row, f"{where} {i}", "{ state = 0, action = 1, ... }")
        _check_keys(said, _TRANSITION, f"{where} {i}.")
        missing = next((x for x in _TRANSITION if x not in said), None)
        if missing is not None:
            raise TaskError(f"`{where}` {i} lacks `{missing}`.")
        triplet = (
            known.state(_as_name(said["state"], known.state_labels), where),
            known.action(_as_name(said["action"], known.action_labels)),
            known.state(_as_name(said["next_state"], known.state_labels), where),
        )
        if triplet in rows:
            raise TaskError(
                f"`{where}` {i} repeats {list(rows).index(triplet)}: leave one out."
            )
        rows[triplet] = _number(said["value"], f"{where} {i}.value")
    state, action, next_state = np.array(list(rows), dtype=np.int64).reshape(-1, 3).T
    value = np.array(list(rows.values()), dtype=np.float64)
    return reward_triplets(
        state,
        action,
        next_state,
        value,
        n_states=known.n_states,
        n_actions=known.n_actions,
    )


def _table(content: Any, where: str, example: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise TaskError(
            f"`{where}` must be a table, such as {example}; got {content!r:.40}."
        )
    return content


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool):
        raise TaskError(f"`{where}` must be a number; got {value}.")
    return _checks.real(where, value, TaskError, -np.inf)


def _check_keys(settings: Any, known: Sequence[str], where: str) -> None:
    """Refuse a key that means nothing: most likely it is misspelt."""
    if not isinstance(settings, Mapping):
        raise TaskError(f"`{where or 'settings'}` must be a table.")
    for key in settings:
        if key not in known:
            hint = _checks.did_you_mean(key, known)
            raise TaskError(
                f"`{where}{key:.40}` is not a key of a task{hint}; keys are "
                f"{', '.join(known)}."
            )


def _as_name(value: Any, labels: Sequence[str] | None) -> Any:
    """Read a name: where nothing has a label, ``"3"`` is the id 3."""
    if (
        isinstance(value, str)
        and labels is None
        and value.isascii()
        and value.isdigit()
    ):
        return int(value[:20])
    return value
