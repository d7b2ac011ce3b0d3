"""`validate`: every finding has a log that triggers it, in every engine."""

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
from bayesmdp.data import Finding, Findings

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

Table = dict[str, list[Any]]


def clean() -> Table:
    """Three episodes: two end in state 2, one is cut off."""
    return {
        "episode": [7, 7, 7, 8, 8, 9, 9],
        "step": [0, 1, 2, 4, 5, 0, 1],
        "state": [0, 1, 0, 1, 0, 0, 1],
        "action": [0, 1, 1, 1, 1, 0, 0],
        "next_state": [1, 0, 2, 0, 2, 1, 1],
        "reward": [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0],
        "terminated": [False, False, True, False, True, False, False],
        "truncated": [False, False, False, False, False, False, True],
    }


def task(**changes: Any) -> bm.Task:
    reward = np.zeros((3, 2, 3))
    reward[:2, :, 2] = 1
    options = {"reward": reward, "discount": 0.9, "terminal": [2], **changes}
    return bm.Task(3, 2, **options)


def with_labels() -> bm.Task:
    return task(state_labels=["icu", "ward", "home"], action_labels=["wait", "treat"])


def change(table: Table, at: dict[tuple[str, int], Any]) -> Table:
    for (column, row), value in at.items():
        table[column][row] = value
    return table


def put(**at: tuple[int, Any]) -> Table:
    """Change one row of some columns."""
    table = clean()
    return change(table, {(name, row): value for name, (row, value) in at.items()})


def without(*columns: str, table: Table | None = None) -> Table:
    return {
        k: v
        for k, v in (clean() if table is None else table).items()
        if k not in columns
    }


def rows(*kept: int, table: Table | None = None) -> Table:
    table = clean() if table is None else table
    return {name: [values[i] for i in kept] for name, values in table.items()}


def named(table: Table | None = None) -> Table:
    table = clean() if table is None else table
    states, actions = ["icu", "ward", "home", "hom"], ["wait", "treat"]
    for role in ("state", "next_state"):
        table[role] = [states[i] for i in table[role]]
    table["action"] = [actions[i] for i in table["action"]]
    return table


def in_ibis(table: Table) -> Any:
    backend = ibis.duckdb.connect()
    backend.con.register("log", pa.table(table))
    return backend.table("log")


ENGINES: dict[str, Callable[[Table], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "pyarrow": pa.table,
    "DuckDB": lambda table: duckdb.from_arrow(pa.table(table)),
    "Ibis": in_ibis,
}
EACH = pytest.mark.parametrize("engine", ENGINES)


def by_code(found: Findings) -> dict[str, Finding]:
    return {finding.code: finding for finding in found}


@EACH
@pytest.mark.parametrize("known", [None, task()], ids=["", "task"])
def test_a_clean_log_is_clean(engine: str, known: bm.Task | None) -> None:
    found = bm.validate(ENGINES[engine](clean()), known, min_count=1)
    assert found.findings == ()
    assert (found.n_rows, found.worst, found.exit_code) == (7, None, 0)
    assert "nothing found" in found.summary()


@EACH
def test_names_are_clean_too(engine: str) -> None:
    found = bm.validate(ENGINES[engine](named()), with_labels(), min_count=1)
    assert found.findings == ()
    assert bm.validate(ENGINES[engine](named()), min_count=1).findings == ()


@EACH
@pytest.mark.parametrize("known", [None, task()], ids=["", "task"])
def test_derived_next_states_are_clean_too(engine: str, known: bm.Task | None) -> None:
    table = without("next_state", "truncated", "terminated")
    end = [None, None, 2, None, 2, None, 1]
    source = ENGINES[engine]({**table, "end": end})
    found = bm.validate(source, known, columns={"outcome": "end"}, min_count=1)
    wanted = ["unfinished-episodes"] if known else ["never-left-states"]
    assert [x.code for x in found] == wanted  # episode 9 was cut off; 2 is never left


def test_arrays_are_clean_too() -> None:
    log = bm.Transitions.from_arrays(**clean())  # type: ignore[arg-type]
    for known in (None, task()):
        assert bm.validate(log, known, min_count=1).findings == ()
    found = bm.validate(bm.Transitions.from_arrays([1], [0], [1]), min_count=2)
    assert [x.code for x in found] == ["rare-pairs"]


GAP = rows(0, 2, 3, 4, 5, 6)
TWICE = rows(0, 1, 2, 3, 4, 5, 6, 3)
#: The table, options, code, severity, count, column, first row.
Case = tuple[Table, dict[str, Any], str, str, int, str | None, int | None]
CASES: dict[str, Case] = {
    "an empty id": (
        put(action=(2, None)),
        {},
        "missing-values",
        "error",
        1,
        "action",
        2,
    ),
    "NaN": (
        put(reward=(3, float("nan"))),
        {},
        "missing-values",
        "error",
        1,
        "reward",
        3,
    ),
    "an empty next state": (
        put(next_state=(6, None)),
        {},
        "missing-next-states",
        "error",
        1,
        "next_state",
        6,
    ),
    "infinite": (
        put(reward=(3, float("inf"))),
        {},
        "not-finite",
        "error",
        1,
        "reward",
        3,
    ),
    "a fraction": (
        {**clean(), "state": [0.0, 1.0, 0.0, 1.5, 0.0, 2.5, 1.0]},
        {},
        "fractions",
        "error",
        2,
        "state",
        3,
    ),
    "negative": (put(state=(1, -1)), {}, "negative-ids", "error", 1, "state", 1),
    "large": (put(action=(5, 2**40)), {}, "large-ids", "error", 1, "action", 5),
    "beyond the task": (
        put(next_state=(6, 3)),
        {"task": task()},
        "ids-beyond-sizes",
        "error",
        1,
        "next_state",
        6,
    ),
    "beyond sizes": (
        put(action=(6, 3)),
        {"n_actions": 2},
        "ids-beyond-sizes",
        "error",
        1,
        "action",
        6,
    ),
    "more names than sizes": (
        named(),
        {"n_states": 2},
        "ids-beyond-sizes",
        "error",
        3,
        "state",
        None,
    ),
    "a bad flag": (
        {**clean(), "terminated": [0, 0, 1, 0, 2, 0, 0]},
        {},
        "bad-flags",
        "error",
        1,
        "terminated",
        4,
    ),
    "flags that are words": (
        {**clean(), "done": ["False"] * 6 + ["dead"], "terminated": [0] * 7},
        {"columns": {"terminated": "done"}},
        "bad-flags",
        "error",
        1,
        "done",
        6,
    ),
    "a reward that is text": (
        {**clean(), "reward": ["x"] * 7},
        {},
        "wrong-type",
        "error",
        1,
        "reward",
        None,
    ),
    "states of two types": (
        {**clean(), "state": ["x"] * 7},
        {},
        "mixed-types",
        "error",
        1,
        "next_state",
        None,
    ),
    "numbers as text": (
        {**clean(), "action": ["0", "1", "x", "x", "x", "1", "0"]},
        {},
        "numbers-as-text",
        "error",
        2,
        "action",
        None,
    ),
    "times": (
        {**clean(), "action": ["2020-01-01"] * 7},
        {},
        "times-as-names",
        "error",
        1,
        "action",
        None,
    ),
    "rows left out": (
        put(action=(2, None)),
        {},
        "rows-left-out",
        "note",
        1,
        None,
        None,
    ),
    "a column unfit": (
        {**clean(), "action": [True] * 7},
        {},
        "unchecked",
        "note",
        1,
        None,
        None,
    ),
    "steps of half hours": (
        {**clean(), "step": [0.0, 0.5, 1, 0, 1, 0, 1]},
        {},
        "fractions",
        "warning",
        1,
        "step",
        1,
    ),
    "a gap": (GAP, {}, "step-gaps", "warning", 1, "step", 0),
    "a gap in what is derived": (
        without("next_state", table=GAP),
        {},
        "step-gaps",
        "warning",
        1,
        "step",
        0,
    ),
    "a row twice": (TWICE, {}, "duplicate-rows", "error", 1, None, 3),
    "a row twice in what is derived": (
        without("next_state", table=TWICE),
        {},
        "duplicate-rows",
        "error",
        1,
        None,
        3,
    ),
    "a step twice": (
        change(rows(0, 1, 2, 3, 4, 5, 6, 3), {("action", 7): 0}),
        {},
        "repeated-steps",
        "warning",
        1,
        "step",
        3,
    ),
    "a step twice in what is derived": (
        without(
            "next_state", table=change({**TWICE, "action": [0] * 8}, {("action", 7): 1})
        ),
        {},
        "repeated-steps",
        "error",
        1,
        "step",
        3,
    ),
    "nothing to derive": (
        without("next_state", table=rows(0, 3, 5)),
        {},
        "no-transitions",
        "error",
        3,
        None,
        None,
    ),
    "last rows": (
        without("next_state"),
        {},
        "missing-next-states",
        "warning",
        3,
        None,
        2,
    ),
    "states from 1": (
        {
            **clean(),
            "state": [1, 2, 1, 2, 1, 1, 2],
            "next_state": [2, 1, 3, 1, 3, 2, 2],
        },
        {},
        "ids-from-1",
        "warning",
        1,
        "state",
        0,
    ),
    "actions from 1": (
        {**clean(), "action": [1, 2, 2, 2, 2, 1, 1]},
        {},
        "ids-from-1",
        "warning",
        1,
        "action",
        0,
    ),
    "a terminal state left, by flags": (
        put(state=(3, 2)),
        {},
        "terminal-states-left",
        "warning",
        1,
        None,
        3,
    ),
    "a terminal state left, by the task": (
        put(state=(3, 2)),
        {"task": task()},
        "terminal-states-left",
        "error",
        1,
        None,
        3,
    ),
    "a terminal state stayed in": (
        put(state=(5, 2), next_state=(5, 2)),
        {"task": task()},
        "padded-terminal-states",
        "note",
        1,
        None,
        5,
    ),
    "flags that differ": (
        put(terminated=(4, False)),
        {},
        "flags-differ",
        "warning",
        1,
        "terminated",
        2,
    ),
    "an end that the task does not know": (
        put(terminated=(6, True)),
        {"task": task()},
        "ends-in-live-states",
        "error",
        1,
        "terminated",
        6,
    ),
    "an end that the flags do not know": (
        put(terminated=(4, False)),
        {"task": task()},
        "terminal-states-unflagged",
        "warning",
        1,
        "terminated",
        4,
    ),
    "rows after the end": (
        put(terminated=(0, True)),
        {},
        "rows-after-end",
        "warning",
        1,
        "terminated",
        0,
    ),
    "rows after the log was cut off": (
        put(truncated=(3, True)),
        {},
        "rows-after-end",
        "warning",
        1,
        "terminated",
        3,
    ),
    "episodes that do not end": (
        put(truncated=(6, False)),
        {},
        "unfinished-episodes",
        "warning",
        1,
        "episode",
        6,
    ),
    "episodes that do not end, by the task": (
        without("terminated", "truncated"),
        {"task": task()},
        "unfinished-episodes",
        "warning",
        1,
        "episode",
        6,
    ),
    "episodes without steps that do not end": (
        without("step", table=put(truncated=(6, False))),
        {},
        "unfinished-episodes",
        "warning",
        1,
        "episode",
        5,
    ),
    "episodes of single rows": (
        {**clean(), "episode": list(range(7))},
        {},
        "one-row-episodes",
        "warning",
        7,
        "episode",
        None,
    ),
    "a next state elsewhere": (
        put(next_state=(3, 1)),
        {},
        "next-states-differ",
        "warning",
        1,
        "next_state",
        3,
    ),
    "an unreachable state": (
        put(state=(4, 3)),
        {},
        "unreachable-states",
        "warning",
        1,
        None,
        4,
    ),
    "perhaps an unreachable state": (
        without("step", table=put(state=(4, 3))),
        {},
        "unreachable-states",
        "note",
        1,
        None,
        4,
    ),
    "unreachable by the task": (
        without(
            "step",
            "terminated",
            table=change(clean(), {("next_state", i): 0 for i in (0, 5, 6)}),
        ),
        {"task": task(start=0)},
        "unreachable-states",
        "warning",
        1,
        None,
        1,
    ),
    "a state never left": (
        put(next_state=(6, 3)),
        {},
        "never-left-states",
        "warning",
        1,
        None,
        6,
    ),
    "a state never left, perhaps terminal": (
        without("terminated"),
        {},
        "never-left-states",
        "note",
        1,
        None,
        2,
    ),
    "an action not taken": (
        {**clean(), "action": [0, 2, 2, 2, 2, 0, 0]},
        {},
        "unused-actions",
        "warning",
        1,
        "action",
        None,
    ),
    "an action of the task not taken": (
        {**clean(), "action": [1, 0, 0, 0, 1, 1, 0]},
        {"n_actions": 5},
        "unused-actions",
        "warning",
        3,
        "action",
        None,
    ),
    "a constant column": (
        {**clean(), "reward": [0.5] * 7},
        {},
        "constant-columns",
        "warning",
        7,
        "reward",
        None,
    ),
    "a constant action": (
        {**clean(), "action": [0] * 7},
        {},
        "constant-columns",
        "warning",
        7,
        "action",
        None,
    ),
    "rewards that vary": (
        put(reward=(4, 3.5)),
        {},
        "varying-rewards",
        "warning",
        1,
        "reward",
        2,
    ),
    "rewards that the task does not pay": (
        put(reward=(1, -2.0)),
        {"task": task()},
        "rewards-contradict-task",
        "warning",
        1,
        "reward",
        1,
    ),
    "rare pairs": (clean(), {"min_count": 2}, "rare-pairs", "note", 1, None, 6),
    "an unknown label": (
        named(put(next_state=(4, 3))),
        {"task": with_labels()},
        "unknown-labels",
        "error",
        1,
        "next_state",
        4,
    ),
    "labels without names": (
        named(),
        {"task": task()},
        "labels-without-names",
        "warning",
        3,
        "state",
        None,
    ),
}


@EACH
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_finding_is_triggered(engine: str, case: Case) -> None:
    table, options, code, severity, count, column, row = case
    found = bm.validate(ENGINES[engine](table), **{"min_count": 1, **options})
    wanted = [x for x in found if x.code == code and x.column in (column, None)]
    assert wanted, found.summary()
    finding = wanted[0]
    assert (finding.severity, finding.count, finding.column) == (
        severity,
        count,
        column,
    )
    if engine != "Ibis":  # a database has no order of rows
        assert finding.first_row == row, finding
        assert (f"row {row}" in finding.where) == (row is not None)
    for sentence in (finding.message, finding.remedy):
        assert sentence[0].isupper() or sentence[0].isdigit()
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert not sentence.endswith("..")


def test_every_code_has_a_case() -> None:
    """Codes in the source, found by their quotes, are those of the cases."""
    import re

    folder = Path(bm.data.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("_validate*.py"))
    codes = set(re.findall(r'"([a-z]+(?:-[a-z0-9]+)+)"', text))
    assert codes - {case[2] for case in CASES.values()} == {"read-with-notes"}
