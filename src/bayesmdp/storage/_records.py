"""One record in one JSON file, with its arrays in it: it changes in one moment.

A file is written beside its place and renamed over it (`bayesmdp._io`), so that a kill
leaves the old one or the new one; leftovers are never looked at, and the next writer
deletes them. The file holds the SHA-256 of what it says. Arrays stand in it by name, as
bytes that are packed by zlib and spelt in base64: nothing is ever unpickled, and equal
arrays give equal bytes.

Numbers, truth values, text, lists and dicts stand for themselves. What JSON has no word
for is a dict whose one key begins with ``$``::

    {"$array": "task.start"}     an array of the file, by its name there
    {"$number": "nan"}           a number that is not finite
    {"$tuple": [1, 2]}
    {"$task": null}              the task of the run; with a name or weights, one reward
    {"$record": "Evaluation", "n_draws": 100, ...}

A record is a prior, or a dataclass with a summary that a room of results lists, so that
a new one needs nothing here. Fields of results are read by their type hints, which say
what records are inside and which lists are tuples; a value that does not fit its hint
is refused. Priors check what they are made of themselves.
"""

import base64
import hashlib
import json
import math
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from operator import contains
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._io import (
    MOST_PACKED,
    check_fits,
    check_plain,
    flush,
    worded,
    write_atomic,
)
from bayesmdp.errors import StorageError
from bayesmdp.model import Task, difference
from bayesmdp.priors import AnyPrior

KINDS = "biufcU"  # truth values, numbers, text
SCHEMA = 2  # raised when an older bayesmdp could no longer read what this one writes
_ITEM = 100  # bytes of memory that an item of JSON may take, texts apart
_KIND = re.compile(rf"[<>|=][{KINDS}][1-9][0-9]{{0,5}}")


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
    if said != SCHEMA:
        newer = said > SCHEMA
        remedy = "upgrade bayesmdp" if newer else "fit it again, into a new directory"
        raise StorageError(
            f"`{path}` was written by {'a newer' if newer else 'an earlier'} bayesmdp: "
            f"its schema is {said}, this one reads {SCHEMA}; {remedy}."
        )
    checksum = record.pop("checksum", None)
    if checksum != _checksum(record):
        raise _damaged(path, "does not match its own checksum")
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


_DEPTH = 50
#: Axes of arrays in records: S states, A actions, D draws, at most as many as there are
#: states, k, or transitions, K. Arrays that are not named may have any shape.
_AXES: dict[str, dict[str, tuple[str, ...]]] = {
    "Task": {"start": ("S",), "terminal": ("k",), "reward": ("S", "SA", "SAS")},
    "Config": {"counts": ("K",)},
    "RewardTriplets": {"key": ("K",), "reward": ("K",)},
    "Rewards": {"rewards": ("S", "SA", "SAS")},
    "Optimisation": {"policy": ("SA",), "starts": ("SA",)},
    "Evaluation": {
        "policy": ("SA",),
        "start_values": ("D",),
        "values": ("DS",),
        "weights": ("D",),
        "start_epistemic_covariance": ("KK",),
        "start_epistemic_covariance_mcse": ("KK",),
        "start_aleatoric_covariance": ("KK",),
        "start_aleatoric_covariance_mcse": ("KK",),
        "": ("S",),  # all others
    },
}
Shapes = list[tuple[range, ...]]


@cache
def kinds() -> dict[str, type]:
    """Every record that can be kept, by name."""
    from bayesmdp import (
        diagnostics,
        economics,
        evaluation,
        information,
        optimisation,
        priors,
    )

    rooms = (priors, evaluation, optimisation, information, diagnostics, economics)
    found = {name: getattr(room, name) for room in rooms for name in room.__all__}
    records = {name: x for name, x in found.items() if _is_record(x)}
    return {
        x: y for x, y in records.items() if x.endswith("Prior") or hasattr(y, "summary")
    }


@dataclass(frozen=True)
class Packing:
    """Where arrays go, None where there may be none; and whose results are kept."""

    arrays: dict[str, NDArray[Any]] | None = None
    task: Task | None = None

    def pack(self, value: Any, where: str, *, inside: bool = False) -> Any:
        """Return a value as JSON holds it; ``where`` names it, and its arrays.

        What is ``inside`` a record has a hint that says what it is.
        """
        if where.count(".") > _DEPTH:
            raise StorageError(f"`{where:.80}` is nested more than {_DEPTH} times.")
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return self._scalar(value, where)
        if isinstance(value, Mapping):
            named = {}
            for i, (key, x) in enumerate(value.items()):
                at = f"{where}.{_place(where, i, key)}"
                named[key] = self.pack(x, at, inside=inside)
            return named
        if isinstance(value, list | tuple) and not (inside and _is_record(type(value))):
            each = enumerate(value)
            found = [self.pack(x, f"{where}.{i}", inside=inside) for i, x in each]
            is_list = isinstance(value, list) or inside or self.arrays is None
            return found if is_list else {"$tuple": found}
        return self._special(value, where, inside)

    def fields(self, record: Any, where: str) -> dict[str, Any]:
        """Return the fields of a record."""
        found = {}
        for name, hint in _hints(record.__class__).items():
            value, inside = getattr(record, name), hint is not Any
            found[name] = self.pack(value, f"{where}.{name}", inside=inside)
        return found

    def _scalar(self, value: Any, where: str) -> Any:
        if not isinstance(value, float) or math.isfinite(value):
            return value
        if self.arrays is None:
            raise StorageError(f"`{where}` is {value}, which JSON cannot hold.")
        return {"$number": repr(value)}

    def _special(self, value: Any, where: str, inside: bool) -> Any:
        """Return what JSON has no word for."""
        kind = type(value)
        if isinstance(value, np.ndarray) and self.arrays is not None:
            if value.dtype.kind not in KINDS:
                raise StorageError(
                    f"`{where}` must hold numbers, text or True and False; it is an "
                    f"array of {value.dtype}."
                )
            name = where.partition(".")[2]
            self.arrays[name] = value
            return {"$array": name}
        if isinstance(value, Task) and self.task is not None:
            self._check(self.task, value)
            return {"$task": value.chosen}
        if inside and _is_record(kind):
            return self.fields(value, where)
        if self.arrays is not None and kinds().get(kind.__name__) is kind:
            return {"$record": kind.__name__, **self.fields(value, where)}
        remedy = "give text, numbers, lists and dicts"
        if isinstance(value, AnyPrior):
            remedy = "keep the log, and `fit` gives the same posterior again"
        elif self.arrays is not None:
            remedy += ", arrays and results of this package"
        raise StorageError(
            f"`{where}` is of type {kind.__name__}, which cannot be saved: {remedy}."
        )

    def _check(self, own: Task, task: Task) -> None:
        """Refuse a result of another task: it would be read with that of the run."""
        own = own if task.chosen is None else own.with_reward(task.chosen)
        if (what := difference(own, task)) is not None:
            raise StorageError(
                f"This result is of a task with another {what} than that of the run: "
                "save it in its own run."
            )


@dataclass(frozen=True)
class Unpacking:
    """Where arrays come from; the task of the run, or sizes of one that is read."""

    arrays: Arrays
    task: Task | None = None
    sizes: tuple[int, int] = (0, 0)

    def unpack(
        self, hint: Any, value: Any, where: str, shapes: Shapes | None = None
    ) -> Any:
        """Make a value again, as ``hint`` says it must be."""

        def inner(hint: Any, item: Any, name: object) -> Any:
            return self.unpack(hint, item, f"{where}.{name}", shapes)

        if where.count(".") > _DEPTH:
            raise StorageError(f"{where!r:.80} is nested more than {_DEPTH} times")
        hint = _alternative(hint, value)
        origin, inside = get_origin(hint), get_args(hint)
        if _is_tagged(value):
            found = self._tagged(value, where, shapes)
        elif _is_record(hint) and isinstance(value, dict):
            return self.record(hint, value, where)
        elif isinstance(value, dict) and (hint is Any or origin in (dict, Mapping)):
            of = Any if hint is Any else inside[1]
            return {key: inner(of, x, key) for key, x in value.items()}
        elif isinstance(value, list) and hint is Any:
            return [inner(Any, x, i) for i, x in enumerate(value)]
        elif isinstance(value, list) and origin in (list, tuple):
            alike = origin is list or inside[-1] is Ellipsis
            hints = inside[:1] * len(value) if alike else inside
            if len(hints) != len(value):
                raise _wrong(value, where)
            return origin(map(inner, hints, value, range(len(value))))
        else:
            found = _enumerated(hint, value)
        if not _fits(found, hint):
            raise _wrong(value, where)
        return found

    def record(self, kind: type, said: Mapping[str, Any], where: str) -> Any:
        """Make a record of its fields."""
        hints = _hints(kind)
        for name in {**hints, **said}:
            if name not in said or name not in hints:
                how = "no" if name not in said else "no field"
                raise StorageError(f"{kind.__name__} has {how} {name!r:.40}")
        inner = self
        if kind is Task:
            names = ("n_states", "n_actions")
            n, m = (_checks.size(x, said[x], StorageError) for x in names)
            inner = Unpacking(self.arrays, sizes=(n, m))
        forms = _AXES.get(kind.__name__, {})
        values = {}
        for name, hint in hints.items():
            axes, at = forms.get(name) or forms.get("") or (), f"{where}.{name}"
            shapes = [tuple(inner._axis(x, said) for x in form) for form in axes]
            values[name] = inner.unpack(hint, said[name], at, shapes or None)
        return kind(**values)

    def _axis(self, axis: str, said: Mapping[str, Any]) -> range:
        """Return which lengths an axis may have."""
        n, m = (self.task.n_states, self.task.n_actions) if self.task else self.sizes
        if axis == "D":
            draws = said["n_draws"]
            if type(draws) is not int:
                raise _wrong(draws, ".n_draws")
            return range(draws, draws + 1)
        least, most = {"S": (n, n), "A": (m, m), "k": (0, n), "K": (0, n * m * n)}[axis]
        return range(least, most + 1)

    def _tagged(self, value: dict[str, Any], where: str, shapes: Shapes | None) -> Any:
        """Make what JSON has no word for."""
        (tag, content), *more = value.items()
        if tag == "$record":
            if not isinstance(content, str) or content not in kinds():
                raise StorageError(
                    f"it holds a record of an unknown kind, {content!r:.40}, which a "
                    "newer bayesmdp may know"
                )
            return self.record(kinds()[content], dict(more), where)
        if tag == "$tuple" and isinstance(content, list) and not more:
            return tuple(self.unpack(Any, content, where))
        if tag == "$number" and content in ("nan", "inf", "-inf") and not more:
            return float(content)
        if tag == "$task" and self.task is not None and not more:
            return self.task if content is None else self.task.with_reward(content)
        if tag != "$array" or not isinstance(content, str) or more:
            raise _wrong(value, where)
        shape = self.arrays.shape(content)
        suits = (
            len(x) == len(shape) and all(map(contains, x, shape)) for x in shapes or ()
        )
        if shapes and not any(suits):
            said = " or ".join(str(tuple(y.stop - 1 for y in x)) for x in shapes)
            raise StorageError(f"{content!r} has shape {shape}, not {said}")
        return self.arrays.read(content)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Fields that a record is made of, and what each holds.

    A prior checks itself what it is made of, which may be anything.
    """
    if is_dataclass(kind):
        names = [x.name for x in fields(kind) if x.init]
    else:
        names = [*kind._fields]
    if kind.__module__.startswith("bayesmdp.priors"):
        return dict.fromkeys(names, Any)
    hints = get_type_hints(kind)
    return {name: hints[name] for name in names}


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields"))


def _is_tagged(value: Any) -> bool:
    return isinstance(value, dict) and any(x.startswith("$") for x in value)


def _enumerated(hint: Any, value: Any) -> Any:
    """Return the member of an enumeration that text stands for."""
    known = [*hint] if isinstance(hint, type) and issubclass(hint, StrEnum) else []
    return hint(value) if value in known else value


def _alternative(hint: Any, value: Any) -> Any:
    """Return the one of several types that a value may be of."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    some = [x for x in get_args(hint) if x is not NoneType]
    if value is None and len(some) < len(get_args(hint)):
        return NoneType
    named = isinstance(value, dict) and not _is_tagged(value)
    of_names = [_is_record(x) or get_origin(x) in (dict, Mapping) for x in some]
    fitting = [x for x, y in zip(some, of_names, strict=True) if y == named] or some
    if named and len(fitting) > 1:  # records of different fields
        records = filter(_is_record, fitting)
        fitting = [x for x in records if {*_hints(x)} == {*value}] or fitting
    return fitting[0] if len(fitting) == 1 else Union[tuple(fitting)]  # noqa: UP007


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value that holds no others is what a hint says."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, x) for x in inside)
    if origin is Literal:
        return value in inside
    if origin is np.ndarray:
        kind = np.dtype(get_args(inside[1])[0])
        return isinstance(value, np.ndarray) and value.dtype == kind
    return type(value) in ((int, float) if hint is float else (hint,))


def _place(where: str, i: int, key: object) -> str | int:
    """Return what the value of a key is called in names of arrays."""
    if not isinstance(key, str) or key.startswith("$"):
        raise StorageError(
            f"`{where}` must have text as keys, not beginning with $; got {key!r:.80}."
        )
    return key if key.isascii() and key.isidentifier() and len(key) < 100 else i


def _wrong(value: object, where: str) -> StorageError:
    return StorageError(f"it has {value!r:.40} as {where.partition('.')[2]!r}")
