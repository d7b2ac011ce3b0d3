"""What a task file says by state, action and transition."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._memory import check_room
from bayesmdp._typing import FloatArray
from bayesmdp.errors import TaskError
from bayesmdp.model import RewardTriplets, Task, reward_triplets

ALIVE = "alive"  # 1 in every state that is not terminal
_REWARDS = ("state", "state_action", "transition", "from_data")
_TRANSITION = ("state", "action", "next_state", "value")


def read_reward(reward: Any, known: Task) -> Any:
    """Return a reward in a form a task takes; None where the data say it."""
    if reward == ALIVE:
        return ALIVE
    if not isinstance(reward, dict):
        raise TaskError(
            f"`reward` must be {ALIVE!r}, or a table: [reward] with one of "
            f"{', '.join(_REWARDS)}; got {reward!r:.40}."
        )
    check_keys(reward, _REWARDS, "reward.")
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
        return by_state(content, known, "reward.state")
    if kind == "state_action":
        return _by_action(content, known)
    return _by_transition(content, known)


def by_state(content: Any, known: Task, where: str) -> FloatArray:
    """Numbers by state, ``[S]``."""
    values = np.zeros(known.n_states)
    for key, value in _table(content, where, "{ home = 1.0 }").items():
        state = known.state(as_name(key, known.state_labels), where)
        values[state] = _number(value, f"{where}.{key}")
    return values


def _by_action(content: Any, known: Task) -> FloatArray:
    """Numbers by state and action, ``[S, A]``."""
    where, needed = "reward.state_action", 16 * known.n_states * known.n_actions
    check_room(needed, f"`{where}` takes", lambda _: "say `reward.transition`")
    values = np.zeros((known.n_states, known.n_actions))
    for key, row in _table(content, where, "{ icu = { treat = -1.0 } }").items():
        state = known.state(as_name(key, known.state_labels), where)
        for name, value in _table(row, f"{where}.{key}", "{ treat = -1.0 }").items():
            action = known.action(as_name(name, known.action_labels))
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
        check_keys(said, _TRANSITION, f"{where} {i}.")
        missing = next((x for x in _TRANSITION if x not in said), None)
        if missing is not None:
            raise TaskError(f"`{where}` {i} lacks `{missing}`.")
        triplet = (
            known.state(as_name(said["state"], known.state_labels), where),
            known.action(as_name(said["action"], known.action_labels)),
            known.state(as_name(said["next_state"], known.state_labels), where),
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


def check_keys(settings: Any, known: Sequence[str], where: str) -> None:
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


def as_name(value: Any, labels: Sequence[str] | None) -> Any:
    """Read a name: where nothing has a label, ``"3"`` is the id 3."""
    if (
        isinstance(value, str)
        and labels is None
        and value.isascii()
        and value.isdigit()
    ):
        return int(value[:20])
    return value
