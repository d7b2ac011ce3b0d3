"""Ibis on a real PostgreSQL server: the same answers, and only groups on the wire.

The server runs in a temporary directory, as a user without rights where the tests run
as root, which it refuses, and listens on a socket there. How many rows it sent, it says
itself (pg_stat_statements).
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from debian import install
from sepsis_log import (
    FOLDS,
    N_ROWS,
    Answers,
    answers,
    assert_same_derived,
    assert_same_log,
    sepsis_log,
)
from test_ambiguous_logs import CASES as LOGS
from test_ambiguous_logs import check_case
from test_grid import READ
from test_names import ALL, CODES, moves
from validate_cases import CASES
from validate_episode_cases import Case
from validate_logs import messy, without
from visits import random_visits

import bayesmdp as bm

pytestmark = pytest.mark.integration

pwd = pytest.importorskip("pwd", reason="the server needs a system with users")
ibis = pytest.importorskip("ibis", reason="Ibis is not installed")
psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

PROGRAMS = Path("/usr/lib/postgresql")
COLUMNS = {
    "episode": "bigint",
    "step": "smallint",
    "state": "integer",
    "action": "smallint",
    "next_state": "integer",
    "reward": "double precision",
    "stay": 'text collate "und-x-icu"',  # a before B, unlike elsewhere
}


def programs() -> Path:
    """Where the newest server is, installed if that is allowed."""
    if not servers():
        install("PostgreSQL", "postgresql")
    if not servers():
        pytest.skip(f"PostgreSQL's server is neither below {PROGRAMS} nor on PATH")
    return servers()[-1].parent


def servers() -> list[Path]:
    """Find servers on PATH and where Debian keeps them, oldest first."""
    on_path = shutil.which("postgres")
    found = [] if on_path is None else [Path(on_path).resolve()]
    debian = PROGRAMS.glob("*/bin/postgres")
    return found + sorted(debian, key=lambda path: int(path.parts[-3]))


def unprivileged() -> Any:
    """Whom the server runs as, for root; initdb wants a user that has a name."""
    users = [user for user in pwd.getpwall() if user.pw_uid != 0]
    if not users:
        pytest.skip("PostgreSQL does not run as root, and there is no other user")
    return next((user for user in users if user.pw_name == "nobody"), users[0])


@contextmanager
def running(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a server there until the block ends; how to reach it."""
    here, data = programs(), folder / "data"
    as_user: dict[str, Any] = {"cwd": folder}
    if os.geteuid() == 0:
        user = unprivileged()
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    initdb = [here / "initdb", "-D", data, "-U", "postgres", "--auth=trust"]
    made = subprocess.run(
        [*initdb, "--no-sync", "--encoding=UTF8", "--locale=C"],
        capture_output=True,
        text=True,
        **as_user,
    )
    assert made.returncode == 0, made.stderr
    settings = {
        "listen_addresses": "",
        "fsync": "off",
        "shared_preload_libraries": "pg_stat_statements",
        "pg_stat_statements.track_utility": "on",  # rows of FETCH too
    }
    options = [x for key, value in settings.items() for x in ("-c", f"{key}={value}")]
    with (folder / "log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(
            [here / "postgres", "-D", data, "-k", folder, *options],
            stdout=log,
            stderr=log,
            **as_user,
        )
    reach = {"host": str(folder), "user": "postgres"}
    try:
        wait_for(server, reach, folder / "log")
        yield reach
    finally:
        server.send_signal(signal.SIGINT)  # ends connections, then itself
        server.wait(timeout=20)
    assert server.returncode == 0


def wait_for(server: subprocess.Popen[bytes], reach: Any, log: Path) -> None:
    for _ in range(200):
        if server.poll() is not None:
            break
        try:
            psycopg.connect(dbname="postgres", **reach).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    said = log.read_text(encoding="utf-8")[-500:]
    if 'could not access file "pg_stat_statements"' in said:
        pytest.skip("PostgreSQL's extension pg_stat_statements is not installed")
    pytest.fail(f"PostgreSQL did not start: {said}")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    table = sepsis_log()
    table["stay"] = table["episode"].map(lambda x: f"{'aB'[x % 2]} {x}")
    return table


@pytest.fixture(scope="module")
def wanted(table: pd.DataFrame) -> Answers:
    return answers(table)


@pytest.fixture(scope="module")
def server(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """A server that holds the log, and the same without next states."""
    # Not pytest's own folder, which only its owner may enter, nor TMPDIR, which may be
    # such a one; and the name of a socket has at most 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="bayesmdp-", dir="/tmp") as folder,
        running(Path(folder)) as reach,
    ):
        with psycopg.connect(dbname="postgres", autocommit=True, **reach) as connection:
            connection.execute("create extension pg_stat_statements")
            said = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            connection.execute(f"create table log ({said})")
            copy = f"copy log ({', '.join(COLUMNS)}) from stdin (format csv)"
            with connection.cursor().copy(copy) as rows:
                rows.write(table[list(COLUMNS)].to_csv(index=False, header=False))
            connection.execute(
                "create view short as select episode, step, state, action from log"
            )
        yield reach


@pytest.fixture
def database(server: dict[str, Any]) -> Iterator[Any]:
    backend = ibis.postgres.connect(database="postgres", **server)
    yield backend
    backend.disconnect()


def stored(database: Any, table: dict[str, list[Any]]) -> Any:
    """Put a small table on the server, until the connection ends."""
    return database.create_table("small", pa.table(table), temp=True)


@contextmanager
def rows_sent(server: dict[str, Any], sent: list[int]) -> Iterator[None]:
    """Fill in how many rows each statement of the block returned, most first."""
    with psycopg.connect(dbname="postgres", autocommit=True, **server) as watcher:
        watcher.execute("select pg_stat_statements_reset()")
        yield
        found = watcher.execute(
            "select rows from pg_stat_statements where rows > 0"
            " and query not like '%pg_stat_statements%' order by rows desc"
        ).fetchall()
    sent += [rows for (rows,) in found]


def test_postgres_says_the_same(database: Any, wanted: Answers) -> None:
    assert_same_log(bm.read_transitions(database.table("log")), wanted)


def test_postgres_derives_the_same(database: Any, wanted: Answers) -> None:
    assert_same_derived(database.table("short"), wanted)


def test_names_are_numbered_as_elsewhere(database: Any, table: pd.DataFrame) -> None:
    """Text for states and episodes, which the server itself sorts by a language."""
    log = database.table("log")
    text = log.mutate(
        state="S" + log.state.cast("string"),
        next_state="S" + log.next_state.cast("string"),
    )
    same = table.assign(
        state="S" + table["state"].astype(str),
        next_state="S" + table["next_state"].astype(str),
    )
    columns = {"episode": "stay"}
    found = bm.read_transitions(text, columns=columns)
    wanted = bm.read_transitions(same, columns=columns)
    assert found.state_labels == wanted.state_labels
    assert found.counts() == wanted.counts()
    assert found.counts_by_fold(3, seed=1) == wanted.counts_by_fold(3, seed=1)


def test_nasty_names_are_read_as_elsewhere(database: Any) -> None:
    log = bm.read_transitions(stored(database, moves(ALL)), labels=True)
    wanted = bm.read_transitions(pd.DataFrame(moves(ALL)), labels=True)
    assert log.state_labels == wanted.state_labels
    assert log.counts() == wanted.counts()


def test_missing_value_codes_are_missing(database: Any) -> None:
    table = {"state": ["icu", *CODES], "action": ["none"] * 6, "next_state": ["x"] * 6}
    said = r"no value in 5 rows, with 4 missing-value codes \(NA, NaN, NULL or \.\)"
    with pytest.raises(bm.BayesmdpError, match=said):
        bm.read_transitions(stored(database, table))


@pytest.mark.filterwarnings("ignore::bayesmdp.BayesmdpWarning")
@pytest.mark.parametrize("case", LOGS)
def test_ambiguous_logs_get_their_sentence(database: Any, case: str) -> None:
    check_case(case, lambda table: stored(database, table))


@pytest.mark.parametrize("text", [False, True])
def test_visits_are_put_on_the_same_grid(database: Any, text: bool) -> None:
    visits = random_visits(5)
    if text:  # names that the locale sorts otherwise
        visits["patient"] = [f"{'aB'[x % 2]}{x}" for x in visits["patient"]]
    log = bm.read_transitions(stored(database, visits), **READ, every=10)
    wanted = bm.read_transitions(pd.DataFrame(visits), **READ, every=10)
    assert log.counts() == wanted.counts()
    said = [x.replace("the pandas table", "the ibis table") for x in wanted.notes]
    assert list(log.notes) == said


def test_tiny_ids_are_not_zero(database: Any) -> None:
    table = {"state": [0.0, 1e-16], "action": [0, 0], "next_state": [1, 1]}
    with pytest.raises(bm.BayesmdpError, match="whole numbers: a row has 1e-16"):
        bm.read_transitions(stored(database, table))


def test_only_groups_cross_the_wire(
    server: dict[str, Any], database: Any, wanted: Answers
) -> None:
    distinct = wanted.counts.count.size
    assert distinct < N_ROWS / 2
    sent: list[int] = []
    with rows_sent(server, sent):
        found = bm.read_transitions(database.table("log"))
        assert found.counts().total == N_ROWS
    # Once the groups; beside them sums of checks and columns from the catalogue.
    assert sent[0] == distinct
    assert sum(sent[1:]) < 100
    sent.clear()
    with rows_sent(server, sent):
        found.reward_statistics()
    assert sent[0] == distinct
    assert sum(sent[1:]) < 100
    sent.clear()
    ((n_folds, seed), *_), (folds, *_) = FOLDS, wanted.folds
    with rows_sent(server, sent):
        found.counts_by_fold(n_folds, seed=seed)
    assert sent[0] == sum(fold.count.size for fold in folds)
    assert sum(sent[1:]) < 100  # and not the list of episodes


@pytest.mark.parametrize("episode", ["episode", "stay"])
def test_episodes_are_those_of_other_engines(
    database: Any, table: pd.DataFrame, episode: str
) -> None:
    columns = {"episode": episode}
    found = bm.read_transitions(database.table("log"), columns=columns)
    wanted = bm.read_transitions(table, columns=columns)
    batches = zip(
        found.episodes(batch_rows=30_000),
        wanted.episodes(batch_rows=30_000),
        strict=True,
    )
    n_rows = 0
    for one, other in batches:
        for field in fields(one):
            x, y = getattr(one, field.name), getattr(other, field.name)
            assert np.array_equal(x, y), field.name
        assert found.endings().left.sum() > 0  # the server can be asked meanwhile
        n_rows += one.state.size
    assert n_rows == N_ROWS
    sums = [np.stack(log.episode_sums()) for log in (found, wanted)]
    one, other = (x[:, np.lexsort(x[:3])] for x in sums)
    assert np.array_equal(one, other)


def test_rows_are_sent_as_they_are_read(server: dict[str, Any], database: Any) -> None:
    log = bm.read_transitions(database.table("log"))
    sent: list[int] = []
    with rows_sent(server, sent):
        batches = log.episodes(batch_rows=20_000)
        next(batches)
        del batches
    assert 20_000 <= sum(sent) <= 40_100
    assert log.counts().total == N_ROWS


def test_rows_sent_are_noticed(server: dict[str, Any], database: Any) -> None:
    """The check can fail: whoever fetches the table is seen to."""
    sent: list[int] = []
    with rows_sent(server, sent):
        database.table("log").select("state").to_pyarrow()
    assert sum(sent) >= N_ROWS


def test_columns_of_other_types(database: Any) -> None:
    log = database.table("log")
    other = log.mutate(
        state=log.state.cast("decimal(10, 0)"),
        next_state=log.next_state.cast("float32"),
        reward=log.reward > 0.25,
    )
    found = bm.read_transitions(other)
    assert found.counts() == bm.read_transitions(log).counts()
    wanted = log.mutate(reward=(log.reward > 0.25).cast("int32"))
    rewards = bm.read_transitions(wanted).reward_statistics()
    assert found.reward_statistics().mean.tolist() == rewards.mean.tolist()


def test_errors_of_the_server_are_worded(database: Any) -> None:
    log = database.table("log")
    with pytest.raises(bm.BayesmdpError, match="must be 0 or more") as caught:
        bm.read_transitions(log.mutate(state=log.state - 1))
    assert "\n" not in str(caught.value)
    with pytest.raises(bm.BayesmdpError, match=r"cannot be read: .*division") as caught:
        bm.read_transitions(log.mutate(state=1 // (log.state - 5)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_validate_finds_the_same(database: Any, case: Case) -> None:
    """Whatever the other engines find, but no row is the first of the server's."""
    table, options, code, severity, count, column, row = case
    found = bm.validate(stored(database, table), **{"min_count": 1, **options})
    wanted = [x for x in found if x.code == code and x.column in (column, None)]
    assert wanted, found.summary()
    finding = wanted[0]
    assert (finding.severity, finding.count, finding.column) == (
        severity,
        count,
        column,
    )
    assert finding.first_row is None
    assert "the first a row" not in finding.message
    assert not finding.where.startswith("a row")
    if row is not None and finding.where and "episode" in table:
        assert f"episode {table['episode'][row]}" in finding.where


@pytest.mark.parametrize("derive", [False, True], ids=["", "derived"])
def test_validate_finds_as_much_in_a_messy_log(database: Any, derive: bool) -> None:
    table = messy(0)
    known = None if derive else bm.Task(9, 5, np.zeros(9), discount=0.9, terminal=[3])
    if derive:
        table = without("next_state", table=table)
    found = bm.validate(stored(database, table), known)
    wanted = bm.validate(pd.DataFrame(table), known)
    assert found.n_rows == wanted.n_rows == 400
    assert len(found) > 9
    for one, other in zip(found, wanted, strict=True):
        for key in ("code", "severity", "column", "count", "remedy"):
            assert getattr(one, key) == getattr(other, key)
        assert one.first_row is None


@pytest.mark.parametrize("name", ["log", "short"])
def test_validate_fetches_groups_and_first_offenders(
    server: dict[str, Any],
    database: Any,
    table: pd.DataFrame,
    wanted: Answers,
    name: str,
) -> None:
    counts = wanted.derived if name == "short" else wanted.counts
    sent: list[int] = []
    with rows_sent(server, sent):
        found = bm.validate(database.table(name))
    assert sent[0] == counts.count.size
    assert sum(sent[1:]) < 200  # some 20 sums and offenders, and the catalogue
    codes = {x.code for x in found}
    assert ("missing-next-states" in codes) == (name == "short")
    local = table if name == "log" else table[["episode", "step", "state", "action"]]
    same = bm.validate(local)
    assert [(x.code, x.count) for x in found] == [(x.code, x.count) for x in same]


def test_validate_takes_what_was_read(database: Any, wanted: Answers) -> None:
    with pytest.warns(bm.BayesmdpWarning, match="last rows without a next state"):
        log = bm.read_transitions(database.table("short"))
    found = bm.validate(log)
    assert found.n_rows == wanted.derived.total
    assert "read-with-notes" in {x.code for x in found.notes}


@pytest.mark.parametrize("flag", ["int16", "boolean", "float64"])
def test_ai_clinician_tables_are_read(
    server: dict[str, Any], database: Any, table: pd.DataFrame, flag: str
) -> None:
    """Ids from 1, a tenth of the rows lost; pandas' answer is held against a loop."""
    log = database.table("log")
    some = (log.episode < 1000) & ((log.episode + log.step) % 10 != 0)
    stays = log.filter(some).select(
        bloc=log.step + 1,
        icustayid="episode",
        state=log.state + 1,
        action=log.action + 1,
        reward="reward",
        outcome=(log.episode % 2 == 0).cast("int32").cast(flag),
    )
    rows = table[(table["episode"] < 1000) & ((table.episode + table.step) % 10 != 0)]
    same = pd.DataFrame(
        {
            "bloc": rows["step"] + 1,
            "icustayid": rows["episode"],
            "state": rows["state"] + 1,
            "action": rows["action"] + 1,
            "reward": rows["reward"],
            "outcome": (rows["episode"] % 2 == 0).astype(int),
        }
    )
    sent: list[int] = []
    with pytest.warns(bm.BayesmdpWarning, match="the step after them is missing"):
        wanted = bm.data.read_ai_clinician(same)
    with rows_sent(server, sent):
        with pytest.warns(bm.BayesmdpWarning, match="the step after them is missing"):
            found = bm.data.read_ai_clinician(stays)
        counts = found.counts()
    assert sent[0] == counts.count.size
    assert sum(sent[1:]) < 100
    assert counts == wanted.counts()
    assert 5000 < counts.total < len(rows)
    assert found.state_labels == wanted.state_labels
    pandas, ibis_ = "the pandas table", "the ibis table"
    assert [x.replace(ibis_, pandas) for x in found.notes] == list(wanted.notes)
    ends = found.endings().terminated
    assert ends is not None
    assert ends.tolist() == wanted.endings().terminated.tolist()  # type: ignore[union-attr]
    assert found.starts().count.tolist() == wanted.starts().count.tolist()
    rewards = found.reward_statistics()
    assert rewards.mean.tolist() == wanted.reward_statistics().mean.tolist()
    assert found.counts_by_fold(3, seed=1) == wanted.counts_by_fold(3, seed=1)


def test_ai_clinician_faults_are_worded(database: Any) -> None:
    log = database.table("log")
    stays = log.select("state", "action", "episode", "step", outcome=log.episode % 2)
    with pytest.raises(bm.BayesmdpError, match="must count from 1: a row has 0"):
        bm.data.read_ai_clinician(stays)
