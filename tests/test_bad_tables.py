"""What is said of tables that hold what cannot be."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusing import refused
from tables import ENGINES, NUMBERED

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")


def table(**changes: Any) -> dict[str, Any]:
    return {"state": [0, 1], "action": [0, 1], "next_state": [1, 1], **changes}


TABLE_FAULTS: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "missing": (table(state=[0, None]), ("`state`", "no value in 1 row"), "row 1"),
    "NaN": (table(state=[0.0, np.nan]), ("`state`", "no value in 1 row"), "row 1"),
    "fraction": (table(action=[0.0, 0.5]), ("`action`", "whole", "0.5"), "row 1"),
    "infinite": (table(action=[0.0, np.inf]), ("`action`", "inf"), "row 1"),
    "negative": (table(next_state=[0, -4]), ("-4", "labels=True"), "row 1"),
    "large": (table(state=[2**40, 0]), (str(2**40), "labels=True"), "row 0"),
    "inexact": (
        table(state=[0.0, -(2.0**60)]),
        (
            "`state`",
            "below 2**53",
            str(-(2**60)),
            "labels=True and the numbers as text",
        ),
        "row 1",
    ),
    "reward": (table(reward=[0.0, np.inf]), ("`reward`", "finite", "inf"), "row 1"),
    "text reward": (table(reward=["a", "b"]), ("`reward`", "must hold numbers"), ""),
    "flags": (table(action=[True, False]), ("`action`", "whole numbers or text"), ""),
    "mixed": (table(state=["a", "b"]), ("`next_state`", "named alike"), ""),
    "numbers as text": (table(action=["1", "b"]), ("numbers as text", "'1'"), ""),
    "no rows": (dict.fromkeys(table(), np.zeros(0, int)), ("holds no rows",), ""),
}


@pytest.mark.parametrize(
    ("data", "said", "row"), TABLE_FAULTS.values(), ids=TABLE_FAULTS
)
@pytest.mark.parametrize("engine", ENGINES)
def test_bad_tables(
    engine: str, data: dict[str, Any], said: tuple[str, ...], row: str
) -> None:
    numbered = [row] if engine in NUMBERED else []
    refused(CountsError, ENGINES[engine](data), *said, *numbered)


def test_rows_without_an_order_have_no_first() -> None:
    for engine, first, where in (
        ("pandas", ", the first row 1", "row 1"),
        ("Ibis", "", "a row"),
    ):
        make = ENGINES[engine]
        said = f"has no value in 1 row{first}: drop or fix what is empty."
        refused(CountsError, make(table(state=[0, None])), said)
        refused(CountsError, make(table(done=[0, 7])), f"0 and 1: {where} has 7;")


@pytest.mark.parametrize("engine", ["pandas", "polars", "DuckDB"])
def test_steps_that_are_too_large_are_not_names(engine: str) -> None:
    data = table(episode=[1, 1], step=[0.0, 2.0**53])
    del data["next_state"]
    source = ENGINES[engine](data)
    refused(CountsError, source, "`step`", "below 2**53", "; number from 0.")


@pytest.mark.parametrize("engine", ENGINES)
def test_sizes_that_are_too_small(engine: str) -> None:
    make = ENGINES[engine]
    refused(CountsError, make(table()), "`state`", "below", "1", n_states=1)
    refused(CountsError, make(table()), "`action`", "below", "1", n_actions=1)
    text = table(action=["a", "b"])
    refused(CountsError, make(text), "`n_actions` is 1", "has 2", n_actions=1)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_table_does_not_have_is_said_when_asked(engine: str) -> None:
    log = bm.read_transitions(ENGINES[engine](table()))
    with pytest.raises(CountsError, match="`episode` column"):
        log.counts_by_fold(2)
    with pytest.raises(CountsError, match="no `reward` column"):
        log.reward_statistics()
    log = bm.read_transitions(ENGINES[engine](table(episode=[4, 4])))
    with pytest.raises(CountsError, match="`n_folds` is 2 but there is only 1"):
        log.counts_by_fold(2)


def test_sources_that_are_no_tables() -> None:
    refused(ArgumentError, 3, "`source` must be a path", "got int")
    refused(ArgumentError, None, "`source`", "got NoneType")
    refused(ArgumentError, np.zeros((2, 3)), "`source`", "got ndarray")
    refused(ArgumentError, pd.Series([1]), "`source`", "got Series")
    refused(ArgumentError, pd.DataFrame(table()), "`labels`", "'all'", labels="all")
    refused(CountsError, pd.DataFrame(table()), "`n_states`", n_states=0)


def test_columns_that_are_no_names() -> None:
    twice = pd.DataFrame([[0, 0, 0, 0]], columns=["state", "state", "action", "sp"])
    refused(CountsError, twice, "state")
    refused(CountsError, pd.DataFrame(np.zeros((2, 3))), "must have names")
