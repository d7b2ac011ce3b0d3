"""Malformed and ambiguous logs of follow-up, and what is said of each, in every source.

A case is cells that are changed, options that are changed, and a part of the sentence;
in those called ``notes`` the log is read, and the sentence is a note.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import bayesmdp as bm
from bayesmdp.errors import BayesmdpError

N = None
#: Two patients die, one is censored; steps are numbered.
STEPS: dict[str, list[Any]] = {
    "id": [1, 1, 1, 2, 2, 3, 3],
    "step": [0, 1, 2, 0, 1, 0, 1],
    "state": ["well", "ill", "ill", "ill", "well", "well", "ill"],
    "action": ["drug", "drug", "drug", "none", "none", "drug", "drug"],
    "end": [N, N, "death", N, "death", N, N],
}
#: The same with days, a status in every row, and the day of it.
VISITS = {
    **{x: STEPS[x] for x in ("id", "state", "action")},
    "day": [0, 200, 400, 0, 390, 0, 360],
    "status": [2, 2, 2, 2, 2, 0, 0],
    "futime": [800, 800, 800, 500, 500, 700, 700],
}
OUTCOME: dict[str, Any] = {"columns": {"outcome": "end"}}
DEATH: dict[str, Any] = {
    "columns": {"outcome": "status", "end_time": "futime"},
    "outcome": {2: "death", 0: "censored"},
    "time": "day",
    "every": 365.25,
}
Case = tuple[dict[str, list[Any] | None], dict[str, Any], str]


def put(column: str, row: int, value: Any, of: dict[str, Any] = STEPS) -> Any:
    """Return a column with another cell."""
    return {column: [value if i == row else x for i, x in enumerate(of[column])]}


STEP_CASES: dict[str, Case] = {
    "no state": (put("state", 2, N), {}, "`state` .* has no value in 1 row"),
    "R's NA as a state": (put("state", 2, "NA"), {}, "1 missing-value code"),
    "a dot as a state": (put("state", 2, "."), {}, "1 missing-value code"),
    "NULL as an action": (put("action", 2, "NULL"), {}, "`action` .* no value in 1"),
    "no action": (put("action", 0, N), {}, "`action` .* has no value in 1 row"),
    "no patient": (put("id", 0, N), {}, "`id` .* has no value in 1 row"),
    "no step": (put("step", 0, N), {}, "`step` .* has no value in 1 row"),
    "a step twice": (put("step", 1, 0), {}, "`id` 1 has `step` 0 2 times; number"),
    "a fraction of a step": (
        {"step": [0.0, 0.5, 2, 0, 1, 0, 1]},
        {},
        "`step` .* whole numbers",
    ),
    "an outcome not mapped": (
        {"end": [N, N, "2", N, "1", N, "0"]},
        {"outcome": {"2": "death", "0": "censored"}},
        "a code that `outcome` does not map: .* has ('1'|1)[;. ]",
    ),
    "no code of a state": (
        {},
        {"outcome": {"2": "censored"}},
        "`outcome` maps no code to a state",
    ),
    "codes that are states": (
        {"state": [1, 2, 2, 2, 1, 1, 2], "end": [N, N, 2, N, 2, N, N]},
        {},
        "is also a state in `state`: is it a code, such as of death",
    ),
    "codes without a column": (
        {},
        {"columns": None, "outcome": {"2": "death"}},
        "no column holds them",
    ),
    "an outcome column that is not there": (
        {},
        {"columns": {"outcome": "ende"}},
        "did you mean .?end",
    ),
    "outcomes beside next states": (
        {"next_state": ["ill"] * 7},
        {},
        "has them in `next_state`",
    ),
    "labels of censoring that are none": (
        {},
        {"censored": [1.5]},
        "`censored` must hold labels",
    ),
    "a mapping that is none": ({}, {"outcome": ["2"]}, "`outcome` must map codes"),
    "missing codes that are none": ({}, {"missing": [N]}, "`missing` must hold codes"),
    "an unknown role": ({}, {"columns": {"arm": "action"}}, "unknown role 'arm'"),
    "a column with two roles": (
        {},
        {"columns": {"outcome": "end", "reward": "end"}},
        "gives 'end' two roles",
    ),
    "no column of actions": ({"action": N}, {}, "no column for `action`"),
    "no column of patients": ({"id": N}, {}, "there is no `episode`"),
    "no column of steps": ({"step": N}, {}, "there is no `step`"),
    "everything censored": (
        {"id": [1, 2, 3, 4, 5, 6, 7], "step": [0] * 7, "end": ["censored"] * 7},
        {},
        "no transition is left",
    ),
    "a part of the state that is missing": (
        put("action", 1, N),
        {"columns": {"state": ["state", "action"], "action": "id", "episode": "step"}},
        "has no value|there is no `step`",
    ),
    "a limit without a grid": ({}, {"limit": 2}, "`limit` is for a grid"),
    "a grid without times": ({}, {"every": 1}, "say which column holds times"),
    "notes: a censored patient": ({}, {}, "1 last row censored, with no next state"),
    "notes: lost to follow-up": (
        put("end", 6, "lost"),
        {"censored": "lost"},
        "1 last row censored",
    ),
    "notes: an outcome of NA": (put("end", 6, "NA"), {}, "1 missing-value code"),
    "notes: a visit left out": (put("step", 2, 5), {}, "the step after them is miss"),
}
VISIT_CASES: dict[str, Case] = {
    "no time": (put("day", 1, N, VISITS), {}, "`day` .* has no value in 1 row"),
    "a time twice": (put("day", 1, 0, VISITS), {}, "several rows at one time: `id` 1"),
    "dates": ({"day": ["2001-01-01"] * 7}, {}, "`day` .* must hold numbers"),
    "an end before a visit": (
        put("futime", 2, 399, VISITS),
        {},
        "an end before a visit: `id` 1 ends at `futime` 399",
    ),
    "no time of the outcome": (
        {},
        {"columns": {"outcome": "status"}},
        "`every` needs the time of the outcome",
    ),
    "an end that is missing": (
        put("futime", 2, N, VISITS),
        {},
        "`futime` .* has no value in 1 row",
    ),
    "a grid of nothing": ({}, {"every": 0}, "`every` must be in"),
    "a grid of minutes": ({}, {"every": 1e-6}, "is it in the unit of `day`"),
    "a step longer than any follow-up": (
        {"status": [0] * 7},
        {"every": 10_000, "outcome": {0: "censored", 2: "death"}},
        "no transition is left",
    ),
    "next states and times": (
        {"next_state": ["ill"] * 7},
        {"columns": N, "outcome": N},
        "leave out `time`",
    ),
    "codes of status that are states": (
        {"state": [0, 1, 2, 0, 1, 0, 1]},
        {"outcome": N},
        "is also a state in `state`",
    ),
    "a status not mapped": (
        put("status", 6, 1, VISITS),
        {},
        "a code that `outcome` does not map",
    ),
    "notes: what is carried": ({}, {}, "% carry the last observation forward"),
    "notes: what is not used": ({}, {"every": 800}, "3 visits of 7 not used"),
    "notes: rewards of visits": (
        {"reward": [1] * 7},
        {},
        "of visits, not of steps, and not read: `reward`",
    ),
}
CASES = {x: (STEPS, OUTCOME, *y) for x, y in STEP_CASES.items()}
CASES |= {x: (VISITS, DEATH, *y) for x, y in VISIT_CASES.items()}
SLOW = [pytest.param(x, marks=pytest.mark.integration) for x in ("parquet", "polars")]


def test_there_are_forty() -> None:
    assert len(CASES) >= 40


def made(table: dict[str, list[Any]], source: str, folder: Path) -> Any:
    """Return the table as a source has it."""
    frame = pd.DataFrame(table)
    if source == "pandas":
        return frame
    if source == "polars":
        return pl.DataFrame(table, strict=False)
    path = folder / f"log.{source}"
    if source == "csv":
        pl.DataFrame(table, strict=False).write_csv(path)
    else:
        pl.DataFrame(table, strict=False).write_parquet(path)
    return path


def check_case(case: str, source: Callable[[dict[str, list[Any]]], Any]) -> None:
    """Read a case from a source; its sentence must be said."""
    whole, how, cells, options, said = CASES[case]
    log = source({x: y for x, y in (whole | cells).items() if y is not None})
    how = {**how, **options}
    if case.startswith("notes"):
        notes = " ".join(bm.read_transitions(log, **how).notes)
        assert re.search(said, notes), notes
        return
    with pytest.raises(BayesmdpError, match=said) as caught:
        bm.read_transitions(log, **how)
    message = str(caught.value)
    assert message.endswith((".", "?"))
    assert "\n" not in message


@pytest.mark.filterwarnings("ignore::bayesmdp.BayesmdpWarning")
@pytest.mark.parametrize("source", ["csv", "pandas", *SLOW])
@pytest.mark.parametrize("case", CASES)
def test_the_sentence_is_said(case: str, source: str, tmp_path: Path) -> None:
    check_case(case, lambda table: made(table, source, tmp_path))
