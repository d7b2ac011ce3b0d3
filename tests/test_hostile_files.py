"""Files that claim more than they hold, or other things than they should.

Each gets one sentence, soon, and before memory is taken for what it claims.
"""

import base64
import hashlib
import json
import os
import re
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import h5py
import numpy as np
import pytest

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
    record = json.loads((run / "config.json").read_text())
    del record["checksum"]
    for name in ("task.npz", "counts.parquet"):
        content = (run / name).read_bytes()
        named = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        record["files"][name] = named
    text = json.dumps(record | changes, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256(text.encode()).hexdigest()
    (run / "config.json").write_text(
        json.dumps(record | changes | {"checksum": checksum})
    )


def header(kind: str, shape: tuple[int, ...]) -> bytes:
    """Begin a ``.npy`` file of that kind and shape."""
    said = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    padded = said.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def changed_task(run: Path, method: int = zipfile.ZIP_DEFLATED, **parts: bytes) -> None:
    """Replace arrays of a run's task by other bytes."""
    with zipfile.ZipFile(run / "task.npz") as archive:
        whole = {x: archive.read(x) for x in archive.namelist()}
    with zipfile.ZipFile(run / "task.npz", "w", method) as archive:
        for name, content in (
            whole | {f"{k}.npy": x for k, x in parts.items()}
        ).items():
            archive.writestr(name, content)
    rewritten(run)


ZEROS = b"\0" * 8 * 10**6
PARTS: dict[str, tuple[dict[str, bytes], str]] = {
    "nothing there": ({"start": header("<f8", (MANY,))}, "800000000000 bytes, and hol"),
    "of no size": ({"state_labels": header("<U0", (MANY,))}, "is 0 bytes, and holds 0"),
    "less": ({"start": header("<f8", (4,)) + ZEROS[:24]}, "32 bytes, and holds 24"),
    "more": ({"start": header("<f8", (2,)) + ZEROS[:24]}, "16 bytes, and holds 24"),
    "negative": ({"reward": header("<f8", (-3, -1)) + ZEROS[:24]}, "not suit 3 states"),
    "states": ({"start": header("<f8", (10**6,)) + ZEROS}, "not suit 1000000"),
    "terminal": ({"terminal": header("<i8", (10**6,)) + ZEROS}, "not suit 3 states"),
    "reward": ({"reward": header("<f8", (10**6,)) + ZEROS}, "not suit 3 states"),
    "pairs": ({"reward": header("<f8", (3, 2, 5)) + ZEROS[:240]}, "not suit 3 states"),
    "keys": ({"reward_key": header("<i8", (10**6,)) + ZEROS}, "not suit 3 states"),
    "labels": (
        {"state_labels": header("<U1", (10**6,)) + ZEROS[: 4 * 10**6]},
        "'state_labels' of shape (1000000,) does not suit",
    ),
    "format": ({"start": b"\x93NUMPY\x03\x00" + ZEROS[:99]}, "is of format (3, 0)"),
}


@pytest.mark.parametrize("name", PARTS)
def test_arrays_of_a_task_that_claim_too_much(run: Path, name: str) -> None:
    parts, said = PARTS[name]
    changed_task(run, **parts)
    refused(lambda: storage.load(run), "task.npz`", said)


def test_more_states_than_there_can_be(run: Path) -> None:
    changed_task(run)
    with zipfile.ZipFile(run / "task.npz", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.filelist = [x for x in archive.filelist if x.filename != "start.npy"]
        del archive.NameToInfo["start.npy"]
        with archive.open("start.npy", "w") as stream:
            stream.write(header("<f8", (2 * 10**7,)))
            for _ in range(20):
                stream.write(ZEROS)
    rewritten(run)
    assert (run / "task.npz").stat().st_size < 10**6
    refused(lambda: storage.load(run), "claims 20000000 states, and 10000001 is the")


def test_packed_parts_that_cannot_be(run: Path) -> None:
    path = run / "task.npz"
    whole = path.read_bytes()
    with zipfile.ZipFile(path, "a") as archive:
        archive.filelist[3].file_size = MANY  # in the directory of the archive alone
        archive._didModify = True  # type: ignore[attr-defined]
    rewritten(run)
    refused(lambda: storage.load(run), "start.npy, packed", "bayesmdp did not write")
    path.write_bytes(whole)
    with zipfile.ZipFile(path, "a") as archive:
        archive.filelist *= 50
        archive._didModify = True  # type: ignore[attr-defined]
    rewritten(run)
    refused(lambda: storage.load(run), "parts that overlap")
    path.write_bytes(whole)
    changed_task(run, zipfile.ZIP_BZIP2)
    refused(lambda: storage.load(run), "bayesmdp did not write")


def test_memory_is_looked_at_before_arrays_are_read(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.save_result(run, "large", {}, {"x": np.zeros(10**6)})
    assert storage.load_result(run, "large").arrays["x"].size == 10**6
    monkeypatch.setenv("BAYESMDP_MEMORY", "7MB")
    refused(lambda: storage.load_result(run, "large"), "large.npz` takes 8 MB", "7 MB")


def packed(shape: list[int], n_bytes: int, kind: str = "|b1") -> dict[str, Any]:
    content = zlib.compress(b"\0" * n_bytes)
    text = base64.b64encode(content).decode()
    return {"array": {"dtype": kind, "shape": shape, "zlib": text}}


@pytest.mark.parametrize(
    ("support", "said"),
    [
        (packed([10**6, 10**6], 100), "claims 125000000000 bytes"),
        (packed([4 * 10**7, 8], 4 * 10**7), "takes 640 MB of memory, and 50 MB"),
        (packed([MANY], 0, "<U0"), "not an array as it was saved"),
    ],
    ids=["nothing there", "memory", "of no size"],
)
def test_arrays_of_a_prior_that_claim_too_much(
    run: Path, support: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", "50MB")
    prior = {"kind": "SymmetricPrior", "concentration": 1.0, "support": support}
    rewritten(run, prior=prior)
    refused(lambda: storage.load(run), "`prior.support`", said)


def test_counts_that_claim_too_much(run: Path) -> None:
    row = "0::bigint as state, 0::bigint as action, 1::bigint as next_state"
    query = f"select {row}, 1::bigint as count from range(19)"
    duckdb.sql(query).write_parquet(str(run / "counts.parquet"))
    rewritten(run)
    refused(lambda: storage.load(run), "claims 19 rows, more than there are")


def test_a_policy_that_claims_too_much(tmp_path: Path) -> None:
    path = tmp_path / "p.npy"
    path.write_bytes(header("<f8", (MANY, 2)))
    refused(lambda: storage.read_policy(path, POSTERIOR), "p.npy`", "and holds 0")
    np.save(path, np.array([[1, 0], [1, 0], [0, 0]]))
    assert storage.read_policy(path, POSTERIOR)[0].tolist() == [1, 0]
    np.save(path, np.array([{"a": 1}], dtype=object))
    refused(lambda: storage.read_policy(path, POSTERIOR), "Python objects")


@pytest.mark.parametrize("name", ["config.json", "task.npz", "counts.parquet"])
@pytest.mark.timeout(20)
def test_files_without_an_end(run: Path, name: str) -> None:
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
    ({"versions": {"bayesmdp": 3}}, "'versions' is {'bayesmdp': 3}"),
    ({"columns": {"state": ["s"]}}, "'columns' is"),
    ({"notes": ["good", 3]}, "'notes' is ['good', 3]"),
    ({"warnings": "all"}, "'warnings' is 'all'"),
    ({"warnings": [None]}, "'warnings' is [None]"),
    ({"seed": True}, "'seed' is True"),
    ({"seed": 1.0}, "'seed' is 1.0"),
    ({"min_count": False}, "'min_count' is False"),
    ({"findings": []}, "'findings' is []"),
    ({"findings": {}}, "in 'findings', `record` must be"),
    ({"findings": {"findings": 3, "n_rows": 1, "origin": "x"}}, "in 'findings'"),
    ({"findings": {"findings": [], "n_rows": "1", "origin": "x"}}, "'1' as 'n_rows'"),
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
        refused(lambda: storage.load(run), f"it has {bad!r} as {name!r}")


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
    storage.save_optimisation(path, best)
    storage.save_evaluation(path, best.evaluation, "evaluation")
    storage.save_comparison(path, bm.compare(policies, POSTERIOR.draws(50)))
    return path


#: Result, place in its record, prefix of its arrays, and a wrong value of some fields.
WRONG: list[tuple[str, tuple[str | int, ...], str, dict[str, Any]]] = [
    (
        "evaluation", (), "",
        {
            "start_value": ["x"], "n_draws": True, "exact": 1, "solver": 3, "seed": 1.0,
            "notes": [3], "value": {"x": 1}, "prior_share": "0.5",
        },
    ),
    ("optimised", (), "", {"outcome": 3, "chosen_stage": 1, "policy": [1], "gap": "x"}),
    ("optimised", ("evaluation",), "evaluation_", {"start_total_sd": "x"}),
    ("comparison", ("rows", 1), "row_1_", {"name": 3, "low_support": [0.5]}),
    ("comparison", ("evaluations", 0), "evaluation_0_", {"occupancy": "x"}),
]  # fmt: skip
LOAD = {
    "evaluation": storage.load_evaluation,
    "optimised": storage.load_optimisation,
    "comparison": storage.load_comparison,
}


@pytest.mark.parametrize(
    ("name", "place", "prefix", "field", "bad"),
    [(*rest, field, bad) for *rest, wrong in WRONG for field, bad in wrong.items()],
)
def test_wrong_types_in_a_result_are_named_on_load(
    kept: Path,
    name: str,
    place: tuple[str | int, ...],
    prefix: str,
    field: str,
    bad: Any,
) -> None:
    good = storage.load_result(kept, name)
    record = inner = json.loads(json.dumps(good.record))
    for step in place:
        inner = inner[step]
    inner[field] = bad
    arrays = {x: y for x, y in good.arrays.items() if x != prefix + field}
    storage.save_result(kept, "bad", record, arrays, overwrite=True)
    refused(lambda: LOAD[name](kept, "bad"), "cannot be used", f"as {field!r}")


@pytest.mark.parametrize("field", ["value", "policy", "start_values"])
def test_wrong_arrays_in_a_result_are_named_on_load(kept: Path, field: str) -> None:
    good = storage.load_result(kept, "evaluation")
    whole = good.arrays[field]
    for wrong in (whole[:1], whole.astype(np.float32), whole[None]):
        arrays = {**good.arrays, field: wrong}
        storage.save_result(kept, "bad", good.record, arrays, overwrite=True)
        refused(lambda: storage.load_evaluation(kept, "bad"), "cannot be used", field)


def test_other_parts_of_results_are_named_on_load(kept: Path) -> None:
    def changed(name: str, arrays: dict[str, Any] | None = None, **record: Any) -> None:
        good = storage.load_result(kept, name)
        storage.save_result(
            kept, "bad", good.record | record, {**good.arrays, **(arrays or {})},
            overwrite=True,
        )  # fmt: skip

    def compared() -> None:
        refused(lambda: storage.load_comparison(kept, "bad"), "cannot be used")

    def optimised() -> None:
        refused(lambda: storage.load_optimisation(kept, "bad"), "cannot be used")

    for reference in ("c", None, ["a"]):
        changed("comparison", reference=reference)
        compared()
    for rows in (
        None,
        [],
        {},
        "ab",
        storage.load_result(kept, "comparison").record["rows"][:1],
    ):
        changed("comparison", rows=rows)
        compared()
    changed("comparison", min_count="5")
    compared()
    for starts in (None, ["a", "b"], [1], {"nominal": 1}):
        changed("optimised", starts=starts)
        optimised()
    changed("optimised", history_starts=[1])
    optimised()
    changed("optimised", {"start_0": np.zeros((5, 5))})
    optimised()
    changed("optimised", {"history_start": np.array([7])})
    optimised()
    changed("optimised", {"history_gap": np.array(["x"])})
    optimised()


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
