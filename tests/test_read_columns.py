"""Which column of a table is which."""

import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_read import EACH, rows

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")


@pytest.mark.parametrize(
    "names",
    [
        ("S", "A", "SP"),
        ("obs", "Action", "next_observation"),
        ("Observation", "a", "s_next"),
    ],
)
def test_columns_are_found_by_convention(names: tuple[str, ...]) -> None:
    table = pd.DataFrame(dict(zip(names, rows().values(), strict=True)))
    assert bm.read_transitions(table).counts().total == 3


PATIENTS = {"id": [1, 1, 2, 2], "s": [0, 1, 0, 1], "a": [0, 1, 1, 0]}


@pytest.mark.parametrize("name", ["cycle", "Year", "visit"])
def test_columns_that_may_number_steps(name: str) -> None:
    """They do where nothing else says what follows; else nothing depends on them."""
    counted = pd.DataFrame({**PATIENTS, name: [2001, 2002, 7, 8], "birth_year": 1950})
    log = bm.read_transitions(counted)
    assert (log.columns or {})["step"] == name
    assert log.counts().next_state.tolist() == [1, 1]
    admitted = counted.assign(**{name: [2001, 2001, 7, 7]})
    with pytest.raises(CountsError, match=f"`id` 1 has `{name}` 2001 2 times"):
        bm.read_transitions(admitted)
    named = admitted.assign(sp=[1, 0, 1, 0])
    log = bm.read_transitions(named)
    assert "step" not in (log.columns or {})
    assert [batch.step.tolist() for batch in log.episodes()] == [[0, 1, 0, 1]]
    found = {x.code for x in bm.validate(named, columns={"step": name})}
    assert "repeated-steps" in found
    both = admitted.assign(t=[0, 1, 0, 1])  # what is usual goes before
    assert "derived from `id` and `t`" in bm.read_transitions(both).notes[0]


@pytest.mark.parametrize("name", ["month", "week", "day"])
def test_what_begins_again_numbers_no_steps(name: str) -> None:
    with pytest.raises(CountsError, match="there is no `step`"):
        bm.read_transitions(pd.DataFrame({**PATIENTS, name: [1, 2, 1, 2]}))


def test_columns_that_are_named_go_before_conventions() -> None:
    table = pd.DataFrame(rows(cluster=[1, 1, 1], my_Next=[0, 0, 0]))
    counts = bm.read_transitions(
        table, columns={"state": "cluster", "next_state": "my_Next"}
    ).counts()
    assert set(counts.state.tolist()) == {1}
    assert set(counts.next_state.tolist()) == {0}


def test_odd_names_of_columns_and_files(tmp_path: Path) -> None:
    path = tmp_path / 'it\'s [1] a "file".csv.gz'
    path.write_bytes(gzip.compress(b'"my ""s""","a;b",c\n0,1,2\n'))
    names = {"state": 'my "s"', "action": "a;b", "next_state": "c"}
    assert bm.read_transitions(path, columns=names).n_rows == 1
    table = pd.DataFrame({'my "s"': [0], "a;b": [1], "c": [2]})
    assert bm.read_transitions(table, columns=names).n_rows == 1


COLUMN_FAULTS = {
    "two candidates": (
        rows(obs=[1, 1, 1]),
        None,
        CountsError,
        "for `state`, `state` and `obs`: choose one with columns={'state': 'state'}",
    ),
    "a near miss": (
        {"stat": [0], "action": [0], "next_state": [0]},
        None,
        CountsError,
        "no column for `state` (did you mean `stat`?)",
    ),
    "no next state and no step": (
        {"state": [0], "action": [0], "nextstate": [0], "episode": [0]},
        None,
        CountsError,
        "(did you mean `nextstate`?)",
    ),
    "an unknown role": (rows(), {"sate": "state"}, ArgumentError, "mean 'state'?"),
    "a column that is not there": (
        rows(),
        {"state": "stete"},
        ArgumentError,
        "does not have (did you mean 'state'?)",
    ),
    "a column twice": (
        rows(),
        {"state": "state", "next_state": "state"},
        ArgumentError,
        "gives 'state' two roles",
    ),
    "not a mapping": (rows(), "state", ArgumentError, "`columns` must map roles"),
    "an outcome beside next states": (
        rows(end=[1, 1, 1]),
        {"outcome": "end"},
        ArgumentError,
        "`outcome`",
    ),
}


@pytest.mark.parametrize(
    ("table", "columns", "error", "said"), COLUMN_FAULTS.values(), ids=COLUMN_FAULTS
)
@EACH
def test_columns_that_cannot_be_found(
    engine: Any, table: Any, columns: Any, error: Any, said: str
) -> None:
    with pytest.raises(error) as caught:
        bm.read_transitions(engine(table), columns=columns)
    assert said in str(caught.value)
