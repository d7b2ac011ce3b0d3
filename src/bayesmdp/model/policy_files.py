"""Policies from files that people write, and into such.

A file is ``.npy``, an array as everywhere else, or CSV: a row for each action that may
be taken, in columns ``state``, ``action`` and, unless every state has one action,
``probability``. Names are labels where the task has some; numbers are ids.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path

import numpy as np

from bayesmdp import _checks
from bayesmdp._io import (
    as_path,
    check_file,
    check_plain,
    read_array,
    worded,
    write_atomic,
)
from bayesmdp._typing import ArrayLike, FloatArray, PolicyLike
from bayesmdp.errors import PolicyError
from bayesmdp.model._policies import (
    KnowsPairs,
    as_policy,
    check_knows,
    restrict,
    used_pairs,
)
from bayesmdp.model._task import Task

_COLUMNS = ("state", "action", "probability")


def read_policy(
    path: str | os.PathLike[str], belief: KnowsPairs, *, restricted: bool = False
) -> FloatArray:
    r"""Read a policy from a file.

    Parameters
    ----------
    path
        ``.npy`` with an array ``[S, A]`` or ``[S]``, or CSV with columns ``state``,
        ``action`` and maybe ``probability``; labels or ids. Terminal states may be
        left out.
    belief
        What the policy is for.
    restricted
        Whether actions that are not available are dropped, with a warning; otherwise
        they are refused.

    Returns
    -------
    Array
        Policy ``[S, A]``.

    Examples
    --------
    >>> import pathlib, tempfile, bayesmdp as bm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "mine.csv")
    >>> _ = path.write_text("state,action\n0,1\n1,0\n")
    >>> task = bm.Task(2, 2, reward=[1, 0], discount=0.9)
    >>> posterior = bm.fit(bm.Counts.from_arrays([0, 1], [0, 1], [1, 0]), task)
    >>> bm.storage.read_policy(path, posterior).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    file = as_path(path)
    check_knows(belief)
    found: ArrayLike
    with worded(file, "read"):
        if file.suffix.lower() == ".npy":
            found = read_array(file)
        else:
            check_plain(file)
            try:
                with file.open(encoding="utf-8-sig", newline="") as stream:
                    rows = csv.DictReader(stream, strict=True)
                    found = _table(file, rows, belief.task)
            except UnicodeDecodeError:
                raise PolicyError(
                    f"`{file}` is not UTF-8 text: save it as CSV in UTF-8."
                ) from None
    if restricted:
        return restrict(found, belief)
    return as_policy(found, belief, str(file))


def _table(file: Path, rows: csv.DictReader[str], task: Task) -> FloatArray:
    """Read the rows of a CSV file."""
    _check_columns(file, rows.fieldnames or ())
    find_state = _finder("state", task.n_states, task.state_labels)
    find_action = _finder("action", task.n_actions, task.action_labels)
    policy = np.zeros((task.n_states, task.n_actions))
    seen = np.zeros(policy.shape, dtype=np.bool_)
    certain = "probability" not in (rows.fieldnames or ())
    for row in rows:
        where = f"`{file}`, line {rows.line_num}"
        if None in row:
            raise PolicyError(f"{where} has more cells than the first line.")
        state = find_state(where, row["state"] or "")
        action = find_action(where, row["action"] or "")
        if seen[state, action] or (certain and seen[state].any()):
            raise PolicyError(
                f"{where}: {task.pair_name(state, action)} is one too many; a state "
                "with several actions needs a column `probability`, each pair once."
            )
        seen[state, action] = True
        policy[state, action] = 1.0 if certain else _share(where, row["probability"])
    missing = task.live[~seen[task.live].any(axis=1)]
    if missing.size:
        raise PolicyError(
            f"`{file}` has no row for {missing.size} of {task.live.size} states that "
            f"are not terminal, the first {task.state_name(int(missing[0]))}: say what "
            "to do there."
        )
    return policy


def _check_columns(file: Path, found: Iterable[str]) -> None:
    names = list(found)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise PolicyError(f"`{file}` has two columns {twice[0]!r:.40}: leave out one.")
    for name in _COLUMNS[:2]:
        if name not in names:
            hint = _checks.did_you_mean(name, names)
            raise PolicyError(
                f"`{file}` has no column {name!r}{hint}: a policy has the columns "
                "state, action and maybe probability, named in the first line."
            )
    for name in names:
        if name not in _COLUMNS:
            hint = _checks.did_you_mean(name, _COLUMNS)
            raise PolicyError(
                f"`{file}` has a column {name!r:.40}, which means nothing{hint}: "
                "rename it, or leave it out."
            )


def _finder(
    what: str, size: int, labels: tuple[str, ...] | None
) -> Callable[[str, str], int]:
    """Find states or actions by label, or by id where no label is a number."""
    places = {label: i for i, label in enumerate(labels or ())}
    numbered = any(label.isdecimal() for label in places)

    def find(where: str, said: str) -> int:
        text = said.strip()
        for label in (said, text):  # a label may begin or end with a space
            if label in places:
                return places[label]
        if text.isascii() and text.isdecimal() and not numbered and int(text) < size:
            return int(text)
        hint = _checks.did_you_mean(text, places)
        known = f"0..{size - 1}" if labels is None else "the task's labels"
        raise PolicyError(f"{where}: there is no {what} {text!r:.40} in {known}{hint}.")

    return find


def _share(where: str, said: str | None) -> float:
    try:
        share = float(said or "")
    except ValueError:
        share = math.nan
    if not math.isfinite(share):
        raise PolicyError(
            f"{where}: `probability` must be a finite number; got {said!r:.40}."
        )
    return share


def write_policy(
    policy: PolicyLike, belief: KnowsPairs, path: str | os.PathLike[str]
) -> Path:
    """Write a policy as CSV: state, action, probability, in words where there are any.

    A file that is there is replaced in one moment; whatever goes wrong, it stays.

    Parameters
    ----------
    policy
        ``[S, A]`` or ``[S]``.
    belief
        What the policy is for.
    path
        The file, which ends in ``.csv``.

    Examples
    --------
    >>> import pathlib, tempfile, bayesmdp as bm
    >>> task = bm.Task(2, 2, [1, 0], discount=0.9, terminal=[1],
    ...                state_labels=["up", "end"])
    >>> posterior = bm.fit(bm.Counts.from_arrays([0], [0], [1]), task)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "best.csv")
    >>> bm.storage.write_policy([1, 0], posterior, path).read_text().splitlines()
    ['state,action,probability', 'up,1,1.0']
    """
    file = as_path(path)
    rows = used_pairs(as_policy(policy, belief), belief.task)
    check_file(file, ".csv")
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(row.values() for row in rows)
    with worded(file, "written"):
        write_atomic(file, text.getvalue())
    return file
