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

A key such as ``home`` is a label where states have labels, else an id.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._io import check_plain, worded
from bayesmdp.data import Transitions
from bayesmdp.errors import BayesmdpError, TaskError, TooLargeError
from bayesmdp.model import Task
from bayesmdp.storage._config import as_path
from bayesmdp.storage._task_reward import (
    as_name,
    by_state,
    check_keys,
    read_reward,
)

_KEYS = (
    "discount",
    "terminal",
    "start",
    "n_states",
    "n_actions",
    "state_labels",
    "action_labels",
    "reward",
    "reward_unit",
)
_LOGGED = "logged"


@dataclass(frozen=True)
class _Names:
    """Sizes and labels, from the file or the data."""

    n_states: int
    n_actions: int
    state_labels: tuple[str, ...] | None
    action_labels: tuple[str, ...] | None

    @property
    def labels(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """Of states and of actions."""
        return self.state_labels, self.action_labels

    def resolver(self) -> Task:
        """Return a task that does nothing but know its names."""
        reward = np.zeros(self.n_states)
        return Task(
            self.n_states,
            self.n_actions,
            reward,
            discount=0.0,
            state_labels=self.state_labels,
            action_labels=self.action_labels,
        )


def read_task(path: str | os.PathLike[str], data: Transitions | None = None) -> Task:
    """Read a task file.

    Parameters
    ----------
    path
        A TOML file with a ``discount``, and what it says about ``terminal`` states,
        ``start``, sizes, labels and ``[reward]``; `task_template` writes one.
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
    file = as_path(path)
    with worded(file, "read"):
        check_plain(file)
        content = file.read_bytes()
    try:
        settings = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise TaskError(f"`{file}` is not UTF-8 text: save it as UTF-8.") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as problem:
        said = " ".join(str(problem).split())
        raise TaskError(f"`{file}` is not a task file in TOML: {said}.") from problem
    return make_task(settings, data, origin=f"`{file}`")


def make_task(
    settings: Mapping[str, Any],
    data: Transitions | None = None,
    *,
    origin: str = "the task",
) -> Task:
    """Make a task from what a task file would say.

    Parameters
    ----------
    settings
        Keys and values as in a task file.
    data
        As for `read_task`.
    origin
        What the settings are called in messages.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> settings = {"discount": 0.9, "n_states": 2, "n_actions": 1, "terminal": [1]}
    >>> bm.storage.make_task(settings | {"reward": {"state": {"1": 5.0}}}).terminal
    array([1])
    """
    if data is not None:
        _checks.of_type("data", data, Transitions, TaskError)
    try:
        check_keys(settings, _KEYS, "")
        return _make(settings, data)
    except MemoryError:
        raise TooLargeError(f"{origin}: a task of these sizes does not fit.") from None
    except BayesmdpError as problem:
        raise type(problem)(f"{origin}: {problem}") from problem


def _make(settings: Mapping[str, Any], data: Transitions | None) -> Task:
    if "discount" not in settings:
        raise TaskError("`discount` is missing: give a number in [0, 1].")
    names = _names(settings, data)
    known = names.resolver()
    reward = read_reward(settings.get("reward", {"from_data": True}), known)
    terminal = settings.get("terminal")
    if terminal is not None:
        if not isinstance(terminal, list):
            raise TaskError(
                "`terminal` must be a list of states, [] for none; got "
                f"{terminal!r:.40}."
            )
        terminal = [
            known.state(as_name(x, known.state_labels), "terminal") for x in terminal
        ]
    start = _start(settings.get("start", "uniform"), known)
    rest = {"discount": settings["discount"], "start": start, "terminal": terminal}
    rest["reward_unit"] = settings.get("reward_unit")
    if reward is None or terminal is None or start is _LOGGED:
        return _from_data(data, names, {**rest, "reward": reward})
    labels = {x: getattr(names, x) for x in ("state_labels", "action_labels")}
    return Task(names.n_states, names.n_actions, reward, **rest, **labels)


def _from_data(data: Transitions | None, names: _Names, known: dict[str, Any]) -> Task:
    """Have the data say what the file leaves out."""
    if data is None:
        wanted = {
            "`reward`": known["reward"] is None,
            "`terminal` ([] for none)": known["terminal"] is None,
            "another `start`": True,
        }
        lacking = next(name for name, missing in wanted.items() if missing)
        raise TaskError(f"There are no data to read the task off: give {lacking}.")
    for name in ("state_labels", "action_labels"):
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


def _by_name(known: dict[str, Any], labels: list[str]) -> dict[str, Any]:
    """Give ends by name and a start by weights: names may be numbers, like ids."""
    terminal, start = known["terminal"], known["start"]
    if terminal is not None:
        terminal = [labels[state] for state in terminal]
    if isinstance(start, int):
        start = np.eye(1, len(labels), start)[0]
    return {**known, "terminal": terminal, "start": start}


def _names(settings: Mapping[str, Any], data: Transitions | None) -> _Names:
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
        names = None if labels is None else tuple(labels)
        found |= {f"n_{what}s": size, f"{what}_labels": names}
    return _Names(**found)


def _start(start: Any, known: Task) -> Any:
    """Return a start in a form a task takes, or that it is as logged."""
    if start == _LOGGED:
        return _LOGGED
    if isinstance(start, dict):
        return by_state(start, known, "start")
    if isinstance(start, str | int) and start != "uniform":
        return known.state(as_name(start, known.state_labels), "start")
    return start
