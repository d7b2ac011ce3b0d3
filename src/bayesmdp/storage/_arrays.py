"""Plain arrays in ``.npz`` files, written and read without pickle.

`numpy.savez` cannot write every name and would pickle objects; the format is a zip of
``.npy`` files, so it is written as that, with no dates in it: equal arrays give equal
bytes.
"""

import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp._io import MOST_PACKED, Layout, check_fits, read_layout, worded
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


def read_arrays(
    path: Path, check: Callable[[dict[str, Layout]], None] = lambda _: None
) -> dict[str, NDArray[Any]]:
    """Read every array of a file, read-only, once ``check`` has seen kinds and shapes.

    What a file claims is compared with its size first: a few bytes can claim any.
    """
    with worded(path, "read"), zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        _check_sizes(path, entries)
        layout = {}
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            with archive.open(entry) as stream:
                kind, shape = read_layout(stream, entry.file_size)
            if kind.kind not in KINDS or name in layout:
                raise _foreign(path, entry.filename)
            layout[name] = kind, shape
        check(layout)
        check_fits(path, sum(entry.file_size for entry in entries))
        found = {}
        for name, entry in zip(layout, entries, strict=True):
            with archive.open(entry) as stream:
                found[name] = np.lib.format.read_array(stream, allow_pickle=False)
            found[name].flags.writeable = False
        return found


def _check_sizes(path: Path, entries: list[zipfile.ZipInfo]) -> None:
    """Refuse sizes that the bytes of a file cannot stand for."""
    if sum(x.compress_size for x in entries) > path.stat().st_size:
        raise _foreign(path, "parts that overlap")
    for x in entries:
        most = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: MOST_PACKED}
        if x.file_size > most.get(x.compress_type, 0) * x.compress_size:
            raise _foreign(path, f"{x.filename}, packed {x.compress_size} bytes")


def _foreign(path: Path, what: str) -> StorageError:
    return StorageError(f"`{path}` holds {what!r:.80}, which bayesmdp did not write.")
