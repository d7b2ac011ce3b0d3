"""Finished datasets in a file of JSON lines, so that a killed run can go on.

The first line says which study the file belongs to, by a digest of all that its
datasets depend on; every other line is one dataset. Lines are appended as datasets
finish. A last line that a kill cut short is dropped and its dataset made again; since
numbers are written in full, a run that went on equals one that was never stopped.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesmdp.criticism._study import Outcome, Study
from bayesmdp.errors import ArgumentError

_KIND = "bayesmdp calibration"


class Journal:
    """Outcomes of a study, in a file where there is one."""

    def __init__(self, path: object, study: Study) -> None:
        self.done: dict[int, Outcome] = {}
        self._path: Path | None = None
        if path is None:
            return
        if not isinstance(path, str | os.PathLike):
            raise ArgumentError(
                f"`resume` must be a path of a file; got {type(path).__name__}."
            )
        self._path = Path(path)
        self._mended(lambda file: self._read(file, study))

    def add(self, found: Mapping[int, Outcome]) -> None:
        """Keep outcomes."""
        self.done.update(found)
        if self._path is not None:
            lines = "".join(_line(i, outcome) for i, outcome in found.items())
            self._mended(lambda file: _append(file, lines))

    def _mended(self, work: Callable[[Path], None]) -> None:
        """Work with the file; what the system refuses is told as ours."""
        assert self._path is not None
        try:
            work(self._path)
        except OSError as problem:
            raise ArgumentError(
                f"`resume` cannot be used: {self._path}: {problem.strerror}."
            ) from problem

    def _read(self, file: Path, study: Study) -> None:
        """Take up what is there, or begin a file."""
        header = {"kind": _KIND, "study": _digest(study)}
        content = file.read_bytes() if file.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            if not whole and not json.dumps(header).encode().startswith(content):
                raise ArgumentError(_not_ours(file))
            os.truncate(file, len(whole))
        lines = whole.splitlines()
        if not lines:
            _append(file, json.dumps(header) + "\n")
            return
        said = _parsed(lines[0])
        if said is None or said.get("kind") != _KIND:
            raise ArgumentError(_not_ours(file))
        if said != header:
            raise ArgumentError(
                f"`resume` {file} belongs to another call (its task, prior, truth, "
                "design, policy, draws or seed differ); give another path."
            )
        for number, line in enumerate(lines[1:], start=2):
            self.done.update([_outcome(file, number, line, len(study.quantities))])


def _not_ours(file: Path) -> str:
    return f"`resume` {file} is not a file of `calibrate`; give another path."


def _append(file: Path, text: str) -> None:
    with file.open("a", encoding="ascii") as stream:
        stream.write(text)


def _line(dataset: int, outcome: Outcome) -> str:
    columns = {name: x.tolist() for name, x in outcome._asdict().items()}
    return json.dumps({"dataset": dataset, **columns}) + "\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _outcome(file: Path, number: int, line: bytes, size: int) -> tuple[int, Outcome]:
    found = _parsed(line) or {}
    columns = [found.get(name) for name in Outcome._fields]
    if not (
        isinstance(found.get("dataset"), int)
        and all(_numbers(column, size) for column in columns)
    ):
        raise ArgumentError(
            f"`resume` {file}: line {number} is not a dataset; take the line out, or "
            "give another path."
        )
    rank, below, ties, truth, promise = columns
    return found["dataset"], Outcome(
        np.array(rank, dtype=np.int64),
        np.array(below, dtype=np.int64),
        np.array(ties, dtype=np.int64),
        np.array(truth, dtype=np.float64),
        np.array(promise, dtype=np.float64),
    )


def _numbers(column: object, size: int) -> bool:
    return (
        isinstance(column, list)
        and len(column) == size
        and all(isinstance(x, int | float) for x in column)
    )


def _digest(study: Study) -> str:
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
