"""Reading logs: every engine gives what arrays give."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tables import ENGINES, NUMBERED

import bayesmdp as bm
from bayesmdp.data._episodes import folds_of
from bayesmdp.data._queries import PRIME, connect, scramble
from bayesmdp.errors import CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

TRIPLET = ["state", "action", "next_state"]


@dataclass(frozen=True)
class Log:
    """One log, in memory and where its files are."""

    table: pd.DataFrame
    arrays: bm.Transitions
    folder: Path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Some 20,000 steps in a windy grid, with rewards that vary."""
    world = bm.worlds.gridworld()
    simulated = world.simulate(np.full((25, 4), 0.25), 2300, seed=3, max_steps=60)
    table = pd.DataFrame(dict(simulated.table.columns))  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    table["reward"] += np.round(rng.normal(1000, 3, len(table)), 3) * (
        table["action"] == 1
    )
    table["reward"] += 0.1 * (table["action"] == 2)
    table["episode"] = 7 * table["episode"] + 3  # neither from 0 nor dense
    table = table.sample(frac=1, random_state=0).reset_index(drop=True)
    assert len(table) > 15_000
    arrays = bm.Transitions.from_arrays(
        *(table[name] for name in TRIPLET),
        reward=table["reward"],
        episode=table["episode"],
    )
    folder = tmp_path_factory.mktemp("logs")
    connection = duckdb.connect()
    connection.register("log", table)
    for name, options in {
        "log.csv": "header",
        "log.csv.gz": "header, compression gzip",
        "log.csv.zst": "header, compression zstd",
        "log.tsv": "header, delimiter '\t'",
        "log.jsonl": "format json",
        "log.ndjson.gz": "format json, compression gzip",
    }.items():
        connection.execute(f"copy log to '{folder / name}' ({options})")
    for part in range(3):
        rows = f"select * from log where episode % 3 = {part}"
        connection.execute(f"copy ({rows}) to '{folder / f'part{part}.parquet'}'")
        # Columns in another order.
        rows = f"select columns(*)::text from ({rows})" if part else rows
        order = "* exclude (state, next_state), next_state, state" if part else "*"
        rows = f"select {order} from ({rows})"
        connection.execute(f"copy ({rows}) to '{folder / f'part{part}.csv'}' (header)")
    return Log(table, arrays, folder)


def in_duckdb(log: Log) -> Any:
    return duckdb.connect().read_parquet(str(log.folder / "part*.parquet"))


def in_ibis(log: Log) -> Any:
    backend = ibis.duckdb.connect()
    path = log.folder / "part*.parquet"
    backend.raw_sql(f"create table log as select * from read_parquet('{path}')")
    return backend.table("log")


SOURCES: dict[str, Callable[[Log], Any]] = {
    "CSV": lambda log: log.folder / "log.csv",
    "tab-separated": lambda log: str(log.folder / "log.tsv"),
    "gzip CSV": lambda log: log.folder / "log.csv.gz",
    "zstd CSV": lambda log: log.folder / "log.csv.zst",
    "CSV with columns in different order": lambda log: log.folder / "part*.csv",
    "Parquet glob": lambda log: str(log.folder / "part*.parquet"),
    "Parquet list": lambda log: sorted(log.folder.glob("*.parquet")),
    "JSON lines": lambda log: log.folder / "log.jsonl",
    "gzip JSON lines": lambda log: log.folder / "log.ndjson.gz",
    "pandas": lambda log: log.table,
    "pandas with floats": lambda log: log.table.astype(dict.fromkeys(TRIPLET, float)),
    "pandas nullable": lambda log: log.table.convert_dtypes(),
    "polars": lambda log: pl.DataFrame(dict(log.table.items())),
    "polars small unsigned": lambda log: pl.DataFrame(dict(log.table.items())).cast(
        {**dict.fromkeys(TRIPLET, pl.UInt8), "step": pl.UInt16}
    ),
    "polars lazy": lambda log: pl.scan_parquet(log.folder / "part*.parquet"),
    "pyarrow": lambda log: pa.table(dict(log.table.items())),
    "DuckDB": in_duckdb,
    "Ibis": in_ibis,
}
EVERY = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


@EVERY
def test_every_source_says_what_arrays_say(log: Log, source: Any) -> None:
    found = bm.read_transitions(source(log))
    assert found.n_rows == log.arrays.n_rows
    assert found.counts() == log.arrays.counts()
    assert found.counts().n_states == log.arrays.counts().n_states
    assert found.counts().sized == (False, False)
    assert found.state_labels is found.action_labels is None
    assert found.notes == ()
    check_rewards(found, log)
    assert found.counts_by_fold(5, seed=11) == log.arrays.counts_by_fold(5, seed=11)


def check_rewards(log_read: bm.Transitions, log: Log) -> None:
    """Compare what was paid, and its spread."""
    found = log_read.reward_statistics()
    wanted = log.arrays.reward_statistics()
    for name in (*TRIPLET, "count"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name))
        assert not getattr(found, name).flags.writeable
    assert found.mean == pytest.approx(wanted.mean, rel=1e-12, abs=1e-12)
    # Means near 1000 are exact to 1e-13 of themselves, and so are deviations from them.
    assert found.sd == pytest.approx(wanted.sd, rel=1e-12, abs=1e-11)
    assert wanted.sd.max() > 1
    fixed = found.action == 2
    assert (found.sd[fixed] == 0).all()


def test_a_posterior_from_a_file_is_the_posterior_from_arrays(log: Log) -> None:
    task = bm.worlds.gridworld().task
    read = bm.fit(
        bm.read_transitions(log.folder / "log.csv"), task, prior=bm.SymmetricPrior()
    )
    assert np.array_equal(
        read.alpha, bm.fit(log.arrays, task, prior=bm.SymmetricPrior()).alpha
    )


def test_scrambling_is_a_permutation() -> None:
    # Of all of 0..p-1, by Fermat: x -> x^5 is one-to-one where 5 and p - 1 share no
    # factor; here of as many numbers as fit, with the largest ones among them.
    numbers = np.concatenate([np.arange(10**5), PRIME - 1 - np.arange(10**5)])
    for seed in range(3):
        found = scramble(numbers, seed)
        assert np.unique(found).size == numbers.size
        assert found.min() >= 0
        assert found.max() < PRIME
    assert (PRIME - 1) % 5 != 0
    exact = [scramble(int(x), 7) for x in numbers[-5:]]  # Python's ints do not wrap
    assert scramble(numbers, 7)[-5:].tolist() == exact


def test_folds_of_seeds_look_independent() -> None:
    # Two splits in two agree in half of the pairs of 2000 episodes: the count of
    # shared episodes is hypergeometric with sd 11; 5 sd for 20 pairs of seeds.
    for seed in range(20):
        one, two = (folds_of(2000, 2, s) for s in (seed, seed + 1))
        assert one.sum() == two.sum() == 1000
        assert abs(int((one & two).sum()) - 500) < 56
        assert abs(int(one[:1000].sum()) - 500) < 56


EACH = pytest.mark.parametrize("engine", [ENGINES[x] for x in NUMBERED], ids=NUMBERED)


# Next states that are not there -------------------------------------------------------


@pytest.fixture(scope="module")
def gappy(log: Log) -> pd.DataFrame:
    """Lose a tenth of the rows, and every next state."""
    rng = np.random.default_rng(1)
    kept = log.table[rng.random(len(log.table)) > 0.1]
    return kept.drop(columns="next_state").reset_index(drop=True)


@pytest.fixture(scope="module")
def by_hand(gappy: pd.DataFrame) -> tuple[bm.Counts, int, int]:
    """Return counts, gaps and last rows, found row by row."""
    table = gappy
    state = {
        (e, t): s
        for e, t, s in zip(table.episode, table.step, table.state, strict=True)
    }
    last: dict[int, int] = {}
    for e, t in state:
        last[e] = max(t, last.get(e, -1))
    rows, gaps, ends = [], 0, 0
    for e, t, s, a in zip(
        table.episode, table.step, table.state, table.action, strict=True
    ):
        if (e, t + 1) in state:
            rows.append((s, a, state[e, t + 1]))
        elif t == last[e]:
            ends += 1
        else:
            gaps += 1
    return bm.Counts.from_arrays(*zip(*rows, strict=True)), gaps, ends


def last_of_each(table: pd.DataFrame) -> "pd.Series[bool]":
    return table.groupby("episode")["step"].transform("max") == table["step"]


DERIVED: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda table, _: table,
    "pandas float steps": lambda table, _: table.astype({"step": float}),
    "polars": lambda table, _: pl.DataFrame(dict(table.items())),
    "polars lazy": lambda table, _: pl.LazyFrame(dict(table.items())),
    "polars unsigned": lambda table, _: pl.LazyFrame(dict(table.items())).cast(
        {"step": pl.UInt8}
    ),
    "pyarrow": lambda table, _: pa.table(dict(table.items())),
    "CSV": lambda table, folder: written(table, folder / "gappy.csv"),
    "DuckDB": lambda table, _: duckdb.from_df(table),
    "Ibis": lambda table, folder: ibis.duckdb.connect().read_csv(
        written(table, folder / "ibis.csv")
    ),
}


def written(table: pd.DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("source", DERIVED.values(), ids=DERIVED)
def test_next_states_are_derived_and_gaps_counted(
    gappy: pd.DataFrame,
    by_hand: tuple[bm.Counts, int, int],
    source: Any,
    tmp_path: Path,
) -> None:
    counts, gaps, ends = by_hand
    assert gaps > 1000
    with pytest.warns(bm.BayesmdpWarning) as warned:
        found = bm.read_transitions(source(gappy, tmp_path))
    assert found.counts() == counts
    assert found.n_rows == counts.total
    (note,) = found.notes
    (ours,) = (x for x in warned if x.category is bm.BayesmdpWarning)
    assert str(ours.message) == note
    assert ours.filename == __file__
    assert f"{counts.total} of {len(gappy)} rows have one; {gaps} were dropped" in note
    cut = int(gappy[last_of_each(gappy)]["truncated"].sum())
    assert f"; {cut} last rows censored, with no next state recorded, and" in note
    assert f"; {ends - cut} last rows without a next state, left out of the" in note
    folds = found.counts_by_fold(3, seed=1)
    assert sum(folds[1:], start=folds[0]) == counts
    assert found.reward_statistics().count.sum() == counts.total


@EACH
def test_derived_next_states_are_the_true_ones_where_outcomes_are_given(
    log: Log, engine: Any
) -> None:
    table = log.table.copy()
    last = last_of_each(table)
    table["end"] = table["next_state"].where(last)  # floats, empty elsewhere
    source = engine(dict(table.drop(columns="next_state").items()))
    found = bm.read_transitions(source, columns={"outcome": "end"})  # does not warn
    assert found.counts() == log.arrays.counts()
    assert found.notes[0].endswith(f"{len(table)} of {len(table)} rows have one.")
    wanted, got = log.arrays.reward_statistics(), found.reward_statistics()
    assert got.mean == pytest.approx(wanted.mean, rel=1e-12, abs=1e-12)


def test_outcomes_may_be_labels_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "ward.csv"
    path.write_text(
        "icustayid,bloc,state,action,end\n"
        "1,1,icu,a,\n1,2,ward,b,home\n2,1,icu,b,death\n3,1,ward,a,\n3,3,icu,a,\n"
    )
    with pytest.warns(
        bm.BayesmdpWarning, match="1 were dropped.*; 1 last row censored"
    ):
        found = bm.read_transitions(path, columns={"outcome": "end"})
    assert found.state_labels == ("death", "home", "icu", "ward")
    counts = found.counts()
    assert counts.state.tolist() == [2, 2, 3]
    assert counts.next_state.tolist() == [3, 0, 1]


# Ids and names ------------------------------------------------------------------------


def rows(**changes: Any) -> dict[str, Any]:
    table = {"state": [0, 5, 0], "action": [1, 0, 1], "next_state": [5, 2, 5]}
    return {**table, **changes}


@EACH
def test_ids_are_never_renumbered(engine: Any) -> None:
    counts = bm.read_transitions(engine(rows())).counts()
    assert counts.state.tolist() == [0, 5]
    assert counts.next_state.tolist() == [5, 2]
    assert (counts.n_states, counts.n_actions) == (6, 2)


@EACH
def test_sizes_may_be_given(engine: Any) -> None:
    found = bm.read_transitions(engine(rows()), n_states=9, n_actions=4).counts()
    assert (found.n_states, found.n_actions, found.sized) == (9, 4, (True, True))


@EACH
def test_text_is_numbered_in_sorted_order(engine: Any) -> None:
    table = rows(state=["ward", "icu", "ward"], next_state=["icu", "Émile", "icu"])
    found = bm.read_transitions(engine(table))
    assert found.state_labels == ("icu", "ward", "Émile")
    assert found.action_labels is None
    assert found.counts().state.tolist() == [0, 1]
    assert found.counts().next_state.tolist() == [2, 0]
    assert found.counts().count.tolist() == [1, 2]


@EACH
def test_numbers_may_be_names(engine: Any) -> None:
    big = 2**60 + 1
    table = rows(state=[big, -7, big], next_state=[-7, 10, -7])
    found = bm.read_transitions(engine(table), labels=True)
    assert found.state_labels == (-7, 10, big)
    assert found.action_labels == (0, 1)
    assert found.counts().state.tolist() == [0, 2]
    assert found.counts().next_state.tolist() == [1, 0]


def test_names_in_files_are_as_exact_as_in_tables(tmp_path: Path) -> None:
    big = 2**60 + 1
    path = tmp_path / "codes.csv"
    path.write_text(f"s,a,sp\n{big},1,{big + 1}\n-3,x,{big}\n")
    found = bm.read_transitions(path, labels=True)
    assert found.state_labels == (-3, big, big + 1)
    assert found.action_labels == ("1", "x")


def test_categories_without_an_order_are_text() -> None:
    text = ["w10", "w9", "w10"]
    for table in (
        pd.DataFrame(rows(action=pd.Categorical(text))),
        pl.DataFrame(rows(action=pl.Series(text, dtype=pl.Categorical))),
        pa.table(rows(action=pa.array(text).dictionary_encode())),
    ):
        assert bm.read_transitions(table).action_labels == ("w9", "w10")


LEVELS = ("none", "mild", "severe")


def in_arrow(text: list[str]) -> pa.Array:
    places = pa.array([LEVELS.index(x) for x in text], pa.int8())
    return pa.DictionaryArray.from_arrays(places, list(LEVELS), ordered=True)


def in_pandas(text: list[str]) -> Any:
    return pd.Categorical(text, categories=LEVELS, ordered=True)


ORDERED: dict[str, Callable[[dict[str, list[str]]], Any]] = {
    "pandas": lambda data: pd.DataFrame({k: in_pandas(v) for k, v in data.items()}),
    "polars": lambda data: pl.DataFrame(
        data, schema_overrides=pl.Schema(dict.fromkeys(data, pl.Enum(LEVELS)))
    ),
    "pyarrow": lambda data: pa.table({k: in_arrow(v) for k, v in data.items()}),
    "DuckDB": lambda data: duckdb.from_df(ORDERED["pandas"](data)),
}


@pytest.mark.parametrize("engine", ORDERED.values(), ids=ORDERED)
def test_ordered_categories_keep_their_order_and_levels(engine: Any) -> None:
    table = {
        "state": ["severe", "none"],
        "action": ["none", "none"],
        "next_state": ["none", "severe"],
    }
    log = bm.read_transitions(engine(table))
    assert log.state_labels == log.action_labels == LEVELS
    assert log.counts() == bm.Counts.from_arrays([2, 0], [0, 0], [0, 2])
    task = bm.Task.from_data(log, discount=0.9, reward=[0, 0, 1])
    assert (task.n_states, task.state_labels) == (3, LEVELS)
    assert bm.fit(log, task, prior=bm.SymmetricPrior()).counts.next_state.tolist() == [
        2,
        0,
    ]
    unused = next(x for x in bm.validate(log) if x.code == "unused-actions")
    assert "2 of 3 actions never taken, the first mild" in unused.message


def test_levels_of_states_are_one_set() -> None:
    table = pd.DataFrame({"s": in_pandas(["none"]), "a": ["x"], "sp": ["home"]})
    assert bm.read_transitions(table).state_labels == (*LEVELS, "home")
    fewer = pd.Categorical(["none"], categories=["none", "severe"], ordered=True)
    assert bm.read_transitions(table.assign(sp=fewer)).state_labels == LEVELS
    other = pd.Categorical(["none"], categories=LEVELS[::-1], ordered=True)
    with pytest.raises(CountsError, match=r"`sp` .* has levels that are not those of"):
        bm.read_transitions(table.assign(sp=other))


def test_episodes_may_be_text() -> None:
    names = ["p9", "p10", "p9"]
    folds = [
        bm.read_transitions(engine(rows(episode=names))).counts_by_fold(2)
        for engine in ENGINES.values()
    ]
    assert all(fold == folds[0] for fold in folds)
    assert sorted(fold.total for fold in folds[0]) == [1, 2]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("99999999999999999991", "99999999999999999992"),  # alike as floats
        ("12.1", "12.10"),
        ("007", "7"),
        ("1e3", "1000"),
        (str(2**60), str(2**60 + 1)),
        ("7.0", "8"),
    ],
)
def test_episodes_in_files_are_names(tmp_path: Path, one: str, other: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"s,a,sp,id\n0,0,1,{one}\n1,0,1,{one}\n0,0,1,{other}\n")
    folds = bm.read_transitions(path).counts_by_fold(2)
    assert sorted(fold.total for fold in folds) == [1, 2]


def test_missing_episodes_in_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("s,a,sp,id\n0,0,1,7\n0,0,1,NaN\n")
    with pytest.raises(
        CountsError, match=r"`id` .* no value in 1 row, the first row 1"
    ):
        bm.read_transitions(path)


@EACH
def test_starts_need_every_step(engine: Any) -> None:
    table = rows(episode=[1, 1, 2], step=[None, 1, 0])
    log = bm.read_transitions(engine(table))
    with pytest.raises(CountsError, match="no number for `step` in 1 of its rows"):
        log.starts()


def test_starts_need_steps_that_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("s,a,sp,id,t\n0,0,1,1,noon\n1,0,2,1,2\n")
    with pytest.raises(CountsError, match="no number for `step` in 1 of its rows"):
        bm.read_transitions(path).starts()


# Settings -----------------------------------------------------------------------------


def test_files_are_read_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", "1GB")
    monkeypatch.setenv("BAYESMDP_THREADS", "2")
    with connect() as connection:
        names = ("memory_limit", "threads")
        asked = ", ".join(f"current_setting('{name}')" for name in names)
        memory, threads = connection.sql(f"select {asked}").fetchall()[0]
        assert memory == "762.9 MiB"  # 0.8 of it: Python needs some too
        assert threads == 2
    monkeypatch.setenv("BAYESMDP_MEMORY", "1")
    with connect() as connection:
        assert connection.sql("select 1").fetchall() == [(1,)]
