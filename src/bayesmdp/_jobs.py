"""Finished jobs in a file of JSON lines, so that work that was stopped can go on.

The first line, the header, says what the jobs belong to. Every other line is one job:
its name under ``job``, and what it found. Lines are appended as jobs finish. A last
line that a kill cut short is dropped, and its job is done again. What a job found is
what its line says, also for the process that wrote it, and numbers are written in full:
so work that was resumed equals work that was never stopped.

Only one process at a time may write to a file. Functions with ``resume=`` name their
work in the header by a digest of all that it depends on (`open_jobs`).
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from bayesmdp.errors import ArgumentError

Found = TypeVar("Found")


class OtherJobsError(ArgumentError):
    """A file that is there begins with another header.

    ``header`` is what its first line says; empty where it is no file of jobs.
    """

    def __init__(self, said: str, header: dict[str, Any]) -> None:
        ArgumentError.__init__(self, said)
        self.header = header


class JobFile(Generic[Found]):
    """Jobs that are done, in a file where there is one.

    Parameters
    ----------
    path
        The file; None to keep nothing. It is begun where it is missing.
    header
        What the jobs belong to, as plain JSON.
    read
        Makes what a job found out of its line; raises ValueError, TypeError or KeyError
        where the line is not such.
    label
        What messages call the file.
    """

    def __init__(
        self,
        path: Path | None,
        header: Mapping[str, Any],
        read: Callable[[dict[str, Any]], Found],
        label: str = "",
    ) -> None:
        self.path = path
        self.done: dict[int | str, Found] = {}
        self.resumed = False  # whether the file was there
        self._read = read
        if path is not None:
            self._open(path, _line(header), label or f"`{path}`")

    def add(self, job: int | str, found: Mapping[str, Any]) -> None:
        """Keep what a job found, as plain JSON."""
        line = _line({"job": job, **found})
        if self.path is not None:
            _append(self.path, line)
        self._take(line)

    def _open(self, path: Path, header: bytes, label: str) -> None:
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if not whole and header.startswith(content):  # nothing, or a header cut short
            _append(path, header[len(content) :])
            return
        first, *lines = whole.splitlines(keepends=True) or [b""]
        if first != header:
            raise OtherJobsError(f"`{path}` belongs to other jobs.", _parsed(first))
        self.resumed = True
        for number, line in enumerate(lines, start=2):
            try:
                self._take(line)
            except (ValueError, TypeError, KeyError):
                raise ArgumentError(
                    f"{label}: line {number} is not a finished job; take the line out, "
                    "or give another path."
                ) from None
        if len(whole) < len(content):
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
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(content)


def open_jobs(
    path: object,
    kind: str,
    study: object,
    read: Callable[[dict[str, Any]], Found],
    differs: str,
) -> JobFile[Found]:
    """Take up the file at ``path``, or begin it; keep nothing where it is None.

    ``kind`` is the function whose jobs they are, ``study`` all that they depend on, and
    ``differs`` says what that is.
    """
    if path is not None and not isinstance(path, str | os.PathLike):
        raise ArgumentError(
            f"`resume` must be a path of a file; got {type(path).__name__}."
        )
    file = None if path is None else Path(path)
    header = {"kind": kind, "study": _digest(study)}
    try:
        with _worded(file):
            return JobFile(file, header, read, f"`resume` {file}")
    except OtherJobsError as other:
        if other.header.get("kind") != kind:
            raise ArgumentError(
                f"`resume` {file} is not a file of `{kind}`; give another path."
            ) from None
        raise OtherJobsError(
            f"`resume` {file} belongs to another call (its {differs} differ); give "
            "another path.",
            other.header,
        ) from None


def keep_job(job: int | str, found: Mapping[str, Any], file: JobFile[Any]) -> None:
    """Keep what a job found."""
    with _worded(file.path):
        file.add(job, found)


@contextmanager
def _worded(file: Path | None) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise ArgumentError(
            f"`resume` cannot be used: {file}: {problem.strerror}."
        ) from problem


def _digest(study: object) -> str:
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
