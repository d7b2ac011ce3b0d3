"""The same rows give the same answer, however a program writes or holds them."""

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from refusing import refused

import bayesmdp as bm
from bayesmdp.errors import CountsError

HOLDERS: dict[str, Any] = {
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "DuckDB": duckdb.from_arrow,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_float_ids_and_episodes_are_what_they_equal(holder: str) -> None:
    """0.0 and -0.0 are one episode, so there are three, dealt out as 0, 1, 2 are."""
    table = {"s": [0.0, 1.0, 2.0, 0.0], "a": [0.0, 0.0, 1.0, 1.0]}
    table |= {"sp": [1.0, 2.0, 0.0, 2.0], "id": [0.0, 1.0, 2.0, -0.0]}
    found = bm.read_transitions(HOLDERS[holder](pa.table(table)))
    whole = {name: [int(x) for x in column] for name, column in table.items()}
    named = {"state": "s", "action": "a", "next_state": "sp", "episode": "id"}
    columns = {role: whole[name] for role, name in named.items()}
    wanted = bm.Transitions.from_arrays(**columns)  # type: ignore[arg-type]
    assert found.counts() == wanted.counts()
    for seed in range(4):
        assert found.counts_by_fold(3, seed=seed) == wanted.counts_by_fold(3, seed=seed)
    with pytest.raises(CountsError, match="only 3 episodes"):
        found.counts_by_fold(4)


@pytest.mark.parametrize("holder", HOLDERS)
def test_float_ids_that_are_fractions_are_refused(holder: str) -> None:
    table = pa.table({"s": [0.0, 0.5], "a": [0, 0], "sp": [1.0, 1.0]})
    refused(CountsError, HOLDERS[holder](table), "`s`", "whole numbers", "0.5")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("inside", ["\n", "\r\n", "\r"])
def test_cells_with_line_ends_are_read_as_spreadsheets_write_them(
    end: str, inside: str, tmp_path: Path
) -> None:
    rows = ['"s","a","sp"', f'"two{inside}lines","wait","home"', '"home","wait","home"']
    path = tmp_path / "log.csv"
    path.write_bytes((end.join(rows) + end).encode())
    found = bm.read_transitions(path)
    assert found.state_labels == ("home", f"two{inside}lines")
    assert found.counts().state.tolist() == [0, 1]


def test_mixed_line_ends_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"s,a,sp\r\n0,0,1\r\n1,0,1\n")
    refused(CountsError, path, "mixes line ends", "save it as CSV again")


def test_names_that_the_reader_uses_itself_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text('{"__file": 3, "__row": 0, "count": 1, "n": 7}\n')
    columns = {"state": "__file", "action": "__row", "next_state": "count"}
    found = bm.read_transitions(path, columns=columns)
    assert found.counts().state.tolist() == [3]
    assert found.counts().next_state.tolist() == [1]
