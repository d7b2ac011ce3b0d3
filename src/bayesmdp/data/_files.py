"""Files as a DuckDB relation whose columns are named by role.

DuckDB's guesses are not used for text: it guesses types from the first rows and then
rounds ``0.5`` in a column of whole numbers, and it skips lines that do not fit its
idea of the file. CSV and JSON are read as text, every value is tried as a number by
the engine, and what is neither all numbers nor all text is marked, to be refused by
row.
"""

import csv
import glob
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesmdp import _checks, _memory
from bayesmdp.data._columns import FLAGS, find_columns
from bayesmdp.data._paths import kind_of, paths_of
from bayesmdp.data._queries import FILE, TEXT, capital, worded
from bayesmdp.errors import ArgumentError, CountsError

if TYPE_CHECKING:
    import duckdb

DELIMITERS = (",", ";", "\t", "|")
MIN_MEMORY = 2**28  # below, DuckDB has no room to work
WHOLE = r"\s*[+-]?[0-9]+\s*"
ZEROS = r"\s*[+-]?0[0-9]+\s*"
ROUND = r"\s*[+-]?[0-9]{1,15}[.]0*\s*"  # whole, and exact as a float
ID_ROLES = ("state", "next_state", "outcome")  # one set of ids or labels
NAMED = (*ID_ROLES, "action")


def open_files(
    source: Any, columns: Mapping[str, str] | None, labels: bool
) -> tuple["duckdb.DuckDBPyRelation", dict[str, str], str, object]:
    """Return a relation with a column for each role, the names there, and whose.

    The last is the connection: until DuckDB 2, a relation does not keep it open.
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
        return _typed(text, found, labels), found, origin, connection


def connect() -> Any:  # stubs know neither lists of files nor names for `filename`
    """Open a DuckDB that stays on this machine, and within its memory."""
    import duckdb

    # A place of its own: DuckDB makes it when it must spill, and removes it.
    spill = Path(tempfile.gettempdir()) / f"bayesmdp-{uuid.uuid4().hex}"
    memory = max(int(0.8 * _memory.available_bytes()), MIN_MEMORY)
    connection = duckdb.connect()
    # Closed networks: never fetch an extension.
    connection.execute("set autoinstall_known_extensions = false")
    connection.execute("set enable_progress_bar = false")
    connection.execute(f"set temp_directory = {_text(str(spill))}")
    connection.execute(f"set memory_limit = '{memory} B'")
    connection.execute(f"set threads = {_checks.thread_count(None)}")
    return connection


def _open_csv(
    connection: Any,
    paths: Sequence[str],
    columns: Mapping[str, str] | None,
    origin: str,
) -> tuple["duckdb.DuckDBPyRelation", dict[str, str]]:
    """Read text by role; files may have the columns in different order."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        delimiter, names = _header(connection, path)
        alike.setdefault((delimiter, *names), []).append(path)
    there = dict.fromkeys(name for _, *header in alike for name in header if name)
    found = find_columns(list(there), columns, capital(origin))
    joint: duckdb.DuckDBPyRelation | None = None
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
        )
        places = {role: f"c{header.index(name)}" for role, name in found.items()}
        part = _renamed(part, places)
        joint = part if joint is None else joint.union(part)
    assert joint is not None
    return joint, found


def _refuse_missing(path: str, header: Sequence[str], found: Mapping[str, str]) -> None:
    """Refuse a file without a column that others have."""
    lacking = next((name for name in found.values() if name not in header), None)
    if lacking is not None:
        raise CountsError(
            f"`{path}` has no column `{lacking}`, which other files have."
        )


def _open_parquet(
    connection: Any,
    paths: Sequence[str],
    columns: Mapping[str, str] | None,
    origin: str,
) -> tuple["duckdb.DuckDBPyRelation", dict[str, str]]:
    """Read by role; what directories are called says nothing about rows."""
    headers = {path: _parquet_header(connection, path) for path in paths}
    there = dict.fromkeys(name for header in headers.values() for name in header)
    found = find_columns(list(there), columns, capital(origin))
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
            strict_mode=False,  # quoted cells of later lines may hold other line ends
            columns={"line": "VARCHAR"},
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
    if all(_is_number(name) for name in names):
        raise CountsError(
            f"The first line of `{path}` must name the columns; it is `{line:.60}`."
        )
    twice = next((x for i, x in enumerate(names) if x and x in names[:i]), None)
    if twice is not None:
        raise CountsError(f"`{path}` has two columns named `{twice}`: rename one.")
    return delimiter, names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _open_json(
    connection: Any,
    names: list[str],
    columns: Mapping[str, str] | None,
    origin: str,
) -> tuple["duckdb.DuckDBPyRelation", dict[str, str]]:
    """Read text by role; the keys of the first rows say which columns there are."""
    there = connection.read_json(names, union_by_name=True)
    if there.columns == ["json"]:
        raise CountsError(
            f"{capital(origin)} holds no rows: a row is an object such as "
            '{"state": 0, "action": 1, "next_state": 2}.'
        )
    found = find_columns(there.columns, columns, capital(origin))
    kinds = dict(zip(there.columns, there.types, strict=True))
    for name in found.values():
        if kinds[name].id in ("list", "struct", "map"):
            raise CountsError(
                f"Column `{name}` of {origin} must hold plain values; it holds "
                f"{kinds[name].id}s: a row is an object of its own."
            )
    table = connection.read_json(
        names,
        columns=dict.fromkeys(found.values(), "VARCHAR"),
        filename=FILE,
    )
    return _renamed(table, found), found


def _renamed(
    table: "duckdb.DuckDBPyRelation", places: Mapping[str, str]
) -> "duckdb.DuckDBPyRelation":
    """Keep the columns that have a role, under its name."""
    chosen = [f"{_name(place)} as {_name(role)}" for role, place in places.items()]
    return table.project(", ".join([*chosen, _name(FILE)]))


def _typed(
    text: "duckdb.DuckDBPyRelation", found: Mapping[str, str], labels: bool
) -> "duckdb.DuckDBPyRelation":
    """Decide for each column whether its text is numbers, and convert it.

    Text among numbers becomes empty, and stands in a column of its own.
    """
    asked = [
        f"count(*) filter ({role} is not null and ({_is_text(role, labels)}))"
        f" as {role}_text, count(try_cast({role} as double)) as {role}_number,"
        f" count(*) filter ({role} similar to '{WHOLE}' and"
        f" try_cast({role} as bigint) is not null) as {role}_whole"
        for role in found
    ]
    answer = text.aggregate(", ".join(asked))
    tally = dict(zip(answer.columns, answer.fetchall()[0], strict=True))
    ids = [role for role in ID_ROLES if role in found]
    chosen = []
    for role in found:
        alike = ids if role in ids else [role]
        n_text, n_number, n_whole = (
            sum(int(tally[f"{x}_{what}"]) for x in alike)
            for what in ("text", "number", "whole")
        )
        numeric = role in ("reward", "step")
        mixed = n_number and not labels and role not in ("episode", *FLAGS)
        if n_text and not (numeric or mixed):
            chosen.append(role)
            continue
        whole = n_whole == n_number and role != "reward"
        kind = "bigint" if whole else "double"
        chosen.append(f"try_cast({role} as {kind}) as {role}")
        if tally[f"{role}_text"]:
            number = f"try_cast({role} as double) is not null"
            chosen.append(f"case when {number} then null else {role} end {TEXT}{role}")
    return text.project(", ".join([*chosen, _name(FILE)]))


def _is_text(role: str, labels: bool) -> str:
    """Word in SQL which values are no numbers.

    As names, 007 and 7 are two, and what is beyond 64 bits is a name too; so are 1.1
    and 1.10 for episodes, which are always names.
    """
    text = f"try_cast({role} as double) is null"
    if role == "episode" or (labels and role in NAMED):
        text += (
            f" or ({role} similar to '{WHOLE}' and try_cast({role} as bigint) is null)"
        )
        text += f" or {role} similar to '{ZEROS}'"
    if role == "episode":
        whole = f"{role} similar to '{WHOLE}' or {role} similar to '{ROUND}'"
        text += f" or not ({whole} or isnan(try_cast({role} as double)))"
    return text


def _name(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    """Quote a string."""
    return "'" + value.replace("'", "''") + "'"
