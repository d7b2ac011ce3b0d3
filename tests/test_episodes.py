"""Rows by episode and step: the same batches from every source of one log."""

import itertools
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import ENGINES, NUMBERED

import bayesmdp as bm
from bayesmdp.data import EpisodeBatch
from bayesmdp.errors import ArgumentError, CountsError

# Ibis 12 calls what DuckDB 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

TRIPLET = ("state", "action", "next_state")
FILES = {"csv": "header", "parquet": "format parquet", "jsonl": "format json"}
SOURCES = (*ENGINES, *FILES)
Columns = dict[str, list[Any]]
Episode = list[tuple[Any, ...]]  # rows of state, action, next state, reward


def in_file(data: Columns, kind: str, folder: Path) -> Path:
    path = folder / f"log.{kind}"
    connection = duckdb.connect()
    connection.register("log", pd.DataFrame(data))
    connection.execute(f"copy log to '{path}' ({FILES[kind]})")
    return path


def source(data: Columns, name: str, folder: Path) -> Any:
    return ENGINES[name](data) if name in ENGINES else in_file(data, name, folder)


def naive(data: Columns) -> list[Episode]:
    """Group rows in plain Python; ids and steps are compared as Python does."""
    n_rows = len(data["state"])
    steps = data.get("step", list(range(n_rows)))
    names = [x for x in (*TRIPLET, "reward") if x in data]
    episodes: dict[Any, list[int]] = {}
    for row in range(n_rows):
        episodes.setdefault(data["episode"][row], []).append(row)
    return [
        [
            tuple(data[name][row] for name in names)
            for row in sorted(episodes[episode], key=steps.__getitem__)
        ]
        for episode in sorted(episodes)
    ]


def packed(episodes: list[Episode], batch_rows: int) -> list[list[Episode]]:
    """Fill batches one episode at a time."""
    batches: list[list[Episode]] = []
    room = 0
    for episode in episodes:
        if not batches or len(episode) > room:
            batches.append([])
            room = batch_rows
        batches[-1].append(episode)
        room -= len(episode)
    return batches


def unpacked(batch: EpisodeBatch) -> list[Episode]:
    """Rows of each episode, after a look at what the batch says of itself."""
    columns = [batch.state, batch.action, batch.next_state]
    assert all(x.dtype == np.int64 for x in (batch.episode, batch.step, *columns))
    if batch.reward is not None:
        columns.append(batch.reward)  # type: ignore[arg-type]
    assert {x.size for x in (batch.episode, batch.step, *columns)} == {batch.start[-1]}
    assert batch.start[0] == 0
    assert batch.start.size == batch.n_episodes + 1
    rows = list(zip(*(x.tolist() for x in columns), strict=True))
    found = []
    for i, (start, end) in enumerate(itertools.pairwise(batch.start.tolist())):
        assert batch.step[start:end].tolist() == list(range(end - start))
        assert set(batch.episode[start:end] - batch.episode[0]) == {i}
        found.append(rows[start:end])
    return found


def unpacked_all(log: bm.Transitions, batch_rows: int) -> list[list[Episode]]:
    batches = list(log.episodes(batch_rows=batch_rows))
    numbers = np.concatenate([x.episode for x in batches])
    assert numbers[0] == 0
    assert set(np.diff(numbers)) <= {0, 1}  # goes on from batch to batch
    return [unpacked(batch) for batch in batches]


def totals(log: bm.Transitions) -> bm.Counts:
    """Count what the batches hold."""
    batches = list(log.episodes(batch_rows=7))
    columns = (np.concatenate([getattr(x, name) for x in batches]) for name in TRIPLET)
    return bm.Counts.from_arrays(*columns)


def of_episodes(log: bm.Transitions | Columns) -> list[tuple[int, ...]]:
    """Which episodes the rows of each transition are of, as tables tell it."""
    if isinstance(log, dict):
        names = sorted(set(log["episode"]))
        number = np.array([names.index(x) for x in log["episode"]])
        ids = [log[name] for name in TRIPLET]
        log = bm.Transitions.from_arrays(*ids, episode=number)
    found = log.episode_sums()
    assert all(x.dtype == np.int64 for x in found)
    return sorted(zip(*(x.tolist() for x in found), strict=True))


def shuffled(data: Columns, seed: int = 0) -> Columns:
    order = np.random.default_rng(seed).permutation(len(data["state"]))
    return {name: [column[i] for i in order] for name, column in data.items()}


def walks(n_episodes: int = 40, seed: int = 5) -> Columns:
    """Episodes of 1 to 9 rows; ids neither rise nor are dense, steps have gaps."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for i in rng.permutation(n_episodes):
        state = rng.integers(0, 6, size=rng.integers(2, 11)).tolist()
        step = np.cumsum(rng.integers(1, 4, size=len(state))).tolist()
        rows += [
            (int(7 * i - 100), t, s, int(rng.integers(3)), s2, t / 8)
            for t, s, s2 in zip(step, state, state[1:], strict=False)
        ]
    names = ("episode", "step", *TRIPLET, "reward")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


WALKS = walks()


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_batches(name: str, tmp_path: Path) -> None:
    log = bm.read_transitions(source(shuffled(WALKS), name, tmp_path))
    for batch_rows in (1, 20, 10_000):
        assert unpacked_all(log, batch_rows) == packed(naive(WALKS), batch_rows)
    assert totals(log) == log.counts()
    assert of_episodes(log) == of_episodes(WALKS)


@pytest.mark.parametrize("name", SOURCES)
def test_names_are_the_ids_of_the_log(name: str, tmp_path: Path) -> None:
    """Text for everything that may be; upper case comes before lower, and é last."""
    data = shuffled(WALKS)
    for role in ("state", "next_state"):
        data[role] = [f"w{2 * x}" for x in data[role]]  # w2 before w10
    data["action"] = ["wait" if x else "treat" for x in data["action"]]
    names = {x: f"{'aBé'[x % 3]}{x}" for x in data["episode"]}
    data["episode"] = [names[x] for x in data["episode"]]
    log = bm.read_transitions(source(data, name, tmp_path))
    assert log.state_labels is not None
    assert log.action_labels is not None
    ids = dict(data)
    for role in ("state", "next_state"):
        ids[role] = [log.state_labels.index(x) for x in data[role]]
    ids["action"] = [log.action_labels.index(x) for x in data["action"]]
    assert unpacked_all(log, 20) == packed(naive(ids), 20)
    assert totals(log) == log.counts()
    assert of_episodes(log) == of_episodes(ids)


@pytest.mark.parametrize("name", [*NUMBERED, *FILES])
def test_without_steps_rows_keep_the_order_of_the_log(
    name: str, tmp_path: Path
) -> None:
    data = shuffled(WALKS)
    del data["step"], data["reward"]
    log = bm.read_transitions(source(data, name, tmp_path))
    assert unpacked_all(log, 20) == packed(naive(data), 20)
    assert next(log.episodes()).reward is None


def test_files_follow_each_other(tmp_path: Path) -> None:
    """An episode may begin in one file and go on in the next."""
    for i, rows in enumerate(("7,0,0,1\n8,1,0,2\n", "7,1,0,2\n8,2,0,0\n")):
        (tmp_path / f"{i}.csv").write_text(f"episode,state,action,next_state\n{rows}")
    batches = unpacked_all(bm.read_transitions(f"{tmp_path}/*.csv"), 100)
    assert batches == [[[(0, 0, 1), (1, 0, 2)], [(1, 0, 2), (2, 0, 0)]]]


@pytest.mark.parametrize("name", ["csv", "pandas", "polars lazy", "Ibis"])
def test_derived_next_states_are_those_that_are_counted(
    name: str, tmp_path: Path
) -> None:
    """Rows before a gap have none; where an episode ended is known of the last two."""
    data: Columns = {
        "episode": [3, 1, 1, 1, 3, 2, 1],
        "step": [1, 0, 1, 3, 0, 5, 4],
        "state": [2, 0, 1, 2, 0, 1, 0],
        "action": [1, 0, 1, 0, 0, 1, 1],
        "end": [4, None, None, None, None, None, 3],
    }
    table = source(data, name, tmp_path)
    with pytest.warns(bm.BayesmdpWarning, match="1 were dropped because the step"):
        log = bm.read_transitions(table, columns={"outcome": "end"})
    wanted = [[(0, 0, 1), (2, 0, 0), (0, 1, 3)], [(0, 0, 2), (2, 1, 4)]]
    assert unpacked_all(log, 100) == [wanted]
    assert totals(log) == log.counts()


def in_arrays(data: Columns) -> bm.Transitions:
    return bm.Transitions.from_arrays(**data)  # type: ignore[arg-type]


@st.composite
def logs(draw: st.DrawFn) -> Columns:
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=8))
    ids = draw(st.permutations(range(len(lengths))))
    rows = [(3 * ids[i], t) for i, n in enumerate(lengths) for t in range(n)]
    rows = draw(st.permutations(rows))
    number = st.integers(0, 3)
    some = st.lists(number, min_size=len(rows), max_size=len(rows))
    data: Columns = {name: draw(some) for name in TRIPLET}
    data["episode"] = [episode for episode, _ in rows]
    if draw(st.booleans()):
        data["step"] = [2 * t for _, t in rows]
    if draw(st.booleans()):
        data["reward"] = [float(x) for x in draw(some)]
    return data


@given(logs(), st.integers(1, 40))
def test_batches_are_those_of_plain_grouping(data: Columns, batch_rows: int) -> None:
    log = in_arrays(data)
    assert unpacked_all(log, batch_rows) == packed(naive(data), batch_rows)
    assert totals(log) == log.counts()


@pytest.mark.parametrize("batch_rows", [50, 2000, 24_999, 25_000, 25_001])
@pytest.mark.parametrize("name", ["arrays", "pyarrow"])
def test_long_episodes_are_whole(name: str, batch_rows: int) -> None:
    """One of 25,000 rows between two of 1; the table is fetched in several parts."""
    length = [1, 25_000, 1]
    step = np.concatenate([np.arange(n) for n in length])
    data = {"state": step % 4, "action": step % 2, "next_state": step % 3, "step": step}
    data["episode"] = np.repeat([0, 1, 2], length)
    log = bm.Transitions.from_arrays(**data)  # type: ignore[arg-type]
    if name in ENGINES:
        log = bm.read_transitions(ENGINES[name](data))
    found = [batch.start.tolist() for batch in log.episodes(batch_rows=batch_rows)]
    together = [[0, 1, 25_001], [0, 1]]
    apart = [[0, 1], [0, 25_000], [0, 1]]
    assert found == (together if batch_rows == 25_001 else apart)


def test_an_empty_log_has_no_batches() -> None:
    assert list(bm.Transitions.from_arrays([], [], [], episode=[]).episodes()) == []


@pytest.mark.parametrize("name", ["DuckDB", "Ibis", "csv", "pandas"])
def test_a_log_can_be_asked_while_its_rows_are_read(name: str, tmp_path: Path) -> None:
    log = bm.read_transitions(source(WALKS, name, tmp_path))
    wanted = packed(naive(WALKS), 20)
    found = []
    for one, other in zip(
        log.episodes(batch_rows=20), log.episodes(batch_rows=20), strict=True
    ):
        assert unpacked(one) == unpacked(other)
        assert log.reward_statistics().count.sum() == log.n_rows
        found.append(unpacked(one))
    assert found == wanted


def test_a_table_of_ibis_itself_is_read() -> None:
    log = bm.read_transitions(ibis.memtable(pa.table(shuffled(WALKS))))
    assert unpacked_all(log, 20) == packed(naive(WALKS), 20)


def test_nothing_stays_in_the_connection_of_the_caller() -> None:
    connection = duckdb.connect()
    connection.register("log", pd.DataFrame(WALKS))
    log = bm.read_transitions(connection.table("log"))

    def left() -> list[Any]:
        names = "table_name from duckdb_tables() union all select view_name"
        query = f"select {names} from duckdb_views() where not internal"
        return [x for (x,) in connection.sql(query).fetchall() if x != "log"]

    iterator = log.episodes(batch_rows=20)
    next(iterator)
    assert left() != []
    del iterator  # before its end
    assert left() == []
    assert list(log.episodes()) != []
    assert left() == []


REFUSED: dict[str, tuple[Callable[[], object], type, tuple[str, ...]]] = {
    "no episodes": (
        lambda: bm.Transitions.from_arrays([0], [0], [1]).episodes(),
        CountsError,
        ("no `episode` column", "columns={'episode': ...}"),
    ),
    "no rows in a batch": (
        lambda: bm.Transitions.from_arrays([0], [0], [1], episode=[0]).episodes(
            batch_rows=0
        ),
        ArgumentError,
        ("`batch_rows`", "at least 1", "got 0"),
    ),
    "a step that is not there": (
        lambda: bm.read_transitions(
            pd.DataFrame(WALKS | {"step": [None, *WALKS["step"][1:]]})
        ).episodes(),
        CountsError,
        ("no number for `step` in 1 of its rows", "fill in the steps"),
    ),
    "two rows with one step": (
        lambda: list(
            bm.Transitions.from_arrays(
                [0, 1, 2], [0, 0, 0], [1, 2, 0], episode=[4, 7, 7], step=[0, 3, 3]
            ).episodes(batch_rows=1)
        ),
        CountsError,
        ("Episode 7 has several rows with `step` 3", "number the steps"),
    ),
    "no order of rows": (
        lambda: bm.read_transitions(
            ENGINES["Ibis"]({x: y for x, y in WALKS.items() if x != "step"})
        ).episodes(),
        CountsError,
        ("no `step` column", "no order of rows", "columns={'step': ...}"),
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_has_no_order_is_refused_in_a_sentence(case: Any) -> None:
    call, error, said = case
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert [x for x in said if x not in text] == []


def test_a_file_that_changed_is_noticed(tmp_path: Path) -> None:
    log = bm.read_transitions(in_file(WALKS, "csv", tmp_path))
    fewer = {name: column[:-1] for name, column in WALKS.items()}
    in_file(fewer, "csv", tmp_path)
    with pytest.raises(CountsError, match="has changed since it was read"):
        list(log.episodes())


def peak_of_reading(n_rows: int) -> int:
    """Most bytes that Python holds while it looks at each row of a log in DuckDB."""
    log = bm.read_transitions(
        duckdb.sql(
            "select i // 6 as episode, i % 6 as step, i % 5 as state, 0 as action,"
            f" (i + 1) % 5 as next_state, i / 8 as reward from range({n_rows}) r(i)"
            " order by hash(i)"
        )
    )
    n_before = 0
    tracemalloc.start()
    for batch in log.episodes(batch_rows=10_000):
        i = np.arange(n_before, n_before + batch.state.size)
        assert np.array_equal(batch.reward, i / 8)  # type: ignore[arg-type]
        assert np.array_equal(batch.episode, i // 6)
        assert np.array_equal(batch.state, i % 5)
        n_before += i.size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_before == n_rows
    return peak


def test_python_holds_a_few_batches_however_long_the_log() -> None:
    """A row takes 48 bytes; the whole of the second log would be 14 MB."""
    short, long = peak_of_reading(60_000), peak_of_reading(300_000)
    assert long < 1.2 * short
    assert long < 8 * 48 * 10_000


def test_rows_after_a_gap_do_not_follow() -> None:
    log = bm.Transitions.from_arrays(
        [0, 2, 3, 0, 1], [0] * 5, [1, 3, 4, 1, 4], episode=[1, 1, 1, 2, 2]
    )
    (batch,) = log.episodes()
    assert batch.follows.tolist() == [False, False, True, False, True]


@pytest.mark.parametrize("kind", FILES)
def test_files_are_read_again_only_where_memory_is_short(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Next states take a dozen queries; text would be parsed in each of them."""
    states = {"state": [0, 1, 2, 0, 2], "action": [0, 1, 0, 1, 1]}
    order = {"episode": [1, 1, 1, 2, 2], "step": [0, 1, 2, 0, 1]}
    path = in_file({**states, **order}, kind, tmp_path)
    held = bm.read_transitions(path)
    monkeypatch.setattr("bayesmdp.data._queries._CELL", 10**15)
    not_held = bm.read_transitions(path)
    assert held.notes == not_held.notes
    (wanted,) = not_held.episodes()
    path.unlink()
    (found,) = held.episodes()
    assert found.next_state.tolist() == wanted.next_state.tolist() == [1, 2, 2]
    with pytest.raises(CountsError, match="cannot be read"):
        list(not_held.episodes())


@pytest.mark.parametrize("kind", FILES)
def test_tables_of_one_question_do_not_stay(kind: str, tmp_path: Path) -> None:
    log = bm.read_transitions(in_file(WALKS, kind, tmp_path))
    there = log.table.connection.execute  # type: ignore[union-attr]
    before = there("select count(*) from duckdb_tables()").fetchall()
    assert of_episodes(log) == of_episodes(log)
    assert there("select count(*) from duckdb_tables()").fetchall() == before
