"""Files that claim more than they hold, or other things than they should.

Each gets one sentence, soon, and before memory is taken for what it claims.
"""

import json
import os
import re
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from changed_runs import array_of, as_array, many_zeros, packed, seal, with_arrays
from changed_runs import rewritten as rewritten_file

import bayesmdp as bm
from bayesmdp import storage
from bayesmdp.errors import CountsError, StorageError, TooLargeError

TASK = bm.Task(3, 2, reward=[0, 0, 1], discount=0.5, terminal=[2])
COUNTS = bm.Counts.from_arrays([0, 0, 1], [0, 1, 0], [1, 2, 2], [2, 1, 3])
POSTERIOR = bm.fit(COUNTS, TASK, prior=bm.SymmetricPrior())
MANY = 10**11


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return storage.save(POSTERIOR, tmp_path / "run")


@pytest.fixture(autouse=True)
def _little_memory_is_taken() -> Iterator[None]:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6


def refused(call: Callable[[], object], *said: str, error: type = StorageError) -> None:
    """Expect one sentence with these fragments, in this order."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert re.search(".*".join(map(re.escape, said)), message), message


def rewritten(run: Path, **changes: Any) -> None:
    """Change the config by hand, checksum included."""
    rewritten_file(run / "config.json", **changes)


def header(kind: str, shape: tuple[int, ...]) -> bytes:
    """Begin a ``.npy`` file of that kind and shape."""
    said = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    padded = said.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def changed(run: Path, **parts: Any) -> None:
    """Replace arrays of a run's task."""
    said = {f"task.{name}": part for name, part in parts.items()}
    with_arrays(run / "config.json", **said)


ZEROS = b"\0" * 8 * 10**6
FOREIGN = "which bayesmdp did not write"
PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing there": ({"start": packed(b"", "<f8", (MANY,))}, FOREIGN),
    "of no size": ({"more": packed(b"", "<U0", (MANY,))}, FOREIGN),
    "less": ({"start": packed(ZEROS[:16], "<f8", (3,))}, FOREIGN),
    "more": ({"start": packed(ZEROS[:32], "<f8", (3,))}, FOREIGN),
    "negative": ({"reward": packed(ZEROS[:24], "<f8", (-3, -1))}, FOREIGN),
    "odd floats": ({"start": packed(ZEROS[:9], "<f3", (3,))}, FOREIGN),
    "odd truths": ({"start": packed(ZEROS[:6], "<b2", (3,))}, FOREIGN),
    "odd integers": ({"start": packed(ZEROS[:21], "<i7", (3,))}, FOREIGN),
    "objects": ({"start": packed(ZEROS[:24], "|O", (3,))}, FOREIGN),
    "states": ({"start": np.zeros(10**6)}, "(1000000,), not (3,)"),
    "terminal": ({"terminal": np.zeros(10**6, int)}, "(1000000,), not"),
    "reward": ({"reward": np.zeros(10**6)}, "(1000000,), not (3,)"),
    "pairs": ({"reward": np.zeros((3, 2, 5))}, "(3, 2, 5), not"),
    "strange": ({"more": np.zeros(10**6)}, "holds 'task.more', which"),
}


@pytest.mark.parametrize("name", PARTS)
def test_arrays_of_a_task_that_claim_too_much(run: Path, name: str) -> None:
    parts, said = PARTS[name]
    changed(run, **parts)
    refused(lambda: storage.load(run), said)


@pytest.mark.parametrize(("n", "said"), [(10**6, "(1000000,), not (18,)"), (2, "`rew")])
def test_keys_and_rewards_of_different_length(run: Path, n: int, said: str) -> None:
    changed(run, key=np.zeros(n, int))
    task = json.loads((run / "config.json").read_text())["task"]
    keys = {"key": {"$array": "task.key"}, "reward": {"$array": "task.reward"}}
    rewritten(run, task=task | {"reward": keys})
    refused(lambda: storage.load(run), "config.json` does not hold a task: ", said)


def test_more_states_than_there_can_be(run: Path) -> None:
    n = 2 * 10**7
    changed(run, start=many_zeros("<f8", (n,)))
    task = json.loads((run / "config.json").read_text())["task"]
    rewritten(run, task=task | {"n_states": n})
    refused(lambda: storage.load(run), "`n_states` must be at most 10000001")
    rewritten(run, task=task)
    refused(lambda: storage.load(run), "has shape (20000000,), not (3,)")


def test_memory_is_looked_at_before_arrays_are_read(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.save_result(run, "large", {"x": np.zeros(10**6)})
    assert storage.load_result(run, "large")["x"].size == 10**6
    monkeypatch.setenv("BAYESMDP_MEMORY", "7MB")
    refused(lambda: storage.load_result(run, "large"), "json` takes 8 MB", "7 MB")


def test_as_much_memory_is_asked_for_as_is_taken(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).integers(256, size=4 * 10**6, dtype=np.uint8)
    storage.save_result(run, "large", {"x": noise})
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    assert storage.load_result(run, "large")["x"].size == noise.size
    taken = tracemalloc.get_traced_memory()[1] - before
    monkeypatch.setenv("BAYESMDP_MEMORY", f"{taken}")
    refused(lambda: storage.load_result(run, "large"), "large.json` takes 21.3 MB")


def test_arrays_of_a_prior_that_claim_too_much(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", "50MB")
    changed(run, support=many_zeros("|b1", (10**4, 8000)))
    support = {"$array": "task.support"}
    prior = {"$record": "SymmetricPrior", "concentration": 1.0, "support": support}
    rewritten(run, prior=prior)
    refused(lambda: storage.load(run), "takes 80 MB of memory, and 50 MB")


def test_counts_that_claim_too_much(run: Path) -> None:
    names = [f"counts.{x}" for x in ("state", "action", "next_state", "count")]
    with_arrays(run / "config.json", **dict.fromkeys(names, np.zeros(19, int)))
    refused(lambda: storage.load(run), "counts.state' has shape (19,), not (18,)")


def test_a_policy_that_claims_too_much(tmp_path: Path) -> None:
    path = tmp_path / "p.npy"
    path.write_bytes(header("<f8", (MANY, 2)))
    refused(lambda: storage.read_policy(path, POSTERIOR), "p.npy`", "and holds 0")
    np.save(path, np.array([[1, 0], [1, 0], [0, 0]]))
    assert storage.read_policy(path, POSTERIOR)[0].tolist() == [1, 0]
    np.save(path, np.array([{"a": 1}], dtype=object))
    refused(lambda: storage.read_policy(path, POSTERIOR), "Python objects")


@pytest.mark.timeout(20)
def test_files_without_an_end(run: Path) -> None:
    name = "config.json"
    content = (run / name).read_bytes()
    (run / name).unlink()
    os.mkfifo(run / name)  # reading would wait for ever
    refused(lambda: storage.load(run), f"{name}` is not a plain file")
    refused(lambda: storage.read_policy(run / name, POSTERIOR), "not a plain file")
    refused(lambda: storage.read_task(run / name), "not a plain file")
    (run / name).unlink()
    (run / name).symlink_to("/dev/zero")
    refused(lambda: storage.load(run), f"{name}` is not a plain file")
    (run / name).unlink()
    (run / name).write_bytes(content)
    os.truncate(run / name, MANY)  # holes take no room on the disk
    refused(lambda: storage.load(run), f"{name}`")


CONFIG: list[tuple[dict[str, Any], str]] = [
    ({"versions": {"bayesmdp": 3}}, "it has 3 as 'versions.bayesmdp'"),
    ({"columns": {"state": ["s"]}}, "as 'columns.state'"),
    ({"notes": ["good", 3]}, "it has 3 as 'notes.1'"),
    ({"warnings": "all"}, "it has 'all' as 'warnings'"),
    ({"warnings": [None]}, "it has None as 'warnings.0'"),
    ({"seed": True}, "it has True as 'seed'"),
    ({"seed": 1.0}, "it has 1.0 as 'seed'"),
    ({"min_count": False}, "it has False as 'min_count'"),
    ({"findings": []}, "it has [] as 'findings'"),
    ({"findings": {}}, "Findings has no 'findings'"),
    ({"findings": {"findings": 3, "n_rows": 1, "origin": "x"}}, "3 as 'findings.findi"),
    ({"findings": {"findings": [], "n_rows": "1", "origin": "x"}}, "'findings.n_rows'"),
    ({"more": 1}, "Config has no field 'more'"),
]


@pytest.mark.parametrize(("changes", "said"), CONFIG, ids=range(len(CONFIG)))
def test_wrong_types_in_a_config_are_named_on_load(
    run: Path, changes: dict[str, Any], said: str
) -> None:
    rewritten(run, **changes)
    refused(lambda: storage.load(run), "config.json` is not a run's", said)


def test_a_finding_of_wrong_types_is_named(run: Path) -> None:
    good = {
        "code": "x", "severity": "note", "column": None, "count": 1,
        "first_row": None, "where": "", "message": "m", "remedy": "r",
    }  # fmt: skip

    def write(**changes: Any) -> None:
        found = {"findings": [good | changes], "n_rows": 1, "origin": "x"}
        rewritten(run, findings=found)

    write()
    (finding,) = storage.load(run).findings or ()
    assert finding.code == "x"
    for name, bad in (("severity", "loud"), ("message", None), ("count", "1")):
        write(**{name: bad})
        refused(
            lambda: storage.load(run), f"it has {bad!r} as 'findings.findings.0.{name}"
        )


def test_infinite_numbers_in_a_config_are_named(run: Path) -> None:
    text = (run / "config.json").read_text().replace('"seed": null', '"seed": 1e999')
    (run / "config.json").write_text(text)
    refused(lambda: storage.load(run), "config.json`", "is not JSON")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one result of each kind."""
    path = storage.save(POSTERIOR, tmp_path_factory.mktemp("kept"))
    method = bm.MirrorAscent(n_steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = bm.optimise(POSTERIOR, method=method, starts=["nominal"])
    policies = {"a": [0, 0, 0], "b": [1, 0, 0]}
    storage.save_result(path, "optimised", best)
    storage.save_result(path, "evaluation", best.evaluation)
    storage.save_result(path, "comparison", bm.compare(policies, POSTERIOR.draws(50)))
    return path


#: Result, place in its record, and a wrong value of some fields.
WRONG: list[tuple[str, tuple[str | int, ...], dict[str, Any]]] = [
    (
        "evaluation", (),
        {
            "start_value": ["x"], "n_draws": True, "exact": 1, "solver": 3, "seed": 1.0,
            "notes": [3], "value": {"x": 1}, "prior_share": "0.5", "policy": None,
            "task": {"$number": "nan"}, "values": [1.0], "occupancy": 3.0,
        },
    ),
    ("optimised", (), {"outcome": 3, "chosen_stage": 1, "policy": [1], "gap": "x"}),
    ("optimised", (), {"starts": None, "history": {}, "left_out": {"a": 1}}),
    ("optimised", ("history", 0), {"start": 1, "gap": "x", "step": 0.5}),
    ("optimised", ("evaluation",), {"start_total_sd": "x"}),
    ("comparison", (), {"rows": None, "min_count": "5", "evaluations": []}),
    ("comparison", (), {"reference": ["a"]}),
    ("comparison", ("rows", 1), {"name": 3, "low_support": [0.5]}),
    ("comparison", ("evaluations", "a"), {"occupancy": "x"}),
]  # fmt: skip


def copied(kept: Path, name: str) -> Any:
    """Return the head of a result, to be changed and written under another name."""
    return json.loads((kept / "results" / f"{name}.json").read_text())


def written(kept: Path, head: Any) -> None:
    """Write a result with a checksum that is right."""
    (kept / "results" / "bad.json").write_text(json.dumps(seal(head)))


def bad(kept: Path) -> Any:
    return storage.load_result(kept, "bad")


@pytest.mark.parametrize(
    ("name", "place", "field", "wrong"),
    [(*rest, field, bad) for *rest, wrong in WRONG for field, bad in wrong.items()],
)
def test_wrong_types_in_a_result_are_named_on_load(
    kept: Path, name: str, place: tuple[str | int, ...], field: str, wrong: Any
) -> None:
    head = copied(kept, name)
    written(kept, head)
    bad(kept)
    inner = head["record"]
    for step in place:
        inner = inner[step]
    inner[field] = wrong
    written(kept, head)
    where = ".".join(map(str, (*place, field)))
    refused(lambda: bad(kept), "cannot be used: it has", f"as '{where}")


@pytest.mark.parametrize("field", ["value", "policy", "start_values"])
def test_wrong_arrays_in_a_result_are_named_on_load(kept: Path, field: str) -> None:
    head = copied(kept, "evaluation")
    whole = head["arrays"]
    right = array_of(whole[field])
    for wrong in (right[:1], right.astype(np.float32), right[None]):
        written(kept, head | {"arrays": whole | {field: as_array(wrong)}})
        refused(lambda: bad(kept), "cannot be used", field)


def test_other_parts_of_results_are_named_on_load(kept: Path) -> None:
    def refused_with(name: str, **changes: Any) -> None:
        head = copied(kept, name)
        head["record"] |= changes
        written(kept, head)
        refused(lambda: bad(kept), "cannot be used")

    rows = copied(kept, "comparison")["record"]["rows"]
    for change in ({"reference": "c"}, {"reference": None}, {"rows": rows[:1]}):
        refused_with("comparison", **change)
    for odd in ([], {}, "ab", [rows[0], rows[0]]):
        refused_with("comparison", rows=odd)
    value = {"$array": "evaluation.value"}
    for starts in (["a", "b"], [1], {"nominal": 1}, {"nominal": value}, {"a": {}}):
        refused_with("optimised", starts=starts)
    refused_with("optimised", policy={"$array": "starts.nominal", "x": 1})
    refused_with("optimised", policy={"$array": 3})
    refused_with("optimised", evaluation={"$record": "Evaluation"})
    refused_with("optimised", evaluation=None)


def dataset(path: Path, steps: int, metadata: Any = None, **how: Any) -> Path:
    """Write a Minari dataset of one episode, whose parts may be there or not."""
    with h5py.File(path / "main_data.hdf5", "w") as file:
        group = file.create_group(how.pop("group", "episode_0"))
        group.create_dataset("observations", (steps + 1,), "i8", **how)
        group.create_dataset("actions", (steps,), "i8", **how)
        group.create_dataset("rewards", (steps,), "f8", **how)
        for name in ("terminations", "truncations"):
            group.create_dataset(name, (steps,), "?", **how)
        if steps < 10**6:
            for name in group:
                group[name][()] = 0
    if metadata is not None:
        (path / "metadata.json").write_text(json.dumps(metadata))
    return path


def test_datasets_that_claim_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> bm.Transitions:
        return bm.data.read_minari(tmp_path)

    dataset(tmp_path, MANY, chunks=(1000,))
    refused(
        read, "Observations of episode 0", "and the file holds 0", error=CountsError
    )
    dataset(tmp_path, 10**5, chunks=(1000,), compression="gzip")
    assert (tmp_path / "main_data.hdf5").stat().st_size < 10**5
    assert read().n_rows == 10**5
    monkeypatch.setenv("BAYESMDP_MEMORY", "1MB")
    refused(read, "100000 steps", "take 12.8 MB", error=TooLargeError)


def space(n: Any, start: Any = 0) -> str:
    return json.dumps({"type": "Discrete", "n": n, "start": start})


SPACES: list[tuple[Any, str]] = [
    (space(10**30), "`n` must be at most 10000001"),
    (space(-1), "`n` must be at least 1; got -1"),
    (space(2.5), "`n` must be a whole number; got 2.5"),
    (space("4"), "`n` must be a whole number; got '4'"),
    (space(4, 10**30), "`start` must be at most"),
    (space(4, -(10**30)), "`start` must be at least"),
    (space(4, -(2**53)), "observations of episode 0"),
    ("[" * 10**5, "must describe a space"),
    (7, "must describe a space"),
]


@pytest.mark.parametrize(("said", "wrong"), SPACES, ids=range(len(SPACES)))
def test_metadata_out_of_range(tmp_path: Path, said: Any, wrong: str) -> None:
    dataset(tmp_path, 3, {"observation_space": said, "action_space": space(2)})
    with pytest.raises(CountsError, match=f"(?i){re.escape(wrong)}"):
        bm.data.read_minari(tmp_path)


def test_other_hostile_datasets(tmp_path: Path) -> None:
    dataset(tmp_path, 3, group="episode_" + "9" * 30)
    refused(
        lambda: bm.data.read_minari(tmp_path), "it holds 'episode_999",
        error=CountsError,
    )  # fmt: skip
    dataset(tmp_path, 3)
    (tmp_path / "metadata.json").write_text("[" * 10**5)
    refused(lambda: bm.data.read_minari(tmp_path), "not JSON", error=CountsError)
