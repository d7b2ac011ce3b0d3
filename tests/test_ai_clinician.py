"""AI Clinician tables: every engine gives what a loop over the rows gives."""

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
from bad_input import NAN, case, check

import bayesmdp as bm
from bayesmdp.data import read_ai_clinician
from bayesmdp.errors import ArgumentError, CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

N_LIVE, N_ACTIONS = 30, 25


@pytest.fixture(scope="module")
def stays() -> pd.DataFrame:
    """Simulate 200 stays of 1 to 20 blocs, with 5 % of the rows lost."""
    rng = np.random.default_rng(4)
    length = rng.integers(1, 21, 200)
    stay = np.repeat(rng.permutation(10_000)[:200] + 200_000, length)
    table = pd.DataFrame(
        {
            "bloc": np.concatenate([np.arange(1, n + 1) for n in length]),
            "icustayid": stay,
            "state": rng.integers(1, N_LIVE + 1, stay.size),
            "action": rng.integers(1, N_ACTIONS + 1, stay.size),
            "outcome": np.repeat(rng.integers(0, 2, 200), length),
        }
    )
    return table[rng.random(stay.size) > 0.05].reset_index(drop=True)


def by_hand(table: pd.DataFrame) -> tuple[np.ndarray, int]:
    """Return counts ``[S, A, S]`` and gaps, found stay by stay."""
    counts = np.zeros((N_LIVE + 2, N_ACTIONS, N_LIVE + 2), dtype=int)
    gaps = 0
    for _, stay in table.groupby("icustayid"):
        rows = stay.sort_values("bloc").to_dict("records")
        for row, after in zip(rows, [*rows[1:], None], strict=True):
            s, a = row["state"] - 1, row["action"] - 1
            if after is None:
                counts[s, a, N_LIVE if row["outcome"] == 1 else N_LIVE + 1] += 1
            elif after["bloc"] == row["bloc"] + 1:
                counts[s, a, after["state"] - 1] += 1
            else:
                gaps += 1
    return counts, gaps


def written(table: pd.DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False)
    return path


ENGINES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda table, _: table,
    "pandas floats": lambda table, _: table.astype(float),
    "pandas flags": lambda table, _: table.astype({"outcome": bool}),
    "polars": lambda table, _: pl.DataFrame(dict(table.items())),
    "polars lazy": lambda table, _: pl.LazyFrame(dict(table.items())),
    "polars unsigned": lambda table, _: pl.LazyFrame(dict(table.items())).cast(
        {"state": pl.UInt16, "action": pl.UInt8, "bloc": pl.UInt8, "outcome": pl.UInt8}
    ),
    "pyarrow": lambda table, _: pa.table(dict(table.items())),
    "CSV": lambda table, folder: written(table, folder / "stays.csv"),
    "DuckDB": lambda table, _: duckdb.from_df(table),
    "Ibis": lambda table, folder: ibis.duckdb.connect().read_csv(
        written(table, folder / "ibis.csv")
    ),
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_counts_are_those_of_a_loop(
    stays: pd.DataFrame, engine: Any, tmp_path: Path
) -> None:
    counts, gaps = by_hand(stays)
    assert gaps > 50
    shuffled = stays.sample(frac=1, random_state=1)
    with pytest.warns(bm.BayesmdpWarning, match=f"{gaps} were dropped") as warned:
        log = read_ai_clinician(engine(shuffled, tmp_path))
    (ours,) = (x for x in warned if x.category is bm.BayesmdpWarning)
    assert ours.filename == __file__
    assert (log.counts().to_dense() == counts).all()
    assert log.counts().sized == (True, True)
    assert log.n_rows == counts.sum() == len(stays) - gaps
    folds = log.counts_by_fold(3, seed=1)
    assert sum(folds[1:], start=folds[0]) == log.counts()


def test_names_and_notes_say_what_was_done(stays: pd.DataFrame) -> None:
    with pytest.warns(bm.BayesmdpWarning):
        log = read_ai_clinician(stays)
    assert log.state_labels == (*map(str, range(1, 31)), "death", "survival")
    assert log.action_labels == tuple(map(str, range(1, 26)))
    first = stays.groupby("icustayid")[["bloc", "outcome"]].min()
    died = int(first["outcome"].sum())
    late = int((first["bloc"] != 1).sum())
    assert late > 2
    assert log.notes[1:] == (
        "States and actions of the pandas table count from 1, here from 0: its numbers "
        f"are kept as names. 'death' is state 30 ({died} stays), 'survival' state 31 "
        f"({len(first) - died} stays).",
        f"{late} stays do not begin with `bloc` 1.",
    )


def small(**changes: Any) -> pd.DataFrame:
    table = {
        "bloc": [1, 2, 1, 2],
        "icustayid": [7, 7, 9, 9],
        "state": [1, 2, 2, 3],
        "action": [1, 2, 3, 4],
        "outcome": [0, 0, 1, 1],
    }
    return pd.DataFrame(table | changes)


def test_last_rows_are_flagged_as_terminated() -> None:
    log = read_ai_clinician(small())
    frame = log.table.frame.collect().to_native()  # type: ignore[attr-defined]
    assert frame.sort_values("action")["terminated"].tolist() == [0, 1, 0, 1]


def test_a_task_takes_the_names() -> None:
    log = read_ai_clinician(small(), n_states=40, n_actions=25)
    counts = log.counts()
    assert (counts.n_states, counts.n_actions) == (42, 25)
    task = bm.Task(
        counts.n_states,
        counts.n_actions,
        reward=np.arange(42) == 41,
        discount=0.99,
        terminal=["death", "survival"],
        state_labels=log.state_labels,
        action_labels=log.action_labels,
    )
    posterior = bm.fit(log, task, prior=bm.SparsePrior(fallback="death"), min_count=1)
    assert posterior.mean().to_dense()[2, 3, [40, 41]].tolist() == [1, 0]
    seen = posterior.mean().to_dense()[1, 1, [40, 41]]
    assert seen.tolist() == pytest.approx([1 / 3, 2 / 3])  # one of each, and one seen


def test_columns_and_ends_may_have_other_names(tmp_path: Path) -> None:
    table = small().rename(
        columns={"state": "cluster", "outcome": "mortality_90d", "icustayid": "stay"}
    )
    table["died_in_hosp"] = 0
    path = written(table, tmp_path / "mimic.csv")
    names = {"state": "cluster", "episode": "stay"}
    log = read_ai_clinician(
        path, outcome="mortality_90d", death="dead", survival="alive", columns=names
    )
    assert log.state_labels == ("1", "2", "3", "dead", "alive")
    assert log.counts() == read_ai_clinician(small()).counts()
    other = read_ai_clinician(path, outcome="died_in_hosp", columns=names)
    assert other.counts().next_state.tolist() == [1, 4, 2, 4]


def test_rewards_are_kept() -> None:
    log = read_ai_clinician(small(reward=[0.0, 100.0, 0.0, -100.0]))
    paid = log.reward_statistics()
    assert paid.mean.tolist() == [0, 100, 0, -100]
    assert paid.next_state.tolist() == [1, 4, 2, 3]


def read(**changes: Any) -> Callable[[], object]:
    return lambda: read_ai_clinician(small(**changes))


CASES = [
    case(
        "an id of 0",
        CountsError,
        read(state=[1, 2, 0, 3]),
        "Column `state` of the pandas table must count from 1: row 2 has 0 (one of 1 "
        "such rows); add 1",
    ),
    case("an action 0", CountsError, read(action=[1, 2, 3, 0]), "`action`", "row 3"),
    case("a fraction", CountsError, read(state=[1, 2.5, 1, 3]), "`state`", "row 1"),
    case("a NaN", CountsError, read(state=[1, NAN, 1, 3]), "no value in 1 row"),
    case(
        "more states than given",
        CountsError,
        lambda: read_ai_clinician(small(), n_states=2),
        "`state`",
        "at most 2, the number given as `n_states`: row 3 has 3 (one",
    ),
    case(
        "names of states",
        CountsError,
        read(state=["a", "b", "b", "c"]),
        "`state`",
        "must hold whole numbers from 1; it holds String: convert it (`read_trans",
    ),
    case(
        "an outcome of 2",
        CountsError,
        read(outcome=[0, 0, 2, 2]),
        "`outcome` of the pandas table must be 1 for death and 0 for survival",
        "row 2 has 2 (one of 2 such rows)",
    ),
    case(
        "a missing outcome",
        CountsError,
        read(outcome=[0, 0, 1, NAN]),
        "row 3 has no value (one of 1 such rows); fix or drop",
    ),
    case(
        "an outcome that changes",
        CountsError,
        read(outcome=[0, 0, 0, 1]),
        "must not change within a stay: `icustayid` 9 has 0 and 1 (one of 1 such",
    ),
    case(
        "an outcome in words",
        CountsError,
        read(outcome=["alive", "alive", "dead", "dead"]),
        "`outcome`",
        "must hold 1 for death and 0 for survival; it holds String",
    ),
    case(
        "a bloc twice",
        CountsError,
        read(bloc=[1, 1, 1, 2]),
        "`icustayid` 7 has `bloc` 1 2 times",
    ),
    case(
        "no such outcome",
        ArgumentError,
        lambda: read_ai_clinician(small(), outcome="outcom"),
        "'outcom'",
        "did you mean 'outcome'?",
    ),
    case(
        "no stays",
        CountsError,
        lambda: read_ai_clinician(small().drop(columns="icustayid")),
        "no `episode`",
    ),
    case("no rows", CountsError, lambda: read_ai_clinician(small()[:0]), "no rows"),
    case(
        "next states beside an outcome",
        ArgumentError,
        read(next_state=[1, 1, 1, 1]),
        "`outcome`",
        "`next_state`",
    ),
    case(
        "an outcome that is no name",
        ArgumentError,
        lambda: read_ai_clinician(small(), outcome=3),  # type: ignore[arg-type]
        "`outcome` must name a column; got 3.",
    ),
    case(
        "columns that map nothing",
        ArgumentError,
        lambda: read_ai_clinician(small(), columns="state"),  # type: ignore[arg-type]
        "`columns` must map roles",
    ),
    case(
        "a number for a name",
        ArgumentError,
        lambda: read_ai_clinician(small(), death="3"),
        "`death` must name a terminal state, and not by a number; got '3'.",
    ),
    case(
        "one name for both ends",
        ArgumentError,
        lambda: read_ai_clinician(small(), death="end", survival="end"),
        "`death` and `survival` are both called 'end'.",
    ),
    case(
        "no table",
        ArgumentError,
        lambda: read_ai_clinician(3),
        "`source` must be a path",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), CASES)
def test_what_is_wrong_is_said(error: Any, call: Any, said: Any) -> None:
    check(error, call, said)
