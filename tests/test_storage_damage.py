"""Run directories that are damaged, foreign, newer or out of reach: a sentence each."""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_runs import as_array, with_arrays
from changed_runs import rewritten as rewritten_file
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesmdp as bm
from bayesmdp.errors import StorageError
from bayesmdp.storage import load, load_result, save, save_result

TASK = bm.Task(3, 1, reward=[0, 0, 1], discount=0.5, terminal=[2])
POSTERIOR = bm.fit(
    bm.Counts.from_arrays([0, 1], [0, 0], [1, 2]), TASK, prior=bm.SymmetricPrior()
)
OTHER = bm.fit(
    bm.Counts.from_arrays([0, 1], [0, 0], [2, 2]), TASK, prior=bm.SymmetricPrior()
)
FILES = ("config.json", "results/found.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = save(POSTERIOR, tmp_path_factory.mktemp("whole"))
    save_result(path, "found", {"k": 1, "x": np.array([1, 2, 3])})
    return path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "run")


def refused(call: Callable[[], object], *said: str) -> None:
    """Expect one sentence of ours with these fragments, in this order."""
    with pytest.raises(StorageError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    for fragment in said:
        assert fragment in message, message
        message = message[message.index(fragment) + len(fragment) :]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["missing", "empty", "cut", "longer", "flipped"])
def test_damage_is_named(run: Path, name: str, how: str) -> None:
    path = run / name
    content = path.read_bytes()
    call = (
        (lambda: load_result(run, "found")) if "results" in name else lambda: load(run)
    )
    call()
    if how == "missing":
        path.unlink()
        refused(call, "no result" if "results" in name else "no `config.json`")
        return
    damaged = {
        "empty": [b""],
        "cut": [content[: len(content) // 2], content[:-1].rstrip()[:-1]],
        "longer": [content + b"\0"],
        "flipped": [
            content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :]
            for i in range(0, len(content), max(len(content) // 12, 1))
            if content[i : i + 1].strip()
        ],
    }[how]
    for bad in damaged:
        path.write_bytes(bad)
        refused(call, f"`{path}`")


SPARSE = {"$record": "SparsePrior", "concentration": 1.0, "fallback": None}
HIERARCHICAL = {"$record": "HierarchicalPrior", "base": "local", "support": None}
HIERARCHICAL |= {"fallback": None}


def nested(n: int) -> Any:
    found: Any = None
    for _ in range(n):
        found = SPARSE | {"fallback": found}
    return found


def rewritten(run: Path, head: str = "config.json", **changes: Any) -> None:
    """Change a head by hand, checksum included."""
    rewritten_file(run / head, **changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": 3}, ("newer bayesmdp: its schema is 3", "upgrade")),
        ({"schema": "1"}, ("no schema number but '1'",)),
        ({"schema": True}, ("no schema number",)),
        ({"format": "other"}, ("was not written by bayesmdp",)),
        ({"arrays": []}, ("has no arrays",)),
        ({"arrays": {"x": 3}}, ("holds 'x', which bayesmdp did not write",)),
        ({"arrays": {}}, ("does not hold a task", "no array 'task.")),
        ({"task": None}, ("does not hold a task", "it has None as 'task'")),
        ({"task": {}}, ("does not hold a task", "Task has no 'n_states'")),
        ({"counts": {}}, ("which bayesmdp did not write",)),
        ({"counts": {"x": {"$array": "counts.state"}}}, ("did not write",)),
        ({"chains": {"x": {"$array": "x"}}}, ("no array 'x'",)),
        ({"chains": {}, "prior": HIERARCHICAL}, ("fitted again",)),
        ({"prior": None}, ("cannot be fitted again", "its prior is none but None")),
        ({"prior": {}}, ("cannot be fitted again", "its prior is none but {}")),
        ({"prior": {"$record": "Later"}}, ("unknown kind, 'Later'", "newer")),
        ({"prior": {"$record": ["x"]}}, ("unknown kind", "newer")),
        ({"prior": {"$record": "OffPolicy"}}, ("OffPolicy has no 'name'",)),
        ({"prior": {"$record": "SparsePrior"}}, ("SparsePrior has no 'concentr",)),
        ({"prior": {"$record": "SparsePrior", "x": 1}}, ("SparsePrior has no",)),
        ({"prior": SPARSE | {"concentration": -1}}, ("`concentration` must be in",)),
        ({"prior": SPARSE | {"fallback": [2]}}, ("again: `fallback` must be a whole",)),
        ({"prior": SPARSE | {"fallback": {"$array": "x"}}}, ("no array 'x'",)),
        ({"prior": nested(400)}, ("is nested more than 50 times",)),
        ({"min_count": "3"}, ("it has '3' as 'min_count'",)),
        ({"min_count": -1}, ("cannot be fitted again", "`min_count`")),
        ({"versions": 3}, ("it has 3 as 'versions'",)),
        ({"notes": None}, ("it has None as 'notes'",)),
    ],
    ids=str,
)
def test_a_foreign_or_newer_config_is_named(
    run: Path, changes: dict[str, Any], said: tuple[str, ...]
) -> None:
    rewritten(run, **changes)
    refused(lambda: load(run), *said)


def test_a_run_of_an_earlier_format_is_named_and_stays(run: Path) -> None:
    rewritten(run, schema=1)
    said = "config.json` was written by an earlier bayesmdp: its schema is 1"
    refused(lambda: load(run), said, "fit it again, into a new directory")
    refused(lambda: save(OTHER, run, overwrite=True), "is not replaced", said)


@pytest.mark.parametrize(
    "key",
    ["versions", "seed", "source", "columns", "notes", "min_count", "prior", "task"],
)
def test_a_key_that_is_missing_is_named(run: Path, key: str) -> None:
    path = run / "config.json"
    record = json.loads(path.read_text())
    del record[key]
    path.write_text(json.dumps(record))
    rewritten(run)
    said = "it has None as 'task'" if key == "task" else f"Config has no {key!r}"
    refused(lambda: load(run), "config.json`", said)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        "{",
        '{"format": NaN}',
        "[" * 100_000,
        "\xff",
        '{"a": 1}',
        "1" * 9999,
    ],
    ids=range(8),
)
def test_another_config_is_named(run: Path, text: str) -> None:
    (run / "config.json").write_bytes(text.encode("latin-1"))
    refused(lambda: load(run), "config.json")
    refused(lambda: save(POSTERIOR, run, overwrite=True), "is not replaced")
    refused(lambda: save_result(run, "x", {}), "config.json")


def changed(run: Path, arrays: dict[str, Any]) -> None:
    """Change arrays of a run, or what it says of them."""
    with_arrays(run / "config.json", **arrays)


START = as_array([0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        b"not text".hex(),
        {},
        START | {"more": 1},
        START | {"kind": "O"},
        START | {"kind": "|O8"},
        START | {"kind": "<f0"},
        START | {"shape": [-3]},
        START | {"shape": ["3"]},
        START | {"shape": [1] * 40 + [3]},
        START | {"shape": [10**13]},  # a few bytes can claim any size
        START | {"shape": [2]},
        START | {"zlib": "%%%"},
        START | {"zlib": "AAAA"},
        START | {"zlib": START["zlib"][:-8]},
    ],
    ids=range(15),
)
def test_foreign_arrays_are_named(run: Path, wrong: Any) -> None:
    changed(run, {"task.start": wrong})
    refused(lambda: load(run), "")


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("more", np.zeros(3), ("holds 'more', which bayesmdp did not write",)),
        ("task.start", np.zeros((3, 1)), ("shape (3, 1), not (3,)",)),
        ("task.start", np.zeros(3, np.float32), ("as 'task.start'",)),
        ("task.start", np.zeros(4), ("has shape (4,), not (3,)",)),
        ("task.start", np.zeros(3), ("does not hold a task", "`start`")),
        ("task.start", np.zeros(3, "U1"), ("as 'task.start'",)),
        ("task.terminal", np.array([2.0]), ("as 'task.terminal'",)),
        ("task.terminal", np.array([9]), ("does not hold a task", "`terminal`")),
        ("task.reward", np.zeros((3, 2)), ("not (3,) or (3, 1) or (3, 1, 3)",)),
        ("counts.count", np.ones(2, np.int32), ("as 'counts.count'",)),
        ("counts.count", np.ones(2), ("as 'counts.count'",)),
        ("counts.count", np.array([1, -1]), ("fitted again: `count`",)),
        ("counts.count", np.array([0, 0]), ("cannot be fitted again",)),
        ("counts.count", np.array([1]), ("cannot be fitted again", "number of rows")),
        ("counts.count", np.array(1), ("'counts.count' has shape (), not",)),
        ("counts.next_state", np.array([9, 9]), ("fitted again: `next_state`",)),
    ],
    ids=range(16),
)
def test_other_arrays_are_named(
    run: Path, name: str, array: Any, said: tuple[str, ...]
) -> None:
    changed(run, {name: array})
    refused(lambda: load(run), *said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"discount": 2.0}, "`discount`"),
        ({"discount": "x"}, "it has 'x' as 'task.discount'"),
        ({"n_states": 2**62}, "`n_states` must be at most 10000001"),
        ({"n_states": 4}, "has shape (3,), not (4,)"),
        ({"n_actions": 2**40}, "`n_actions` must be at most 10000001"),
        ({"state_labels": ["a"]}, "`state_labels` must have 3 entries"),
        ({"state_labels": [1, 2, 3]}, "it has 1 as 'task.state_labels.0'"),
        ({"reward": {"key": {"$array": "task.terminal"}}}, "as 'task.reward'"),
        ({"reward": [0.0, 0.0, 1.0]}, "as 'task.reward'"),
        ({"start": None}, "it has None as 'task.start'"),
        ({"start": {"$array": "task.none"}}, "'task.none'"),
        ({"start": {"$task": None}}, "as 'task.start'"),
        ({"more": 3}, "Task has no field 'more'"),
    ],
    ids=str,
)
def test_a_foreign_task_is_named(run: Path, change: dict[str, Any], said: str) -> None:
    task = json.loads((run / "config.json").read_text())["task"]
    rewritten(run, task=task | change)
    refused(lambda: load(run), "config.json` does not hold a task", said)


def test_a_result_that_holds_no_record_is_named(run: Path) -> None:
    head = run / "results" / "found.json"
    rewritten(run, "results/found.json", record=3)
    refused(lambda: load_result(run, "found"), "holds no record")
    head.write_text("mine")
    assert load(run).results == ("found",)
    refused(lambda: load_result(run, "found"), "is not JSON")
    refused(lambda: load_result(run, "lost"), "has no result 'lost'; it has found")


def test_places_that_cannot_hold_a_run_are_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    refused(lambda: save(POSTERIOR, file), f"`{file}` is a file")
    refused(lambda: save(POSTERIOR, file / "run"), "cannot be written")
    refused(lambda: save(POSTERIOR, tmp_path / "a" / "b"), "no directory", "make it")
    refused(lambda: save(POSTERIOR, tmp_path, overwrite=True), "holds other files")
    refused(lambda: save(POSTERIOR, tmp_path / ("x" * 300)), "cannot be written")
    refused(lambda: load(file), "file")
    refused(lambda: load(tmp_path), "is not a run")
    assert [x.name for x in tmp_path.iterdir()] == ["file"]


def contents(path: Path) -> dict[str, bytes]:
    return {str(x): x.read_bytes() for x in path.rglob("*") if x.is_file()}


@pytest.mark.parametrize("operation", ["fsync", "replace", "open", "mkdir"])
@pytest.mark.parametrize("there", [True, False], ids=["old", "new"])
def test_whatever_the_system_refuses_the_old_run_stays(
    run: Path, monkeypatch: pytest.MonkeyPatch, operation: str, there: bool
) -> None:
    if not there:
        shutil.rmtree(run)
    before, refusals, left = contents(run), 0, 0
    real = getattr(os, operation)

    def refusing(*given: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*given, **named)

    for turn in range(30):
        left = turn
        with monkeypatch.context() as patch:
            patch.setattr(os, operation, refusing)
            try:
                save(OTHER, run, overwrite=True)
            except StorageError as problem:
                said = str(problem)
            else:
                break
        refusals += 1
        assert "No space left on device" in said
        assert contents(run) == before
        assert run.exists() == there
    assert load(run).posterior.counts == OTHER.counts
    assert refusals > 0 or operation == "mkdir"


SMALL = """
import resource, signal, sys
import bayesmdp as bm
posterior = bm.storage.load(sys.argv[1]).posterior
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    bm.storage.save(posterior, sys.argv[2], overwrite=True, source="x" * 5000)
except bm.errors.StorageError as problem:
    print(problem)
"""


@pytest.mark.parametrize("limit", [100, 800, 3000])
def test_files_that_cannot_grow_leave_the_old_run(run: Path, limit: int) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] < 0
    before = contents(run)
    command = [sys.executable, "-c", SMALL, str(run), str(run), str(limit)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert "cannot be written" in ran.stdout
    assert contents(run) == before


def test_files_out_of_reach_are_named(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    # The superuser may do everything, so the system's answer is played.
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", denied)
        refused(lambda: load(run), "config.json` cannot be read: Permission denied")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", denied)
        refused(lambda: save(POSTERIOR, run.parent / "x"), "Permission denied")


def test_without_locks_writers_still_do_not_delete_each_others_files(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    fresh, old = (run / f".bayesmdp-{x}" for x in ("fresh", "old"))
    for path in (fresh, old):
        path.write_text("half")
    os.utime(old, (0, 0))
    save(OTHER, run, overwrite=True)
    assert load(run).posterior.counts == OTHER.counts
    assert fresh.exists()
    assert not old.exists()


KEYS = ["format", "schema", "versions", "seed", "source", "arrays", "columns", "labels"]
KEYS += ["notes", "min_count", "prior", "alpha_sha256", "warnings", "findings", "x"]
KEYS += ["task", "counts", "chains", "log_sha256"]
TASK_KEYS = ["n_states", "n_actions", "reward", "discount", "start", "terminal", "x"]
junk = st.binary(max_size=200)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
tags = st.sampled_from(["$array", "$number", "$task", "$record", "x"])
values = st.recursive(
    scalars
    | st.sampled_from(["task.start", "nan", "Evaluation", "Task", "SparsePrior"])
    | st.just(SPARSE),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(tags | st.text(max_size=5), x),
    max_leaves=6,
)
settings_changes = st.dictionaries(st.sampled_from(KEYS), values)
task_changes = st.dictionaries(st.sampled_from(TASK_KEYS), values, max_size=2)
arrays = st.dictionaries(
    st.sampled_from(
        ["task.start", "task.reward", "task.terminal", "x"]
        + [f"counts.{x}" for x in ("state", "action", "next_state", "count")]
    ),
    st.integers(-(2**63), 2**63 - 1).map(np.array)
    | st.floats().map(np.array)
    | st.lists(st.integers(-5, 5), max_size=4).map(lambda x: np.array(x, np.int64))
    | st.lists(st.floats(), max_size=4).map(lambda x: np.array(x, np.float64))
    | st.lists(st.text(max_size=3), max_size=4).map(lambda x: np.array(x, np.str_)),
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(settings_changes, task_changes, junk | arrays, values)
def test_any_directory_gives_a_run_or_a_sentence(
    whole: Path,
    changes: dict[str, Any],
    task: dict[str, Any],
    parts: bytes | dict[str, Any],
    record: Any,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree(whole, Path(folder, "run"))
        if isinstance(parts, bytes):
            changed(run, {"task.start": START | {"zlib": parts.hex()}})
        elif parts:
            changed(run, parts)
        said = json.loads((run / "config.json").read_text())["task"]
        with suppress(ValueError):  # NaN is not JSON
            text = json.dumps({"task": said | task, **changes}, allow_nan=False)
            rewritten(run, **json.loads(text))
        with suppress(bm.BayesmdpError, bm.BayesmdpWarning):  # another posterior
            found = load(run)
            assert found.summary()  # what is read can be shown
            assert found.describe()
        with suppress(bm.BayesmdpError):
            load_result(run, "found")


@settings(max_examples=60, deadline=None)
@given(values)
def test_any_record_gives_a_result_or_a_sentence(whole: Path, record: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree(whole, Path(folder, "run"))
        with suppress(ValueError):
            text = json.dumps({"record": {"x": record}}, allow_nan=False)
            rewritten(run, "results/found.json", **json.loads(text))
        with suppress(bm.BayesmdpError):
            load_result(run, "found")
        assert "found: " in load(run).summary()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(FILES), junk, st.integers(0, 2000))
def test_any_bytes_give_a_run_or_a_sentence(
    whole: Path, name: str, content: bytes, at: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree(whole, Path(folder, "run"))
        path = run / name
        before = path.read_bytes()
        path.write_bytes(before[:at] + content)
        with suppress(bm.BayesmdpError):
            load(run)
        with suppress(bm.BayesmdpError):
            load_result(run, "found")
