"""Policies in files: `read_policy` beside a plain reading, and there and back again."""

import csv
import io
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import bayesmdp as bm
from fuzz import Case, DifferenceError, attempt, tables

NAMED = bm.Task(
    4,
    2,
    [0, 0, 1, 0],
    discount=0.9,
    terminal=["home", "death"],
    state_labels=["ward", "intensive care, 1", "home", "death"],
    action_labels=["treat", "wait"],
)
NUMBERED = bm.Task(3, 2, [0, 0, 1], discount=0.9, terminal=[2])
NUMBERS = NAMED.with_labels(state_labels=["10", "7", "1.0", "01"])
COUNTS = bm.Counts.from_arrays([0, 1, 0, 1], [0, 0, 1, 1], [1, 2, 2, 0])
BELIEFS = {
    "names": bm.fit(COUNTS, NAMED, prior=bm.SymmetricPrior()),
    "ids": bm.fit(COUNTS, NUMBERED, prior=bm.SymmetricPrior()),
    "numbers": bm.fit(COUNTS, NUMBERS, prior=bm.SymmetricPrior()),
}
ODD = [
    "",
    "0.5",
    "1e-9",
    "nan",
    "inf",
    "-1",
    "1_0",
    "2",
    "x",
    "0,5",
    " 1",
    "1e400",
    "½",
]


def check(case: Case) -> bool:
    """Read one policy."""
    name = case.random.choice(list(BELIEFS))
    belief = BELIEFS[name]
    case.note("belief", name)
    if case.happens(0.35):
        return _array(case, belief)
    if case.happens(0.1):
        return _there_and_back(case, belief)
    content = _csv(case, belief.task)
    if case.happens(0.1):
        content = tables.damaged(case, content)
    case.note("policy", content)
    path = case.folder / "policy.csv"
    path.write_bytes(content)
    found = attempt(lambda: bm.storage.read_policy(path, belief))
    if isinstance(found, Exception):
        return False
    wanted = _naive(content, belief.task)
    live = belief.task.live
    if not np.allclose(found[live], wanted[live], atol=1e-8):
        raise DifferenceError(f"{found.tolist()}, and naively {wanted.tolist()}")
    return True


def _csv(case: Case, task: bm.Task) -> bytes:
    """Write a row for each pair, and spoil some."""
    pick = case.random
    states = _names(task.n_states, task.state_labels)
    actions = _names(task.n_actions, task.action_labels)
    shared = case.happens(0.6)
    columns = ["state", "action"] + ["probability"] * shared
    rows: list[list[str]] = []
    for i, state in enumerate(states):
        if i in task.terminal and case.happens(0.7):
            continue
        if shared:
            share = pick.choice([0.0, 0.25, 0.5, 1.0, 1 / 3])
            split = [share, 1 - share] if len(actions) == 2 else [1.0]
            rows += [[state, a, repr(x)] for a, x in zip(actions, split, strict=True)]
        else:
            rows.append([state, pick.choice(actions)])
    for _ in range(pick.choice([0, 0, 0, 0, 0, 1, 2])):
        _spoil(case, columns, rows)
    pick.shuffle(rows)
    stream = io.StringIO(newline="")
    end = pick.choice(["\n", "\r\n"])
    delimiter = pick.choice("," * 18 + ";\t")
    writer = csv.writer(stream, delimiter=delimiter, lineterminator=end)
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue().encode(
        pick.choice(["utf-8"] * 12 + ["utf-8-sig", "utf-8-sig", "utf-16"])
    )


def _names(size: int, labels: Sequence[str] | None) -> list[str]:
    return [str(i) for i in range(size)] if labels is None else list(labels)


def _spoil(case: Case, columns: list[str], rows: list[list[str]]) -> None:
    pick = case.random
    row = pick.choice(rows) if rows else columns
    how = pick.choice(
        ["cell", "cell", "cell", "name", "more", "less", "twice", "blank"]
    )
    if how == "cell" and row:
        at = pick.randrange(len(row))
        among = [*ODD, *tables.NUMERALS, *tables.NAMES, row[at].upper(), f" {row[at]} "]
        row[at] = pick.choice(among)
    elif how == "name":
        columns[pick.randrange(len(columns))] = pick.choice(
            ["State", "p", "action", ""]
        )
    elif how == "more":
        row.append(pick.choice(["", "1"]))
    elif how == "less" and row:
        row.pop()
    elif how == "twice":
        rows.append(list(row))
    else:
        rows.insert(0, [])


def _naive(content: bytes, task: bm.Task) -> np.ndarray:
    """Read it with Python's own module."""
    try:
        text = content.decode("utf-8-sig")
        head, *rows = [x for x in csv.reader(io.StringIO(text, newline="")) if x]
    except (UnicodeDecodeError, csv.Error, ValueError):
        raise DifferenceError("was read, and naively cannot be") from None
    if len(set(head)) < len(head) or not {"state", "action"} <= set(head):
        raise DifferenceError(f"was read with columns {head}")
    wanted = np.zeros((task.n_states, task.n_actions))
    for row in rows:
        said: dict[str, Any] = dict(zip(head, row, strict=False))
        if len(row) != len(head):
            raise DifferenceError(f"was read with the row {row}")
        state = _find(said["state"], task.n_states, task.state_labels)
        action = _find(said["action"], task.n_actions, task.action_labels)
        share = said.get("probability", "1")
        if "_" in share or not math.isfinite(float(share)):
            raise DifferenceError(f"was read with the probability {share!r}")
        if wanted[state, action]:
            raise DifferenceError(f"was read with the row {row} twice")
        wanted[state, action] = float(share)
    return wanted


def _find(cell: str, size: int, labels: Sequence[str] | None) -> int:
    """Find a name as it stands, or without blanks around it; or an id."""
    for said in (cell, cell.strip()):
        if labels is not None and said in labels:
            return labels.index(said)
    said = cell.strip()
    plain = said.isascii() and said.isdigit() and int(said) < size
    if not plain or any(x.isdigit() for x in labels or ()):
        raise DifferenceError(f"was read with the name {cell!r}")
    return int(said)


def _array(case: Case, belief: bm.Posterior) -> bool:
    """Arrays of every shape and type: taken as they are, or refused."""
    pick = case.random
    task = belief.task
    shape = pick.choice(
        [(task.n_states, task.n_actions)] * 3
        + [(task.n_states,)] * 2
        + [(task.n_actions, task.n_states), (0,), (), (2, 2, 2), (task.n_states, 1)]
    )
    numbers = np.random.default_rng(pick.getrandbits(32))
    kind = pick.choice(["rows", "rows", "choice", "any"])
    array: np.ndarray
    if kind == "rows" and len(shape) == 2 and shape[1]:
        array = numbers.dirichlet(np.ones(shape[1]), size=shape[0])
    elif kind == "choice":
        array = numbers.integers(0, task.n_actions, shape)
    else:
        array = numbers.normal(size=shape)
    dtype = pick.choice(
        ["keep", "keep", "f8", "f4", "i8", "u1", "?", "U5", "c16", "S3"]
    )
    with np.errstate(all="ignore"):
        made = array if dtype == "keep" else _cast(array, dtype)
    if made.size and made.dtype.kind == "f" and case.happens(0.1):
        made.flat[0] = pick.choice([np.nan, np.inf, -1.0, 2.0])
    path = case.folder / "policy.npy"
    np.save(path, made)
    content = path.read_bytes()
    if case.happens(0.25):
        content = tables.damaged(case, content)
    case.note("array", content)
    path.write_bytes(content)
    found = attempt(lambda: bm.storage.read_policy(path, belief))
    if isinstance(found, Exception):
        return False
    wanted = np.load(io.BytesIO(content), allow_pickle=False)
    live = task.live
    wanted = wanted[live]
    if wanted.ndim == 1:
        wanted = np.eye(task.n_actions)[wanted.astype(int)]
    if not np.allclose(found[live], wanted.astype(float), atol=1e-6):
        raise DifferenceError(f"{found.tolist()}, and naively {wanted.tolist()}")
    return True


def _cast(array: np.ndarray, dtype: str) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return array.astype(dtype)


def _there_and_back(case: Case, belief: bm.Posterior) -> bool:
    """Read what `write_policy` writes: the same, but for rounding of sums."""
    numbers = np.random.default_rng(case.random.getrandbits(32))
    policy = numbers.dirichlet(np.full(2, 0.5), size=belief.task.n_states)
    path = bm.storage.write_policy(policy, belief, case.folder / "best.csv")
    found = bm.storage.read_policy(path, belief)
    live = belief.task.live
    wanted = bm.model.as_policy(policy, belief)
    if not np.allclose(found[live], wanted[live], rtol=1e-14, atol=0):
        raise DifferenceError(f"{found.tolist()} came back for {wanted.tolist()}")
    return True
