"""One log of 100,000 rows through every kind of source: the same counts everywhere."""

import subprocess
import sys
from collections import Counter
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
from sepsis_log import (
    TRIPLET,
    Answers,
    answers,
    assert_same_counts,
    assert_same_derived,
    assert_same_log,
    sepsis_log,
)

import bayesmdp as bm

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = [
    pytest.mark.integration,  # for its time
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]

FILES = {
    "log.csv": "header",
    "log.csv.gz": "header, compression gzip",
    "log.csv.zst": "header, compression zstd",
    "log.jsonl": "format json",
}


class Log:
    """The log in memory, in files and, with ``derive``, without its next states."""

    def __init__(self, table: pd.DataFrame, folder: Path) -> None:
        self.table, self.folder = table, folder
        connection = duckdb.connect()
        connection.register("log", table)
        for name, options in FILES.items():
            connection.execute(f"copy log to '{folder / name}' ({options})")
        for part in range(3):
            rows = f"select * from log where episode % 3 = {part}"
            connection.execute(f"copy ({rows}) to '{folder / f'{part}.parquet'}'")

    def columns(self) -> dict[str, Any]:
        return {name: self.table[name].to_numpy() for name in self.table}

    def in_duckdb(self) -> Any:
        return duckdb.connect().read_parquet(f"{self.folder}/*.parquet")

    def in_ibis(self) -> Any:
        return ibis.duckdb.connect().read_parquet(f"{self.folder}/*.parquet")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return sepsis_log()


@pytest.fixture(scope="module")
def wanted(table: pd.DataFrame) -> Answers:
    return answers(table)


@pytest.fixture(scope="module")
def log(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return Log(table, tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def short(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return Log(table.drop(columns="next_state"), tmp_path_factory.mktemp("short"))


SOURCES: dict[str, Callable[[Log], Any]] = {
    "CSV": lambda log: log.folder / "log.csv",
    "gzip CSV": lambda log: log.folder / "log.csv.gz",
    "zstd CSV": lambda log: log.folder / "log.csv.zst",
    "JSON lines": lambda log: log.folder / "log.jsonl",
    "Parquet glob": lambda log: f"{log.folder}/*.parquet",
    "pandas": lambda log: log.table,
    "polars": lambda log: pl.DataFrame(log.columns()),
    "polars lazy": lambda log: pl.scan_parquet(log.folder / "*.parquet"),
    "pyarrow": lambda log: pa.table(log.columns()),
    "DuckDB": Log.in_duckdb,
    "Ibis on DuckDB": Log.in_ibis,
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_says_the_same(name: str, log: Log, wanted: Answers) -> None:
    # Rewards and folds of every source are compared in test_read, on fewer rows.
    whole = name in ("Parquet glob", "polars lazy", "Ibis on DuckDB")
    check = assert_same_log if whole else assert_same_counts
    check(bm.read_transitions(SOURCES[name](log)), wanted)


@pytest.mark.parametrize("name", ["CSV", "pandas", "polars lazy", "pyarrow", "DuckDB"])
def test_sources_derive_the_same(name: str, short: Log, wanted: Answers) -> None:
    assert_same_derived(SOURCES[name](short), wanted)


def test_the_answers_are_those_of_a_plain_loop(
    table: pd.DataFrame, wanted: Answers
) -> None:
    found = Counter(zip(*(table[name].tolist() for name in TRIPLET), strict=True))
    keys = sorted(found)
    counts = wanted.counts
    columns = (getattr(counts, name).tolist() for name in TRIPLET)
    assert list(zip(*columns, strict=True)) == keys
    assert counts.count.tolist() == [found[key] for key in keys]
    for groups in wanted.folds:
        assert sum(groups[1:], start=groups[0]) == counts
    groups = table.groupby(list(TRIPLET))["reward"]
    assert wanted.rewards.mean == pytest.approx(groups.mean().to_numpy(), rel=1e-14)
    spread = groups.std(ddof=0).to_numpy()
    assert wanted.rewards.sd == pytest.approx(spread, rel=1e-10, abs=1e-12)
    assert 0 < (wanted.rewards.sd == 0).sum() < len(keys)


def test_few_possible_triplets_and_many_are_counted_alike() -> None:
    # A table of all triplets for the first, sorting for the second.
    rng = np.random.default_rng(2)
    s, a, t = (rng.integers(0, n, 5_000) for n in (9, 4, 9))
    reward = rng.normal(size=5_000)
    few = bm.Transitions.from_arrays(s, a, t, reward=reward)
    many = bm.Transitions.from_arrays(s, a, t, reward=reward, n_states=10**6)
    assert many.counts() == few.counts()
    one, other = few.reward_statistics(), many.reward_statistics()
    for name in (*TRIPLET, "count", "mean", "sd"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    weights = rng.integers(0, 3, 5_000)
    weighed = bm.Counts.from_arrays(s, a, t, weights)
    apart = bm.Counts.from_arrays(s, a, t, weights, n_states=10**6)
    by_hand = bm.Counts.from_arrays(*(np.repeat(x, weights) for x in (s, a, t)))
    assert weighed == apart == by_hand


@pytest.mark.parametrize("source", ["path", "duckdb.read_parquet(path)"])
def test_a_script_that_reads_ends_without_a_word(log: Log, source: str) -> None:
    """DuckDB complains at exit about whatever still refers to it."""
    script = (
        "import duckdb, sys, bayesmdp as bm\n"
        "path = sys.argv[1]\n"
        f"log = bm.read_transitions({source})\n"
        "print(log.counts().total)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(log.folder / "0.parquet")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(found.stdout) > 0
    assert found.stderr == ""
