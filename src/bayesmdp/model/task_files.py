"""Task files: what is decided in advance, as TOML that people write; and one to edit.

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
    state_action.icu = { treat = -0.1, wait = 0.0 }  # for an action in a state
    transition = [{ state = "icu", action = "wait", next_state = "home", value = 1.0 }]
    from_data = true                    # as it was logged

``[cost]`` in place of ``[reward]`` says what is to be kept small, in the same forms.
A key such as ``home`` is a label where states have labels, else an id. Several rewards
have a table each, of one form, and may have a discount each::

    discount = { cost = 0.94, qaly = 1.0 }
    horizon = 20                        # cycles; and when rewards are counted:
    cycle = "half"
    reward.cost.state_action = { icu = { treat = 900.0, wait = 0.0 } }
    reward.qaly.state_action = { icu = { treat = 0.4, wait = 0.4 } }
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._io import as_path, check_file, check_plain, worded, write_atomic
from bayesmdp._resources import check_room
from bayesmdp._typing import FloatArray
from bayesmdp.data import Transitions
from bayesmdp.errors import ArgumentError, BayesmdpError, TaskError, TooLargeError
from bayesmdp.model._align import numbering
from bayesmdp.model._from_data import begins_as_logged, task_from_data
from bayesmdp.model._rewards import RewardTriplets, reward_triplets
from bayesmdp.model._task import Task
from bayesmdp.model._task_readers import index_of, with_gaps_at_0

_LABELS = ("state_labels", "action_labels")
_AS_SAID = ("reward_unit", "horizon", "cycle", "criterion")
_SIZES = ("n_states", "n_actions")
_PAID = ("reward", "cost")
_KEYS = ("discount", "terminal", "start", *_SIZES, *_LABELS, *_PAID, *_AS_SAID)
_LOGGED = "logged"
_ALIVE = "alive"  # 1 in every state that is not terminal
_REWARDS = ("state", "state_action", "transition", "from_data")
_TRANSITION = ("state", "action", "next_state", "value")
#: Names, case aside, of ends of which nothing is known.
_OPEN = {"na", "n/a", "nan", "null", "none", "missing", "unknown", "alive"}
_OPEN_WORDS = ("censor", "lost", "ltfu", "withdr", "dropout", "follow-up", "follow up")
_SHOWN = 30  # names in a comment, candidates in a list


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
        if content.lstrip()[:1] == b"{":
            said += "; write it in TOML, not JSON"
        raise TaskError(f"`{file}` is not a task file in TOML: {said}.") from problem


def _make(settings: Mapping[str, Any], data: Transitions | None) -> Task:
    if "discount" not in settings and settings.get("criterion") != "average":
        raise TaskError("`discount` is missing: give a number in [0, 1].")
    known = _names(settings, data)
    terminal = _terminal(settings.get("terminal"), known)
    known = known._but(terminal=np.array(terminal or [], dtype=np.int64))
    pays = "cost" if "cost" in settings else "reward"
    if {"cost", "reward"} <= {*settings}:
        raise TaskError("`reward` and `cost` cannot both be given: leave one out.")
    reward = _read_reward(settings.get(pays, {"from_data": True}), known, pays)
    rest = {"discount": settings.get("discount"), pays: reward}
    rest["start"] = _start(settings.get("start", "uniform"), known)
    rest |= {name: settings[name] for name in _AS_SAID if name in settings}
    if reward is None or terminal is None or settings.get("start") == _LOGGED:
        return _from_data(data, known, terminal, rest)
    labels = {name: getattr(known, name) for name in _LABELS}
    return Task(known.n_states, known.n_actions, terminal=terminal, **rest, **labels)


def _terminal(given: Any, known: Task) -> list[int] | None:
    if given is None:
        return None
    if not isinstance(given, list):
        raise TaskError(
            f"`terminal` must be a list of states, [] for none; got {given!r:.40}."
        )
    return [_state(x, known, "terminal") for x in given]


def _from_data(
    data: Transitions | None, known: Task, terminal: Any, rest: dict[str, Any]
) -> Task:
    """Have the data say what the file leaves out."""
    logged = [name for name in _PAID if name in rest and rest[name] is None]
    if data is None:
        lacking = "`terminal` ([] for none)" if terminal is None else "another `start`"
        lacking = "`reward`" if logged else lacking
        raise TaskError(f"There are no data to read the task off: give {lacking}.")
    rest = {"reward": None, "cost": None, **rest, "terminal": terminal}
    if logged == ["cost"]:
        rest["cost"] = _LOGGED
    rest |= {name: getattr(known, name) for name in _SIZES}
    return task_from_data(
        Task, data, known=known, numbers=numbering(data, known), **rest
    )


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
    """Return a start in a form a task takes."""
    if isinstance(start, dict):
        return _by_state(start, known, "start")
    if isinstance(start, str | int) and start not in ("uniform", _LOGGED):
        return np.eye(1, known.n_states, _state(start, known, "start"))[0]
    return start


def _read_reward(reward: Any, known: Task, pays: str = "reward") -> Any:
    """Return a reward in a form a task takes; None where the data say it.

    ``pays`` is what the file calls it: ``reward``, ``cost``, or ``reward.cost``.
    """
    if reward == _ALIVE:
        return _ALIVE
    if not isinstance(reward, dict):
        raise TaskError(
            f"`{pays}` must be {_ALIVE!r}, or a table: [{pays}] with one of "
            f"{', '.join(_REWARDS)}; got {reward!r:.40}."
        )
    if len(reward) > 1 and all(map(_is_reward, reward.values())):
        if pays == "cost":
            raise TaskError(
                "`cost` must be a single one: several go by name in [reward], where "
                "costs are what a negative weight keeps small."
            )
        return {name: _one_of_several(name, reward[name], known) for name in reward}
    _check_keys(reward, _REWARDS, f"{pays}.")
    if len(reward) != 1:
        raise TaskError(
            f"`{pays}` must say one of {', '.join(_REWARDS)}; it has "
            f"{' and '.join(reward) or 'none'}."
        )
    ((kind, content),) = reward.items()
    if kind == "from_data":
        if content is not True:
            raise TaskError(f"`{pays}.from_data` must be true, or left out.")
        return None
    forms = {"state": _by_state, "state_action": _by_action}
    return forms.get(kind, _by_transition)(content, known, f"{pays}.{kind}")


def _is_reward(said: Any) -> bool:
    """Whether a value of ``[reward]`` is a reward by name, and no part of one."""
    return said == _ALIVE or (isinstance(said, dict) and bool({*said} & {*_REWARDS}))


def _one_of_several(name: str, said: Any, known: Task) -> Any:
    found = _read_reward(said, known, pays := f"reward.{name:.40}")
    if found is None:
        raise TaskError(
            f"`{pays}.from_data` cannot be one of several: a log holds one "
            "reward; say what pays."
        )
    return found


def _by_state(content: Any, known: Task, where: str) -> FloatArray:
    """Numbers by state, ``[S]``."""
    values = np.zeros(known.n_states)
    for key, value in _table(content, where, "{ home = 1.0 }").items():
        values[_state(key, known, where)] = _number(value, f"{where}.{key}")
    return values


def _by_action(content: Any, known: Task, where: str) -> FloatArray:
    """Numbers by state and action, ``[S, A]``; 0 where nothing is said."""
    needed = 16 * known.n_states * known.n_actions
    check_room(needed, f"`{where}` takes", lambda _: "say `reward.transition`")
    found = np.full((known.n_states, known.n_actions), np.nan)
    for key, row in _table(content, where, "{ icu = { treat = -1.0 } }").items():
        state, here = _state(key, known, where), f"{where}.{key}"
        for name, value in _table(row, here, "{ treat = -1.0 }").items():
            found[state, _action(name, known, here)] = _number(value, f"{here}.{name}")
    return with_gaps_at_0(found, where, known)


def _by_transition(content: Any, known: Task, where: str) -> RewardTriplets:
    """Numbers by state, action and next state."""
    if not isinstance(content, list):
        raise TaskError(f"`{where}` must be a list of tables: [[{where}]].")
    rows: dict[tuple[int, int, int], float] = {}
    for i, row in enumerate(content):
        said = _table(row, f"{where} {i}", "{ state = 0, action = 1, ... }")
        _check_keys(said, _TRANSITION, f"{where} {i}.")
        missing = next((x for x in _TRANSITION if x not in said), None)
        if missing is not None:
            raise TaskError(f"`{where}` {i} lacks `{missing}`.")
        before, after = (_state(said[x], known, where) for x in ("state", "next_state"))
        triplet = before, _action(said["action"], known, f"{where} {i}.action"), after
        if triplet in rows:
            raise TaskError(
                f"`{where}` {i} repeats {list(rows).index(triplet)}: leave one out."
            )
        rows[triplet] = _number(said["value"], f"{where} {i}.value")
    state, action, next_state = np.array(list(rows), dtype=np.int64).reshape(-1, 3).T
    value = np.array(list(rows.values()), dtype=np.float64)
    sizes = {name: getattr(known, name) for name in _SIZES}
    return reward_triplets(state, action, next_state, value, **sizes)


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


def _check_keys(settings: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse a key that means nothing: most likely it is misspelt."""
    for key in settings:
        if key not in known:
            hint = _checks.did_you_mean(key, known)
            raise TaskError(
                f"`{where}{key:.40}` is not a key of a task{hint}; keys are "
                f"{', '.join(known)}."
            )


def _state(name: Any, known: Task, where: str) -> int:
    return known.state(_as_name(name, known.state_labels), where)


def _action(name: Any, known: Task, where: str) -> int:
    labels = known.action_labels
    return index_of(where, _as_name(name, labels), known.n_actions, labels)


def _as_name(value: Any, labels: Sequence[str] | None) -> Any:
    """Read a name: where nothing has a label, ``"3"`` is the id 3."""
    is_id = labels is None and isinstance(value, str) and value.isascii()
    return int(value[:20]) if is_id and value.isdigit() else value


_TEMPLATE = """\
# What is decided in advance. Everything here was guessed from the data: look at it.
# The data: {rows} transitions of {n_states} states and {n_actions} actions.

# How much less a reward counts one step later, in [0, 1]. With several rewards,
# discount = {{ cost = 0.966, qaly = 0.985 }} gives each its own, 1 / (1 + rate).
discount = 0.99
# After so many steps all is over, and how cycles are counted; otherwise without end:
# horizon = 20
# cycle = "half"
# Or, in place of discount, horizon and terminal states, means per step without end:
# criterion = "average"

# States in which an episode ends. {found}
terminal = {terminal}

# Where episodes begin: "uniform", "logged", a state, or a table of probabilities such
# as {{ {state} = 1.0 }}.{begun}
start = "{start}"

# What rewards are counted in, for tables and the report.
# reward_unit = "life-years"

# States and actions: names come from the data, in this order.
{states}
{actions}

[reward]
{reward}
# Or one of these; what is not named pays 0.
# For being in a state; a terminal one pays once, on arrival:
# state = {{ {state} = 1.0 }}
# For actions in a state, every one of them:
# state_action.{state} = {{ {per_action} }}
# For a transition:
# transition = [{{ state = {s}, action = {a}, next_state = {s}, value = 1.0 }}]
# Several, such as costs and QALYs, have a table each: [reward.cost] and [reward.qaly].
# Costs alone, which are to be small: [cost] in place of [reward].
"""


def write_template(
    data: Transitions, path: str | os.PathLike[str], *, overwrite: bool = False
) -> Path:
    """Write a commented task file for data, to be looked at and edited.

    `read_task` reads it as it is. A file that is there is never replaced unasked, and
    then in one moment; whatever goes wrong, it stays.

    Parameters
    ----------
    data
        Transitions; they are counted.
    path
        The file.
    overwrite
        Whether a file that is there may be replaced.

    Examples
    --------
    >>> import pathlib, tempfile, bayesmdp as bm
    >>> log = bm.Transitions.from_arrays([0, 1], [0, 1], [1, 2])
    >>> path = pathlib.Path(tempfile.mkdtemp(), "task.toml")
    >>> bm.storage.read_task(bm.storage.write_template(log, path)).terminal
    array([2])
    """
    file = as_path(path)
    check_file(file, overwrite=overwrite)
    with worded(file, "written"):
        write_atomic(file, _template(data), overwrite=overwrite)
    return file


def _template(data: Transitions) -> str:
    _checks.of_type("data", data, Transitions, ArgumentError)
    counts, names, actions = data.counts(), data.state_labels, data.action_labels
    leaves = counts.state[counts.state != counts.next_state]
    ends = np.setdiff1d(counts.next_state, leaves)
    is_open = np.array([_says_nothing(int(x), names) for x in ends], dtype=np.bool_)
    ends, open_ends = ends[~is_open], ends[is_open]
    if ends.size == counts.n_states:
        ends = ends[:0]  # otherwise nothing would be left to decide
    n = ends.size
    found = f"Entered and never left: {n} of them." if n else "None found."
    if open_ends.size:
        others = ", ".join(_value(int(x), names) for x in open_ends[:_SHOWN])
        found += (
            f"\n# Not {others}: if that says that only the follow-up ended, read the "
            "log with --censored."
        )
    logged = begins_as_logged(data, ends)
    live = int(leaves[0]) if leaves.size else 0
    keys = [_key(int(s), names) for s in (ends if ends.size else [0])]
    shown = range(min(counts.n_actions, _SHOWN))
    taken = [f"{_key(a, actions)} = 0.0" for a in shown]
    taken += ["..."] * (counts.n_actions > _SHOWN)
    return _TEMPLATE.format(
        rows=data.n_rows,
        n_states=counts.n_states,
        n_actions=counts.n_actions,
        found=found,
        terminal=f"[{', '.join(_value(int(s), names) for s in ends)}]",
        start="logged" if logged else "uniform",
        begun=" The log knows its episodes' first steps." if logged else "",
        states=_size("state", counts.n_states, names),
        actions=_size("action", counts.n_actions, actions),
        reward=_reward(data, keys),
        state=_key(live, names),
        per_action=", ".join(taken),
        s=_value(live, names),
        a=_value(0, actions),
    )


def _says_nothing(i: int, labels: Sequence[int | str] | None) -> bool:
    """Whether a state is called as if it stood for a value that is not known."""
    name = "" if labels is None else str(labels[i]).strip().casefold()
    return name in _OPEN or any(x in name for x in _OPEN_WORDS)


def _reward(data: Transitions, keys: list[str]) -> str:
    if "reward" not in data.table.roles:
        shown = ", ".join(f"{key} = 0.0" for key in keys[:_SHOWN])
        return (
            "# The data have no reward: say what it is to be in these states. For\n"
            '# time alive, write reward = "alive" above any table, and no [reward].\n'
            f"state = {{ {shown} }}"
        )
    return "# As it was logged: the mean of each transition.\nfrom_data = true"


def _size(what: str, n: int, labels: Sequence[int | str] | None) -> str:
    if labels is None:
        return f"n_{what}s = {n}"
    shown = [_text(str(x)) for x in labels[:_SHOWN]] + ["..."] * (n > _SHOWN)
    return f"# {what}_labels = [{', '.join(shown)}]"


def _value(i: int, labels: Sequence[int | str] | None) -> str:
    """How a state or action is written as a value."""
    return str(i) if labels is None else _text(str(labels[i]))


def _key(i: int, labels: Sequence[int | str] | None) -> str:
    """How a state or action is written as a key."""
    name = str(i) if labels is None else str(labels[i])
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _text(name)


def _text(text: str) -> str:
    """Quote text as TOML does: JSON's way, but for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
