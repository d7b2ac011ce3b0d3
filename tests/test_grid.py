"""Visits at irregular times on a regular grid, against a loop over grid points."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from tables import ENGINES
from visits import random_visits, steps_by_hand

import bayesmdp as bm
from bayesmdp.cli import main
from bayesmdp.errors import ArgumentError, BayesmdpError, BayesmdpWarning

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

READ: dict[str, Any] = {
    "columns": {"outcome": "status", "end_time": "end"},
    "outcome": {1: "death", 2: "transplant", 0: "censored"},
    "time": "day",
}
#: One patient: a visit between points, a gap of three points, death on day 61.
ONE = {
    "patient": [7, 7, 7],
    "day": [3, 10, 14],
    "state": ["well", "ill", "well"],
    "action": ["drug", "none", "drug"],
    "end": [61, 61, 61],
    "status": [1, 1, 1],
}


def counted(log: bm.Transitions) -> Counter[tuple[Any, Any, Any]]:
    counts, states, actions = log.counts(), log.state_labels, log.action_labels
    assert states is not None
    assert actions is not None
    ids = zip(counts.state, counts.action, counts.next_state, strict=True)
    return Counter(
        {
            (states[s], actions[a], states[t]): int(n)
            for (s, a, t), n in zip(ids, counts.count, strict=True)
        }
    )


@pytest.mark.parametrize("source", [*ENGINES, "visits.csv", "visits.parquet"])
def test_every_source_gives_the_steps_of_a_loop(source: str, tmp_path: Path) -> None:
    visits = random_visits(1)
    table: Any = tmp_path / source
    if source in ENGINES:
        table = ENGINES[source](visits)
    elif source.endswith("csv"):
        pd.DataFrame(visits).to_csv(table, index=False)
    else:
        pd.DataFrame(visits).to_parquet(table)
    log = bm.read_transitions(table, **READ, every=10)
    assert counted(log) == steps_by_hand(visits, 10)


@pytest.mark.parametrize("limit", [None, 0, 1, 3])
@pytest.mark.parametrize("every", [1, 7.5, 10, 100])
def test_lengths_and_limits_give_the_steps_of_a_loop(
    every: float, limit: int | None
) -> None:
    visits = random_visits(2)
    wanted = steps_by_hand(visits, every, limit)
    frame = pd.DataFrame(visits)
    assert wanted
    log = bm.read_transitions(frame, **READ, every=every, limit=limit)
    assert counted(log) == wanted
    assert log.n_rows == wanted.total()


def test_notes_say_how_much_was_carried() -> None:
    """Points 3, 13, 23, 33, 43, 53: the visit of day 10 is never used, death at 63."""
    log = bm.read_transitions(pd.DataFrame(ONE), **READ, every=10)
    assert counted(log) == Counter(
        {("well", "drug", "ill"): 1, ("ill", "none", "well"): 1}
        | {("well", "drug", "well"): 3, ("well", "drug", "death"): 1}
    )
    said = " ".join(log.notes)
    assert "a step every 10 of `day`: 6 grid points, of which 50.0 % carry" in said
    assert "not used" not in said
    log = bm.read_transitions(pd.DataFrame(ONE), **READ, every=20)
    said = " ".join(log.notes)
    assert "3 grid points, of which 33.3 % carry" in said
    assert "1 visit of 3 not used" in said
    log = bm.read_transitions(pd.DataFrame(ONE), **READ, every=10, limit=1)
    assert "2 grid points left out, more than 1 steps after a visit" in " ".join(
        log.notes
    )
    assert "death" not in (log.state_labels or ())  # it follows no step that is kept


def test_a_log_of_visits_to_death_needs_no_outcome_column() -> None:
    """As R's cav: death is a visit, at its time, and nobody is treated."""
    frame = pd.DataFrame(
        {
            "id": [1, 1, 1, 2, 2],
            "years": [0, 1.2, 3.4, 0, 2.9],
            "state": ["well", "ill", "dead", "well", "well"],
        }
    )
    log = bm.read_transitions(frame, time="years", every=1)
    assert counted(log) == Counter(
        {("well", "none", "well"): 4, ("well", "none", "ill"): 1}
        | {("ill", "none", "ill"): 1, ("ill", "none", "dead"): 1}
    )


@pytest.mark.parametrize("every", [0.5, 1.0, 2.0, 4.0])
def test_a_step_has_the_risk_of_its_length(every: float) -> None:
    """3,000 patients with a constant risk, seen yearly until a random end.

    The share of steps that end is within four binomial errors of the truth, where
    incomplete steps that were survived are neither all left out nor all counted.
    """
    rng = np.random.default_rng(7)
    death, end = rng.exponential(1 / 0.15, 3000), rng.uniform(1, 12, 3000)
    last = np.minimum(death, end)
    rows = [
        (i, year, "alive", last[i], "dead" if death[i] <= end[i] else "")
        for i in range(3000)
        for year in range(int(last[i]) + 1)
    ]
    names = ["patient", "year", "state", "end", "status"]
    frame = pd.DataFrame(rows, columns=names)
    log = bm.read_transitions(
        frame,
        columns={"outcome": "status", "end_time": "end"},
        time="year",
        every=every,
    )
    steps = counted(log)
    n = steps.total()
    truth = 1 - np.exp(-0.15 * every)
    risk = steps["alive", "none", "dead"] / n
    assert abs(risk - truth) < 4 * np.sqrt(truth * (1 - truth) / n)


def test_without_a_length_the_spacing_is_warned_of() -> None:
    frame = pd.DataFrame(ONE).drop(columns=["end"])
    how = {**READ, "columns": {"outcome": "status"}}
    with pytest.warns(BayesmdpWarning, match=r"4 to 7 apart \(quartiles 4.75, 5.5"):
        log = bm.read_transitions(frame, **how)
    assert counted(log) == Counter(
        {("well", "drug", "ill"): 1, ("ill", "none", "well"): 1}
        | {("well", "drug", "death"): 1}
    )
    found = bm.validate(frame, **how)
    assert "irregular-times" in [x.code for x in found.warnings]


def test_validate_looks_at_the_grid(tmp_path: Path) -> None:
    visits = random_visits(3)
    found = bm.validate(pd.DataFrame(visits), **READ, every=10, limit=2)
    assert not found.errors
    codes = [x.code for x in found]
    assert "carried-forward" in codes
    assert "step-gaps" not in codes  # they were asked for
    twice = {x: [*y, y[0]] for x, y in visits.items()}
    found = bm.validate(pd.DataFrame(twice), **READ, every=10)
    assert [x.code for x in found.errors] == ["visit-times"]


def test_the_command_line_does_the_same(tmp_path: Path) -> None:
    visits = random_visits(4)
    path = tmp_path / "visits.csv"
    pd.DataFrame(visits).to_csv(path, index=False)
    options = ["--time", "day", "--every", "10", "--limit", "3"]
    options += ["--columns", "outcome=status", "--columns", "end_time=end"]
    options += ["--outcome", "1=death", "--outcome", "2=transplant"]
    options += ["--outcome", "0=censored"]
    made = CliRunner().invoke(
        main, ["fit", str(path), "--init", str(tmp_path / "made.toml"), *options]
    )
    assert made.exit_code == 0, made.output
    made = CliRunner().invoke(main, ["validate", str(path), *options, "--json"])
    assert made.exit_code in (0, 1), made.output
    assert "carried-forward" in made.output


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a length without times": ({}, {"time": None}, "say which column holds times"),
    "a length of nothing": ({}, {"every": 0}, r"`every` must be in \(0, inf\)"),
    "a length that is text": ({}, {"every": "year"}, "`every` must be a number"),
    "another way to carry": ({}, {"carry": "next"}, "`carry` must be 'last'"),
    "a limit below 0": ({}, {"limit": -1}, "`limit` must be at least 0"),
    "a limit without a length": (
        {},
        {"limit": 1, "every": None},
        "give the length of a step",
    ),
    "a column that is not there": ({}, {"time": "date"}, "which .* does not have"),
    "times twice": (
        {"day": [3, 10, 10]},
        {},
        "`patient` 7 has `day` 10 more than once; keep the end",
    ),
    "an end before a visit": (
        {"end": [61, 61, 12]},
        {},
        "`patient` 7 ends at `end` 12, but has a visit at 14; fix or drop it",
    ),
    "a missing time": ({"day": [3, None, 14]}, {}, "Column `day` .* has no value"),
    "times that are dates": (
        {"day": ["2001-01-03", "2001-01-10", "2001-01-14"]},
        {},
        "Column `day` .* must hold numbers",
    ),
    "next states as well": (
        {"next_state": ["ill", "well", "death"]},
        {"columns": None, "outcome": None},
        "leave out `time`",
    ),
    "outcomes without their time": (
        {},
        {"columns": {"outcome": "status"}},
        r"`every` needs the time of the outcome.*columns=\{'end_time': \.\.\.\}",
    ),
    "an end without times": (
        {"step": [0, 1, 2]},
        {"columns": {"end_time": "end"}, "outcome": None, "time": None, "every": None},
        "which is for visits at times: give `time` as well",
    ),
    "a length in another unit": ({}, {"every": 1e-8}, "is it in the unit of `day`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_grid_is_refused_in_a_sentence(case: str) -> None:
    cells, how, said = REFUSED[case]
    frame = pd.DataFrame({**ONE, **cells})
    with pytest.raises(BayesmdpError, match=said):
        bm.read_transitions(frame, **{**READ, "every": 10, **how})


def test_a_log_that_was_read_is_not_put_on_a_grid() -> None:
    log = bm.read_transitions(pd.DataFrame(ONE), **READ, every=10)
    with pytest.raises(ArgumentError, match="has been read already"):
        bm.validate(log, time="day")


def test_follow_up_without_an_outcome_has_an_end_too() -> None:
    """As with a column of outcomes that is empty; only the last visit would be earlier.

    One row, from day 0 to day 52, is five survived steps of ten days.
    """
    visits = {**random_visits(5), "none": None}
    visits["none"] = [""] * len(visits["day"])
    how = {"time": "day", "every": 10}
    ends = {"end_time": "end"}
    found = bm.read_transitions(pd.DataFrame(visits), columns=ends, **how)
    empty = {"outcome": "none", **ends}
    wanted = bm.read_transitions(pd.DataFrame(visits), columns=empty, **how)
    assert counted(found) == counted(wanted)
    assert found.n_rows > bm.read_transitions(pd.DataFrame(visits), **how).n_rows
    one = {"id": [1], "day": [0], "state": ["well"], "action": ["drug"], "end": [52]}
    log = bm.read_transitions(pd.DataFrame(one), columns=ends, **how)
    assert counted(log) == {("well", "drug", "well"): 5}
