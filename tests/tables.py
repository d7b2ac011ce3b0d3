"""A log as each table that `read_transitions` understands."""

from collections.abc import Callable
from typing import Any

import duckdb
import ibis
import pandas as pd
import polars as pl
import pyarrow as pa


def in_ibis(data: dict[str, Any]) -> Any:
    backend = ibis.duckdb.connect()
    backend.con.register("log", pa.table(data))
    return backend.table("log")


ENGINES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pyarrow": pa.table,
    "DuckDB": lambda data: duckdb.from_arrow(pa.table(data)),
    "Ibis": in_ibis,
}
#: Those whose rows have an order; they take a fraction of Ibis's time, too.
NUMBERED = tuple(name for name in ENGINES if name != "Ibis")
