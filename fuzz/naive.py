"""A reader of logged transitions in pure Python, to hold the package against.

It takes cells as text, looks at one row after the other, and knows what the page on
data says: aliases of columns, ids and names, derived next states. Content that the page
leaves open is `OpenError`; what must be refused is `RefusedError`.
"""

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Cells = Mapping[str, Sequence[str | None]]  # by role; None is no value
Name = int | str
Triplet = tuple[Name, Name, Name]  # state, action, next state

ALIASES = {
    "state": ("state", "s", "obs", "observation"),
    "action": ("action", "a"),
    "next_state": ("next_state", "sp", "s_next", "next_observation"),
    "reward": ("reward", "r"),
    "terminated": ("terminated", "done", "terminal"),
    "truncated": ("truncated", "truncation"),
    "episode": ("episode", "icustayid", "id", "episode_id", "patient"),
    "step": ("step", "bloc", "t", "timestep"),
}
MISSING = ("", "NA", "NaN", "NULL", ".")
DELIMITERS = ",;\t|"
LARGEST = 10**7
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_NAME = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_ID = re.compile(r"\s*(0|-?[1-9]\d*)(\.0*)?\s*", re.ASCII)
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


class RefusedError(Exception):
    """What must not be read; the package may also read it with a warning."""


class OpenError(Exception):
    """What may be read one way or another."""


@dataclass(frozen=True)
class Log:
    """What a log says."""

    named_states: bool  # states are names, not ids
    named_actions: bool
    counts: Counter[Triplet]
    rewards: Mapping[Triplet, float] | None  # means
    ends: Counter[Name] | None  # flagged arrivals by state
    starts: Counter[Name] | None  # episodes by their first state, where that is sure


def csv_cells(content: bytes) -> dict[str, list[str | None]]:
    """Read CSV by Python's own module, strictly."""
    text = _decoded(content)
    if re.search("[\0\r](?!\n)", text) or re.search("\n[ \t]*\r?\n", text):
        raise OpenError("blank lines, zero characters and lone carriage returns")
    first = text.split("\n")[0]
    ranked = sorted(((first.count(x), x) for x in DELIMITERS), reverse=True)
    if ranked[0][0] == ranked[1][0]:
        raise OpenError("two delimiters are as frequent")
    delimiter = ranked[0][1]
    if _odd_quotes(text, delimiter):
        raise OpenError("quotes where none are expected")
    try:
        stream = io.StringIO(text, newline="")
        rows = list(csv.reader(stream, delimiter=delimiter, strict=True))
    except csv.Error as problem:
        raise RefusedError(str(problem)) from None
    if len(rows) < 2:
        raise RefusedError("no rows")
    header = [name.strip() for name in rows[0]]
    for row in rows[1:]:
        if len(row) != len(header):
            raise RefusedError(f"{len(row)} fields where the header has {len(header)}")
    named = [name for name in header if name]
    if len(set(named)) < len(named):
        raise RefusedError("two columns of one name")
    columns = list(zip(*rows[1:], strict=True))
    return {name: list(columns[i]) for i, name in enumerate(header) if name}


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RefusedError("not UTF-8") from None


def _odd_quotes(text: str, delimiter: str) -> bool:
    """Tell quotes that neither open nor close a whole field, nor are doubled in one."""
    field = rf'"(?:[^"]|"")*"|[^"{re.escape(delimiter)}\r\n]*'
    line = rf"(?:{field})(?:{re.escape(delimiter)}(?:{field}))*"
    return re.fullmatch(rf"(?:{line})(?:\r?\n(?:{line}))*", text) is None


def json_cells(content: bytes) -> dict[str, list[str | None]]:
    """Read JSON, lines or an array, by Python's own module."""
    text = _decoded(content)
    if text.startswith("\ufeff") or content.startswith(b"\xef\xbb\xbf"):
        raise OpenError("a byte order mark")
    try:
        if text.lstrip().startswith("["):
            rows = json.loads(text, **_STRICT)
        else:
            lines = [line for line in text.split("\n") if line.strip()]
            rows = [json.loads(line, **_STRICT) for line in lines]
    except (ValueError, RecursionError):
        raise OpenError("not JSON as Python reads it") from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise RefusedError("no rows, or rows that are no objects")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if len({name.lower() for name in names}) < len(names):
        raise OpenError("names that differ in case only")
    return {name: [_as_text(row.get(name)) for row in rows] for name in names}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise OpenError("a key twice")
    return dict(pairs)


class _Real(str):
    """A number with a point or an exponent, as it is written."""


_STRICT: dict[str, Any] = {
    "object_pairs_hook": _unique,
    "parse_int": str,
    "parse_float": _Real,
    "parse_constant": lambda name: (_ for _ in ()).throw(OpenError(name)),
}


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    raise OpenError("nested values")


def by_role(
    columns: Mapping[str, Sequence[str | None]], named: Mapping[str, str]
) -> dict[str, Sequence[str | None]]:
    """Find the columns that matter, by what the caller said and by usual names."""
    found = {role: columns[name] for role, name in named.items()}
    for role, aliases in ALIASES.items():
        if role in found:
            continue
        fits = [x for x in columns if x.lower() in aliases and x not in named.values()]
        if len(fits) > 1:
            raise RefusedError(f"several columns for {role}")
        if fits:
            found[role] = columns[fits[0]]
    if not {"state", "action"} <= found.keys():
        raise RefusedError("no column for states or actions")
    if "next_state" not in found and not {"episode", "step"} <= found.keys():
        raise RefusedError("no next states, and nothing to derive them from")
    return found


def read(cells: Cells, *, labels: bool = False) -> Log:
    """Count transitions, row by row."""
    cells = {role: [_value(x) for x in column] for role, column in cells.items()}
    flags = {x: _flags(cells[x]) for x in ("terminated", "truncated") if x in cells}
    paid = _rewards(cells["reward"]) if "reward" in cells else None
    if "next_state" in cells:
        rows = _recorded(cells["next_state"], flags.get("truncated"))
        state, following = (
            [cells[x][i] for i in rows] for x in ("state", "next_state")
        )
    else:
        rows, following = _derived(cells)
        state = [cells["state"][i] for i in rows]
    for role in ("state", "action"):
        if any(x is None for x in cells.get(role, ())):
            raise RefusedError(f"no value in {role}")
    if "episode" in cells and any(x is None for x in cells["episode"]):
        raise RefusedError("no value in episode")
    known = [*cells["state"], *(cells.get("next_state") or cells.get("outcome") or ())]
    states, named = _meanings([x for x in known if x is not None], labels)
    actions, acted = _meanings(cells["action"], labels)
    _refuse_codes(cells, flags.get("truncated"), states)
    triplets = [
        (states[str(s)], actions[str(cells["action"][i])], states[str(t)])
        for s, i, t in zip(state, rows, following, strict=True)
    ]
    if not triplets:
        raise RefusedError("no rows")
    ends = None
    if "terminated" in flags:
        ended = flags["terminated"]
        ends = Counter(
            t for (_, _, t), i in zip(triplets, rows, strict=True) if ended[i]
        )
    means, starts = _means(triplets, rows, paid), _starts(triplets, rows, cells)
    return Log(named, acted, Counter(triplets), means, ends, starts)


def _starts(
    triplets: Sequence[Triplet], rows: Sequence[int], cells: Cells
) -> Counter[Name] | None:
    """Find the first row of each episode; None where steps or episodes are odd."""
    if not {"episode", "step"} <= cells.keys():
        return None
    first: dict[str, tuple[int, Name]] = {}
    for (state, _, _), i in zip(triplets, rows, strict=True):
        episode, step = str(cells["episode"][i]), str(cells["step"][i])
        if not (episode.isalnum() and re.fullmatch(r"-?[1-9]\d?|0", step)):
            return None
        here = (int(step), state)
        if episode in first and first[episode][0] == here[0]:
            return None
        if episode not in first or here[0] < first[episode][0]:
            first[episode] = here
    if len({_number_of(x) for x in first}) < len(first):
        return None
    return Counter(state for _, state in first.values())


def _value(cell: str | None) -> str | None:
    return None if cell is None or cell in MISSING else cell


def _meanings(cells: Sequence[Any], labels: bool) -> tuple[dict[str, Name], bool]:
    """Say what each cell means, an id or a name; and whether they are names."""
    if any(isinstance(x, _Real) for x in cells):
        raise OpenError("floats, which JSON may write in another way")
    spelled = _NAME if labels else _ID
    numeric = {x for x in cells if spelled.fullmatch(x)}
    if len(numeric) == len(set(cells)):
        found = {x: int(x.strip().split(".")[0]) for x in cells}
        if not labels and any(not 0 <= n <= LARGEST for n in found.values()):
            raise RefusedError("ids below 0 or above 10**7")
        if any(abs(n) >= 2**63 for n in found.values()):
            raise OpenError("names that are very large numbers")
        return dict(found), labels
    if numeric and not labels:
        raise RefusedError("text among numbers")
    return {x: x for x in cells}, True


def _whole(cell: str) -> int:
    if "e" in cell.lower() and len(cell) > 12:
        raise OpenError("long exponents")
    number = Fraction(cell.strip())
    if number.denominator != 1:
        raise RefusedError("a fraction")
    return int(number)


def _flags(cells: Sequence[str | None]) -> list[bool]:
    try:
        return [_FLAGS[str(x).lower()] for x in cells]
    except KeyError as problem:
        if all(x is not None and _NUMBER.fullmatch(x) for x in cells):
            raise OpenError("flags that are numbers") from None
        raise RefusedError(f"{problem} is no flag") from None


def _rewards(cells: Sequence[str | None]) -> list[float]:
    if not all(x is not None and _NUMBER.fullmatch(x) for x in cells):
        raise RefusedError("a reward that is no number")
    found = [float(str(x)) for x in cells]
    if not all(map(math.isfinite, found)):
        raise RefusedError("a reward beyond floats")
    return found


def _means(
    triplets: Sequence[Triplet], rows: Sequence[int], paid: Sequence[float] | None
) -> dict[Triplet, float] | None:
    if paid is None:
        return None
    groups: dict[Triplet, list[Fraction]] = {}
    for triplet, i in zip(triplets, rows, strict=True):
        groups.setdefault(triplet, []).append(Fraction(paid[i]))
    return {key: float(sum(x) / len(x)) for key, x in groups.items()}


def _recorded(following: Sequence[str | None], cut: list[bool] | None) -> list[int]:
    """Find rows with a next state; only a truncated one may have none."""
    if any(x is None and not (cut and cut[i]) for i, x in enumerate(following)):
        raise RefusedError("no value in next_state")
    return [i for i, x in enumerate(following) if x is not None]


def _refuse_codes(
    cells: Cells, cut: list[bool] | None, states: Mapping[str, Name]
) -> None:
    """Refuse outcomes that may be codes: numbers that are also states."""
    here = {states[str(x)] for x in cells["state"]}
    for i, x in enumerate(cells.get("outcome") or ()):
        code = x is not None and re.fullmatch("-?[0-9]+", str(states[x]))
        if x is not None and code and not (cut and cut[i]) and states[x] in here:
            raise RefusedError("an outcome that is also a state")


def _derived(cells: Cells) -> tuple[list[int], list[str]]:
    """Find next states one step later in the same episode; which rows have one."""
    if any(x is None for role in ("episode", "step") for x in cells[role]):
        raise RefusedError("no value in episode or step")
    if not all(_NUMBER.fullmatch(str(x)) for x in cells["step"]):
        raise RefusedError("a step that is no number")
    step = [_whole(str(x)) for x in cells["step"]]
    if any(abs(x) >= 2**53 for x in step):
        raise OpenError("very large steps")
    episode = [str(x) for x in cells["episode"]]
    alike = {_number_of(x) for x in set(episode)}
    if len(alike) < len(set(episode)):
        raise OpenError("episodes that are one number written in two ways")
    at = {key: i for i, key in enumerate(zip(episode, step, strict=True))}
    if len(at) < len(step):
        raise RefusedError("a step twice")
    outcome = cells.get("outcome") or [None] * len(step)
    rows, following = [], []
    for i, key in enumerate(zip(episode, step, strict=True)):
        after = at.get((key[0], key[1] + 1))
        last = key[1] == max(n for e, n in at if e == key[0])
        found = cells["state"][after] if after is not None else None
        found = outcome[i] if last else found
        if found is not None:
            rows.append(i)
            following.append(found)
    return rows, following


def _number_of(cell: str) -> Fraction | str:
    return Fraction(cell.strip()) if _NUMBER.fullmatch(cell) else cell
