"""Which files are meant, and files as a DuckDB relation with columns named by role.

DuckDB's guesses are not used for text: it guesses types from the first rows and then
rounds ``0.5`` in a column of whole numbers, and it skips lines that do not fit its
idea of the file. CSV and JSON are read as text. Nor are its casts: ``1_12`` and
``11_2`` both become 112, and ``3E1`` becomes 30. A value is a number only where it is
spelled as one (`_spellings`), and what is neither all numbers nor all text is marked,
to be refused by row. No two names are ever read as one.
"""

import csv
import glob
import os
import re
import stat
import zlib
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesmdp._checks import argument
from bayesmdp.data._columns import PART, TIMES, Coding, Columns, find_columns
from bayesmdp.data._findings import IDS, LABELLED, STATES
from bayesmdp.data._queries import FILE, TEXT, capital, connect, worded
from bayesmdp.errors import ArgumentError, CountsError

if TYPE_CHECKING:
    import duckdb


KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
PACKED = {".gz": "gzip", ".zst": "zstd"}
_CHUNK = 2**20
#: How files begin that people take for text, or that are packed.
MAGIC: dict[str, bytes | tuple[bytes, ...]] = {
    "gzip": b"\x1f\x8b",
    "zstd": b"\x28\xb5\x2f\xfd",
    "Parquet": b"PAR1",
    "a spreadsheet or an archive": b"PK\x03\x04",
    "UTF-16": (b"\xff\xfe", b"\xfe\xff"),
}


def _refusal(said: str) -> ArgumentError:
    return ArgumentError(f"{argument('source')}{said}")


def is_paths(source: object) -> bool:
    """Tell files from dataframes."""
    return isinstance(source, str | os.PathLike | list | tuple)


def paths_of(source: Any) -> list[str]:
    """Return every file meant, or say which is not there."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not given:
        raise ArgumentError("`source` is an empty list of files.")
    paths: list[str] = []
    for item in given:
        if not isinstance(item, str | os.PathLike):
            raise ArgumentError(
                "`source` must be a path, a list of paths or a dataframe; got a list "
                f"with {item!r:.80}."
            )
        paths += _matches(os.fsdecode(item))
    for path in paths:
        _check_file(path)
    real = [os.path.realpath(path) for path in paths]
    twice = next((x for i, x in enumerate(paths) if real[i] in real[:i]), None)
    if twice is not None:
        raise ArgumentError(
            f"`source` has `{twice}` twice: its rows would count twice."
        )
    return paths


def _matches(given: str) -> list[str]:
    """Return the file of that name, or the files that a pattern means, sorted."""
    if not given:
        raise ArgumentError("`source` is an empty path.")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", given):
        raise _refusal(
            f"`{given}` is an address, and only files on this machine are "
            "read: fetch it first, or give a DuckDB relation or a polars scan of it."
        )
    try:
        path = str(Path(given).expanduser())
    except RuntimeError:
        raise _refusal(f"`{given}` names a user unknown here.") from None
    if not glob.has_magic(path) or os.path.lexists(path):
        return [path]
    # Path.glob would need the part without wildcards apart.
    found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
    files = [x for x in found if not Path(x).is_dir()]
    if not files:
        raise _refusal(f"no file matches `{path}`.")
    return files


def _check_file(name: str) -> None:
    path = Path(name)
    try:
        name.encode()
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise _refusal(f"there is no file `{path}`.") from None
    except UnicodeEncodeError:
        raise _refusal(f"the name {name!r} is not UTF-8: rename the file.") from None
    except (OSError, ValueError) as problem:  # loops of links, names too long
        reason = getattr(problem, "strerror", None) or str(problem)
        said = f"`{name:.80}` cannot be opened: {reason.lower()}."
        raise _refusal(said) from problem
    if stat.S_ISDIR(mode):
        raise _refusal(
            f"`{path}` is a directory; name its files, such as `{path / '*.parquet'}`."
        )
    if not stat.S_ISREG(mode):
        raise _refusal(
            f"`{path}` is no plain file, and files are read more than once: "
            "save its content as one."
        )
    if not os.access(path, os.R_OK):
        raise _refusal(f"`{path}` may not be read: permission denied.")
    if path.stat().st_size == 0:
        raise CountsError(f"`{path}` is empty.")
    _check_content(path)


def _check_content(path: Path) -> None:
    """Refuse what its first bytes say is something else than its name says."""
    kind, packing = _named(path)
    with path.open("rb") as file:
        start = file.read(4096)
    found = next((x for x, magic in MAGIC.items() if start.startswith(magic)), None)
    if packing is not None:
        if found != packing:
            raise CountsError(
                f"`{path}` is not packed with {packing}, as its name says: rename it, "
                "or pack it again."
            )
        if packing == "gzip" and not _is_sound_gzip(path):
            raise CountsError(f"`{path}` was cut short or damaged: pack it again.")
    elif kind == "parquet":
        if found != "Parquet":
            raise CountsError(f"`{path}` is no Parquet file, whatever its name says.")
    elif found in ("gzip", "zstd", "Parquet"):
        raise CountsError(f"`{path}` is in truth {found}: its name must say so.")
    elif found is not None:
        raise CountsError(
            f"`{path}` is {found}, not plain text: save it as CSV in UTF-8, or as "
            "Parquet."
        )
    elif b"\0" in start:
        raise CountsError(f"`{path}` is not text: it holds zero bytes.")


def _is_sound_gzip(path: Path) -> bool:
    """Unpack it once, for the checksum and the length, at which DuckDB does not look.

    zstd's checksum, where a file has one, is looked at while it is read.
    """
    gzip = zlib.MAX_WBITS + 16
    member = zlib.decompressobj(gzip)
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                while chunk:
                    if member.eof:
                        member = zlib.decompressobj(gzip)
                    member.decompress(chunk, _CHUNK)
                    chunk = member.unconsumed_tail or member.unused_data
    except zlib.error:
        return False
    return member.eof


def kind_of(path: str) -> str:
    """Return what a file is, by its name."""
    kind, packing = _named(Path(path))
    if kind is None:
        raise _refusal(
            f"the name of `{path}` does not say what it is; it must end in "
            f"{', '.join(KINDS)}, text also with {' or '.join(PACKED)}."
        )
    if kind == "parquet" and packing is not None:
        raise _refusal(
            f"`{path}` is packed twice, for Parquet is packed inside: unpack it."
        )
    return kind


def _named(path: Path) -> tuple[str | None, str | None]:
    """Return what the name of a file says that it is, and how it is packed."""
    packing = PACKED.get(path.suffix.lower())
    bare = path if packing is None else path.with_suffix("")
    return KINDS.get(bare.suffix.lower()), packing


DELIMITERS = (",", ";", "\t", "|")
#: Means null instead of nothing: DuckDB lets a line end in a field more that is null.
NO_CELL = "\x01no cell\x01"

# How numbers are spelled. Names are whole numbers where nothing else could be meant.
NAME = "0|-?[1-9][0-9]*"
ID = rf"\s*({NAME})([.]0*)?\s*"  # tables with gaps hold floats
WHOLE = r"\s*[+-]?[0-9]+\s*"
NUMBER = (
    r"\s*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\s*"
    r"|\s*[+-]?(?i:inf|infinity|nan)\s*"
)


def open_files(
    source: Any, columns: Columns | None, labels: bool, coding: Coding
) -> tuple["duckdb.DuckDBPyRelation", dict[str, str], str, object]:
    """Return a relation with a column for each role, the names there, and whose.

    Outcomes that are codes need not be spelled as states are. The last is the
    connection: until DuckDB 2, a relation does not keep it open.
    """
    paths = paths_of(source)
    origin = f"`{paths[0]}`"
    if len(paths) > 1:
        origin = f"the table in {origin} and {len(paths) - 1} more"
    kinds = {path: kind_of(path) for path in paths}
    if len(set(kinds.values())) > 1:
        other = next(path for path in paths if kinds[path] != kinds[paths[0]])
        raise ArgumentError(
            f"`source` mixes kinds of files: `{paths[0]}` and `{other}`; read them "
            "apart and add their counts."
        )
    connection = connect()
    names = [glob.escape(path) for path in paths]  # DuckDB would expand them again
    with worded(origin):
        if kinds[paths[0]] == "csv":
            text, found = _open_csv(connection, paths, columns, origin)
        elif kinds[paths[0]] == "json":
            text, found = _open_json(connection, names, columns, origin)
        else:
            table, found = _open_parquet(connection, paths, columns, origin)
            return table, found, origin, connection
        return _typed(text, found, labels, coding), found, origin, connection


def _open_csv(
    connection: Any, paths: Sequence[str], columns: Columns | None, origin: str
) -> tuple["duckdb.DuckDBPyRelation", dict[str, str]]:
    """Read text by role; files may have the columns in different order."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        delimiter, names = _header(connection, path)
        alike.setdefault((delimiter, *names), []).append(path)
    firsts = {files[0]: header for (_, *header), files in alike.items()}
    found = find_columns(_where(firsts), columns, origin)
    parts = []
    for (delimiter, *header), files in alike.items():
        _refuse_missing(files[0], header, found)
        part = connection.read_csv(
            [glob.escape(path) for path in files],
            header=True,
            delimiter=delimiter,
            quotechar='"',
            escapechar='"',
            auto_detect=False,
            columns={f"c{i}": "VARCHAR" for i in range(len(header))},
            filename=FILE,
            na_values=NO_CELL,
        )
        places = {role: f"c{header.index(name)}" for role, name in found.items()}
        parts.append(_renamed(part, places, text=True))
    return reduce(lambda x, y: x.union(y), parts), found


def _where(headers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the columns of files, each with the first file that has it."""
    found: dict[str, str] = {}
    for path, header in headers.items():
        for name in filter(None, header):
            found.setdefault(name, f"`{path}`")
    return found


def _refuse_missing(path: str, header: Sequence[str], found: Mapping[str, str]) -> None:
    """Refuse a file without a column that others have."""
    lacking = next((name for name in found.values() if name not in header), None)
    if lacking is not None:
        raise CountsError(
            f"`{path}` has no column `{lacking}`, which other files have."
        )


def _open_parquet(
    connection: Any, paths: Sequence[str], columns: Columns | None, origin: str
) -> tuple["duckdb.DuckDBPyRelation", dict[str, str]]:
    """Read by role; what directories are called says nothing about rows."""
    headers = {path: _parquet_header(connection, path) for path in paths}
    found = find_columns(_where(headers), columns, origin)
    for path, header in headers.items():
        _refuse_missing(path, header, found)
    listed = ", ".join(_text(glob.escape(path)) for path in paths)
    table = connection.sql(
        f"from read_parquet([{listed}], union_by_name=true, hive_partitioning=false, "
        f"filename={_text(FILE)})"
    )
    return _renamed(table, found), found


def _parquet_header(connection: Any, path: str) -> list[str]:
    """Return the columns of a file, nested ones apart, as they are called there."""
    with worded(f"`{path}`"):
        rows = connection.execute(
            f"select name, num_children from parquet_schema({_text(glob.escape(path))})"
        ).fetchall()
    names, inside = [], 0
    for name, children in rows[1:]:  # the first is the root
        if not inside:
            names.append(str(name))
        inside = max(inside - 1, 0) + int(children or 0)
    lower = [name.lower() for name in names]
    twice = next((x for i, x in enumerate(names) if lower[i] in lower[:i]), None)
    if twice is not None:  # DuckDB would call one of them otherwise
        raise CountsError(
            f"`{path}` has two columns named `{twice}`, but for the case of letters: "
            "rename one."
        )
    return names


def _header(connection: Any, path: str) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter and the names in the first line of a file."""
    with worded(f"`{path}`"):
        first = connection.read_csv(
            glob.escape(path),
            header=False,
            delimiter="\x01",  # a line is one field
            quotechar="",
            escapechar="",
            auto_detect=False,
            columns={"line": "VARCHAR"},
            strict_mode=False,  # what follows may hold ends of lines in quotes
        )
        rows = first.limit(1).fetchall()
    line = (rows[0][0] or "").lstrip("\ufeff").rstrip("\r") if rows else ""
    if not line.strip():
        raise CountsError(f"`{path}` is empty, or its first line is.")
    delimiter = max(DELIMITERS, key=line.count)
    names = tuple(x.strip() for x in next(csv.reader([line], delimiter=delimiter)))
    if len(names) == 1:
        raise CountsError(
            f"The first line of `{path}` must name the columns, separated by a comma, a"
            f" semicolon, a tab or |; it is `{line:.60}`."
        )
    if all(re.fullmatch(NUMBER, name) for name in names):
        raise CountsError(
            f"The first line of `{path}` must name the columns; it is `{line:.60}`."
        )
    twice = next((x for i, x in enumerate(names) if x and x in names[:i]), None)
    if twice is not None:
        raise CountsError(f"`{path}` has two columns named `{twice}`: rename one.")
    return delimiter, names


def _open_json(
    connection: Any, names: list[str], columns: Columns | None, origin: str
) -> tuple["duckdb.DuckDBPyRelation", dict[str, str]]:
    """Read text by role; the keys of the first rows say which columns there are."""
    there = connection.read_json(names, union_by_name=True)
    if there.columns == ["json"]:
        raise CountsError(
            f"{capital(origin)} holds no rows: a row is an object such as "
            '{"state": 0, "action": 1, "next_state": 2}.'
        )
    found = find_columns(dict.fromkeys(there.columns, origin), columns, origin)
    kinds = dict(zip(there.columns, there.types, strict=True))
    for name in found.values():
        if kinds[name].id in ("list", "struct", "map"):
            raise CountsError(
                f"Column `{name}` of {origin} must hold plain values; it holds "
                f"{kinds[name].id}s: a row is an object of its own."
            )
    table = connection.read_json(
        names, columns=dict.fromkeys(found.values(), "VARCHAR"), filename=FILE
    )
    return _renamed(table, found, text=True), found


def _renamed(
    table: "duckdb.DuckDBPyRelation", places: Mapping[str, str], *, text: bool = False
) -> "duckdb.DuckDBPyRelation":
    """Keep the columns that have a role, under its name; empty text is no value."""
    value = "nullif({}, '')" if text else "{}"
    chosen = [
        f"{value.format(_name(place))} as {_name(role)}"
        for role, place in places.items()
    ]
    return table.project(", ".join([*chosen, _name(FILE)]))


def _typed(
    text: "duckdb.DuckDBPyRelation",
    found: Mapping[str, str],
    labels: bool,
    coding: Coding,
) -> "duckdb.DuckDBPyRelation":
    """Decide for each column whether its text is numbers, and convert it.

    Text among numbers becomes empty, and stands in a column of its own.
    """
    apart = {"outcome"} if coding.states else set()
    there = {role: _has_value(role, coding) for role in found}
    states = [x for x in found if x in STATES and x not in apart]
    spelled = {
        role: _spellings(role, labels and role not in apart, there[role])
        for role in found
    }
    asked = [f"count(*) filter ({there[role]}) as {role}" for role in found]
    asked += [f"count({role}) as {role}_filled" for role in found]
    asked += [
        f"count({number}) as {role}_{i}"
        for role, numbers in spelled.items()
        for i, number in enumerate(numbers)
    ]
    answer = text.aggregate(", ".join(asked))
    tally = dict(zip(answer.columns, map(int, answer.fetchall()[0]), strict=True))
    chosen = []
    for role, numbers in spelled.items():
        if role.startswith(PART):  # as it is spelled
            chosen.append(role)
            continue
        alike = states if role in states else [role]
        fits = [sum(tally[f"{x}_{i}"] for x in alike) for i in range(len(numbers))]
        all_values = sum(tally[x] for x in alike)
        among = role in ("reward", "step", *TIMES)
        among = among or (role in IDS and not labels and fits[-1] > 0)
        if all_values in fits:
            number = numbers[fits.index(all_values)]
        elif among:
            number = numbers[-1]
        else:
            chosen.append(role)
            continue
        chosen.append(f"{number} as {role}")
        if tally[f"{role}_filled"] > tally[f"{role}_{numbers.index(number)}"]:
            chosen.append(f"case when {number} is null then {role} end {TEXT}{role}")
    return text.project(", ".join([*chosen, _name(FILE)]))


def _spellings(role: str, labels: bool, there: str) -> list[str]:
    """Word in SQL how a column may be read as numbers; the first that fits all is it.

    Whatever is a name is a number only as every value of its column is one, and in the
    one spelling that no other name could mean: 7 is, 007, +7, 7e0 and 7_0 are not.
    """
    spellings: tuple[tuple[str, str], ...]
    if role == "episode":  # always names; folds are dealt out in their order
        spellings = (NAME, "bigint"), (f"({NAME})[.]0", "bigint")
    elif role in IDS:
        spellings = ((NAME if labels else ID, "bigint"),)
    elif role == "reward":
        spellings = ((NUMBER, "double"),)
    else:
        spellings = (WHOLE, "bigint"), (NUMBER, "double")
    return [
        f"case when {there} and regexp_full_match({role}, {_text(pattern)})"
        f" then try_cast({role} as {kind}) end"
        for pattern, kind in spellings
    ]


def _has_value(role: str, coding: Coding) -> str:
    """Word in SQL which rows have a value."""
    codes = ", ".join(map(_text, ("", *coding.missing)))
    return f"{role} not in ({codes})" if role in LABELLED else f"{role} is not null"


def _name(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    """Quote a string."""
    return "'" + value.replace("'", "''") + "'"
