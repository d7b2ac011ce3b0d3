"""Names of states and actions: labels, and what is found by one."""

from collections.abc import Iterable, Sequence

import numpy as np

from bayesmdp import _checks
from bayesmdp.errors import TaskError


def read_labels(
    name: str, labels: Sequence[str] | None, size: int
) -> tuple[str, ...] | None:
    """Check names of states or actions."""
    if labels is None:
        return None
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TaskError(f"`{name}` must be a list of names; got {labels!r:.80}.")
    found = tuple(labels)
    for label in found:
        if not isinstance(label, str):
            raise TaskError(f"`{name}` must hold text; got {label!r:.40}.")
    if len(found) != size:
        raise TaskError(f"`{name}` must have {size} entries; got {len(found)}.")
    if len(set(found)) < size:
        twice = next(x for x in found if found.count(x) > 1)
        raise TaskError(f"`{name}` must be distinct: {twice!r} stands there twice.")
    return found


def index_of(what: str, name: object, size: int, labels: tuple[str, ...] | None) -> int:
    """Turn an index or a label into an index."""
    if isinstance(name, str):
        if labels is None:
            raise TaskError(
                f"`{what}` {name!r} is a label, but the task has none; "
                "give an index or set the labels."
            )
        if name not in labels:
            hint = _checks.did_you_mean(name, labels)
            raise TaskError(f"`{what}` {name!r} is not among the labels{hint}.")
        return labels.index(name)
    index = _checks.integer(what, name, 0, TaskError)
    if index >= size:
        raise TaskError(f"`{what}` must be in 0..{size - 1}; got {index}.")
    return index


def names_given(what: str, value: object) -> list[object]:
    """Return states as a list, also where one stands alone."""
    if isinstance(value, np.ndarray):
        value = np.atleast_1d(value).tolist()
    if isinstance(value, str | int | np.integer):
        value = [value]
    if not isinstance(value, Iterable):
        raise TaskError(f"`{what}` must hold states; got {type(value).__name__}.")
    return list(value)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Write the first few names in a row."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
