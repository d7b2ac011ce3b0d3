"""Files that change together or not at all.

A *bundle* is a JSON file, its head, and the files that the head names with their
SHA-256. Writing one goes in this order:

1. Every file is written under a hidden name that holds its checksum.
2. The new head is written beside the old one, and then renamed over it. This is the
   one moment in which the bundle changes; renaming a file is atomic everywhere.
3. Files are renamed to their plain names, and what nobody names is deleted.

A kill before 2 leaves the old bundle untouched, a kill after 2 the new one: a reader
takes the hidden file with the right checksum if there is one, else the plain one, and
checks it. Leftovers are never looked at, and the next writer deletes them.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from bayesmdp._io import (
    HIDDEN,
    Writer,
    check_fits,
    check_plain,
    flush,
    worded,
    write_atomic,
    write_fresh,
)
from bayesmdp.errors import StorageError

Result = TypeVar("Result")

_HOUR = 3600.0
_TRIES = 50
_PARSED = 10  # bytes of memory that a byte of JSON may take
_CHECKSUM = re.compile(r"[0-9a-f]{64}")


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
    directory: Path, head: str, record: Mapping[str, Any], files: Mapping[str, Writer]
) -> dict[str, Any]:
    """Write files and the head that names them; return the head.

    The caller holds the lock. Whatever goes wrong, the old bundle stays.
    """
    _settle(directory, _names(directory / head))
    staged: list[Path] = []
    try:
        named = {}
        for name, write in files.items():
            staged.append(write_fresh(directory / name, write))
            named[name] = fingerprint(staged[-1])
            hidden = _hidden(directory, name, named[name]["sha256"])
            staged[-1] = staged[-1].replace(hidden)
        full = {**record, "files": named}
        full["checksum"] = _checksum(full)
        text = json.dumps(full, indent=1, allow_nan=False)
        flush(directory)
        write_atomic(directory / head, text + "\n")
    except BaseException:  # also Ctrl-C, which may come just after the renaming
        _delete(set(staged) - _wanted(directory))
        with suppress(OSError):  # a file that is the same as before
            _settle(directory, _names(directory / head))
        raise
    # The bundle is written; what remains is tidying, which the next writer can do.
    with suppress(OSError):
        flush(directory)
        _settle(directory, named)
    return full


def clean(directory: Path, *, alone: bool) -> None:
    """Delete what no head names; where others may be writing, only if it is old."""
    leftovers = set(directory.glob(f"{HIDDEN}*")) - _wanted(directory)
    _delete({path for path in leftovers if alone or _age(path) > _HOUR})


def _wanted(directory: Path) -> set[Path]:
    """Hidden names of the files that heads name."""
    return {
        _hidden(directory, name, entry["sha256"])
        for head in directory.glob("*.json")
        for name, entry in _names(head).items()
    }


def _settle(directory: Path, named: Mapping[str, Mapping[str, Any]]) -> None:
    """Give files their plain names, where a killed writer did not come to it."""
    for name, entry in named.items():
        with suppress(FileNotFoundError):
            _hidden(directory, name, entry["sha256"]).replace(directory / name)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # already gone
        return 0.0


def _delete(paths: set[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # somebody else's business; it hurts nobody
            path.unlink()


def read_head(path: Path, kind: str, schema: int) -> dict[str, Any]:
    """Read a head of this kind, or say what is wrong with the file."""
    with worded(path, "read"):
        check_plain(path)
        check_fits(path, _PARSED * path.stat().st_size)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise StorageError(_damaged(path, "is not UTF-8 text")) from None
    try:
        record = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        raise StorageError(_damaged(path, "is not JSON")) from None
    if not isinstance(record, dict) or record.get("format") != kind:
        raise StorageError(
            f"`{path}` was not written by bayesmdp: it does not say "
            f'"format": "{kind}"; name a directory that `storage.save` wrote.'
        )
    said = record.get("schema")
    if type(said) is not int or said < 1:
        raise StorageError(_damaged(path, f"has no schema number but {said!r:.40}"))
    if said > schema:
        raise StorageError(
            f"`{path}` was written by a newer bayesmdp: its schema is {said}, this one "
            f"reads up to {schema}; upgrade bayesmdp."
        )
    checksum = record.pop("checksum", None)
    if checksum != _checksum(record):
        raise StorageError(_damaged(path, "does not match its own checksum"))
    if _files_of(record) is None:
        raise StorageError(_damaged(path, "does not name its files"))
    return {**record, "checksum": checksum}


def find_file(directory: Path, name: str, head: Mapping[str, Any]) -> Path:
    """Return where a file that the head names is, its checksum verified."""
    entry = head["files"].get(name)
    if entry is None:
        raise StorageError(_damaged(directory, f"does not name a file `{name}`"))
    plain = directory / name
    hidden = _hidden(directory, name, entry["sha256"])
    path = hidden if hidden.exists() else plain
    with worded(plain, "read"):
        if not path.exists():
            raise StorageError(
                f"`{plain}` is missing: restore it from a backup, or recompute it."
            )
        check_plain(path)
        size = path.stat().st_size
        if size != entry["size"]:
            said = f"has {size} bytes where {entry['size']} were written"
            raise StorageError(_damaged(plain, said))
        if fingerprint(path)["sha256"] != entry["sha256"]:
            raise StorageError(_damaged(plain, "does not match its checksum"))
    return path


def steady(head: Path, read: Callable[[], Result]) -> Result:
    """Read again where a writer was at work in the meantime.

    A head that changed says so. Where it did not, a file may just have been given its
    plain name: at most one time each, so that an error is believed the third time.
    """
    failures = 0
    for _ in range(_TRIES):
        before = _bytes(head)
        try:
            answer = read()
        except StorageError:
            failures += 1
            if failures > 2 and _bytes(head) == before:
                raise
        else:
            if _bytes(head) == before:
                return answer
    raise StorageError(
        f"`{head}` changed again and again while it was read: wait for its writers."
    )


def fingerprint(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
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


def _hidden(directory: Path, name: str, checksum: str) -> Path:
    return directory / f"{HIDDEN}{checksum[:32]}-{name}"


def _checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record, however its text is laid out."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _files_of(record: Any) -> dict[str, dict[str, Any]] | None:
    """Return the files that a head names, None where it does not do so rightly."""
    files = record.get("files") if isinstance(record, dict) else None
    if not isinstance(files, dict):
        return None
    for name, entry in files.items():
        right = (
            isinstance(entry, dict)
            and _CHECKSUM.fullmatch(str(entry.get("sha256")))
            and type(entry.get("size")) is int
            and Path(name).name == name
        )
        if not right:
            return None
    return files


def _names(head: Path) -> dict[str, dict[str, Any]]:
    """Return the files that a head names; none where it cannot be read."""
    try:
        return _files_of(json.loads(_bytes(head) or b"")) or {}
    except (ValueError, RecursionError):
        return {}


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _damaged(path: Path, how: str) -> str:
    return (
        f"`{path}` is damaged or was changed: it {how}; bring it back from a copy, or "
        "recompute it."
    )
