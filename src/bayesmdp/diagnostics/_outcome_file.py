"""Finished permutations of a control in a file: a killed run can go on.

The header of the file names the study by a digest of all that its jobs depend on.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesmdp._jobs import Found, JobFile, OtherJobsError
from bayesmdp.errors import ArgumentError


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
