"""Task files: `read_task` beside a plain reading of the same TOML."""

import json
import math
import tomllib
from typing import Any

import numpy as np

import bayesmdp as bm
from fuzz import Case, DifferenceError, attempt, tables

STATES = ["ward", "icu", "home", "death"]
ACTIONS = ["treat", "wait"]
ODD: list[Any] = [True, -1, 0, 1.5, "x", "", [], {}, "1", 2**70, math.nan, math.inf]
ODD += [[1, "a"], {"a": {"b": 1}}, "ward", 10**9, -0.0, 1e308, [[]], "uniform", 1]
DATA = {
    "none": None,
    "names": bm.Transitions.from_arrays([0, 1], [0, 1], [1, 2], reward=[0.0, 1.0]),
    "ids": bm.Transitions.from_arrays(
        [0, 1, 0],
        [0, 1, 1],
        [1, 2, 1],
        reward=[0.0, 1.0, 0.5],
        terminated=[0, 1, 0],
        episode=[0, 0, 1],
        step=[0, 1, 0],
    ),
}


def check(case: Case) -> bool:
    """Read one task file."""
    settings = _settings(case)
    for _ in range(case.random.choice([0, 0, 0, 0, 1, 2])):
        _spoil(case, settings)
    content = "".join(_line(key, value) for key, value in settings.items()).encode()
    if case.happens(0.1):
        content = tables.damaged(case, content)
    case.note("task", content)
    name = case.random.choice(["none", "none", "none", "names", "ids"])
    case.note("data", name)
    path = case.folder / "task.toml"
    path.write_bytes(content)
    task = attempt(lambda: bm.storage.read_task(path, DATA[name]))
    if isinstance(task, Exception):
        return False
    said = tomllib.loads(content.decode("utf-8-sig"))
    _compare(task, said, DATA[name] is not None)
    return True


def _settings(case: Case) -> dict[str, Any]:
    pick = case.random
    named, n, m = case.happens(0.5), pick.randint(2, 4), pick.randint(1, 2)
    found: dict[str, Any] = {"discount": pick.choice([0.9, 0.5, 0, 1, 0.99, 1.0])}
    if named:
        found |= {"state_labels": STATES[:n], "action_labels": ACTIONS[:m]}
    else:
        found |= {"n_states": n, "n_actions": m}
    if named and case.happens(0.3):
        found |= {"n_states": n}
    states: list[Any] = STATES[:n] if named else list(range(n))
    if named and case.happens(0.1):  # labels that are numbers, or hostile
        states = pick.sample([*tables.NAMES, "0", "1", "07"], n)
        found["state_labels"] = states
    found["terminal"] = pick.sample(states, pick.randint(0, n - 1))
    start: Any = pick.choice(["uniform", states[0], "logged", None])
    if case.happens(0.3):
        start = {str(states[0]): 0.25, str(states[1]): 0.75}
    if start is not None:
        found["start"] = start
    found["reward"] = _reward(case, states, ACTIONS[:m] if named else list(range(m)))
    for key in ("terminal", "reward", "start"):
        if case.happens(0.05):
            found.pop(key, None)
    return found


def _reward(case: Case, states: list[Any], actions: list[Any]) -> dict[str, Any]:
    pick = case.random
    kind = pick.choice(["state", "state", "state_action", "transition", "from_data"])

    def value() -> float:
        return pick.choice([1.0, 0, -1, 2.5, 1e300, 1e-300])

    if kind == "state":
        return {kind: {str(s): value() for s in states if case.happens(0.6)}}
    if kind == "state_action":
        rows = {str(s): {str(a): value() for a in actions} for s in states}
        return {kind: rows}
    if kind == "transition":
        among = {"state": states, "action": actions, "next_state": states}
        rows = [{key: pick.choice(x) for key, x in among.items()} for _ in range(3)]
        different = {str(row): {**row, "value": value()} for row in rows}
        return {kind: list(different.values())}
    return {kind: True}


def _spoil(case: Case, settings: dict[str, Any]) -> None:
    """Change something at any depth: a value, a key, one more key."""
    pick = case.random
    place: Any = settings
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = pick.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and case.happens(0.6):
            place = place[key]
            continue
        how = pick.choice(["value", "value", "value", "drop", "more"])
        if how == "value":
            place[key] = pick.choice(ODD)
        elif how == "drop":
            del place[key]
        elif isinstance(place, dict):
            place[pick.choice(["n_states", "terminals", "", "é", "0", "icu"])] = 1
        else:
            place.append(pick.choice(ODD))
        return


def _line(key: str, value: Any) -> str:
    return f"{json.dumps(key)} = {_toml(value)}\n"


def _toml(value: Any) -> str:
    """Write a value as TOML, inline."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inside = (f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items())
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _compare(task: bm.Task, said: dict[str, Any], data: bool) -> None:
    """Hold a task against what its file says, key by key."""
    try:
        _look(task, said, data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        raise DifferenceError(f"was read, and naively cannot be: {problem!r}") from None


def _look(task: bm.Task, said: dict[str, Any], data: bool) -> None:
    states, actions = said.get("state_labels"), said.get("action_labels")
    for name, labels in (("state", states), ("action", actions)):
        size = getattr(task, f"n_{name}s")
        if f"n_{name}s" in said:
            _same(f"n_{name}s", size, said[f"n_{name}s"])
        if labels is not None:
            _same(f"{name}_labels", getattr(task, f"{name}_labels"), tuple(labels))
    _same("discount", task.discount, float(said["discount"]))
    if "terminal" in said:
        wanted = sorted({_place(x, states) for x in said["terminal"]})
        _same("terminal", task.terminal.tolist(), wanted)
    _same_start(task, said.get("start", "uniform"), states)
    if "reward" in said and "from_data" not in said["reward"]:
        _same_reward(task, said["reward"], states, actions)
    elif not data:
        raise DifferenceError("a reward from nowhere")


def _place(name: Any, labels: list[str] | None) -> int:
    """Find a state or action by label, or by id."""
    if labels is None or type(name) is int:
        return int(name)
    return labels.index(name)


def _same_start(task: bm.Task, start: Any, states: Any) -> None:
    if start in ("uniform", "logged"):  # checked by other tests
        return
    wanted = np.zeros(task.n_states)
    if isinstance(start, dict):
        for name, share in start.items():
            wanted[_place(name, states)] = share
    elif isinstance(start, list):
        wanted[:] = start
    else:
        wanted[_place(start, states)] = 1
    if not np.allclose(task.start, wanted):
        raise DifferenceError(f"start: {task.start}, and naively {wanted}")


def _same_reward(task: bm.Task, reward: Any, states: Any, actions: Any) -> None:
    """Compare what every transition pays, however it was said."""
    if "state" in reward:
        wanted = np.zeros(task.n_states)
        for name, value in reward["state"].items():
            wanted[_place(name, states)] = value
    elif "state_action" in reward:
        wanted = np.zeros((task.n_states, task.n_actions))
        for name, row in reward["state_action"].items():
            for action, value in row.items():
                wanted[_place(name, states), _place(action, actions)] = value
    else:
        within = {"state": states, "action": actions, "next_state": states}
        known = {
            tuple(_place(x[key], labels) for key, labels in within.items()): x["value"]
            for x in reward["transition"]
        }
        key = task.reward.key.tolist()
        shape = (task.n_states, task.n_actions, task.n_states)
        triplets = [tuple(map(int, np.unravel_index(k, shape))) for k in key]
        found = dict(zip(triplets, task.reward.reward.tolist(), strict=True))
        _same("reward", found, known)
        return
    if not np.array_equal(task.reward, wanted):
        raise DifferenceError(f"reward: {task.reward}, and naively {wanted}")


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise DifferenceError(f"{what}: {found!r:.200}, and naively {wanted!r:.200}")
