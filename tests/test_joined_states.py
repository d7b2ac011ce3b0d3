"""States joined from columns, missing-value codes of one's own, arms of a trial."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from tables import ENGINES

import bayesmdp as bm
from bayesmdp.cli import main
from bayesmdp.errors import ArgumentError, CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

TRIAL: dict[str, list[Any]] = {
    "id": [1, 1, 1, 2, 2, 3, 3],
    "step": [0, 1, 2, 0, 1, 0, 1],
    "stage": [1, 2, 2, 1, 1, 2, 1],
    "sex": ["f", "f", "f", "m", "m", "f", "f"],
    "arm": ["drug", "drug", "drug", "placebo", "placebo", "drug", "drug"],
    "end": [None, None, "death", None, "death", None, None],
}
COLUMNS: dict[str, Any] = {
    "state": ["stage", "sex"],
    "action": "arm",
    "outcome": "end",
}


def sources(table: dict[str, list[Any]], folder: Path) -> dict[str, Any]:
    """The same table in every engine and kind of file."""
    frame = pd.DataFrame(table)
    frame.to_csv(folder / "log.csv", index=False)
    frame.to_parquet(folder / "log.parquet")
    files = {x: folder / x for x in ("log.csv", "log.parquet")}
    return {name: engine(table) for name, engine in ENGINES.items()} | files


def moves(log: bm.Transitions) -> list[tuple[Any, ...]]:
    counts, states, actions = log.counts(), log.state_labels, log.action_labels
    assert states is not None
    assert actions is not None
    ids = zip(counts.state, counts.action, counts.next_state, counts.count, strict=True)
    return sorted((states[s], actions[a], states[t], int(n)) for s, a, t, n in ids)


def test_columns_are_joined_in_every_source(tmp_path: Path) -> None:
    for name, source in sources(TRIAL, tmp_path).items():
        log = bm.read_transitions(source, columns=COLUMNS)
        assert moves(log) == [
            ("1/f", "drug", "2/f", 1),
            ("1/m", "placebo", "1/m", 1),
            ("1/m", "placebo", "death", 1),
            ("2/f", "drug", "1/f", 1),
            ("2/f", "drug", "2/f", 1),
            ("2/f", "drug", "death", 1),
        ], name


def test_numbers_of_tables_with_gaps_are_joined_as_whole() -> None:
    floats = pd.DataFrame({**TRIAL, "stage": [float(x) for x in TRIAL["stage"]]})
    log = bm.read_transitions(floats, columns=COLUMNS)
    assert log.state_labels == ("1/f", "1/m", "2/f", "death")


def test_the_command_line_joins_columns_named_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    pd.DataFrame(TRIAL).to_csv(path, index=False)
    options = ["--columns", "state=stage", "--columns", "state=sex"]
    options += ["--columns", "action=arm", "--columns", "outcome=end"]
    task = str(tmp_path / "task.toml")
    done = CliRunner().invoke(main, ["fit", str(path), "--init", task, *options])
    assert done.exit_code == 0, done.output
    assert "2/f" in Path(task).read_text()
    done = CliRunner().invoke(
        main, ["validate", str(path), *options, "--columns", "action=id"]
    )
    assert done.exit_code == 2
    assert "'action' is given twice" in done.output


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a part that is not there": ({}, {"state": ["stage", "sexx"]}, "'state' is 'sexx'"),
    "one part": ({}, {"state": ["stage"]}, "only 'state' may have several, two or m"),
    "parts of an action": ({}, {"action": ["arm", "sex"]}, "only 'state' may have sev"),
    "the same twice": ({}, {"state": ["stage", "stage"]}, "gives 'stage' two roles"),
    "a part missing": (
        {"sex": ["f", "f", None, "m", "m", "f", "f"]},
        {},
        "Column `stage/sex` .* has no value in 1 row",
    ),
    "a part with a code": (
        {"sex": ["f", "NA", "f", "m", "m", "f", "f"]},
        {},
        "Column `stage/sex` .* has no value in 1 row",
    ),
    "a part with the sign": (
        {"sex": ["f", "f/x", "f", "m", "m", "f", "f"]},
        {},
        "Column `sex` .* has the sign / in 1 of its rows",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_joined_is_refused(case: str) -> None:
    cells, columns, said = REFUSED[case]
    with pytest.raises((ArgumentError, CountsError), match=said):
        bm.read_transitions(
            pd.DataFrame({**TRIAL, **cells}), columns={**COLUMNS, **columns}
        )


CODED: dict[str, list[Any]] = {
    "id": [1, 1, 2, 2],
    "step": [0, 1, 0, 1],
    "state": ["NA", "ZA", "ZA", "NA"],  # Namibia and South Africa
    "action": ["stay", "go", "go", "stay"],
    "end": ["ZA", "-9", "-9", "-9"],
}


def test_missing_value_codes_can_be_named(tmp_path: Path) -> None:
    how: dict[str, Any] = {"columns": {"outcome": "end"}}
    for name, source in sources(CODED, tmp_path).items():
        with pytest.raises(CountsError, match=r"2 missing-value codes|whole numbers"):
            bm.read_transitions(source, **how)
        log = bm.read_transitions(source, **how, missing="-9")
        assert moves(log) == [("NA", "stay", "ZA", 1), ("ZA", "go", "NA", 1)], name
        assert "3 missing-value codes (-9), taken as no value" in " ".join(log.notes)


def test_numbers_can_be_missing_value_codes(tmp_path: Path) -> None:
    table = {
        "state": [0, 1, 0],
        "action": [0, 1, 1],
        "next_state": [1, 99, 1],
        "truncated": [False, True, False],
    }
    for name, source in sources(table, tmp_path).items():
        log = bm.read_transitions(source, missing=[99])
        assert (log.n_rows, log.counts().next_state.tolist()) == (2, [1, 1]), name
        assert bm.read_transitions(source).counts().next_state.max() == 99
    table["state"] = [0, 99, 0]
    said = r"Column `state` .* no value in 1 row.* 1 missing-value code \(99\)"
    for source in sources(table, tmp_path).values():
        with pytest.raises(CountsError, match=said):
            bm.read_transitions(source, missing=99)


def test_no_code_need_stand_for_a_missing_value(tmp_path: Path) -> None:
    table = {"state": ["NA", "."], "action": ["a", "a"], "next_state": [".", "NaN"]}
    for name, source in sources(table, tmp_path).items():
        log = bm.read_transitions(source, missing=())
        assert log.state_labels == (".", "NA", "NaN"), name
    path = tmp_path / "log.csv"
    done = CliRunner().invoke(main, ["validate", str(path), "--missing", ""])
    assert done.exit_code != 2, done.output
    assert CliRunner().invoke(main, ["validate", str(path)]).exit_code == 2
    with pytest.raises(ArgumentError, match="`missing` must hold codes"):
        bm.read_transitions(path, missing={"NA": 1})  # type: ignore[arg-type]


def test_arms_are_recognised(tmp_path: Path) -> None:
    for source in sources(TRIAL, tmp_path).values():
        found = bm.validate(source, columns=COLUMNS)
        (arms,) = [x for x in found if x.code == "fixed-arms"]
        assert (arms.count, arms.column) == (3, "arm")
    log = bm.read_transitions(pd.DataFrame(TRIAL), columns=COLUMNS)
    assert "fixed-arms" in [x.code for x in bm.validate(log)]
    changed = {**TRIAL, "arm": ["drug", "placebo", *TRIAL["arm"][2:]]}
    found = bm.validate(pd.DataFrame(changed), columns=COLUMNS)
    assert "fixed-arms" not in [x.code for x in found]
