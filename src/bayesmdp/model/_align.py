"""Data in the task's terms: names are found, ids are checked, sizes are the task's."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import IntArray
from bayesmdp.data import Counts, Transitions, read_frame
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError
from bayesmdp.model._task import Task
from bayesmdp.model._task_readers import check_start, needs_log, read_start

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

#: A log as users have it: transitions, or a dataframe of them.
Log: TypeAlias = "Transitions | IntoFrame"
#: What a belief is fitted from.
Data: TypeAlias = "Log | Counts"


def as_data(data: Data, task: Task, name: str = "data") -> Transitions | Counts:
    """Return data, with dataframes read; numbers are names where labels are codes."""
    named = (task.state_labels or (), task.action_labels or ())
    codes = any(
        labels != tuple(map(str, range(len(labels))))
        and all(x.removeprefix("-").isdecimal() for x in labels)
        for labels in named
    )
    return read_frame(data, name, labels=codes)


def as_log(log: Log, task: Task) -> Transitions:
    """Return a log, read where it is a dataframe; counts are refused."""
    found = as_data(log, task, "log")
    _checks.of_type("log", found, Transitions, ArgumentError)
    assert isinstance(found, Transitions)
    return found


def align(
    data: Data, task: Task, *, counts: Counts | None = None
) -> tuple[Counts, Task]:
    """Count the data in the task's numbering, and give the task the data's names.

    Names compare as text; counts have ids only. Where the task has names, every name of
    the data must be among them; where it has none, the data's are taken if there are as
    many. ``counts`` is a part of the data, such as a fold, to be taken instead.
    """
    data = as_data(data, task)
    if isinstance(data, Counts):
        check_start(task)
        return _sized(data, task), task
    found = data.counts() if counts is None else counts
    states = _texts("state", data.state_labels, found.state, found.next_state)
    actions = _texts("action", data.action_labels, found.action)
    if states is None and actions is None:
        return _sized(found, task), _started(task, data, None)
    task = task.with_labels(
        state_labels=_adopted("state", states, task.n_states, task.state_labels),
        action_labels=_adopted("action", actions, task.n_actions, task.action_labels),
    )
    state, action = numbering(data, task)
    named = Counts.from_arrays(
        found.state if state is None else state[found.state],
        found.action if action is None else action[found.action],
        found.next_state if state is None else state[found.next_state],
        found.count,
        n_states=found.n_states if state is None and found.sized[0] else None,
        n_actions=found.n_actions if action is None and found.sized[1] else None,
    )
    return _sized(named, task), _started(task, data, state)


def _started(task: Task, data: Transitions, number: IntArray | None) -> Task:
    """Let episodes start where those of a log do, if the task leaves that to it."""
    if not needs_log(task):
        return task
    starts = data.starts()
    share = np.zeros(task.n_states)
    at = starts.state if number is None else number[starts.state]
    share[at] = starts.count / starts.count.sum()
    return task._but(start=read_start(share, task))


def numbering(data: Transitions, task: Task) -> tuple[IntArray | None, IntArray | None]:
    """Task's numbers of the data's states and actions; None where ids are numbers."""
    names = [
        None if x is None else tuple(map(str, x))
        for x in (data.state_labels, data.action_labels)
    ]
    return (
        _numbers("state", names[0], task.state_labels),
        _numbers("action", names[1], task.action_labels),
    )


def _texts(
    what: str, labels: Sequence[int | str] | None, *ids: IntArray
) -> tuple[str, ...] | None:
    """Names of the data as text: one for every id, no two alike."""
    if labels is None:
        return None
    names = tuple(map(str, labels))
    largest = max(int(x.max(initial=-1)) for x in ids)
    if largest >= len(names):
        raise CountsError(
            f"`data` has {what} {largest}, but its `{what}_labels` are "
            f"{len(names)}: name every one from 0."
        )
    if len(set(names)) < len(names):
        twice = next(x for x in names if names.count(x) > 1)
        raise CountsError(f"`data` names two {what}s {twice!r}: names must differ.")
    return names


def _adopted(
    what: str,
    names: tuple[str, ...] | None,
    size: int,
    known: tuple[str, ...] | None,
) -> tuple[str, ...] | None:
    """Names that a task without any takes from the data."""
    if names is None or known is not None:
        return None
    if len(names) != size:
        raise CountsError(
            f"`data` names {len(names)} {what}s, but `task` has {size} without names: "
            f"which is which is not known; give the task `{what}_labels`, or make it "
            "with Task.from_data(data, ...)."
        )
    warnings.warn(
        f"`task` has no `{what}_labels`, so those of the data are taken in their "
        f"order: {what} 0 is {names[0]!r}, {what} {size - 1} {names[-1]!r}.",
        BayesmdpWarning,
        stacklevel=4,
    )
    return names


def _numbers(
    what: str, names: tuple[str, ...] | None, known: tuple[str, ...] | None
) -> IntArray | None:
    """Task's number of each of the data's ids, where these have names."""
    if names is None or known is None:
        return None
    number = {name: i for i, name in enumerate(known)}
    unknown = [x for x in names if x not in number]
    if unknown:
        hint = _checks.did_you_mean(unknown[0], known)
        a = "an" if what == "action" else "a"
        more = f", nor do {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise CountsError(
            f"`data` names {a} {what} {unknown[0]!r}{hint}, which does not stand in "
            f"the task's `{what}_labels`{more}: add it there, or fix the data."
        )
    return np.array([number[x] for x in names], dtype=np.int64)


def _sized(counts: Counts, task: Task) -> Counts:
    """Check ids against the task's sizes, and take these."""
    for name, sized, axes in (
        ("n_states", counts.sized[0], ("state", "next_state")),
        ("n_actions", counts.sized[1], ("action",)),
    ):
        size, wanted = getattr(counts, name), getattr(task, name)
        if sized and size != wanted:
            raise CountsError(
                f"`data` and `task` disagree about `{name}`: {size} and {wanted}."
            )
        for axis in axes:
            column = getattr(counts, axis)
            if column.size and column.max() >= wanted:
                raise CountsError(
                    f"`{axis}` must be in 0..{wanted - 1}; the data has {column.max()} "
                    "(ids start from 0)."
                )
    if all(counts.sized):
        return counts
    return Counts.from_arrays(
        counts.state,
        counts.action,
        counts.next_state,
        counts.count,
        n_states=task.n_states,
        n_actions=task.n_actions,
    )
