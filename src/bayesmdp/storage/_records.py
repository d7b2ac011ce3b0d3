"""Frozen records as plain values and arrays, and back, equal to the bit.

Numbers, truth values and text go into the JSON record, arrays into the ``.npz`` file. A
number that is not finite, which JSON cannot hold, is None in the record and stands
among the arrays.
"""

import math
from collections.abc import Mapping
from dataclasses import Field, fields
from enum import StrEnum
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp.errors import StorageError

Record = TypeVar("Record")
Arrays = dict[str, NDArray[Any]]


def pack(
    value: Any, arrays: Arrays, prefix: str = "", *, leave: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the plain fields of a record; arrays are added to ``arrays``."""
    record: dict[str, Any] = {}
    for name in _names(value, leave):
        found = getattr(value, name)
        if isinstance(found, np.ndarray):
            arrays[prefix + name] = found
        elif isinstance(found, float) and not math.isfinite(found):
            arrays[prefix + name] = np.array(found)
            record[name] = None
        else:
            record[name] = list(found) if isinstance(found, tuple) else found
    return record


def unpack(
    kind: type[Record],
    record: object,
    arrays: Mapping[str, NDArray[Any]],
    prefix: str = "",
    **rest: Any,
) -> Record:
    """Make the record again; ``rest`` are the fields that were left out."""
    if not isinstance(record, dict):
        raise StorageError(f"there is no {kind.__name__}")
    values, hints = {}, get_type_hints(kind)
    for name in _names(kind, tuple(rest)):
        found = record.get(name)
        if found is None and prefix + name in arrays:
            array = arrays[prefix + name]
            found = array if array.ndim else array.item()
        elif name not in record:
            raise StorageError(f"{kind.__name__} has no {name!r}")
        values[name] = tuple(found) if isinstance(found, list) else found
        if isinstance(hints[name], type) and issubclass(hints[name], StrEnum):
            values[name] = {x.value: x for x in hints[name]}.get(found, found)
        if not _checks.fits(values[name], hints[name]):
            raise StorageError(f"{kind.__name__} has {found!r:.40} as {name!r}")
    return kind(**values, **rest)


def _names(kind: Any, leave: tuple[str, ...]) -> list[str]:
    every: tuple[Field[Any], ...] = fields(kind)
    return [field.name for field in every if field.name not in leave]
