"""A clean log, ways to spoil it, and a task it suits."""

from typing import Any

import numpy as np

import bayesmdp as bm

Table = dict[str, list[Any]]


def clean() -> Table:
    """Three episodes: two end in state 2, one is cut off."""
    return {
        "episode": [7, 7, 7, 8, 8, 9, 9],
        "step": [0, 1, 2, 4, 5, 0, 1],
        "state": [0, 1, 0, 1, 0, 0, 1],
        "action": [0, 1, 1, 1, 1, 0, 0],
        "next_state": [1, 0, 2, 0, 2, 1, 1],
        "reward": [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0],
        "terminated": [False, False, True, False, True, False, False],
        "truncated": [False, False, False, False, False, False, True],
    }


def task(**changes: Any) -> bm.Task:
    reward = np.zeros((3, 2, 3))
    reward[:2, :, 2] = 1
    options = {"reward": reward, "discount": 0.9, "terminal": [2], **changes}
    return bm.Task(3, 2, **options)


def with_labels() -> bm.Task:
    return task(state_labels=["icu", "ward", "home"], action_labels=["wait", "treat"])


def change(table: Table, at: dict[tuple[str, int], Any]) -> Table:
    for (column, row), value in at.items():
        table[column][row] = value
    return table


def put(**at: tuple[int, Any]) -> Table:
    """Change one row of some columns."""
    table = clean()
    return change(table, {(name, row): value for name, (row, value) in at.items()})


def without(*columns: str, table: Table | None = None) -> Table:
    return {
        k: v
        for k, v in (clean() if table is None else table).items()
        if k not in columns
    }


def rows(*kept: int, table: Table | None = None) -> Table:
    table = clean() if table is None else table
    return {name: [values[i] for i in kept] for name, values in table.items()}


def named(table: Table | None = None) -> Table:
    table = clean() if table is None else table
    states, actions = ["icu", "ward", "home", "hom"], ["wait", "treat"]
    for role in ("state", "next_state"):
        table[role] = [states[i] for i in table[role]]
    table["action"] = [actions[i] for i in table["action"]]
    return table


def messy(seed: int, n: int = 400) -> Table:
    """Many faults at once; what each engine finds must be the same."""
    rng = np.random.default_rng(seed)
    table: dict[str, Any] = {
        "episode": np.sort(rng.integers(0, 40, n)),
        "step": rng.integers(0, 15, n),
        "state": rng.integers(1, 9, n),
        "action": rng.choice([0, 1, 4], n),
        "next_state": rng.integers(1, 9, n).astype(float),
        "reward": np.round(rng.normal(size=n), 2),
        "terminated": rng.random(n) < 0.1,
        "truncated": rng.random(n) < 0.1,
    }
    table["next_state"][rng.random(n) < 0.05] = -1.0
    table["reward"][rng.random(n) < 0.02] = np.inf
    return {name: values.tolist() for name, values in table.items()}


def whole_steps(n_ended: int, n_censored: int) -> Table:
    """Episodes of two rows that stand for whole steps; in the second, all are seen."""
    n = n_ended + n_censored
    return {
        "episode": [i for i in range(n) for _ in range(2)],
        "step": [0, 1] * n,
        "state": [0, 1] * n,
        "action": [0, 1] * n,
        "outcome": [x for i in range(n) for x in (None, 2 if i < n_ended else 9)],
    }
