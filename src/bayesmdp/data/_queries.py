"""Asking any engine: fetch a result, find the first bad row, word what went wrong.

Engines' own errors never reach the caller bare: they are worded in our terms, and the
original stays attached as the cause.

Rows that do not fit in memory go to disk, for their owner's eyes only. A process has
one folder, that only its user may enter, with a place in it for each connection. The
folder is removed when the process exits. Of a process that was killed it stays, and the
next one removes it: a lock, which the system lets go of when a process dies, tells
folders in use from others. Where there are no such locks (Windows, some network file
systems), nothing of another process is touched.
"""

import atexit
import gc
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks, _resources
from bayesmdp.errors import BayesmdpError, CountsError, TooLargeError

if TYPE_CHECKING:
    import narwhals as nw

    Frame: TypeAlias = "nw.LazyFrame[Any]"

Number = TypeVar("Number")
MIN_MEMORY = 2**28  # below, DuckDB has no room to work
_PREFIX = "bayesmdp-spill-"
_UNLOCKED = "bayesmdp-new-"
_CELL = 24  # bytes, of names and what a table adds to them
PRIME = 2**31 - 1
LEAST = 10_000  # rows to fetch at a time: a query takes as long for fewer
BYTES = "__bytes"  # column with the bytes of an episode's name
FILE = "__bayesmdp_file"  # column that says which file a row came from
ROW = "__row"  # and which row of it
TEXT = "__text_"  # begins a column with the text that stands where numbers should


@contextmanager
def worded(origin: str) -> Iterator[None]:
    """Turn whatever an engine raises into one sentence about the table."""
    try:
        yield
    except (BayesmdpError, MemoryError):
        raise
    except Exception as problem:  # engines share no base class
        if type(problem).__name__ == "InterruptException":  # DuckDB's for Ctrl-C
            raise KeyboardInterrupt from problem
        if "Out of Memory" in str(problem):
            raise TooLargeError(
                f"{capital(origin)} needs more memory than there is to be had: free "
                "some, or allow more with BAYESMDP_MEMORY."
            ) from problem
        raise CountsError(_sentence(origin, str(problem))) from problem


_MEANINGS = {
    r"state machine reached an invalid": (
        "mixes line ends, or quotes within a cell: save it as CSV again"
    ),
    r"unterminated quote": "has a quote that is never closed: close it, or double it",
    r"Maximum line size": "is longer than 2 MB: end its lines, or fix the quotes",
    r"No magic bytes|too small to be": "was cut short or damaged: write it again",
    r"differ only in case": "has keys that differ only in case: rename one",
    r"Unexpected end of GZIP": "was cut short or damaged: pack it again",
    r"Failed to create view.*read-only": (
        "is in a read-only database, where DuckDB 1 cannot sort: update it to DuckDB 2"
    ),
}


def _sentence(origin: str, said: str) -> str:
    """Say what an engine's message means; the usual ones of CSV files are known."""
    line = re.search(r"CSV Error on Line: (\d+)", said)
    file = re.search(r"^\s*file = (.+)$", said, re.M)
    where = f"`{file[1].strip()}`" if file else origin
    at = f"line {line[1]} of {where}" if line else where
    ragged = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", said)
    if ragged:
        return (
            f"{capital(at)} has {ragged[2]} fields where the header has {ragged[1]}: "
            "fix the line, or quote fields that hold the delimiter."
        )
    for pattern, meaning in _MEANINGS.items():
        if re.search(pattern, said):
            return f"{capital(at)} {meaning}."
    if re.search(r"unicode|utf-8", said, re.I):
        return f"{capital(at)} is not UTF-8 text: save it as UTF-8, or as Parquet."
    if re.search(r"permission denied", said, re.I):
        return f"{capital(where)} may not be read: permission denied."
    lines = ("".join(x for x in y if x.isprintable()) for y in said.splitlines())
    first = next((x.strip() for x in lines if x.strip()), "no reason given")
    first = re.sub(r"^[A-Za-z ]*(Error|Exception): ", "", first).rstrip(".: ")
    return f"{capital(at)} cannot be read: {first:.200}."


def capital(text: str) -> str:
    """Begin a sentence."""
    return text[:1].upper() + text[1:]


@cache
def tidy_exit() -> None:
    """Let go of DuckDB before Python ends.

    narwhals keeps what it knows of each engine in caches; if DuckDB's outlives the
    interpreter, DuckDB 2 prints a page about leaks to stderr.
    """
    atexit.register(_forget)


def _forget() -> None:
    kind = type(tidy_exit)
    for x in gc.get_objects():
        if type(x) is kind and str(x.__module__).startswith("narwhals."):
            x.cache_clear()


def lazy(native: Any) -> "Frame":
    """Wrap an engine's own lazy table."""
    import narwhals as nw

    tidy_exit()
    frame: Frame = nw.from_native(native)
    return frame


def zero_or_one(test: "nw.Expr") -> "nw.Expr":
    """Turn a test into a number; PostgreSQL has no cast from truth to bigint."""
    import narwhals as nw

    return nw.when(test).then(nw.lit(1)).otherwise(nw.lit(0))


def how_many(test: "nw.Expr") -> "nw.Expr":
    """Count the rows that pass."""
    return zero_or_one(test).sum()


def fetch(frame: "Frame", origin: str) -> dict[str, NDArray[Any]]:
    """Run a query whose result is small; columns come back as arrays."""
    import narwhals as nw

    with worded(origin):
        if frame.implementation.is_duckdb():
            # Not through narwhals: that would need pyarrow.
            columns = nw.to_native(frame).fetchnumpy()
            return {name: np.ma.getdata(array) for name, array in columns.items()}
        table = frame.collect()
        return {name: table[name].to_numpy() for name in table.columns}


def fetch_one(frame: "Frame", origin: str) -> dict[str, Any]:
    """Run a query whose result is one row."""
    return {name: column[0] for name, column in fetch(frame, origin).items()}


def size(frame: "Frame", origin: str) -> int:
    """Count rows."""
    import narwhals as nw

    return int(fetch_one(frame.select(nw.len().alias("n")), origin)["n"])


class Offender(NamedTuple):
    """A row, as far as the engine can say which, and what stands there."""

    row: int | None  # from 0, headers aside
    file: str | None
    values: dict[str, Any]

    @property
    def where(self) -> str:
        """How messages call the place."""
        row = "a row" if self.row is None else f"row {self.row}"
        return row if self.file is None else f"{row} of `{self.file}`"

    @property
    def first(self) -> str:
        """Name the place after how many there are, where rows have an order."""
        return "" if self.row is None else f", the first {self.where}"


def first_bad(
    frame: "Frame", bad: "nw.Expr | None", values: Sequence[str], origin: str
) -> Offender:
    """Find the first row with a fault, or at all, and its values of some columns.

    Engines without an order of rows name any such row.
    """
    with worded(origin):
        rows = numbered(frame)
        rows = rows if bad is None else rows.filter(bad)
        names = rows.collect_schema().names()
        keys = [x for x in (FILE, ROW) if x in names]
        if keys:
            rows = rows.sort(*keys)
        found = fetch_one(rows.select(*keys, *values).head(1), origin)
    row = int(found.pop(ROW)) if ROW in keys else None
    file = str(found.pop(FILE)) if FILE in keys else None
    return Offender(row, file, found)


def numbered(frame: "Frame") -> "Frame":
    """Count rows from 0 in each file, where the engine keeps them in order."""
    import narwhals as nw

    kind = frame.implementation
    if ROW in frame.collect_schema().names():
        return frame
    if kind.is_duckdb():
        relation = nw.to_native(frame).project(f"*, row_number() over () - 1 as {ROW}")
        return lazy(
            _from_file_starts(relation) if FILE in relation.columns else relation
        )
    if kind.is_polars():  # a scan of files stays one
        return lazy(nw.to_native(frame).with_row_index(ROW))
    if kind.is_pandas_like() or kind.is_pyarrow():
        return frame.collect().with_row_index(ROW).lazy()
    return frame


def _from_file_starts(relation: Any) -> Any:
    """Count rows from the first of their file.

    The starts are asked for first: a window by file would hold all rows in memory.
    """
    starts = relation.aggregate(f"{FILE}, min({ROW})", FILE).fetchall()
    if len(starts) < 2:
        return relation
    quoted = [(file.replace("'", "''"), start) for file, start in starts]
    cases = " ".join(f"when '{file}' then {start}" for file, start in quoted)
    others = ", ".join(f'"{x}"' for x in relation.columns if x != ROW)
    return relation.project(f"{others}, {ROW} - case {FILE} {cases} end as {ROW}")


def sortable(frame: "Frame") -> tuple["Frame", str]:
    """Return a frame, and its column that sorts episodes as every engine does.

    PostgreSQL sorts text as its locale says, but bytes as other engines sort text.
    """
    import narwhals as nw

    text = frame.collect_schema()["episode"] == nw.String
    if not text or _ibis_backend(frame) != "postgres":
        return frame, "episode"
    import ibis

    table = nw.to_native(frame)
    signature = (("string", "string"), "binary")
    builtin = ibis.udf.scalar.builtin(name="convert_to", signature=signature)
    as_bytes = builtin(lambda text, encoding: None)
    return lazy(table.mutate(**{BYTES: as_bytes(table["episode"], "UTF8")})), BYTES


def fetch_sorted(
    frame: "Frame", keys: Sequence[str], size: int, origin: str
) -> Iterator[dict[str, NDArray[Any]]]:
    """Sort rows and fetch so many at a time, or a few thousand.

    DuckDB and databases sort on disk where they must, other engines in memory.
    """
    import narwhals as nw

    size = max(size, LEAST)
    backend = _ibis_backend(frame)
    with worded(origin):
        if backend == "duckdb":
            table = nw.to_native(frame)
            engine = table.get_backend()
            frame = lazy(engine.con.sql(engine.compile(table)))
        if frame.implementation.is_duckdb():
            yield from _sorted_by_duckdb(nw.to_native(frame), keys, size)
            return
        frame = frame.sort(*keys)
        if backend is not None:
            for part in nw.to_native(frame).to_pyarrow_batches(chunk_size=size):
                columns = zip(part.schema.names, part.columns, strict=True)
                yield {x: y.to_numpy(zero_copy_only=False) for x, y in columns}
            return
        rows = frame.collect()
        for i in range(0, len(rows), size):
            yield {x: rows[x][i : i + size].to_numpy() for x in rows.columns}


def _ibis_backend(frame: "Frame") -> str | None:
    """Name the engine behind Ibis, where the frame is a table of Ibis."""
    import narwhals as nw

    if not frame.implementation.is_ibis():
        return None
    return str(nw.to_native(frame).get_backend().name)


def _sorted_by_duckdb(
    relation: Any, keys: Sequence[str], size: int
) -> Iterator[dict[str, NDArray[Any]]]:
    """Sort into a table of the connection's own, which goes to disk where it must.

    An open result would end with the next query of the same connection, and reading it
    in parts would need pyarrow.
    """
    view = f"__bayesmdp_{uuid4().hex}"
    table = f"{view}_sorted"
    made = f"create temp table {table} as from {view} order by {', '.join(keys)}"
    try:
        relation.query(view, made)
        rows = relation.query(view, f"select rowid as {table}, * from {table}")
        for i in count(0, size):
            part = rows.filter(f"{table} >= {i} and {table} < {i + size}").order(table)
            columns = part.fetchnumpy()
            if not columns.pop(table).size:
                return
            yield {name: np.ma.getdata(array) for name, array in columns.items()}
    finally:
        with suppress(Exception):  # where the connection is closed, both are gone
            relation.query(view, f"drop table if exists {table}")
            relation.query(view, f"drop view if exists {view}")


def connect() -> Any:  # stubs know neither lists of files nor names for `filename`
    """Open a DuckDB that stays on this machine, and within its memory."""
    import duckdb

    memory = max(int(0.8 * _resources.available_bytes()), MIN_MEMORY)
    connection = duckdb.connect()
    # Closed networks: never fetch an extension.
    connection.execute("set autoinstall_known_extensions = false")
    connection.execute("set enable_progress_bar = false")
    folder = str(spill_folder()).replace("'", "''")
    connection.execute(f"set temp_directory = '{folder}'")
    connection.execute(f"set memory_limit = '{memory} B'")
    connection.execute(f"set threads = {_checks.thread_count(None)}")
    return connection


def held(frame: "Frame", connection: Any, origin: str, n_rows: int) -> "Frame":
    """Keep rows of files in a table: queries to come would read them again, each.

    Where they might take a quarter of the memory they stay where they are.
    """
    import narwhals as nw

    if connection is None:  # somebody else's table
        return frame
    with worded(origin):
        n_cells = n_rows * len(frame.collect_schema())
        if n_cells * _CELL > _resources.available_bytes() // 4:
            return frame
        name = f"held_{uuid4().hex}"
        nw.to_native(frame).create(name)
        return lazy(connection.table(name))


@contextmanager
def held_meanwhile(
    frame: "Frame", connection: Any, origin: str, n_rows: int
) -> Iterator["Frame"]:
    """Keep rows of files in a table, as `held` does, until the block ends."""
    import narwhals as nw

    kept = held(frame, connection, origin, n_rows)
    try:
        yield kept
    finally:
        if kept is not frame:
            with suppress(Exception):  # where the connection is closed, it is gone
                connection.execute(f"drop table {nw.to_native(kept).alias}")


def spill_folder() -> Path:
    """Name a place for one connection, which DuckDB makes when it must spill."""
    return _home(os.getpid()) / uuid4().hex


@cache
def _home(process: int) -> Path:
    """Make the folder of a process; a fork has one of its own."""
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        handle = _lock(old)
        if handle is not None:
            shutil.rmtree(old, ignore_errors=True)
            os.close(handle)
    new = Path(tempfile.mkdtemp(prefix=_UNLOCKED))
    _lock(new)  # before it has a name that others look for; held to the end
    home = new.rename(new.with_name(new.name.replace(_UNLOCKED, _PREFIX)))
    atexit.register(_remove, home, process)
    return home


def _lock(folder: Path) -> int | None:
    """Return a handle that holds the lock, or None where somebody else holds it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    with suppress(OSError):  # not a folder, not ours, gone, or without locks
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
        else:
            return handle
    return None


def _remove(home: Path, process: int) -> None:
    if os.getpid() == process:  # a fork may end before its parent
        shutil.rmtree(home, ignore_errors=True)


def scramble(number: Number, seed: int) -> Number:
    """Permute 0..p-1; ``number`` is an int64 array or a 64-bit expression.

    By ``x -> a (x + b)^5 mod p``, twice. With the prime p = 2^31 - 1, of which 5 does
    not divide p - 1, no two numbers become one; products stay below 2^62, so 64-bit
    whole numbers suffice in NumPy and in every database. Only operators are used, so
    that the same code runs on arrays and on expressions.
    """
    keys = np.random.default_rng(seed).integers(1, PRIME, size=(2, 2)).tolist()
    x = number
    for a, b in keys:
        y = (x + b) % PRIME
        square = y * y % PRIME
        x = (square * square % PRIME) * y % PRIME * a % PRIME
    return x
