"""Censored ends: said by a flag, a missing outcome or a label, and never counted."""

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

#: Two patients die, one is followed to a last visit, one to an unknown end.
VISITS: dict[str, list[Any]] = {
    "patient": [1, 1, 1, 2, 2, 3, 3, 3, 4],
    "step": [0, 1, 2, 0, 1, 0, 1, 2, 0],
    "state": ["ill", "well", "ill", "well", "ill", "well", "ill", "well", "ill"],
    "action": ["drug", "drug", "none", "none", "none", "drug", "drug", "drug", "none"],
}
DIED = [None, None, "death", None, "death", None, None, None, None]
#: What is left once the censored rows, 7 and 8, are out; by hand.
WANTED = {
    ("ill", "drug", "well"): 2,
    ("well", "drug", "ill"): 2,
    ("ill", "none", "death"): 2,
    ("well", "none", "ill"): 1,
}


def marked(label: str) -> list[Any]:
    return [*DIED[:7], label, label]


def followed(*ends: str | None) -> list[Any]:
    """Return next states, with something where follow-up ended."""
    state = VISITS["state"]
    return [*state[1:3], "death", state[4], "death", *state[6:8], *ends]


def flags() -> list[bool]:
    return [False] * 7 + [True] * 2


#: What a table adds to the visits, and how it is read.
WAYS: dict[str, tuple[dict[str, list[Any]], dict[str, Any]]] = {
    "a missing outcome": ({"end": DIED}, {"columns": {"outcome": "end"}}),
    "NA": ({"end": marked("NA")}, {"columns": {"outcome": "end"}}),
    "censored": ({"end": marked("censored")}, {"columns": {"outcome": "end"}}),
    "a label": (
        {"end": marked("alive")},
        {"columns": {"outcome": "end"}, "censored": "alive"},
    ),
    "a flag beside outcomes": (
        {"end": DIED, "truncated": flags()},
        {"columns": {"outcome": "end"}},
    ),
    "a flag beside next states": (
        {"next_state": followed(None, None), "truncated": flags()},
        {},
    ),
    "next states that say so": (
        {"next_state": followed("lost", "censored")},
        {"censored": ["lost"]},
    ),
}


def counted(log: bm.Transitions) -> dict[tuple[Any, Any, Any], int]:
    counts, states, actions = log.counts(), log.state_labels, log.action_labels
    assert states is not None
    assert actions is not None
    return {
        (states[s], actions[a], states[t]): int(n)
        for s, a, t, n in zip(
            counts.state, counts.action, counts.next_state, counts.count, strict=True
        )
    }


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize(("extra", "how"), WAYS.values(), ids=WAYS)
def test_censored_rows_are_left_out_counted_and_said(
    extra: dict[str, list[Any]], how: dict[str, Any], engine: Any
) -> None:
    source = engine({**VISITS, **extra})
    log = bm.read_transitions(source, **how)  # nothing to warn of
    assert counted(log) == WANTED
    assert log.state_labels == ("death", "ill", "well")
    (note,) = (x for x in log.notes if "censored, with no next state recorded" in x)
    assert ("2 last rows" in note) != ("2 of 9 rows" in note)
    found = bm.validate(source, min_count=0, **how)
    (told,) = (x for x in found if x.code == "censored-rows")
    assert (told.severity, told.count) == ("note", 2)
    wrong = {x.code for x in (*found.errors, *found.warnings)}
    assert not wrong  # death is never left, and "none" is an action
    again = {x.code for x in bm.validate(log, min_count=0)}  # as `fit` does
    assert "unfinished-episodes" not in again


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_censored_label_in_place_of_a_state_is_no_state(engine: Any) -> None:
    """As msm codes it: alive at that time, in a state that is not known."""
    table = {
        "id": [1, 1, 1, 2, 2],
        "t": [0, 1, 2, 0, 1],
        "state": [1, 2, 99, 1, 3],
        "action": [0, 0, 0, 0, 0],
    }
    log = bm.read_transitions(engine(table), censored=[99])
    counts = log.counts()
    assert counts.state.tolist() == [1, 1]
    assert counts.next_state.tolist() == [2, 3]
    (note,) = log.notes
    assert "2 of 5 rows have one; 1 last row censored" in note
    assert "1 last row in a state that is never left" in note


def test_a_label_among_numbers_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("id,t,s,a,end\n1,0,0,0,\n1,1,1,0,2\n2,0,1,0,alive\n2,1,0,0,lost\n")
    how: dict[str, Any] = {"columns": {"outcome": "end"}, "censored": ["alive", "lost"]}
    log = bm.read_transitions(path, **how)
    assert log.counts().next_state.tolist() == [1, 0, 2]
    assert "1 last row censored" in log.notes[0]
    with pytest.raises(CountsError, match=r"row 2 of .* has 'alive'"):
        bm.read_transitions(path, columns={"outcome": "end"})


def test_a_truncated_row_with_a_next_state_counts() -> None:
    """As Gymnasium and Minari log it, and with an outcome beside the flag."""
    table = {**VISITS, "next_state": followed("ill", "well"), "truncated": flags()}
    log = bm.read_transitions(pd.DataFrame(table))
    assert log.n_rows == 9
    assert not log.notes
    table = {**VISITS, "end": [*DIED[:7], "ill", "well"], "truncated": flags()}
    same = bm.read_transitions(pd.DataFrame(table), columns={"outcome": "end"})
    assert counted(same) == counted(log)


def test_last_rows_of_which_nothing_is_said_are_warned_of() -> None:
    with pytest.warns(bm.BayesmdpWarning, match="without a next state") as warned:
        bm.read_transitions(pd.DataFrame(VISITS))
    said = str(warned[0].message)
    assert "4 last rows without a next state, left out of the counts as if cens" in said
    ended = [i in (2, 4) for i in range(9)]
    table = {**VISITS, "terminated": ended, "truncated": flags()}
    with pytest.warns(
        bm.BayesmdpWarning, match=r"2 last rows censored.*; 2 last rows w"
    ):
        bm.read_transitions(pd.DataFrame(table))


def test_missing_next_states_without_a_flag_are_refused_with_a_remedy() -> None:
    table = {**VISITS, "next_state": followed(None, None)}
    with pytest.raises(
        CountsError, match=r"no value in 2 rows.* flag rows .*truncated"
    ):
        bm.read_transitions(pd.DataFrame(table))
    table["truncated"] = flags()
    assert bm.read_transitions(pd.DataFrame(table)).n_rows == 7
    with pytest.raises(CountsError, match=r"3 of 3 rows .* no transition is left"):
        bm.read_transitions(
            pd.DataFrame({**table, "next_state": [None] * 9, "truncated": True})[:3]
        )


@pytest.mark.parametrize("censored", [1.5, [True], [None], {"a": 1}, b"x"])
def test_labels_of_censoring_are_text_or_numbers(censored: Any) -> None:
    with pytest.raises(ArgumentError, match="`censored` must hold labels"):
        bm.read_transitions(pd.DataFrame(VISITS), censored=censored)
    log = bm.Transitions.from_arrays([0], [0], [1])
    with pytest.raises(
        ArgumentError, match="`censored`, `missing` and `time` are for reading"
    ):
        bm.validate(log, censored=["lost"])


def test_the_command_line_leaves_them_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({**VISITS, "end": marked("alive")}).to_csv("log.csv", index=False)
    how = ["log.csv", "--columns", "outcome=end", "--censored", "alive"]
    found = CliRunner().invoke(main, ["validate", *how])
    assert "2 last rows of an episode censored" in found.output
    assert CliRunner().invoke(main, ["fit", *how, "--init", "task.toml"]).exit_code == 0
    assert 'terminal = ["death"]' in Path("task.toml").read_text()
    run = ["--prior", "symmetric", "--task", "task.toml", "-o", "run", "-q"]
    CliRunner().invoke(main, ["fit", *how, *run])
    saved = bm.storage.load("run")
    assert saved.posterior.counts.total == 7
    assert saved.config["source"]["censored"] == ["alive"]
    assert "2 last rows censored" in CliRunner().invoke(main, ["info", "run"]).output


def test_last_rows_in_a_state_that_is_never_left_are_no_finding() -> None:
    """As msm has it: death is the state of the last row."""
    table = {
        "id": [1, 1, 2, 2, 3, 3],
        "t": [0, 1, 0, 1, 0, 1],
        "state": ["well", "ill", "ill", "death", "well", "death"],
        "action": ["none", "drug", "drug", "none", "none", "none"],
        "truncated": [False, True, False, False, False, False],
    }
    found = bm.validate(pd.DataFrame(table), min_count=0)
    assert {x.code for x in found} == {"censored-rows", "never-left-states"}
    log = bm.read_transitions(pd.DataFrame(table))
    assert log.notes[0].endswith("; 2 last rows in a state that is never left.")
    del table["truncated"]
    found = bm.validate(pd.DataFrame(table), min_count=0)
    (last,) = found.warnings
    assert (last.code, last.count, last.first_row) == ("missing-next-states", 1, 1)


@pytest.mark.parametrize("name", ["n/a", "Unknown", "alive", "lost to follow-up"])
def test_ends_of_which_nothing_is_known_are_not_proposed_as_terminal(
    name: str, tmp_path: Path
) -> None:
    log = bm.read_transitions(
        pd.DataFrame({**VISITS, "end": marked(name)}), columns={"outcome": "end"}
    )
    text = bm.storage.write_template(log, tmp_path / "task.toml").read_text("utf-8")
    assert 'terminal = ["death"]' in text
    assert f'# Not "{name}": if that says that only the follow-up ended' in text
    assert "--censored" in text


def test_rows_of_a_log_that_was_read_are_not_numbered_as_those_of_its_source() -> None:
    """The source's own are: here the third row of the file is the first offender."""
    table = pd.DataFrame({**VISITS, "end": DIED, "reward": [0, 0, 1, 0, 2, 0, 0, 0, 0]})
    (there,) = (
        x
        for x in bm.validate(table, columns={"outcome": "end"})
        if x.code == "varying-rewards"
    )
    assert (there.first_row, there.where.split(",")[0]) == (2, "row 2")
    log = bm.read_transitions(table, columns={"outcome": "end"})
    (here,) = (x for x in bm.validate(log) if x.code == "varying-rewards")
    assert here.first_row is None
    assert here.where == there.where.removeprefix("row 2, ")


#: Sentences of the package about last rows, none of which may propose this.
BAD_ADVICE = ("make them terminal", "make it terminal", "drop the patient")


def test_nobody_is_told_to_make_censoring_an_end() -> None:
    folder = Path(bm.__file__).parent
    for path in folder.rglob("*.py"):
        text = " ".join(path.read_text().replace('"', "").split())
        assert not [x for x in BAD_ADVICE if x in text], path


def test_steps_that_were_survived_count_where_their_end_is_given() -> None:
    years = pd.DataFrame(
        {
            "patient": [1, 1, 2, 2],
            "year": [0, 1, 0, 1],
            "state": ["ill"] * 4,
            "action": ["none"] * 4,
            "outcome": ["", "dead", "", "alive"],
            "until": [2] * 4,
        }
    )
    columns = {"outcome": "outcome"}
    log = bm.read_transitions(years, columns=columns, censored="alive")
    assert log.counts().to_dense().sum() == 3  # one of them a death
    (told,) = (
        x
        for x in bm.validate(years, columns=columns, censored="alive")
        if x.code == "censored-rows"
    )
    assert "if they survived it, record its next state or an `end_time`" in told.remedy
    columns["end_time"] = "until"
    log = bm.read_transitions(
        years, columns=columns, censored="alive", time="year", every=1
    )
    assert log.counts().to_dense().sum() == 4


def test_dates_and_decimal_commas_are_told_what_to_be(tmp_path: Path) -> None:
    visits = pd.DataFrame(
        {
            "patient": [1, 1],
            "date": ["08.09.2016", "07.09.2017"],
            "state": [0, 1],
            "action": [0, 0],
            "reward": ["1335,33", "166,64"],
        }
    )
    visits.to_csv(tmp_path / "visits.csv", index=False)
    found = bm.validate(tmp_path / "visits.csv", time="date", every=365.25)
    remedies = {x.column: x.remedy for x in found if x.code == "mixed-types"}
    assert remedies == {
        "date": "Give it as a number, such as days since the first visit.",
        "reward": "Write numbers with a decimal point.",
    }
    visits["date"] = pd.to_datetime(visits["date"], format="%d.%m.%Y")
    with pytest.raises(CountsError, match="such as days since the first visit"):
        bm.read_transitions(visits.drop(columns="reward"), time="date", every=365.25)
    steps = {"step": "date"}
    with pytest.raises(CountsError, match="number the steps of each episode"):
        bm.read_transitions(visits.drop(columns="reward"), columns=steps)
