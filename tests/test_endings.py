"""How states were entered and left, and where episodes began, on every engine."""

from collections.abc import Callable
from typing import Any

import duckdb
import ibis
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayesmdp as bm
from bayesmdp.data._frames import FrameTable
from bayesmdp.errors import CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

FIELDS = ("arrivals", "terminated", "truncated", "stays", "stays_terminated", "left")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Episodes in a windy grid, some cut short; ids and order of rows are arbitrary."""
    world = bm.worlds.gridworld()
    log = world.simulate(np.full((25, 4), 0.25), 300, seed=3, max_steps=20)
    table = pd.DataFrame(dict(log.table.columns))  # type: ignore[attr-defined]
    table["episode"] = 7 * table["episode"] + 3
    table["step"] = 2 * table["step"] + 5  # neither from 0 nor dense
    assert table["truncated"].any()
    assert (table["state"] == table["next_state"]).any()
    return table.sample(frac=1, random_state=0).reset_index(drop=True)


def in_arrays(table: pd.DataFrame) -> bm.Transitions:
    columns = {name: table[name].to_numpy() for name in table}
    return bm.Transitions.from_arrays(**columns)


def framed(native: Any, n_rows: int) -> bm.Transitions:
    """A table of an engine, flags included, as readers leave it."""
    frame = nw.from_native(native).lazy()
    made = FrameTable(frame, "the table", n_rows, None, None, labels=False)
    return bm.Transitions(made, made.state_labels, made.action_labels)


def in_ibis(table: pd.DataFrame) -> Any:
    backend = ibis.duckdb.connect()
    backend.con.register("rows", table)
    backend.raw_sql("create table log as select * from rows")
    return backend.table("log")


def in_duckdb(table: pd.DataFrame) -> Any:
    connection = duckdb.connect()
    connection.register("log", table)
    return connection.table("log")


SOURCES: dict[str, Callable[[pd.DataFrame], bm.Transitions]] = {
    "arrays": in_arrays,
    "pandas": lambda x: framed(x, len(x)),
    "polars": lambda x: framed(pl.DataFrame(dict(x.items())), len(x)),
    "polars lazy": lambda x: framed(pl.DataFrame(dict(x.items())).lazy(), len(x)),
    "pyarrow": lambda x: framed(pa.table(dict(x.items())), len(x)),
    "DuckDB": lambda x: framed(in_duckdb(x), len(x)),
    "Ibis": lambda x: framed(in_ibis(x), len(x)),
}
EVERY = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


def expected_endings(table: pd.DataFrame) -> dict[str, dict[int, int]]:
    """Group by hand."""
    moved = table[table["state"] != table["next_state"]]
    stayed = table[table["state"] == table["next_state"]]
    return {
        "arrivals": moved.groupby("next_state").size().to_dict(),
        "terminated": moved.groupby("next_state")["terminated"].sum().to_dict(),
        "truncated": moved.groupby("next_state")["truncated"].sum().to_dict(),
        "stays": stayed.groupby("state").size().to_dict(),
        "stays_terminated": stayed.groupby("state")["terminated"].sum().to_dict(),
        "left": moved.groupby("state").size().to_dict(),
    }


@EVERY
def test_endings_are_those_of_a_group_by(table: pd.DataFrame, source: Any) -> None:
    found = source(table).endings()
    expected = expected_endings(table)
    states = sorted({*table["state"], *table["next_state"]})
    assert found.state.tolist() == states
    for name in FIELDS:
        wanted = [expected[name].get(state, 0) for state in states]
        assert getattr(found, name).tolist() == wanted, name
        assert not getattr(found, name).flags.writeable


@EVERY
def test_without_flags_there_are_none(table: pd.DataFrame, source: Any) -> None:
    found = source(table.drop(columns=["terminated", "truncated"])).endings()
    assert found.terminated is found.truncated is found.stays_terminated is None
    assert found.arrivals.sum() + found.stays.sum() == len(table)


def test_flags_that_are_never_set_are_zero(table: pd.DataFrame) -> None:
    plain = table.assign(terminated=False)
    for source in SOURCES.values():
        found = source(plain).endings()
        assert found.terminated is not None
        assert not found.terminated.any()


@EVERY
def test_starts_are_the_states_of_first_steps(table: pd.DataFrame, source: Any) -> None:
    found = source(table).starts()
    first = table.sort_values("step").groupby("episode")["state"].first()
    wanted = first.value_counts().sort_index()
    assert found.state.tolist() == wanted.index.tolist()
    assert found.count.tolist() == wanted.tolist()
    assert found.count.sum() == table["episode"].nunique()


@EVERY
def test_two_rows_with_the_first_step_are_refused(
    table: pd.DataFrame, source: Any
) -> None:
    with pytest.raises(CountsError, match=r"300 episodes have .* first rows"):
        source(table.assign(step=0)).starts()


@pytest.mark.parametrize(
    ("dropped", "said"),
    [
        (["step"], "have no `step`"),
        (["episode", "step"], "no `episode` and no `step`"),
    ],
)
@EVERY
def test_starts_need_episodes_and_steps(
    table: pd.DataFrame, source: Any, dropped: list[str], said: str
) -> None:
    with pytest.raises(CountsError, match=said):
        source(table.drop(columns=dropped)).starts()


def test_names_are_numbered_as_in_counts() -> None:
    table = pd.DataFrame(
        {
            "state": ["ward", "icu", "ward", "ward"],
            "action": ["wait", "treat", "wait", "wait"],
            "next_state": ["icu", "home", "icu", "ward"],
            "terminated": [False, True, False, False],
            "episode": [7, 7, 8, 9],
            "step": [1, 2, 1, 5],
        }
    )
    log = framed(table, 4)
    assert log.state_labels == ("home", "icu", "ward")
    assert log.endings().terminated.tolist() == [1, 0, 0]  # type: ignore[union-attr]
    assert log.endings().left.tolist() == [0, 1, 2]
    assert log.starts().state.tolist() == [2]
    assert log.starts().count.tolist() == [3]


def test_derived_next_states_keep_where_episodes_begin() -> None:
    table = pd.DataFrame(
        {
            "id": [1, 1, 1, 2, 2],
            "t": [0, 1, 2, 4, 5],
            "state": [3, 1, 0, 1, 2],
            "action": 0,
        }
    )
    log = bm.read_transitions(table)
    assert "2 last rows in a state that is never left" in log.notes[0]
    assert log.starts().state.tolist() == [1, 3]
    assert log.starts().count.tolist() == [1, 1]
