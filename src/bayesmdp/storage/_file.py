"""One record in one JSON file, with its arrays in it: it changes in one moment.

A file is written beside its place and renamed over it (`bayesmdp._io`), so that a kill
leaves the old one or the new one; leftovers are never looked at, and the next writer
deletes them. The file holds the SHA-256 of what it says. Arrays stand in it by name, as
bytes that are packed by zlib and spelt in base64: nothing is ever unpickled, and equal
arrays give equal bytes.

Writers of a directory wait for each other by a lock on the directory, which the system
lets go of when a process dies. Where there are no such locks (Windows, some network
file systems), leftovers are deleted once they are an hour old.
"""

import base64
import hashlib
import json
import math
import os
import re
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bayesmdp._checks import argument
from bayesmdp._io import (
    HIDDEN,
    MOST_PACKED,
    check_fits,
    check_plain,
    flush,
    worded,
    write_atomic,
)
from bayesmdp.errors import BayesmdpError, StorageError

KINDS = "biufcU"  # truth values, numbers, text
SCHEMA = 2  # raised when an older bayesmdp could no longer read what this one writes
_HOUR = 3600.0
_ITEM = 100  # bytes of memory that an item of JSON may take, texts apart
_KIND = re.compile(rf"[<>|=][{KINDS}][1-9][0-9]{{0,5}}")


class EarlierSchemaError(StorageError):
    """A file is whole, and of a format that is no longer read."""


class Arrays:
    """Arrays of a file: what they claim to be, and what they are once asked for.

    What they claim is compared with their bytes first: a few bytes can claim any size.
    """

    def __init__(self, path: Path, said: Mapping[str, Any]) -> None:
        self._path, self._said, self._left = path, said, {*said}
        check_fits(path, sum(self._size(name) for name in said))

    def _size(self, name: str) -> int:
        """Bytes that an array claims, and that its text can stand for."""
        match self._said[name]:
            case {"kind": str(kind), "shape": list(shape), "zlib": str(text), **more}:
                right = not more and _KIND.fullmatch(kind) and len(shape) <= 8
                if right and all(type(n) is int and n >= 0 for n in shape):
                    with suppress(TypeError):  # numpy has no such size, as in <f3
                        claimed = math.prod(shape) * np.dtype(kind).itemsize
                        if claimed <= MOST_PACKED * len(text):
                            return claimed
        raise self._foreign(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return what shape an array claims to have."""
        if name not in self._said:
            raise StorageError(f"there is no array {name!r:.80}")
        return tuple(self._said[name]["shape"])

    def read(self, name: str) -> NDArray[Any]:
        """Return an array, read-only."""
        shape, said, size = self.shape(name), self._said[name], self._size(name)
        self._left.discard(name)
        try:
            packed = base64.b64decode(said["zlib"], validate=True)
            content = zlib.decompressobj().decompress(packed, size + 1)
        except (ValueError, zlib.error):
            raise self._foreign(name) from None
        if len(content) != size:
            raise self._foreign(name)
        return np.frombuffer(content, said["kind"]).reshape(shape)

    def check_all_read(self) -> None:
        """Refuse arrays that nobody asked for."""
        if self._left:
            raise self._foreign(min(self._left))

    def _foreign(self, name: str) -> StorageError:
        return StorageError(
            f"`{self._path}` holds {name!r:.80}, which bayesmdp did not write."
        )


def _packed(array: NDArray[Any]) -> dict[str, Any]:
    content = zlib.compress(np.ascontiguousarray(array).tobytes())
    text = base64.b64encode(content).decode("ascii")
    return {"kind": array.dtype.str, "shape": list(array.shape), "zlib": text}


def write_record(
    path: Path, kind: str, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> str:
    """Write a record and its arrays, and return its checksum."""
    full = {"format": f"bayesmdp {kind}", "schema": SCHEMA, **record}
    full["arrays"] = {name: _packed(array) for name, array in arrays.items()}
    checksum = full["checksum"] = _checksum(full)
    write_atomic(path, json.dumps(full, indent=1, allow_nan=False) + "\n")
    with suppress(OSError):  # the file is written
        flush(path.parent)
    return checksum


def read_record(path: Path, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Read a record of this kind and its arrays, or say what is wrong with the file."""
    record = _parsed(path)
    if not isinstance(record, dict) or record.get("format") != f"bayesmdp {kind}":
        raise StorageError(
            f"`{path}` was not written by bayesmdp: it does not say "
            f'"format": "bayesmdp {kind}"; name a directory that `storage.save` wrote.'
        )
    said = record.get("schema")
    if type(said) is not int or said < 1:
        raise _damaged(path, f"has no schema number but {said!r:.40}")
    if said > SCHEMA:
        raise StorageError(
            f"`{path}` was written by a newer bayesmdp: its schema is {said}, this one "
            f"reads up to {SCHEMA}; upgrade bayesmdp."
        )
    checksum = record.pop("checksum", None)
    if checksum != _checksum(record):
        raise _damaged(path, "does not match its own checksum")
    if said < SCHEMA:
        raise EarlierSchemaError(
            f"`{path}` was written by an earlier bayesmdp: fit the run again, which "
            f"may replace this one ({argument('overwrite')})."
        )
    arrays = record.pop("arrays", None)
    if not isinstance(arrays, dict):
        raise _damaged(path, "has no arrays")
    return {**record, "checksum": checksum}, Arrays(path, arrays)


def _parsed(path: Path) -> Any:
    """Return what a file says; its text is let go of before anything else is made."""
    with worded(path, "read"):
        check_plain(path)
        # Parsed, written again for the checksum in parts and whole, and some room.
        check_fits(path, 4 * path.stat().st_size)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise _damaged(path, "is not UTF-8 text") from None
        check_fits(path, _ITEM * sum(map(text.count, ",[{")))
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        raise _damaged(path, "is not JSON") from None


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Keep other writers out where the system can; delete what killed ones left."""
    try:
        import fcntl
    except ImportError:  # Windows
        _clean(directory, alone=False)
        yield
        return
    handle, alone = os.open(directory, os.O_RDONLY), False
    try:
        with suppress(OSError):  # a network file system without locks of directories
            fcntl.flock(handle, fcntl.LOCK_EX)
            alone = True
        _clean(directory, alone=alone)
        yield
    finally:
        os.close(handle)


def _clean(directory: Path, *, alone: bool) -> None:
    for path in directory.rglob(f"{HIDDEN}*"):
        with suppress(OSError):  # somebody else's business; it hurts nobody
            if alone or time.time() - path.stat().st_mtime > _HOUR:
                path.unlink()


def as_path(path: str | os.PathLike[str]) -> Path:
    """Check what should be a path."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise StorageError(f"`path` must be the path of a directory; got {path!r:.80}.")
    return Path(path)


@contextmanager
def sound(said: str, remedy: str = "") -> Iterator[None]:
    """Say what is no record of this bayesmdp, whatever is wrong with it."""
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError, MemoryError) as problem:
        why = str(problem) if isinstance(problem, BayesmdpError) else repr(problem)
        raise StorageError(f"{said} {why.rstrip('.')}{remedy}.") from problem


def _checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record, however its text is laid out."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _damaged(path: Path, how: str) -> StorageError:
    return StorageError(
        f"`{path}` is damaged or was changed: it {how}; restore it from a backup, or "
        "recompute it."
    )
