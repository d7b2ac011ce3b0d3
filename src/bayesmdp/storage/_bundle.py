"""Plain arrays in ``.npz`` files, written and read without pickle.

`numpy.savez` cannot write every name and would pickle objects; the format is a zip of
``.npy`` files, so it is written as that, with no dates in it: equal arrays give equal
bytes.

A record and its arrays on the disk, which change together or not at all.

A *bundle* is a JSON file, its head, and at most one ``.npz`` file. The head names that
file with its SHA-256, which is in the name of the file, too: ``best.json`` and
``best-0123456789abcdef.npz``. Writing one goes in this order:

1. Arrays are written, under a name that no other arrays have.
2. The new head is written beside the old one, and then renamed over it. This is the
   one moment in which the bundle changes; renaming a file is atomic everywhere.
3. What no head names is deleted.

A kill before 2 leaves the old bundle, a kill after 2 the new one. Leftovers are never
looked at, and the next writer deletes them.

Writers of a directory wait for each other by a lock on the directory, which the system
lets go of when a process dies. Where there are no such locks (Windows, some network
file systems), names with checksums still keep two writers from mixing their files;
leftovers are then deleted once they are an hour old.
"""

import hashlib
import json
import math
import os
import re
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesmdp._io import (
    HIDDEN,
    MOST_PACKED,
    Layout,
    check_fits,
    check_plain,
    flush,
    read_layout,
    worded,
    write_atomic,
    write_fresh,
)
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


Answer = TypeVar("Answer")

SCHEMA = 1  # raised when an older bayesmdp could no longer read what this one writes
HEADING = ("format", "schema", "arrays", "checksum")  # keys that every head has
_HOUR = 3600.0
_TRIES = 50
_PARSED = 10  # bytes of memory that a byte of JSON may take
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_ARRAYS = re.compile(r"(.+)-[0-9a-f]{16}\.npz")


@contextmanager
def locked(directory: Path) -> Iterator[bool]:
    """Keep other writers out; says whether the system can."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield False
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            held = True
        except OSError:  # a network file system without locks of directories
            held = False
        yield held
    finally:
        os.close(handle)


def write_bundle(
    head: Path, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> str:
    """Write arrays and the head that names them; return the checksum of the head.

    The caller holds the lock. Whatever goes wrong, the old bundle stays.
    """
    written = None
    try:
        named = None
        if arrays:
            old = _named(head)
            like = head.with_name(old["file"]) if old else head
            write = partial(write_arrays, arrays=arrays)
            written = write_fresh(head, write, like)
            named = _fingerprint(written)
            named["file"] = f"{head.stem}-{named['sha256'][:16]}.npz"
            written = written.replace(head.with_name(named["file"]))
        full = {**record, "format": f"bayesmdp {record['format']}", "schema": SCHEMA}
        full["arrays"] = named
        full["checksum"] = _checksum(full)
        flush(head.parent)
        write_atomic(head, json.dumps(full, indent=1, allow_nan=False) + "\n")
    except BaseException:  # also Ctrl-C, which may come just after the renaming
        if written is not None and (_named(head) or {}).get("file") != written.name:
            _delete({written})
        raise
    with suppress(OSError):  # the bundle is written
        flush(head.parent)
    return str(full["checksum"])


def clean(directory: Path, *, alone: bool) -> None:
    """Delete what no head names; where others may be writing, only if it is old."""
    leftovers = {x for x in directory.iterdir() if is_leftover(x)}
    _delete({path for path in leftovers if alone or _age(path) > _HOUR})


def is_leftover(path: Path) -> bool:
    """Whether a writer made a file that no head names, or not yet."""
    found = _ARRAYS.fullmatch(path.name)
    if found is None:
        return path.name.startswith(HIDDEN)
    head = path.with_name(f"{found[1]}.json")
    named = _named(head)  # a head that is damaged may be restored
    return not head.exists() or (named is not None and named.get("file") != path.name)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # already gone
        return 0.0


def _delete(paths: set[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # somebody else's business; it hurts nobody
            path.unlink()


def read_head(path: Path, kind: str) -> dict[str, Any]:
    """Read a head of this kind, or say what is wrong with the file."""
    with worded(path, "read"):
        check_plain(path)
        check_fits(path, _PARSED * path.stat().st_size)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise _damaged(path, "is not UTF-8 text") from None
    try:
        record = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        raise _damaged(path, "is not JSON") from None
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
    if _arrays_of(record) is None:
        raise _damaged(path, "does not name its arrays")
    return {**record, "checksum": checksum}


def find_arrays(path: Path, head: Mapping[str, Any]) -> Path | None:
    """Return where the arrays of a head are, verified; None where it has none."""
    entry = head["arrays"]
    if entry is None:
        return None
    file = path.with_name(entry["file"])
    with worded(file, "read"):
        if not file.exists():
            raise StorageError(
                f"`{file}` is missing: restore it from a backup, or recompute it."
            )
        check_plain(file)
        size = file.stat().st_size
        if size != entry["size"]:
            raise _damaged(file, f"has {size} bytes where {entry['size']} were written")
        if _fingerprint(file)["sha256"] != entry["sha256"]:
            raise _damaged(file, "does not match its checksum")
    return file


def steady(head: Path, read: Callable[[], Answer]) -> Answer:
    """Read again where a writer was at work in the meantime.

    A head that changed says so; one that changed back does not, so that an error is
    believed the third time.
    """
    for turn in range(_TRIES):
        before = _bytes(head)
        try:
            return read()
        except StorageError:
            if turn > 1 and _bytes(head) == before:
                raise
    raise StorageError(
        f"`{head}` changed again and again while it was read: wait for its writers."
    )


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return {"sha256": digest, "size": stream.tell()}


def _bytes(path: Path) -> bytes | None:
    """Content of a small file; None where it is none, or none with an end."""
    try:
        check_plain(path)
        check_fits(path, _PARSED * path.stat().st_size)
        return path.read_bytes()
    except (OSError, ValueError):
        return None


def _checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record, however its text is laid out."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _named(head: Path) -> dict[str, Any] | None:
    """Return what a head says of its arrays, maybe {}; None where it is damaged."""
    try:
        return _arrays_of(json.loads(_bytes(head) or b""))
    except (ValueError, RecursionError):
        return None


def _arrays_of(record: Any) -> dict[str, Any] | None:
    """Return what a record says of its arrays, {} for none; None if it is no head."""
    if not isinstance(record, dict) or "arrays" not in record:
        return None
    entry = record["arrays"]
    right = entry is None or (
        isinstance(entry, dict)
        and _CHECKSUM.fullmatch(str(entry.get("sha256")))
        and type(entry.get("size")) is int
        and _ARRAYS.fullmatch(str(entry.get("file")))
        and Path(entry["file"]).name == entry["file"]
    )
    return (entry or {}) if right else None


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
