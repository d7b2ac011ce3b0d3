"""Rows sorted by episode where they are, and fetched some at a time."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from bayesmdp.data._queries import lazy, worded

if TYPE_CHECKING:
    from bayesmdp.data._queries import Frame

LEAST = 10_000  # rows to fetch at a time: a query takes as long for fewer
BYTES = "__bytes"  # column with the bytes of an episode's name


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
