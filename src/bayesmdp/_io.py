"""Files that are written whole or not at all, and read no further than they reach.

A file is written under a hidden name beside its place and then renamed, which is atomic
everywhere: a reader finds the old file or the new one, and whatever goes wrong, the old
one stays. A file that is replaced keeps its mode: what only its owner could read, only
its owner can read afterwards, and in the meantime too. Writers of a directory wait for
each other by a lock on it, which the system lets go of when a process dies. Where there
are no such locks (Windows, some network file systems), leftovers are deleted once they
are an hour old.

A few bytes can claim any size. What they claim is compared with what is there, and with
the memory there is, before anything is made so large.

Work that was stopped can go on from finished jobs in a file of JSON lines. The first
line, the header, says what the jobs belong to. Every other line is one job:
its name under ``job``, and what it found. Lines are appended as jobs finish. A last
line that a kill cut short is dropped, and its job is done again. What a job found is
what its line says, also for the process that wrote it, and numbers are written in full:
so work that was resumed equals work that was never stopped.

Only one process at a time may write to a file. Functions with ``resume=`` name their
work in the header by a digest of all that it depends on (`name_of`).
"""

import hashlib
import json
import math
import os
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesmdp._checks import argument
from bayesmdp._resources import check_room
from bayesmdp.errors import ArgumentError, BayesmdpError, StorageError

HIDDEN = ".bayesmdp-"  # begins the name of a file until it is whole
_HOUR = 3600.0
MOST_PACKED = 1032  # bytes that one byte of deflate can stand for


@contextmanager
def worded(
    path: Path | None, doing: str, said_by: type[Exception] = Exception
) -> Iterator[None]:
    """Turn what the system or a library says of a file into one sentence.

    Where errors of a library are of the class ``said_by``, others stay what they are.
    """
    try:
        yield
    except (BayesmdpError, MemoryError):
        raise
    except UnicodeEncodeError as problem:
        half = problem.object[problem.start]
        raise StorageError(
            f"`{path}` cannot be {doing}: a label holds {half!r}, half a character; "
            "fix how the labels were read."
        ) from problem
    except OSError as problem:
        said = problem.strerror or str(problem)
        raise StorageError(f"`{path}` cannot be {doing}: {said}.") from problem
    except said_by as problem:  # libraries of formats share no base class
        said = " ".join(str(problem).split()).rstrip(". ") or type(problem).__name__
        raise StorageError(f"`{path}` cannot be {doing}: {said:.200}.") from problem


def check_file(
    path: str | os.PathLike[str], suffix: str = "", *, overwrite: bool = True
) -> None:
    """Say before a long job whether a file can be written, or replaced, there."""
    file = Path(path)
    if suffix and file.suffix.lower() != suffix:
        raise StorageError(f"`{file}` must end in {suffix}: name it so.")
    with worded(file, "written"):
        check_plain(file)
        if file.exists() and not overwrite:
            raise _there_already(file)
        if not file.parent.is_dir():
            raise StorageError(
                f"`{file}` cannot be written: there is no directory `{file.parent}`; "
                "make it first."
            )
        with tempfile.TemporaryFile(dir=file.parent, prefix=HIDDEN) as probe:
            probe.write(b"room for a file")


def write_atomic(path: Path, content: str | bytes, *, overwrite: bool = True) -> None:
    """Have a file hold this, in one moment; who may read it stays as it was."""
    fresh = path.with_name(f"{HIDDEN}{uuid.uuid4().hex}")
    mode = _mode(path)
    try:
        made = os.open(fresh, os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
        os.close(made)
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        flush(fresh)
        if mode is not None:
            fresh.chmod(mode)
        if overwrite:
            fresh.replace(path)
        else:
            _place(fresh, path)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Have a file, or the names in a directory, on the disk."""
    if path.is_dir():
        if os.name == "nt":  # directories cannot be opened there
            return
        handle = os.open(path, os.O_RDONLY)
    else:
        handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _mode(path: Path) -> int | None:
    """Permissions of a file, None where there is none."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _place(fresh: Path, path: Path) -> None:
    """Give a file a name that nobody has, also if two try at once."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise _there_already(path) from None
    except OSError:  # a file system without links
        if path.exists():
            raise _there_already(path) from None
        fresh.replace(path)


def _there_already(path: Path) -> StorageError:
    return StorageError(
        f"`{path}` is there already: name another file, or say that it may be replaced "
        f"({argument('overwrite')})."
    )


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


def check_plain(path: Path) -> None:
    """Refuse what is not a file with an end, such as a pipe."""
    if path.exists() and not path.is_file():
        raise StorageError(f"`{path}` is not a plain file: name another.")


def check_fits(path: Path, n_bytes: int) -> None:
    """Refuse a file whose content would not fit into memory."""
    remedy = "read it on a larger machine"
    check_room(n_bytes, f"`{path}` takes", lambda _: remedy, StorageError)


def _check_claim(stream: IO[bytes], n_bytes: int) -> None:
    """Compare what a ``.npy`` file of so many bytes claims to hold."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"it is of format {version}, and (1, 0) and (2, 0) are known")
    shape, _, kind = _HEADERS[version](stream)
    if kind.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    claimed, there = math.prod(shape) * kind.itemsize, n_bytes - stream.tell()
    if claimed != there or kind.itemsize == 0:
        raise ValueError(
            f"it claims {kind} of shape {shape}, which is {claimed} bytes, and holds "
            f"{there}"
        )


def read_array(path: Path) -> NDArray[Any]:
    """Read a ``.npy`` file, never by unpickling."""
    check_plain(path)
    with path.open("rb") as stream:
        n_bytes = os.fstat(stream.fileno()).st_size
        _check_claim(stream, n_bytes)
        check_fits(path, n_bytes)
        stream.seek(0)
        found: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return found


_HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def digest_of(*arrays: NDArray[Any]) -> str:
    """Name arrays of numbers by what they hold, wherever they were made."""
    digest = hashlib.sha256()
    for array in arrays:
        kind = "<i8" if array.dtype.kind == "i" else "<f8"
        digest.update(np.ascontiguousarray(array, kind).data)
    return digest.hexdigest()


Found = TypeVar("Found")


class OtherJobsError(ArgumentError):
    """A file that is there begins with another header.

    ``header`` is what its first line says; empty where it is no file of jobs.
    """

    def __init__(self, said: str, header: dict[str, Any]) -> None:
        ArgumentError.__init__(self, said)
        self.header = header


class JobFile(Generic[Found]):
    """Jobs that are done, in a file where there is one; begun where it is missing.

    ``read`` makes what a job found out of its line, and raises ValueError, TypeError or
    KeyError where the line is not such; ``label`` is what messages call the file. One
    that is ``read_only`` may belong to a process that writes to it, and stays as it is.
    """

    def __init__(
        self,
        path: Path | None,
        header: Mapping[str, Any],
        read: Callable[[dict[str, Any]], Found],
        label: str = "",
        *,
        read_only: bool = False,
    ) -> None:
        self.path = path
        self.done: dict[int | str, Found] = {}
        self.resumed = False  # whether the file was there
        self._read, self._read_only = read, read_only
        if path is not None:
            self._open(path, _line(header), label or f"`{path}`")

    def add(self, job: int | str, found: Mapping[str, Any]) -> None:
        """Keep what a job found, as plain JSON."""
        line = _line({"job": job, **found})
        if self.path is not None:
            _append(self.path, line)
        self._take(line)

    def _open(self, path: Path, header: bytes, label: str) -> None:
        check_plain(path)
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if not whole and header.startswith(content):  # nothing, or a header cut short
            if not self._read_only:
                _append(path, header[len(content) :])
            return
        first, *lines = whole.splitlines(keepends=True) or [b""]
        if first != header:
            said = f"{label} belongs to another call, or to other data or settings"
            raise OtherJobsError(f"{said}: give another path.", _parsed(first))
        self.resumed = True
        for number, line in enumerate(lines, start=2):
            try:
                self._take(line)
            except (ValueError, TypeError, KeyError, OverflowError):
                raise ArgumentError(
                    f"{label}: line {number} is not a finished job; take the line out, "
                    "or give another path."
                ) from None
        if len(whole) < len(content) and not self._read_only:
            os.truncate(path, len(whole))

    def _take(self, line: bytes) -> None:
        found = _parsed(line)
        job = found.pop("job")
        self.done[job] = self._read(found)


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any]:
    """Return the object in a line; an empty one where it holds none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(content)


def name_of(study: object) -> str:
    """Name a study by its content."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(study):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _parts(thing: object) -> Iterator[bytes]:
    """Yield everything inside as bytes, in order."""
    if isinstance(thing, np.ndarray):
        yield f"{thing.dtype.str}{thing.shape}".encode()
        yield thing.tobytes()
    elif is_dataclass(thing) and not isinstance(thing, type):
        yield type(thing).__name__.encode()
        for field in fields(thing):
            yield from _parts(getattr(thing, field.name))
    elif isinstance(thing, tuple | list):
        yield f"{len(thing)}".encode()
        for inner in thing:
            yield from _parts(inner)
    elif callable(thing):
        yield str(getattr(thing, "__qualname__", type(thing))).encode()
    else:
        yield repr(thing).encode()
