"""What states and actions are called, and the id of each name."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesmdp._checks import argument, column
from bayesmdp._typing import IntArray
from bayesmdp.data._faults import Fault

#: Ordered names of states and of actions, where the table says their order.
Levels: TypeAlias = Mapping[str, tuple[str, ...]]


def names_in(
    groups: Mapping[str, NDArray[Any]], labels: bool, levels: Levels
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Names of states and of actions in their order, where they have any.

    Levels of ordered categories come first, all of them; then other names.
    """

    def names(what: str, *columns: NDArray[Any]) -> NDArray[Any] | None:
        values = np.concatenate(columns)
        if values.dtype.kind in "iuf":
            return np.unique(values.astype(np.int64)) if labels else None
        known = levels.get(what, ())
        others = {str(x) for x in values}.difference(known)
        return np.array([*known, *sorted(others, key=_place)], dtype=object)

    return (
        names("state", groups["state"], groups["next_state"]),
        names("action", groups["action"]),
    )


def _place(name: str) -> tuple[Any, ...]:
    """Where a name is sorted: numbers first, and w2 before w10."""
    if _WHOLE.fullmatch(name):
        return 0, int(name)
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :].lstrip("0")  # of any length, which int() would refuse
    return 1, stem, len(digits), digits, name


def numbers(values: NDArray[Any], names: NDArray[Any] | None) -> IntArray:
    """Return ids: the values themselves, or their places among names."""
    if names is None:
        return values.astype(np.int64)
    if names.dtype != object:
        return np.searchsorted(names, values.astype(np.int64)).astype(np.int64)
    number = {name: i for i, name in enumerate(names)}
    return np.array([number[str(x)] for x in values], dtype=np.int64)


def numbers_as_text(
    names: tuple[NDArray[Any] | None, NDArray[Any] | None],
    found: Mapping[str, str],
    origin: str,
) -> list[Fault]:
    """Find text that is numbers: they may be ids, and 1 and 1.0 the same one."""
    faults = []
    for role, known in zip(("state", "action"), names, strict=True):
        text = [] if known is None or known.dtype != object else known.tolist()
        times = [name for name in text if _TIME.fullmatch(name)]
        if times:
            said = (
                f"Column `{found[role]}` of {origin} holds times, such as "
                f"{times[0]!r:.42}"
            )
            remedy = (
                f"name the column that holds {role}s with {column(role)}, or "
                f"give {argument('labels')} to take times as names"
            )
            faults.append(
                Fault("times-as-names", role, len(times), None, said, remedy, ": ")
            )
        odd = [name for name in text if _NUMERAL.fullmatch(name)]
        if odd:
            said = (
                f"Column `{found[role]}` of {origin} holds numbers as text, such as "
                f"{odd[0]!r:.42}"
            )
            remedy = (
                f"convert it to whole numbers, or give {argument('labels')} to take "
                "the text as names"
            )
            faults.append(
                Fault("numbers-as-text", role, len(odd), None, said, remedy, ": ")
            )
    return faults


_TIME = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:.*)?")
_NUMERAL = re.compile(r"\s*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)\s*")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
