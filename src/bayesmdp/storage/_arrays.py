"""Plain arrays in ``.npz`` files, written and read without pickle.

`numpy.savez` cannot write every name and would pickle objects; the format is a zip of
``.npy`` files, so it is written as that, with no dates in it: equal arrays give equal
bytes.
"""

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp._io import worded
from bayesmdp.errors import StorageError

KINDS = "biufcU"  # truth values, numbers, text
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def check_arrays(arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Refuse names and contents that would not come back as they are."""
    if not isinstance(arrays, Mapping):
        raise StorageError(
            f"`arrays` must map names to arrays; got {type(arrays).__name__}."
        )
    found = {}
    for name, value in arrays.items():
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise StorageError(
                f"`arrays` must have names of letters, digits and _; got {name!r:.80}."
            )
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):  # ragged
            array = np.array(None)
        if array.dtype.kind not in KINDS:
            raise StorageError(
                f"`arrays`: {name!r} must hold numbers, text or True and False; got "
                f"{type(value).__name__} of {array.dtype}."
            )
        found[name] = array
    return found


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write checked arrays; callers word what goes wrong, as the name is hidden."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read every array of a file, read-only."""
    with worded(path, "read"):
        found = {}
        with zipfile.ZipFile(path) as archive:
            for entry in archive.namelist():
                with archive.open(entry) as stream:
                    array = np.lib.format.read_array(stream, allow_pickle=False)
                if array.dtype.kind not in KINDS or entry.removesuffix(".npy") in found:
                    raise StorageError(
                        f"`{path}` holds {entry!r:.80}, which bayesmdp did not write."
                    )
                array.flags.writeable = False
                found[entry.removesuffix(".npy")] = array
        return found
