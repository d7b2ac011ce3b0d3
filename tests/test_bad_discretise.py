"""What is said of clinical tables that cannot be turned into states and actions."""

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from bad_input import INF, NAN, case, check
from patients import FEATURES, made, simulated

from bayesmdp.errors import ArgumentError, CountsError

SMALL = simulated(n_stays=20, seed=1)


def small(**changes: Any) -> pd.DataFrame:
    """Change the value of column ``x`` in row 3."""
    table = SMALL.astype({x: type(v) for x, v in changes.items() if v is not None})
    for name, value in changes.items():
        table.loc[3, name] = value
    return table


def call(table: Any = SMALL, **changes: Any) -> Callable[[], object]:
    return lambda: made(table, **changes)


FITTED = made(SMALL)
CASES = [
    case(
        "a feature that is missing",
        CountsError,
        call(small(age=NAN)),
        "Column `age` of the pandas table must be finite: row 3 has no value",
        "(one of 1 such rows); fill or drop",
    ),
    case(
        "one column for two things",
        ArgumentError,
        lambda: made(SMALL, patient="icustayid"),
        "'icustayid' is given both as `episode` and as `patient`",
    ),
    case("an infinite feature", CountsError, call(small(age=INF)), "`age`", "inf"),
    case(
        "a null in DuckDB",
        CountsError,
        lambda: made(duckdb.sql("select * replace (null::double as age) from SMALL")),
        "`age`",
        "row 0 has no value (one of",
    ),
    case(
        "a negative logarithm",
        CountsError,
        call(small(lactate=-1.0)),
        "`lactate` of the pandas table must be 0 or more, being in `log`: row 3 has -1",
    ),
    case(
        "a binary feature of 2",
        CountsError,
        call(small(ventilated=2)),
        "`ventilated`",
        "must be 0 or 1, being in `binary`: row 3 has 2",
    ),
    case("a negative dose", CountsError, call(small(fluid=-5.0)), "`fluid`", "-5"),
    case("a missing dose", CountsError, call(small(fluid=NAN)), "`fluid`", "row 3"),
    case(
        "a drug nobody got",
        CountsError,
        call(SMALL.assign(fluid=0)),
        "`fluid` is zero in every row that is fitted",
        "leave it out of `doses`",
    ),
    case(
        "a feature that never varies",
        CountsError,
        call(SMALL.assign(age=50.0)),
        "`age` is 50 in every row that is fitted",
        "leave it out of `features`",
    ),
    case(
        "an outcome of 2",
        CountsError,
        call(small(died=2)),
        "`died`",
        "must be 1 for death and 0 for survival: row 3 has 2",
    ),
    case(
        "an outcome that changes",
        CountsError,
        call(small(died=1 - SMALL.loc[3, "died"])),
        "`died` of the pandas table must not change within a stay: `icustayid` "
        f"{SMALL.loc[3, 'icustayid']} has different values (one of 1 such stays).",
    ),
    case(
        "a stay of two patients",
        CountsError,
        call(small(subject=99), patient="subject"),
        "`subject`",
        "must not change within a stay",
    ),
    case("half a step", CountsError, call(small(bloc=1.5)), "`bloc`", "has 1.5"),
    case(
        "a step twice",
        CountsError,
        call(pd.concat([SMALL, SMALL[3:4]])),
        f"`icustayid` {SMALL.loc[3, 'icustayid']} has `bloc` {SMALL.loc[3, 'bloc']}",
        "more than once",
    ),
    case(
        "rows of no stay",
        CountsError,
        call(SMALL.assign(icustayid=SMALL["icustayid"].where(SMALL.index != 3))),
        "`icustayid` of the pandas table has no value in 1 rows",
    ),
    case(
        "stays of two types",
        CountsError,
        call(SMALL.assign(icustayid=["a", *range(len(SMALL) - 1)])),
        "`icustayid` of the pandas table must hold numbers or text; it holds Object",
    ),
    case(
        "stays that are lists",
        CountsError,
        lambda: made(pl.DataFrame(dict(SMALL.items())).with_columns(icustayid=[1, 2])),
        "`icustayid` of the polars table must hold numbers or text; it holds List",
    ),
    case("a step too far", CountsError, call(small(bloc=1e300)), "`bloc`", "1e+300"),
    case(
        "a feature beyond numbers",
        CountsError,
        call(small(age=1e300)),
        "Column `age` of the pandas table must be below 1e+100: row 3 has 1e+300",
    ),
    case(
        "features too small to be told apart",
        CountsError,
        call(SMALL.assign(age=SMALL["age"] * 1e-320)),
        "Column `age` has",
        "too far from what was fitted to be scaled",
    ),
    case("no rows", CountsError, call(SMALL[:0]), "The pandas table holds no rows."),
    case(
        "text among features",
        CountsError,
        call(SMALL.assign(age="old")),
        "`age` of the pandas table must hold numbers; it holds String",
    ),
    case(
        "more states than rows",
        CountsError,
        call(n_states=750),
        "`n_states` is 750, but only",
        "take fewer states",
    ),
    case(
        "more states than different rows",
        CountsError,
        call(
            SMALL.assign(age=SMALL["ventilated"]),
            features=["age", "ventilated"],
            log=[],
            n_states=5,
        ),
        "`n_states` is 5, but the",
        "have only 2 different sets of features",
    ),
    case(
        "a column misspelt",
        ArgumentError,
        call(features=["presure", *FEATURES[1:]]),
        "The pandas table has no column 'presure' (did you mean 'pressure'?); it has",
    ),
    case(
        "a logarithm of no feature",
        ArgumentError,
        call(log=["lactat"]),
        "`log` has 'lactat', which is not among `features` (did you mean 'lactate'?).",
    ),
    case(
        "a feature of two kinds",
        ArgumentError,
        call(binary=["lactate"]),
        "'lactate' stands both in `log` and in `binary`.",
    ),
    case(
        "the outcome as a feature",
        ArgumentError,
        call(features=[*FEATURES, "died"]),
        "'died' is given as `outcome`, and must not be a feature",
    ),
    case("no features", ArgumentError, call(features=[]), "`features` must name at"),
    case("no doses", ArgumentError, call(doses=()), "`doses` must name at least one"),
    case("a set", ArgumentError, call(features={"age"}), "`features` must be a list"),
    case("text for a list", ArgumentError, call(doses="fluid"), "`doses` must be a"),
    case("a number", ArgumentError, call(doses=[3]), "`doses` must hold names; got 3"),
    case("twice", ArgumentError, call(doses=["fluid"] * 2), "`doses` has 'fluid' twi"),
    case("no stay", ArgumentError, call(episode=None), "`episode` must name a column"),
    case("no share", ArgumentError, call(train=0), "`train` must be in (0, 1]; got 0"),
    case("too much", ArgumentError, call(train=1.5), "`train` must be in (0, 1]"),
    case(
        "a share of nobody",
        ArgumentError,
        call(train=0.01),
        "`train` is 0.01, which leaves none to fit of 20 patients",
    ),
    case(
        "a share of all but nobody",
        ArgumentError,
        call(train=0.99),
        "`train` is 0.99, which leaves none to hold out of 20 patients; with train=1",
    ),
    case("no states", ArgumentError, call(n_states=0), "`n_states` must be at least 1"),
    case("one level", ArgumentError, call(n_bins=1), "`n_bins` must be at least 2"),
    case(
        "levels without end",
        ArgumentError,
        call(n_bins=10**6),
        "`n_bins` is 1000000, which makes 1000000**2 actions; at most 10000",
    ),
    case("no start", ArgumentError, call(n_starts=0), "`n_starts` must be at least 1"),
    case("a bad seed", ArgumentError, call(seed=-1), "`seed` must be at least 0"),
    case(
        "a weight of 0",
        ArgumentError,
        call(weights={"age": 0}),
        "`weights['age']` must be in (0, inf); got 0.",
    ),
    case(
        "a weight of no feature",
        ArgumentError,
        call(weights={"ag": 2}),
        "`weights` has 'ag', which is not among `features` (did you mean 'age'?).",
    ),
    case("weights", ArgumentError, call(weights=2), "`weights` must map features to"),
    case("an end", ArgumentError, call(death="survival"), "both called 'survival'"),
    case("a path", ArgumentError, call("stays.csv"), "`frame` must be a dataframe"),
    case("no table", ArgumentError, call(7), "`frame` must be", "dataframe", "got int"),
    case(
        "features of the wrong width",
        ArgumentError,
        lambda: FITTED.assign(np.ones((3, 2))),
        "`features` must have 4 columns (pressure, lactate, ventilated, age); got 2.",
    ),
    case(
        "features that are none",
        ArgumentError,
        lambda: FITTED.assign(None),
        "`features` must be a dataframe (",
        "got NoneType.",
    ),
    case(
        "features with NaN",
        ArgumentError,
        lambda: FITTED.assign([[1, 2, 0, NAN]]),
        "`features` must be finite: row 0, feature 3 is nan.",
    ),
    case(
        "features out of their domain",
        CountsError,
        lambda: FITTED.assign([[1, -2, 0, 3]]),
        "Column `lactate` of `features` must be 0 or more",
    ),
    case(
        "negative doses for new patients",
        CountsError,
        lambda: FITTED.dose([[0, 0], [1, -2]]),
        "`vasopressor` of `doses` must be 0 or more: row 1 has -2",
    ),
    case(
        "new patients without a column",
        ArgumentError,
        lambda: FITTED.apply(SMALL.drop(columns="age")),
        "no column 'age'",
    ),
]


@pytest.mark.parametrize(("error", "call", "said"), CASES)
def test_what_is_wrong_is_said(error: Any, call: Any, said: Any) -> None:
    check(error, call, said)
