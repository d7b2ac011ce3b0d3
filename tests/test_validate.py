"""`validate`: every finding has a log that triggers it, in every engine."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tables import ENGINES, NUMBERED
from validate_cases import CASES
from validate_episode_cases import GAP, TWICE
from validate_logs import (
    clean,
    messy,
    named,
    put,
    task,
    whole_steps,
    with_labels,
    without,
)

import bayesmdp as bm
from bayesmdp.data import Finding, _log_checks
from bayesmdp.data._findings import LOG, ROWS, SEVERITIES, checks
from bayesmdp.errors import ArgumentError, CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")


EACH = pytest.mark.parametrize("engine", ENGINES)
QUICK = pytest.mark.parametrize("engine", NUMBERED)


@EACH
@pytest.mark.parametrize("known", [None, task()], ids=["", "task"])
def test_a_clean_log_is_clean(engine: str, known: bm.Task | None) -> None:
    found = bm.validate(ENGINES[engine](clean()), known, min_count=1)
    assert found.findings == ()
    assert (found.n_rows, found.worst, found.exit_code) == (7, None, 0)
    assert "nothing found" in found.summary()


@QUICK
def test_names_are_clean_too(engine: str) -> None:
    found = bm.validate(ENGINES[engine](named()), with_labels(), min_count=1)
    assert found.findings == ()
    assert bm.validate(ENGINES[engine](named()), min_count=1).findings == ()


@QUICK
@pytest.mark.parametrize("known", [None, task()], ids=["", "task"])
def test_derived_next_states_are_clean_too(engine: str, known: bm.Task | None) -> None:
    table = without("next_state", "truncated", "terminated")
    end = [None, None, 2, None, 2, None, None]
    source = ENGINES[engine]({**table, "end": end})
    found = bm.validate(source, known, columns={"outcome": "end"}, min_count=1)
    wanted = ["censored-rows"] if known else ["censored-rows", "never-left-states"]
    assert [x.code for x in found] == wanted  # of episode 9; 2 is never left


def test_arrays_are_clean_too() -> None:
    log = bm.Transitions.from_arrays(**clean())  # type: ignore[arg-type]
    for known in (None, task()):
        assert bm.validate(log, known, min_count=1).findings == ()
    found = bm.validate(bm.Transitions.from_arrays([1], [0], [1]), min_count=2)
    assert [x.code for x in found] == ["rare-pairs"]


#: Found in distinct transitions, once an engine has counted them.
IN_GROUPS = {"constant-columns", "ends-in-live-states", "flags-differ", "ids-from-1"}
IN_GROUPS |= {"never-left-states", "padded-terminal-states", "rare-pairs"}
IN_GROUPS |= {"rewards-contradict-task", "terminal-states-left", "unused-actions"}
IN_GROUPS |= {"terminal-states-unflagged", "labels-without-names", "varying-rewards"}
TRIGGERS = [(name, "polars lazy") for name in CASES]
ONE_EACH = {case[2]: name for name, case in CASES.items() if case[2] not in IN_GROUPS}
TRIGGERS += [(name, "DuckDB") for name in ONE_EACH.values()]


# The other engines are held against these below.
@pytest.mark.parametrize(("name", "engine"), TRIGGERS)
def test_every_finding_is_triggered(name: str, engine: str) -> None:
    table, options, code, severity, count, column, row = CASES[name]
    found = bm.validate(ENGINES[engine](table), **{"min_count": 1, **options})
    wanted = [x for x in found if x.code == code and x.column in (column, None)]
    assert wanted, found.summary()
    finding = wanted[0]
    assert (finding.severity, finding.count, finding.column) == (
        severity,
        count,
        column,
    )
    assert finding.first_row == row, finding
    assert (f"row {row}" in finding.where) == (row is not None)
    for sentence in (finding.message, finding.remedy):
        assert sentence[0].isupper() or sentence[0].isdigit()
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert not sentence.endswith("..")


def test_the_first_state_is_that_of_the_first_row() -> None:
    ends = {"next_state": ["z", "a", "z"], "state": ["s"] * 3, "action": ["x"] * 3}
    (found,) = (x for x in bm.validate(pd.DataFrame(ends)) if "never" in x.code)
    assert "2 states entered and never left, the first a" in found.message
    assert found.first_row == 1
    assert found.where.endswith("next_state a")


@pytest.mark.parametrize(
    ("n_ended", "n_censored", "said"),
    [
        (5, 1, "All 5 rows that count in the last step, 1, .*; 1 other is left out"),
        (6, 2, "All 6 rows .*; 2 others are left out"),
        (4, 9, ""),  # may be chance
        (6, 0, ""),
    ],
)
def test_deaths_of_a_step_without_its_survivors(
    n_ended: int, n_censored: int, said: str
) -> None:
    table = pd.DataFrame(whole_steps(n_ended, n_censored))
    of = {"columns": {"outcome": "outcome"}, "outcome": {"2": 2, "9": "censored"}}
    found = {x.code: x for x in bm.validate(table, **of)}
    assert ("all-end-at-last" in found) == bool(said)
    gone = table["outcome"] == 9  # before the step: a label in place of a state
    marked = table.assign(state=table["state"].where(~gone, "lost").astype(str))
    found_marked = bm.validate(marked, labels=True, censored=["lost"], **of)
    assert "all-end-at-last" not in [x.code for x in found_marked]
    if said:
        assert re.match(said, found["all-end-at-last"].message)


def test_every_code_has_a_case() -> None:
    """Codes of the table, and those of faults in the source, are those of the cases."""
    folder = Path(bm.data.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    codes = set(re.findall(r'(?:Fault|_note)\(\s*"([a-z0-9-]+)"', text))
    assert len(codes) > 8
    codes |= {check.code for part in (ROWS, LOG) for check in checks(part)}
    assert codes - {case[2] for case in CASES.values()} == {"read-with-notes"}


def test_every_line_of_the_table_names_what_looks_for_it() -> None:
    for check in checks(LOG):
        assert callable(getattr(_log_checks, f"_{check.find}"))
        assert check.severity in SEVERITIES
        assert not check.said.endswith(".")
        assert not check.remedy.endswith(".")


@pytest.mark.parametrize("derive", [False, True], ids=["", "derived"])
def test_every_engine_finds_the_same(derive: bool) -> None:
    table = messy(0)
    known = None if derive else bm.Task(9, 5, np.zeros(9), discount=0.9, terminal=[3])
    if derive:
        table = without("next_state", table=table)
    wanted: list[Finding] = []
    for name, engine in ENGINES.items():
        found = bm.validate(engine(table), known)
        assert found.n_rows == 400
        if not wanted:
            wanted = list(found)
            assert len(wanted) > 9
        for one, other in zip(found, wanted, strict=True):
            keys = ("code", "severity", "column", "count", "remedy")
            for key in keys:
                assert getattr(one, key) == getattr(other, key), name
            if name != "Ibis":  # a database has no order of rows
                assert (one.first_row, one.where) == (other.first_row, other.where)


def test_figures_of_a_messy_log_are_right() -> None:
    """Counts found row by row with pandas, without the package."""
    table = pd.DataFrame(messy(1))
    found = {x.code: x for x in bm.validate(table, min_count=14)}
    bad = (table.next_state < 0) | ~np.isfinite(table.reward)
    assert found["negative-ids"].count == (table.next_state < 0).sum()
    assert found["not-finite"].count == (~np.isfinite(table.reward)).sum()
    assert found["rows-left-out"].count == bad.sum()
    table = table[~bad]
    steps = table.groupby("episode").step.agg(["min", "max", "nunique", "size"])
    gaps = steps["max"] - steps["min"] + 1 - steps["nunique"]
    assert found["step-gaps"].count == gaps.sum()
    assert (
        f"in {(gaps > 0).sum()} of {len(steps)} episodes" in found["step-gaps"].message
    )
    assert found["repeated-steps"].count == (steps["size"] - steps["nunique"]).sum()
    last = table.groupby("episode").step.transform("max")
    ends = table[table.step == last].groupby("episode")[["terminated", "truncated"]]
    terminal = set(table.next_state[table.terminated])
    home = table[(table.step == last) & table.next_state.isin(terminal)].episode
    unended = set(table.episode) - set(home)
    unended -= set(ends.any().query("terminated or truncated").index)
    assert len(terminal) == 7  # of 8
    assert found["unfinished-episodes"].count == len(unended) > 0
    ended = table[(table.terminated | table.truncated) & (table.step < last)]
    assert found["rows-after-end"].count == ended.episode.nunique()
    spread = table.groupby(["state", "action", "next_state"]).reward.agg(np.ptp)
    assert found["varying-rewards"].count == (spread > 1e-9).sum()
    assert f"largest spread is {spread.max():g}" in found["varying-rewards"].message
    pairs = table.groupby(["state", "action"]).size()
    assert found["rare-pairs"].count == (pairs < 14).sum() > 0
    states = {(e, t): set() for e, t in zip(table.episode, table.step, strict=True)}
    for row in table.itertuples():
        states[row.episode, row.step].add(row.state)
    differ = [
        row.next_state not in states[row.episode, row.step + 1]
        for row in table[~(table.terminated | table.truncated)].itertuples()
        if (row.episode, row.step + 1) in states
    ]
    assert found["next-states-differ"].count == sum(differ)


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "s,a,sp,r,done\n0,0,1,0,no\n-1,0,1,,0\n1,x,0,1,1\n1,1,0.5,inf,0\n0,1,1,1,0\n"
    )
    found = bm.validate(path)
    assert [(x.code, x.column, x.first_row) for x in found.errors] == [
        ("bad-flags", "done", 0),
        ("missing-values", "r", 1),
        ("mixed-types", "a", 2),
        ("mixed-types", "sp", 3),
        ("negative-ids", "s", 1),
        ("not-finite", "r", 3),
    ]
    assert found.errors[2].where == f"row 2 of `{path}`"
    with pytest.raises(CountsError):
        bm.read_transitions(path)


@pytest.mark.parametrize("words", ["true false", "True False", "1 0", "1.0 0.0"])
def test_flags_in_files_are_read(tmp_path: Path, words: str) -> None:
    yes, no = words.split()
    path = tmp_path / "log.csv"
    path.write_text(f"s,a,sp,done\n0,0,1,{no}\n1,0,2,{yes}\n")
    log = bm.read_transitions(path)
    flags = log.table.frame.select("terminated").collect()  # type: ignore[attr-defined]
    assert flags["terminated"].to_list() == [False, True]
    codes = {x.code for x in bm.validate(log, min_count=1)}
    assert codes == {"constant-columns", "unreachable-states"}  # 2 is known to end


def test_what_was_read_is_validated_where_it_is(tmp_path: Path) -> None:
    table = pd.DataFrame(without("next_state"))
    with pytest.warns(bm.BayesmdpWarning):
        log = bm.read_transitions(table)
    found = bm.validate(log, min_count=1)
    assert [x.code for x in found.notes if x.code == "read-with-notes"]
    said = "1 last row censored, with no next state recorded, and left out; 2 last"
    assert said.replace("out;", "out of the counts;") in found.notes[-1].message
    named_log = bm.read_transitions(pd.DataFrame(named()))
    assert bm.validate(named_log, with_labels(), min_count=1).findings == ()


def test_labels_of_a_log_are_found_in_the_task() -> None:
    """Also where the table has ids, and the task another order of the names."""
    log = bm.Transitions.from_arrays(**clean())  # type: ignore[arg-type]
    names = ("icu", "ward", "home"), ("wait", "treat")
    log = replace(log, state_labels=names[0], action_labels=names[1])
    assert bm.validate(log, with_labels(), min_count=1).findings == ()
    reward = np.zeros((3, 2, 3))
    reward[1:, :, 0] = 1
    turned = task(
        reward=reward,
        terminal=[0],
        state_labels=["home", "ward", "icu"],
        action_labels=names[1],
    )
    assert bm.validate(log, turned, min_count=1).findings == ()
    found = bm.validate(log, task(), min_count=1)
    assert {x.code for x in found} == {"labels-without-names"}
    short = replace(log, state_labels=names[0][:2])
    with pytest.raises(CountsError, match=r"has state 2, but its `state_labels` are 2"):
        bm.validate(short)


def test_sizes_of_a_log_are_known() -> None:
    table = pd.DataFrame(clean())
    for log in (
        bm.Transitions.from_arrays(**clean(), n_actions=4),  # type: ignore[arg-type]
        bm.read_transitions(table, n_actions=4),
    ):
        (found,) = bm.validate(log, min_count=1)
        assert (found.code, found.count) == ("unused-actions", 2)


def test_fewer_names_than_a_task_without_names_has_are_refused_as_by_fit() -> None:
    table = pd.DataFrame(named())
    large = bm.Task(4, 2, np.zeros(4), discount=0.9)
    (error,) = (x for x in bm.validate(table, large).errors if x.column == "state")
    assert (error.code, error.count) == ("labels-without-names", 3)
    with pytest.raises(CountsError, match="which is which is not known"):
        bm.fit(bm.read_transitions(table), large, prior=bm.SymmetricPrior())


def test_unknown_labels_have_a_hint() -> None:
    table = pd.DataFrame(named(put(next_state=(4, 3))))
    (error,) = bm.validate(table, with_labels()).errors
    assert "'hom' (did you mean 'home'?)" in error.message


def test_a_step_size_is_told_by_the_row_before_the_gap() -> None:
    (gap,) = (x for x in bm.validate(pd.DataFrame(GAP)) if x.code == "step-gaps")
    assert "episode 7, step 0, state 0" in gap.where
    assert "1 step missing" in gap.message


def test_records() -> None:
    found = bm.validate(pd.DataFrame(put(action=(2, None), reward=(4, 3.5))))
    assert found.worst == "error"
    assert found.exit_code == 2
    assert list(found) == list(found.findings)
    assert [*found.errors, *found.warnings, *found.notes] == list(found)
    record = found.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["schema_version"] == 1
    assert set(record["findings"][0]) == {
        "code",
        "severity",
        "column",
        "count",
        "first_row",
        "where",
        "message",
        "remedy",
    }
    assert record["findings"][0]["first_row"] == 2
    for x in found:
        assert x.message in found.summary()
    warned = bm.validate(pd.DataFrame(put(reward=(4, 3.5))))
    assert (warned.worst, warned.exit_code) == ("warning", 1)
    with pytest.raises(AttributeError):
        found.n_rows = 3  # type: ignore[misc]


class Elsewhere:
    """A table of another kind."""

    n_rows = 3


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bm.validate(clean()), "`source` must be a path"),
        (lambda: bm.validate(pd.DataFrame(clean()), {}), "`task` must be a Task"),
        (lambda: bm.validate(pd.DataFrame(clean()), min_count=-1), "`min_count`"),
        (lambda: bm.validate(pd.DataFrame(clean()), labels="no"), "`labels`"),
        (lambda: bm.validate(pd.DataFrame(clean()), n_states=0), "`n_states`"),
        (
            lambda: bm.validate(pd.DataFrame(clean()), task(), n_states=3),
            "without a task",
        ),
        (
            lambda: bm.validate(
                bm.Transitions.from_arrays([0], [0], [0]), columns={"state": "x"}
            ),
            "has been read already",
        ),
        (
            lambda: bm.validate(bm.Transitions(Elsewhere())),  # type: ignore[arg-type]
            "cannot be looked at",
        ),
        (lambda: bm.validate("nowhere.csv"), "there is no file"),
    ],
)
def test_bad_calls(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert said in str(caught.value)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    for content, said in (
        ("state,action,next_state\n", "holds no rows"),
        ("state,action\n0,0\n", "no column for `next_state`"),
        ("state,action,next_state\n0,0\n", "has 2 fields"),
    ):
        path = tmp_path / "log.csv"
        path.write_text(content)
        with pytest.raises(CountsError, match=said):
            bm.validate(path)


def test_rows_that_stay_in_a_terminal_state_do_not_leave_it() -> None:
    table = put(state=(5, 2), next_state=(5, 2))
    found = bm.validate(pl.DataFrame(table), task(), min_count=1)
    assert "terminal-states-left" not in {x.code for x in found}


def test_averages_have_no_terminal_states_to_be_named() -> None:
    """Nor are episodes to end, which `fit` does not propose either."""
    logs = put(terminated=(6, True)), without("terminated", "truncated")
    average = bm.Task(3, 2, [0, 0, 1], criterion="average")
    for table in logs:
        found = {x.code: x for x in bm.validate(pl.DataFrame(table), average)}
        assert "unfinished-episodes" not in found
        stuck = found["never-left-states"]
        assert "terminal" not in stuck.message + stuck.remedy
        assert "give a `discount` in place of criterion='average'" in stuck.remedy
        assert ("ends-in-live-states" in found) == ("terminated" in table)
    log = bm.read_transitions(pl.DataFrame(logs[1]))
    said = bm.fit(log, average, prior=bm.SymmetricPrior()).summary()
    assert "never left (most often 2, 2 times): give a `discount` if" in said


def test_last_rows_that_need_no_next_state_are_not_told() -> None:
    table = {
        "id": [1, 1, 2, 2, 3, 3],
        "t": [0, 1, 0, 1, 0, 1],
        "state": [0, 2, 0, 1, 1, 0],
        "action": [0, 0, 1, 1, 0, 1],
        "end": [None, None, None, 2, None, None],
    }
    columns = {"outcome": "end"}
    for known in (None, task()):
        found = bm.validate(pl.DataFrame(table), known, columns=columns)
        assert "missing-next-states" not in {x.code for x in found}
        (last,) = (x for x in found if x.code == "censored-rows")
        assert (last.severity, last.count) == ("note", 1)  # 2 is over, 1 led to 2


def test_episodes_with_repeated_steps_are_left_out_of_what_is_derived() -> None:
    found = bm.validate(pl.DataFrame(without("next_state", table=TWICE)))
    (left,) = (x for x in found if x.code == "rows-left-out")
    assert left.count == 3  # those of episode 8
    (gone,) = (x for x in found if x.code == "missing-next-states")
    assert gone.count == 1  # of episode 7; 9 is truncated


def test_a_state_in_which_the_log_begins_is_reachable() -> None:
    table = without("terminated", "truncated", table=put(next_state=(1, 1)))
    for role, changes in (
        ("next_state", [1, 1, 2, 1, 2, 1, 1]),
        ("state", [0, 1, 1, 1, 1, 0, 1]),
    ):
        table[role] = changes
    found = bm.validate(pl.DataFrame(table), task(start=1))
    assert "unreachable-states" not in {x.code for x in found}
    blind = bm.validate(pl.DataFrame(without("step", table=table)), task(start=1))
    assert "unreachable-states" in {x.code for x in blind.warnings}
