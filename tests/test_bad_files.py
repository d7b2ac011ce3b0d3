"""What is said of files and tables that cannot be read, or hold what cannot be."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

HEAD = "state,action,next_state\n"
MANY = "0,0,1\n" * 30_000  # more than an engine looks at to guess types


def refused(
    error: type[bm.BayesmdpError], source: Any, *said: str, **options: Any
) -> None:
    """Read: one sentence of ours, with these fragments, and no engine's traceback."""
    with pytest.raises(error) as caught:
        bm.read_transitions(source, **options)
    assert type(caught.value) is error
    message = str(caught.value)
    for fragment in said:
        assert fragment in message, message
    assert "\n" not in message
    assert message.endswith(".")


CSV_FAULTS: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "empty": ("", ("`log.csv` is empty.",)),
    "blank": ("\n\n", ("`log.csv` is empty, or its first line is",)),
    "header only": (HEAD, ("`log.csv` holds no rows.",)),
    "binary": (bytes(range(256)) * 40, ("log.csv",)),
    "zeros": (bytes(1000), ("log.csv",)),
    "Latin-1 header": ("état,state,action,sp\n0,0,0,0\n".encode("latin-1"), ("UTF-8",)),
    "Latin-1": (HEAD.encode() + b"0,0,1\nn\xe9,0,1\n", ("Line 3", "not UTF-8")),
    "UTF-16": ((HEAD + "0,0,1\n").encode("utf-16"), ("log.csv",)),
    "short row": (
        HEAD + "0,0,1\n1,0\n",
        ("Line 3 of `log.csv` has 2 fields where the header has 3",),
    ),
    "long row": (HEAD + "0,0,1\n0,0,1,5\n", ("Line 3 of `log.csv`",)),
    "late short row": (HEAD + MANY + "1,0\n", ("Line 30002 of `log.csv` has 2",)),
    "spaces": ("state action next_state\n0 0 1\n", ("single column", "semicolon")),
    "no header": ("0,0,1\n1,0,2\n", ("must name the columns; it is `0,0,1`",)),
    "duplicate name": (
        "state,action,state,next_state\n0,0,0,0\n",
        ("two columns named `state`",),
    ),
    "names that differ by case": (
        "state,action,State,next_state\n0,0,0,0\n",
        ("several columns for `state`: `state` and `State`",),
    ),
    "text among numbers": (
        HEAD + "0,0,1\n1,x,2\n",
        ("Column `action` of `log.csv` must hold numbers: row 1 of `log.csv` has 'x'",),
    ),
    "late text among numbers": (
        HEAD + MANY + "abc,0,1\n",
        ("`state`", "row 30000 of `log.csv` has 'abc'", "labels=True"),
    ),
    "text in next states": (HEAD + "0,0,1\n1,0,x\n", ("`next_state`", "'x'")),
    "late fraction": (
        HEAD + MANY + "0.5,0,1\n",
        ("`state`", "whole numbers: row 30000 of `log.csv` has 0.5."),
    ),
    "empty ids": (
        HEAD + "0,0,1\n1,,2\n1,,2\n",
        ("`action`", "no value in 2 rows, the first row 1 of `log.csv`"),
    ),
    "nan": (HEAD + "0,0,1\nnan,0,1\n", ("`state`", "no value in 1 row")),
    "inf": (HEAD + "0,0,inf\n", ("`next_state`", "whole numbers: row 0", "inf")),
    "negative": (HEAD + "0,-1,1\n", ("`action`", "row 0", "-1", "labels=True")),
    "register codes": (
        HEAD + f"0,0,{2**40}\n",
        ("`next_state`", "at most 10**7: row 0", str(2**40), "labels=True"),
    ),
    "beyond 64 bits": (HEAD + "99999999999999999999,0,1\n", ("`state`", "row 0")),
    "text reward": (
        "s,a,sp,r\n0,0,1,0.5\n0,0,1,good\n",
        ("Column `r` of `log.csv` must hold numbers: row 1", "'good'"),
    ),
    "infinite reward": (
        "s,a,sp,r\n0,0,1,0.5\n0,0,1,-inf\n",
        ("Column `r`", "finite: row 1", "-inf"),
    ),
    "missing reward": ("s,a,sp,r\n0,0,1,\n", ("Column `r`", "no value in 1 row")),
    "fractional step": (
        "s,a,episode,t\n0,0,1,0.5\n",
        ("Column `t`", "whole numbers: row 0"),
    ),
    "text step": ("s,a,episode,t\n0,0,1,noon\n", ("Column `t`", "'noon'")),
    "missing episode": ("s,a,episode,t\n0,0,,0\n", ("Column `episode`", "no value")),
    "a step twice": (
        "s,a,icustayid,bloc\n0,0,8,0\n0,0,8,1\n1,0,8,1\n",
        ("`icustayid` 8 has `bloc` 1 2 times",),
    ),
    "nothing follows": (
        "s,a,id,t\n0,0,8,0\n0,0,9,4\n",
        ("0 of 2 rows have one", "no transition is left"),
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("content", "said"), CSV_FAULTS.values(), ids=CSV_FAULTS)
def test_bad_csv(here: Path, content: str | bytes, said: tuple[str, ...]) -> None:
    data = content.encode() if isinstance(content, str) else content
    (here / "log.csv").write_bytes(data)
    refused(CountsError, "log.csv", *said)


@pytest.mark.parametrize("cut", [0, 5, 40])
def test_broken_gzip(here: Path, cut: int) -> None:
    whole = gzip.compress((HEAD + MANY).encode())
    (here / "log.csv.gz").write_bytes(b"hello, this is no gzip" + whole[:cut])
    refused(CountsError, "log.csv.gz", "log.csv.gz")


def test_gzip_of_nothing(here: Path) -> None:
    (here / "log.csv.gz").write_bytes(gzip.compress(b""))
    refused(CountsError, "log.csv.gz", "`log.csv.gz` is empty")


OTHER_FAULTS: dict[str, tuple[str, bytes, tuple[str, ...]]] = {
    "text as Parquet": ("log.parquet", HEAD.encode() * 9, ("`log.parquet`",)),
    "tiny Parquet": ("log.pq", b"PAR1", ("`log.pq`",)),
    "text as JSON": ("log.json", b"hello\n", ("log.json",)),
    "broken JSON": ("log.jsonl", b'{"state": 1, "ac\n', ("log.jsonl",)),
    "JSON without objects": ("log.jsonl", b"1\n2\n", ("`state`",)),
    "JSON without a column": ("log.jsonl", b'{"state": 1}\n', ("`action`",)),
    "empty JSON": ("log.jsonl", b"\n", ("`log.jsonl`",)),
    "text in JSON": (
        "log.jsonl",
        b'{"s": 1, "a": 0, "sp": 2}\n{"s": "x", "a": 0, "sp": 2}\n',
        ("Column `s`", "row 1 of `log.jsonl` has 'x'"),
    ),
    "a key that is missing once": (
        "log.jsonl",
        b'{"s": 1, "a": 0, "sp": 2}\n{"s": 1, "sp": 2}\n',
        ("Column `a`", "no value in 1 row", "row 1"),
    ),
    "a fraction in JSON": (
        "log.jsonl",
        b'{"s": 1, "a": 0, "sp": 2}\n' * 30_000 + b'{"s": 1, "a": 0.5, "sp": 2}\n',
        ("Column `a`", "row 30000", "0.5"),
    ),
}


@pytest.mark.parametrize(
    ("name", "content", "said"), OTHER_FAULTS.values(), ids=OTHER_FAULTS
)
def test_bad_parquet_and_json(
    here: Path, name: str, content: bytes, said: tuple[str, ...]
) -> None:
    (here / name).write_bytes(content)
    refused(CountsError, name, *said)


def test_the_file_among_several_is_named(here: Path) -> None:
    (here / "a.csv").write_text(HEAD + "0,0,1\n0,0,1\n")
    (here / "b.csv").write_text(HEAD + "0,0,1\n0,0,1.5\n")
    refused(CountsError, "*.csv", "row 1 of `b.csv` has 1.5")
    (here / "b.csv").write_text(HEAD + "0,0\n")
    refused(CountsError, "*.csv", "Line 2 of `b.csv` has 2 fields")
    (here / "b.csv").write_text("state,action\n0,0\n")
    refused(CountsError, "*.csv", "`b.csv` has no column `next_state`, which `a.csv`")
    for name, value in (("a", 1.0), ("b", np.nan)):
        table = pd.DataFrame({"state": [0.0, value], "action": 0, "next_state": 1})
        table.to_parquet(here / f"{name}.parquet")
    refused(CountsError, "*.parquet", "no value in 1 row, the first row 1 of `b.parq")


def test_paths_that_lead_nowhere(here: Path) -> None:
    (here / "logs").mkdir()
    (here / "log.xlsx").write_text("x")
    (here / "a.csv").write_text(HEAD + "0,0,1\n")
    (here / "a.jsonl").write_text('{"state": 1}\n')
    refused(ArgumentError, "ward.csv", "there is no file `ward.csv`")
    refused(ArgumentError, ["a.csv", "ward.csv"], "there is no file `ward.csv`")
    refused(ArgumentError, "ward*.csv", "no file matches `ward*.csv`")
    refused(ArgumentError, "logs", "`logs` is a directory", "logs/*.parquet")
    refused(ArgumentError, "log.xlsx", "`log.xlsx`", ".parquet")
    refused(ArgumentError, [], "empty list")
    refused(ArgumentError, [3], "a list with 3")
    refused(ArgumentError, "a.*", "mixes kinds of files: `a.csv` and `a.jsonl`")


def test_no_permission(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = here / "log.csv"
    path.write_text(HEAD + "0,0,1\n")
    path.chmod(0)
    # The superuser may read everything, so the system's answer is played.
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused(ArgumentError, path, "may not be read: permission denied")


def table(**changes: Any) -> dict[str, Any]:
    return {"state": [0, 1], "action": [0, 1], "next_state": [1, 1], **changes}


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
NUMBERED = ("pandas", "polars", "polars lazy", "pyarrow", "DuckDB")
TABLE_FAULTS: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "missing": (table(state=[0, None]), ("`state`", "no value in 1 row"), "row 1"),
    "NaN": (table(state=[0.0, np.nan]), ("`state`", "no value in 1 row"), "row 1"),
    "fraction": (table(action=[0.0, 0.5]), ("`action`", "whole", "0.5"), "row 1"),
    "infinite": (table(action=[0.0, np.inf]), ("`action`", "inf"), "row 1"),
    "negative": (table(next_state=[0, -4]), ("-4", "labels=True"), "row 1"),
    "large": (table(state=[2**40, 0]), (str(2**40), "labels=True"), "row 0"),
    "reward": (table(reward=[0.0, np.inf]), ("`reward`", "finite", "inf"), "row 1"),
    "text reward": (table(reward=["a", "b"]), ("`reward`", "must hold numbers"), ""),
    "flags": (table(action=[True, False]), ("`action`", "whole numbers or text"), ""),
    "mixed": (table(state=["a", "b"]), ("`next_state`", "named alike"), ""),
    "numbers as text": (table(action=["1", "b"]), ("numbers as text", "'1'"), ""),
    "no rows": (dict.fromkeys(table(), np.zeros(0, int)), ("holds no rows",), ""),
}


@pytest.mark.parametrize(
    ("data", "said", "row"), TABLE_FAULTS.values(), ids=TABLE_FAULTS
)
@pytest.mark.parametrize("engine", ENGINES)
def test_bad_tables(
    engine: str, data: dict[str, Any], said: tuple[str, ...], row: str
) -> None:
    numbered = [row] if engine in NUMBERED else []
    refused(CountsError, ENGINES[engine](data), *said, *numbered)


@pytest.mark.parametrize("engine", ENGINES)
def test_sizes_that_are_too_small(engine: str) -> None:
    make = ENGINES[engine]
    refused(CountsError, make(table()), "`state`", "below", "1", n_states=1)
    refused(CountsError, make(table()), "`action`", "below", "1", n_actions=1)
    text = table(action=["a", "b"])
    refused(CountsError, make(text), "`n_actions` is 1", "has 2", n_actions=1)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_table_does_not_have_is_said_when_asked(engine: str) -> None:
    log = bm.read_transitions(ENGINES[engine](table()))
    with pytest.raises(CountsError, match="`episode` column"):
        log.counts_by_fold(2)
    with pytest.raises(CountsError, match="no `reward` column"):
        log.reward_statistics()
    log = bm.read_transitions(ENGINES[engine](table(episode=[4, 4])))
    with pytest.raises(CountsError, match="`n_folds` is 2 but there are only 1"):
        log.counts_by_fold(2)


def test_sources_that_are_no_tables() -> None:
    refused(ArgumentError, 3, "`source` must be a path", "got int")
    refused(ArgumentError, None, "`source`", "got NoneType")
    refused(ArgumentError, np.zeros((2, 3)), "`source`", "got ndarray")
    refused(ArgumentError, pd.Series([1]), "`source`", "got Series")
    refused(ArgumentError, pd.DataFrame(table()), "`labels`", "'all'", labels="all")
    refused(CountsError, pd.DataFrame(table()), "`n_states`", n_states=0)


def test_columns_that_are_no_names() -> None:
    twice = pd.DataFrame([[0, 0, 0, 0]], columns=["state", "state", "action", "sp"])
    refused(CountsError, twice, "state")
    refused(CountsError, pd.DataFrame(np.zeros((2, 3))), "must have names")


def test_a_file_that_vanishes_is_a_sentence(here: Path) -> None:
    path = here / "log.csv"
    path.write_text("s,a,sp,r\n0,0,1,2\n")
    log = bm.read_transitions(path)
    path.unlink()
    with pytest.raises(CountsError, match=r"log\.csv") as caught:
        log.reward_statistics()
    assert caught.value.__cause__ is not None
