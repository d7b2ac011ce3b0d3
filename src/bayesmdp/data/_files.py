"""Files as a DuckDB relation whose columns are named by role.

DuckDB's guesses are not used for text: it guesses types from the first rows and then
rounds ``0.5`` in a column of whole numbers, and it skips lines that do not fit its
idea of the file. CSV and JSON are read as text, every value is tried as a number by
the engine, and what is neither all numbers nor all text is marked, to be refused by
row.
"""

import csv
import glob
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesmdp import _checks
from bayesmdp.data._columns import FLAGS, find_columns
from bayesmdp.data._queries import FILE, TEXT, capital, worded
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
PACKED = (".gz", ".zst")
DELIMITERS = (",", ";", "\t", "|")
ID_ROLES = ("state", "next_state", "outcome")  # one set of ids or labels


def is_paths(source: object) -> bool:
    """Tell files from dataframes."""
    return isinstance(source, str | os.PathLike | list | tuple)


def open_files(
    source: Any, columns: Mapping[str, str] | None, labels: bool
) -> tuple["duckdb.DuckDBPyRelation", dict[str, str], str, object]:
    """Return a relation with a column for each role, the names there, and whose.

    The last is the connection: until DuckDB 2, a relation does not keep it open.
    """
    paths = _paths(source)
    origin = f"`{paths[0]}`" if len(paths) == 1 else f"`{paths[0]}` and the other files"
    kinds = {path: _kind(path) for path in paths}
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
            listed = ", ".join(_text(name) for name in names)
            table = connection.sql(
                f"from read_parquet([{listed}], union_by_name=true, "
                f"filename={_text(FILE)})"
            )
            there = [name for name in table.columns if name != FILE]
            found = find_columns(there, columns, capital(origin))
            return _renamed(table, found), found, origin, connection
        return _typed(text, found, labels), found, origin, connection


def _paths(source: Any) -> list[str]:
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
        path = str(Path(os.fsdecode(item)).expanduser())
        if glob.has_magic(path) and not Path(path).exists():
            # Path.glob would need the part without wildcards apart.
            matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
            if not matches:
                raise ArgumentError(f"`source`: no file matches `{path}`.")
            paths += matches
        else:
            paths.append(path)
    for path in paths:
        _check_file(Path(path))
    return paths


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise ArgumentError(
            f"`source`: `{path}` is a directory; name its files, such as "
            f"`{path / '*.parquet'}`."
        )
    if not path.exists():
        raise ArgumentError(f"`source`: there is no file `{path}`.")
    if not os.access(path, os.R_OK):
        raise ArgumentError(f"`source`: `{path}` may not be read: permission denied.")
    if path.is_file() and path.stat().st_size == 0:
        raise CountsError(f"`{path}` is empty.")


def _kind(path: str) -> str:
    bare = Path(path)
    if bare.suffix.lower() in PACKED:
        bare = bare.with_suffix("")
    kind = KINDS.get(bare.suffix.lower())
    if kind is None:
        raise ArgumentError(
            f"`source`: the name of `{path}` does not say what it is; it must end in "
            f"{', '.join(KINDS)}, text also with {' or '.join(PACKED)}."
        )
    return kind


def connect() -> Any:  # stubs know neither lists of files nor names for `filename`
    """Open a DuckDB that stays on this machine."""
    import duckdb

    connection = duckdb.connect()
    # Closed networks: never fetch an extension. Spill where temporary files belong.
    connection.execute("set autoinstall_known_extensions = false")
    connection.execute("set enable_progress_bar = false")
    connection.execute(f"set temp_directory = {_text(tempfile.gettempdir())}")
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
    found = find_columns(list(next(iter(alike)))[1:], columns, capital(origin))
    joint: duckdb.DuckDBPyRelation | None = None
    for (delimiter, *header), files in alike.items():
        for name in found.values():
            if name not in header:
                raise CountsError(
                    f"`{files[0]}` has no column `{name}`, which `{paths[0]}` has."
                )
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
        )
        rows = first.limit(1).fetchall()
    line = (rows[0][0] or "").lstrip("\ufeff").rstrip("\r") if rows else ""
    if not line.strip():
        raise CountsError(f"`{path}` is empty, or its first line is.")
    delimiter = max(DELIMITERS, key=line.count)
    names = tuple(x.strip() for x in next(csv.reader([line], delimiter=delimiter)))
    if len(names) == 1:
        raise CountsError(
            f"`{path}` has a single column, `{names[0]:.60}`: columns must be separated"
            " by a comma, a semicolon, a tab or |."
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
    found = find_columns(there.columns, columns, capital(origin))
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
        f"count(*) filter ({role} is not null and try_cast({role} as double) is null)"
        f" as {role}_text, count(try_cast({role} as double)) as {role}_number,"
        f" count(*) filter (regexp_full_match({role}, '\\s*[+-]?[0-9]+\\s*') and"
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


def _name(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    """Quote a string."""
    return "'" + value.replace("'", "''") + "'"
