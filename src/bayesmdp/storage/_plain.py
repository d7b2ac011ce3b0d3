"""What JSON can hold, checked before it is written."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesmdp.errors import StorageError

_DEPTH = 50


def plain(where: str, value: Any, depth: int = 0) -> Any:
    """Return a value as JSON will give it back; ``where`` names it in messages."""
    if depth > _DEPTH:
        raise StorageError(f"`{where:.80}` is nested more than {_DEPTH} times.")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise StorageError(
                f"`{where}` is {value}, which JSON cannot hold; save it in an array."
            )
        return value
    if isinstance(value, list | tuple):
        return [plain(f"{where}[{i}]", x, depth + 1) for i, x in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise StorageError(
                    f"`{where}` must have text as keys; got {key!r:.80}."
                )
        return {k: plain(f"{where}.{k}", x, depth + 1) for k, x in value.items()}
    raise StorageError(
        f"`{where}` must be text, numbers, lists and dicts; got "
        f"{type(value).__name__}; arrays are saved apart."
    )
