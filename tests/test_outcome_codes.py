"""Outcome codes: refused where they are also states, and read where they are mapped."""

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from tables import ENGINES

import bayesmdp as bm
from bayesmdp.cli import main
from bayesmdp.errors import ArgumentError, CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

#: As in `pbcseq`: stages are numbers, and so is what became of a patient, in every row.
STAGES: dict[str, list[Any]] = {
    "id": [1, 1, 2, 2, 3],
    "visit": [0, 1, 0, 1, 0],
    "stage": [1, 2, 2, 3, 1],
    "action": [0, 1, 0, 1, 0],
    "status": [2, 2, 0, 0, 1],
}
COLUMNS = {"state": "stage", "outcome": "status", "step": "visit"}
MEANING = {"2": "death", "0": "censored", "1": "transplant"}


def counted(log: bm.Transitions) -> list[tuple[Any, Any, Any]]:
    counts, states = log.counts(), log.state_labels
    assert states is not None
    assert counts.count.tolist() == [1] * counts.count.size
    rows = zip(counts.state, counts.action, counts.next_state, strict=True)
    return [(states[s], int(a), states[t]) for s, a, t in rows]


def sources(table: dict[str, list[Any]], folder: Path) -> dict[str, Any]:
    """Return one log in every engine and kind of file."""
    found = {name: engine(table) for name, engine in ENGINES.items()}
    frame = pd.DataFrame(table)
    paths = {x: folder / f"log.{x}" for x in ("csv", "parquet", "jsonl")}
    frame.to_csv(paths["csv"], index=False)
    frame.to_parquet(paths["parquet"])
    frame.to_json(paths["jsonl"], orient="records", lines=True)
    return {**found, **paths}


STATUS: dict[str, tuple[list[Any], dict[Any, Any]]] = {
    "whole": (STAGES["status"], MEANING),
    "floats with gaps": ([None, 2.0, None, 0.0, 1.0], MEANING),
    "codes as numbers": (STAGES["status"], {2: "death", 0: "censored", 1: 5}),
    "text": (
        ["", "died", "", "alive", "tx"],
        {"died": "death", "alive": "censored", "tx": "transplant"},
    ),
}


@pytest.mark.parametrize(("status", "meaning"), STATUS.values(), ids=STATUS)
def test_mapped_codes_are_the_states_that_they_mean(
    status: list[Any], meaning: dict[Any, Any], tmp_path: Path
) -> None:
    third = str(list(meaning.values())[-1])
    wanted = [("1", 0, "2"), ("1", 0, third), ("2", 0, "3"), ("2", 1, "death")]
    for name, source in sources({**STAGES, "status": status}, tmp_path).items():
        log = bm.read_transitions(source, columns=COLUMNS, outcome=meaning)
        assert counted(log) == wanted, name
        assert "4 of 5 rows have one; 1 last row censored" in log.notes[0], name
        assert log.action_labels == (0, 1)
        if name not in ("pandas", "csv"):  # `test_validate` asks every engine
            continue
        found = bm.validate(source, columns=COLUMNS, outcome=meaning)
        assert not found.errors, name
        assert {x.code for x in found} >= {"censored-rows"}


def test_codes_that_are_also_states_are_refused_with_a_remedy(tmp_path: Path) -> None:
    for name, source in sources(STAGES, tmp_path).items():
        with pytest.raises(CountsError) as caught:
            bm.read_transitions(source, columns=COLUMNS)
        said = str(caught.value)
        assert "Column `status`" in said, name
        assert "holds 1, which is also a state in `stage`" in said, name
        assert "outcome={'2': 'death', '0': 'censored'}" in said, name
        (told,) = bm.validate(source, columns=COLUMNS).errors
        assert (told.code, told.column, told.count) == ("outcome-codes", "status", 2)


def test_codes_as_text_are_refused_too() -> None:
    """Among names, `2` may still be a stage and a code."""
    table = {**STAGES, "stage": ["1", "2", "2", "x", "1"], "status": list("22001")}
    with pytest.raises(CountsError, match="holds 1, which is also a state"):
        bm.read_transitions(pl.DataFrame(table), columns=COLUMNS, labels=True)
    log = bm.read_transitions(pl.DataFrame(table), columns=COLUMNS, outcome=MEANING)
    assert log.state_labels == ("1", "2", "death", "transplant", "x")


def test_states_as_outcomes_are_taken_where_nothing_else_can_be_meant() -> None:
    """Names, numbers that no row has as its state, and the last state of a cut log."""
    named = {**STAGES, "stage": list("abbca"), "status": ["", "b", "", "d", "a"]}
    log = bm.read_transitions(pd.DataFrame(named), columns=COLUMNS)
    assert log.state_labels == ("a", "b", "c", "d")
    apart = {**STAGES, "status": [None, 4, None, 5, 4]}
    assert bm.read_transitions(pd.DataFrame(apart), columns=COLUMNS).n_rows == 5
    cut = {**STAGES, "status": [4, 4, 3, 3, 4], "truncated": [False] * 2 + [True] * 3}
    cut["truncated"][4] = False
    log = bm.read_transitions(pd.DataFrame(cut), columns=COLUMNS)
    assert log.counts().next_state.tolist() == [2, 4, 3, 4, 3]


def test_the_same_state_can_be_meant() -> None:
    table = pd.DataFrame({**STAGES, "status": [2, 2, 0, 0, 1]})
    log = bm.read_transitions(
        table, columns=COLUMNS, outcome={**MEANING, "1": "1", "2": 2}
    )
    assert counted(log) == [("1", 0, "1"), ("1", 0, "2"), ("2", 0, "3"), ("2", 1, "2")]


BAD: dict[str, tuple[dict[str, list[Any]], Any, type[Exception], str]] = {
    "a code without a meaning": (
        {},
        {"2": "death", "0": "censored"},
        CountsError,
        r"has a code that `outcome` does not map: row 4 has 1; map it to a state or",
    ),
    "no state": ({}, {"0": "censored"}, ArgumentError, "maps no code to a state"),
    "no mapping": ({}, "death", ArgumentError, "`outcome` must map codes to states"),
    "no label": ({}, {"2": 1.5}, ArgumentError, "`outcome` must map codes to states"),
    "text beside numbers": (
        {"status": ["", "died", "", "alive", "died"]},
        None,
        CountsError,
        "holds text, but column `stage` numbers: .*say what each code means",
    ),
}


@pytest.mark.parametrize(("changes", "meaning", "error", "said"), BAD.values(), ids=BAD)
def test_what_is_not_said_well_is_refused(
    changes: dict[str, list[Any]], meaning: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        bm.read_transitions(
            pd.DataFrame({**STAGES, **changes}), columns=COLUMNS, outcome=meaning
        )


def test_codes_need_a_column() -> None:
    table = pd.DataFrame(STAGES)
    columns = {"state": "stage", "step": "visit"}
    with pytest.raises(ArgumentError, match="no column holds them: name it with col"):
        bm.read_transitions(table, columns=columns, outcome=MEANING)
    with pytest.raises(
        ArgumentError, match="`censored`, `missing` and `time` are for reading"
    ):
        bm.validate(bm.Transitions.from_arrays([0], [0], [1]), outcome=MEANING)


def test_the_remedy_of_the_command_line_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({**STAGES, "status": [2, 2, 0, 0, 2]}).to_csv("log.csv", index=False)
    how = ["log.csv"]
    for role, name in COLUMNS.items():
        how += ["--columns", f"{role}={name}"]
    refused = CliRunner().invoke(main, ["fit", *how, "--init", "task.toml"])
    assert refused.exit_code == 2
    remedy = "--outcome 2=death --outcome 0=censored"
    assert remedy in refused.stderr
    how += remedy.split()
    assert CliRunner().invoke(main, ["fit", *how, "--init", "task.toml"]).exit_code == 0
    assert '"death"' in Path("task.toml").read_text()
    bad = CliRunner().invoke(main, ["validate", "log.csv", "--outcome", "2"])
    assert "'2' is not of the form CODE=STATE, such as 2=death" in bad.stderr
