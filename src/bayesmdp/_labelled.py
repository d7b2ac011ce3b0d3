"""Arrays given as tables that say which state or action is which.

The index of a pandas object holds a label for each state, and so do names of columns
for each action. polars and Arrow have no index: there, and in a pandas table without
one, a first column of text holds the labels of states; without it rows stand in the
order of the task, as those of an array do, and so does a polars Series. Labels are
matched with the task's by text, or refused; whole numbers from 0 are ids.
"""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayesmdp._checks import ErrorClass, did_you_mean


class Named(Protocol):
    """What is asked of a task; `bayesmdp.Task` has it."""

    @property
    def n_actions(self) -> int:
        """Number of actions."""

    @property
    def state_labels(self) -> tuple[str, ...] | None:
        """Names of states."""

    @property
    def action_labels(self) -> tuple[str, ...] | None:
        """Names of actions."""


def in_order(
    name: str,
    value: Any,
    axes: tuple[str, ...],
    error: ErrorClass,
    task: Named | None = None,
    free: Collection[str] = (),
) -> Any:
    """Return a table's numbers in the order of the task, and all else as it is.

    ``axes`` say what rows, and columns where there may be any, stand for: ``state``,
    ``action``. Without a task only ids can be matched. States whose numbers do not
    count are ``free``: where one is missing, it has those of another.
    """
    if isinstance(value, np.ndarray | np.generic | list | tuple | str | int | float):
        return value
    import narwhals as nw

    try:
        table = nw.from_native(
            value, eager_only=True, allow_series=True, pass_through=True
        )
    except Exception as problem:  # of names of columns, such as one that is there twice
        said = " ".join(str(problem).split()).rstrip(".")
        raise error(f"`{name}` cannot be read: {said:.200}.") from problem
    if not isinstance(table, nw.DataFrame | nw.Series):
        return value
    labels = {
        "state": None if task is None else task.state_labels,
        "action": None if task is None else task.action_labels,
    }
    found, given = _parts(table)
    if len(given) == 2 and _is_one_number(given[1], axes, task):
        found, given = found[:, 0], given[:1]
    for axis, (what, names) in enumerate(zip(axes, given, strict=False)):
        try:
            spare = free if what == "state" else ()
            found = found.take(_places(what, names, labels[what], spare), axis)
        except LookupError as problem:
            raise error(f"`{name}` {problem.args[0]}.") from None
    return found


def _parts(table: Any) -> tuple[NDArray[Any], list[list[Any]]]:
    """Return the numbers of a table, and what its rows and columns are called."""
    import narwhals as nw

    index = nw.maybe_get_index(table)
    rows = list(range(len(table))) if index is None else list(index)
    if isinstance(table, nw.Series):
        return table.to_numpy(), [rows]
    columns, names = list(table.iter_columns()), list(table.columns)
    text = (nw.String, nw.Categorical, nw.Enum)
    if rows == list(range(len(rows))) and columns and columns[0].dtype in text:
        rows, columns, names = columns[0].to_list(), columns[1:], names[1:]
    if names == [f"column_{i}" for i in range(len(names))]:  # as polars calls them
        names = list(range(len(names)))
    found = [x.to_numpy() for x in columns]
    return np.stack(found, axis=1) if found else np.zeros((len(rows), 0)), [rows, names]


def _is_one_number(names: list[Any], axes: tuple[str, ...], task: Named | None) -> bool:
    """Tell a number of each state, in a table, from one of each state and action."""
    if len(names) != 1 or type(names[0]) is int:
        return False
    if len(axes) == 1 or task is None:
        return len(axes) == 1
    if task.action_labels is None:
        return task.n_actions > 1
    return names[0] not in task.action_labels


def _places(
    what: str, given: Sequence[Any], known: Sequence[str] | None, free: Collection[str]
) -> list[int]:
    """Where each state or action of the task stands in what was given."""
    texts = [str(x) for x in given]
    at = dict.fromkeys(free, 0) | {text: i for i, text in enumerate(texts)}
    named = [at[x] for x in known or () if x in at]
    alike = len({*texts}) == len(texts) and {*texts} <= {*(known or ())}
    fits = known is not None and len(named) == len(known) and alike
    ids = {x: i for i, x in enumerate(given) if type(x) is int}
    counted = [ids[i] for i in range(len(texts)) if i in ids]
    if len(counted) == len(texts):
        if fits and named != counted:
            raise LookupError(
                f"has numbers as labels, and {what}s are named by numbers in another "
                "order: give the labels as text, or an array in the order of the task"
            )
        return counted
    if fits:
        return named
    needed = known and [x for x in known if x in texts or x not in free]
    raise LookupError(_why_not(what, texts, needed))


def _why_not(what: str, texts: Sequence[str], known: Sequence[str] | None) -> str:
    """Say which label is the first that cannot be matched."""
    remedy = "or give an array in the order of the task, such as .to_numpy() makes"
    if known is None:
        return (
            f"names {what}s, the first {texts[0]!r:.42}, and there are no "
            f"`{what}_labels` to match them with: give the task some, {remedy}"
        )
    unknown = next((x for x in texts if x not in known), None)
    twice = next((x for x in texts if texts.count(x) > 1), None)
    if unknown is not None:
        hint = did_you_mean(unknown, known)
        said = f"has {what} {unknown!r:.42}{hint}, which the task does not have"
    elif twice is not None:
        said = f"has {what} {twice!r:.42} twice"
    else:
        missing = next(x for x in known if x not in texts)
        said = f"has nothing for {what} {missing!r:.42}"
    return f"{said}: label every {what} once, {remedy}"
