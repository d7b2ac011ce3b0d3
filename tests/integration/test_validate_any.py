"""Random tables: a result or a `BayesmdpError`, and readers agree with `validate`."""

import csv
import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesmdp as bm

pytestmark = pytest.mark.integration  # for its time

Table = dict[str, list[Any]]

#: What readers do not refuse though `validate` calls it an error.
READABLE = {"duplicate-rows"}

small = st.integers(0, 3)
whole = st.one_of(small, st.integers(-3, 12), st.sampled_from([2**40, 2**63, -(2**70)]))
number = st.one_of(small, st.floats(), st.sampled_from([0.5, 1e300, -0.0]))
text = st.one_of(
    st.sampled_from(["icu", "ward", "1", "nan", "true", "", " ", "1e5", "0x1"]),
    st.text(max_size=4),
)
anything = st.one_of(whole, number, text, st.booleans(), st.none())


def column(size: int) -> st.SearchStrategy[list[Any]]:
    """Draw columns, most of them of one kind, some with holes."""
    kinds = [small, st.booleans(), whole, number, text, anything]
    holes = [st.one_of(x, st.none()) for x in kinds]
    held = st.sampled_from([*[small] * 12, *kinds, *holes])
    return held.flatmap(lambda kind: st.lists(kind, min_size=size, max_size=size))


NAMES = ["state", "action", "next_state", "reward", "episode", "step", "terminated"]
NAMES += ["truncated", "s", 'odd "name"', "x,y", "ñ", "__row", "__file", "count", "n"]


@st.composite
def tables(draw: Any) -> Table:
    size = draw(st.integers(0, 6).map(lambda n: 6 - n))
    names = draw(st.sets(st.sampled_from(NAMES), max_size=5))
    # Mostly what might be a log: random names alone would seldom be read.
    needed = draw(
        st.sampled_from(
            [NAMES[:3], NAMES[:3], [*NAMES[:2], "episode", "step"], NAMES[:2]]
        )
    )
    columns = [*needed, *sorted(names - {*needed})]
    kind = draw(st.sampled_from(["sound", "one odd column", "wild"]))
    odd = {"sound": [], "one odd column": columns[:1], "wild": columns}[kind]
    plain = st.lists(small, min_size=size, max_size=size)
    return {name: draw(column(size) if name in odd else plain) for name in columns}


def in_pandas(table: Table, _: Path) -> Any:
    return pd.DataFrame(table)


def in_polars(table: Table, _: Path) -> Any:
    return pl.LazyFrame(table, strict=False)


def in_duckdb(table: Table, _: Path) -> Any:
    arrays = {name: np.array(values) for name, values in table.items()}
    connection = duckdb.connect()
    connection.register("log", arrays)
    CONNECTIONS[:] = [connection]
    return connection.sql("from log")


CONNECTIONS: list[Any] = []  # relations do not keep theirs open


def in_csv(table: Table, folder: Path) -> Any:
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    path = folder / "log.csv"
    path.write_text(lines.getvalue(), encoding="utf-8", errors="replace", newline="")
    return path


def in_json(table: Table, folder: Path) -> Any:
    path = folder / "log.jsonl"
    rows = zip(*table.values(), strict=True)
    lines = [json.dumps(dict(zip(table, row, strict=True))) for row in rows]
    path.write_text("\n".join(lines))
    return path


ENGINES: dict[str, Callable[[Table, Path], Any]] = {
    "pandas": in_pandas,
    "polars": in_polars,
    "DuckDB": in_duckdb,
    "CSV": in_csv,
    "JSON lines": in_json,
}


def attempt(call: Callable[[], Any]) -> Any:
    """Return a result or our error; other exceptions are the test's failure."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bm.BayesmdpWarning)
            return call()
    except bm.BayesmdpError as problem:
        return problem


@pytest.mark.parametrize("engine", ENGINES)
def test_any_table_is_read_or_refused_and_findings_agree(
    engine: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    seen = {"read": 0, "found": 0}

    @settings(max_examples=12)
    @given(table=tables(), labels=st.booleans())
    def run(table: Table, labels: bool) -> None:
        try:
            source = ENGINES[engine](table, folder)
        except Exception:  # the engine itself cannot hold such a table
            return
        read = attempt(lambda: bm.read_transitions(source, labels=labels))
        found = attempt(lambda: bm.validate(source, labels=labels))
        for problem in (read, found):
            assert not isinstance(problem, Exception) or "\n" not in str(problem)
        if isinstance(read, Exception):
            assert isinstance(found, Exception) or found.errors, str(read)
            seen["found"] += not isinstance(found, Exception)
            return
        seen["read"] += 1
        assert not isinstance(found, Exception), repr(found)
        odd = [x for x in found.errors if x.code not in READABLE]
        assert odd == []
        json.dumps(found.to_dict(), allow_nan=False)
        again = attempt(lambda: bm.validate(read))
        assert not isinstance(again, Exception), repr(again)

    run()
    assert min(seen.values()) > 1, seen
