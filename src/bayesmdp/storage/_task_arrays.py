"""A task as plain arrays, and back, equal to the bit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp._checks import MAX_ID
from bayesmdp._io import Layout
from bayesmdp.errors import BayesmdpError, StorageError
from bayesmdp.model import RewardTriplets, Task

#: Kind and number of axes of every array a task may consist of.
LAYOUT: dict[str, tuple[str, int]] = {
    "n_states": ("i", 0),
    "n_actions": ("i", 0),
    "discount": ("f", 0),
    "start": ("f", 1),  # [S]
    "terminal": ("i", 1),  # [K]
    "reward": ("f", -1),  # [S], [S, A], [S, A, S]; or [K], with the keys below
    "reward_key": ("i", 1),  # [K], (state * n_actions + action) * n_states + next_state
    "state_labels": ("U", 1),  # [S]
    "action_labels": ("U", 1),  # [A]
    "reward_unit": ("U", 0),
}
_OPTIONAL = {"reward_key", "state_labels", "action_labels", "reward_unit"}


def task_to_arrays(task: Task) -> dict[str, NDArray[Any]]:
    """Return the arrays that a task consists of."""
    arrays: dict[str, NDArray[Any]] = {
        "n_states": np.array(task.n_states, dtype=np.int64),
        "n_actions": np.array(task.n_actions, dtype=np.int64),
        "discount": np.array(task.discount, dtype=np.float64),
        "start": task.start,
        "terminal": task.terminal,
    }
    if isinstance(task.reward, np.ndarray):
        arrays["reward"] = task.reward
    else:
        arrays["reward"] = task.reward.reward
        arrays["reward_key"] = task.reward.key
    if task.reward_unit is not None:
        arrays["reward_unit"] = np.array(task.reward_unit, dtype=np.str_)
    for name in ("state_labels", "action_labels"):
        labels = getattr(task, name)
        if labels is None:
            continue
        arrays[name] = np.array(labels, dtype=np.str_)
        lost = next(
            (x for x, y in zip(labels, arrays[name].tolist(), strict=True) if x != y),
            None,
        )
        if lost is not None:
            raise StorageError(
                f"`{name}`: {lost!r:.80} ends in a zero character and cannot be saved; "
                "rename it."
            )
    return arrays


def task_from_arrays(arrays: Mapping[str, NDArray[Any]], path: Path) -> Task:
    """Make the task again; ``path`` is where the arrays came from."""
    check_states(arrays, path)
    try:
        n_states, n_actions = int(arrays["n_states"]), int(arrays["n_actions"])
        reward: Any = arrays["reward"]
        if "reward_key" in arrays:
            reward = RewardTriplets(arrays["reward_key"], reward)
        return Task(
            n_states,
            n_actions,
            reward,
            discount=float(arrays["discount"]),
            start=arrays["start"],
            terminal=arrays["terminal"],
            state_labels=_labels(arrays, "state_labels"),
            action_labels=_labels(arrays, "action_labels"),
            reward_unit=str(arrays["reward_unit"]) if "reward_unit" in arrays else None,
        )
    except BayesmdpError as problem:
        raise StorageError(f"`{path}` does not hold a task: {problem}") from problem


def _labels(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str] | None:
    return arrays[name].tolist() if name in arrays else None


def check_layout(arrays: Mapping[str, Layout], path: Path) -> None:
    """Refuse arrays that are no task, by their kinds and shapes alone."""
    missing = [x for x in LAYOUT if x not in arrays and x not in _OPTIONAL]
    strange = [x for x in arrays if x not in LAYOUT]
    if missing or strange:
        said = f"lacks {missing[0]!r}" if missing else f"holds {strange[0]!r:.80}"
        raise StorageError(f"`{path}` does not hold a task: it {said}.")
    for name, (dtype, shape) in arrays.items():
        kind, n_axes = LAYOUT[name]
        wide = kind == "U" or dtype.itemsize == 8
        if dtype.kind != kind or not wide or n_axes not in (-1, len(shape)):
            raise StorageError(
                f"`{path}` does not hold a task: {name!r} has {len(shape)} axes of "
                f"{dtype}."
            )
    shapes = {name: shape for name, (_, shape) in arrays.items()}
    n, paid = shapes["start"][0], shapes["reward"]
    if n > MAX_ID + 1:
        raise StorageError(
            f"`{path}` does not hold a task: it claims {n} states, and {MAX_ID + 1} is "
            "the most."
        )
    keyed = "reward_key" in shapes
    right = {
        "terminal": shapes["terminal"][0] <= n,
        "reward": paid == shapes["reward_key"] if keyed else {n} >= {*paid[::2]},
        "state_labels": shapes.get("state_labels", (n,)) == (n,),
    }
    for name, fits in right.items():
        if not fits:
            raise StorageError(
                f"`{path}` does not hold a task: {name!r} of shape {shapes[name]} does "
                f"not suit {n} states."
            )


def check_states(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Refuse a number of states that the arrays do not have."""
    n = arrays["start"].size
    if n != arrays["n_states"]:
        raise StorageError(
            f"`{path}` does not hold a task: `start` is of {n} states, not of "
            f"{int(arrays['n_states'])}."
        )
