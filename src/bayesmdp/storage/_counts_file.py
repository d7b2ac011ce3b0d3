"""Counts as a Parquet file that anyone can read."""

import glob
from pathlib import Path

import numpy as np

from bayesmdp._io import check_fits, worded
from bayesmdp.data import Counts
from bayesmdp.errors import BayesmdpError, StorageError

_COLUMNS = ("state", "action", "next_state", "count")


def write_counts(path: Path, counts: Counts) -> None:
    """Write a row for each distinct transition."""
    import duckdb

    table = {name: getattr(counts, name) for name in _COLUMNS}
    with worded(path, "written"), duckdb.connect() as connection:
        connection.register("counts", table)
        quoted = str(path).replace("'", "''")
        # Into the file itself, which may be private, not into one of DuckDB's own.
        how = "format parquet, compression zstd, use_tmp_file false"
        connection.execute(f"copy counts to '{quoted}' ({how})")


def read_counts(path: Path, n_states: int, n_actions: int) -> Counts:
    """Read the rows back, checked against the sizes of the task."""
    import duckdb

    with worded(path, "read"), duckdb.connect() as connection:
        connection.execute("set autoinstall_known_extensions = false")
        table = connection.read_parquet(glob.escape(str(path)))
        types = [str(x) for x in table.types]
        if tuple(table.columns) != _COLUMNS or set(types) != {"BIGINT"}:
            each = zip(table.columns, types, strict=True)
            said = ", ".join(f"{x} {y}" for x, y in each)
            raise StorageError(
                f"`{path}` does not hold counts: its columns are {said:.200}, not "
                f"{', '.join(_COLUMNS)} as BIGINT."
            )
        n_rows = len(table)
        if n_rows > n_states * n_actions * n_states:
            raise StorageError(
                f"`{path}` does not hold counts: it claims {n_rows} rows, more than "
                f"there are transitions of {n_states} states and {n_actions} actions."
            )
        # Four copies of all columns, while they are sorted.
        check_fits(path, 4 * 8 * len(_COLUMNS) * n_rows)
        columns = table.fetchnumpy()
    for name, column in columns.items():
        if np.ma.is_masked(column):
            raise StorageError(f"`{path}` does not hold counts: `{name}` has gaps.")
    plain = [np.ma.getdata(columns[name]) for name in _COLUMNS]
    try:
        return Counts.from_arrays(*plain, n_states=n_states, n_actions=n_actions)
    except BayesmdpError as problem:
        raise StorageError(f"`{path}` does not hold counts: {problem}") from problem
