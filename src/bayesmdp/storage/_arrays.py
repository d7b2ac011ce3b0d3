"""Plain arrays in ``.npz`` files, written and read without pickle.

`numpy.savez` cannot write every name and would pickle objects; the format is a zip of
``.npy`` files, so it is written as that, with no dates in it: equal arrays give equal
bytes.
"""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp._io import MOST_PACKED, Layout, check_fits, read_layout, worded
from bayesmdp.errors import StorageError

KINDS = "biufcU"  # truth values, numbers, text


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays of these kinds; callers word what goes wrong."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


class Arrays:
    """Arrays of an open file: what they claim to be, and what they are once asked for.

    What a file claims is compared with its size first: a few bytes can claim any.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile | None = None) -> None:
        self._path, self._archive = path, archive
        self._entries: dict[str, zipfile.ZipInfo] = {}
        self._left: set[str] = set()  # not read yet
        self.layout: dict[str, Layout] = {}
        if archive is None:
            return
        entries = archive.infolist()
        _check_sizes(path, entries)
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            with archive.open(entry) as stream:
                kind, shape = read_layout(stream, entry.file_size)
            if kind.kind not in KINDS or name in self.layout:
                raise _foreign(path, entry.filename)
            self.layout[name], self._entries[name] = (kind, shape), entry
        self._left = set(self.layout)
        check_fits(path, sum(entry.file_size for entry in entries))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return what shape an array claims to have."""
        if name not in self.layout:
            raise StorageError(f"there is no array {name!r:.80}")
        return self.layout[name][1]

    def read(self, name: str) -> NDArray[Any]:
        """Return an array, read-only."""
        self.shape(name)
        assert self._archive is not None
        self._left.discard(name)
        with self._archive.open(self._entries[name]) as stream:
            found: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        found.flags.writeable = False
        return found

    def check_all_read(self) -> None:
        """Refuse arrays that nobody asked for."""
        if self._left:
            raise _foreign(self._path, min(self._left))


@contextmanager
def open_arrays(path: Path | None) -> Iterator[Arrays]:
    """Open a file of arrays; without one, there are none."""
    if path is None:
        yield Arrays(Path())
        return
    with worded(path, "read"), zipfile.ZipFile(path) as archive:
        yield Arrays(path, archive)


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
