"""A task file to start from, made of what the data show."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bayesmdp import _checks
from bayesmdp._io import as_path, check_file, worded, write_atomic
from bayesmdp._typing import ArrayLike
from bayesmdp.data import Transitions
from bayesmdp.errors import ArgumentError, CountsError

#: Names, case aside, of ends of which nothing is known.
_OPEN = {"na", "n/a", "nan", "null", "none", "missing", "unknown", "alive"}
_OPEN_WORDS = ("censor", "lost", "ltfu", "withdr", "dropout", "follow-up", "follow up")
_SHOWN = 30  # names in a comment, candidates in a list

_TEMPLATE = """\
# What is decided in advance. Everything here was guessed from the data: look at it.
# The data: {rows} transitions of {n_states} states and {n_actions} actions.

# How much less a reward counts one step later, in [0, 1].
discount = 0.99

# States in which an episode ends. {found}
terminal = {terminal}

# Where episodes begin: "uniform", "logged", a state, or a table of probabilities such
# as {{ {state} = 1.0 }}.{begun}
start = "{start}"

# What rewards are counted in, for tables and the report.
# reward_unit = "life-years"

# States and actions: names come from the data, in this order.
{sizes}

[reward]
{reward}
# Or one of these; what is not named pays 0.
# For being in a state; a terminal one pays once, on arrival:
# state = {{ {state} = 1.0 }}
# For an action in a state:
# state_action.{state}.{action} = -0.1
# For a transition:
# transition = [{{ state = {s}, action = {a}, next_state = {s}, value = 1.0 }}]
# Several, such as costs and QALYs, have a table each: [reward.cost] and [reward.qaly].
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
    counts = data.counts()
    labels = {"state": data.state_labels, "action": data.action_labels}
    n = {"state": counts.n_states, "action": counts.n_actions}
    leaves = counts.state[counts.state != counts.next_state]
    ends = np.setdiff1d(counts.next_state, leaves)
    open_ends = [x for x in ends if _says_nothing(int(x), labels["state"])]
    ends = np.setdiff1d(ends, open_ends)
    names = [_value(int(s), labels["state"]) for s in ends]
    if len(ends) == n["state"]:
        names = []  # nothing would be left to decide
    live = int(leaves[0]) if leaves.size else 0
    lines = [_sizes(what, n[what], labels[what]) for what in ("state", "action")]
    found = f"Entered and never left: {len(names)} of them." if names else "None found."
    if open_ends:
        shown = ", ".join(_value(int(x), labels["state"]) for x in open_ends[:_SHOWN])
        found += (
            f"\n# Not {shown}: if that says that only the follow-up ended, read the "
            "log with --censored."
        )
    keys = [_key(int(s), labels["state"]) for s in (ends if names else [0])]
    logged = begins_as_logged(data, ends if names else [])
    return _TEMPLATE.format(
        rows=data.n_rows,
        n_states=n["state"],
        n_actions=n["action"],
        found=found,
        terminal=f"[{', '.join(names)}]",
        start="logged" if logged else "uniform",
        begun=" The log knows its episodes' first steps." if logged else "",
        sizes="\n".join(lines),
        reward=_reward(data, keys),
        state=_key(live, labels["state"]),
        action=_key(0, labels["action"]),
        s=_value(live, labels["state"]),
        a=_value(0, labels["action"]),
    )


def begins_as_logged(data: Transitions, ends: ArrayLike) -> bool:
    """Whether the log says where episodes begin, and never at an end."""
    if not {"episode", "step"} <= set(data.table.roles):
        return False
    try:
        starts = data.starts()
    except CountsError:  # steps without numbers of their own
        return False
    return starts.state.size > 0 and not np.isin(starts.state, ends).any()


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


def _sizes(what: str, n: int, labels: Sequence[int | str] | None) -> str:
    if labels is None:
        return f"n_{what}s = {n}"
    shown = ", ".join(_text(str(x)) for x in labels[:_SHOWN])
    more = ", ..." if len(labels) > _SHOWN else ""
    return f"# {what}_labels = [{shown}{more}]"


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
