"""Minari datasets on disk, written here in the layout of Minari 0.5."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import bayesmdp as bm
from bayesmdp.data import collect, read_minari
from bayesmdp.errors import ArgumentError, CountsError

Parts = dict[str, Any]

# States 0, 1, 2 and actions 0, 1 of spaces that start at 5 and at 1.
FIRST: Parts = {
    "observations": [5, 6, 7, 5],
    "actions": [1, 2, 1],
    "rewards": [0.0, 1.0, 0.5],
    "terminations": [False, False, True],
    "truncations": [False, False, False],
}
SECOND: Parts = {
    "observations": [6, 6],
    "actions": [2],
    "rewards": [-1.0],
    "terminations": [False],
    "truncations": [True],
}


def space(n: int, start: int, kind: str = "Discrete") -> str:
    """Describe a space as Minari does: JSON that stands inside JSON."""
    return json.dumps({"type": kind, "dtype": "int64", "start": start, "n": n})


METADATA: dict[str, Any] = {
    "total_episodes": 2,
    "total_steps": 4,
    "data_format": "hdf5",
    "jpeg_encoding": True,
    "observation_space": space(4, 5),
    "action_space": space(2, 1),
    "dataset_id": "test/lake-v0",
    "minari_version": "0.5.4",
}


def write(
    root: Path, episodes: list[Parts], metadata: dict[str, Any] | None = METADATA
) -> Path:
    """Write a dataset; return its folder."""
    folder = root / "data"
    folder.mkdir(parents=True)
    with h5py.File(folder / "main_data.hdf5", "a", track_order=True) as file:
        for number, parts in enumerate(episodes):
            group = file.create_group(f"episode_{number}")
            group.attrs["id"] = number
            group.attrs["seed"] = 40 + number
            group.attrs["total_steps"] = len(parts.get("actions", ()))
            for name, data in parts.items():
                if isinstance(data, dict):
                    for key, part in data.items():
                        group.create_dataset(f"{name}/{key}", data=part)
                else:
                    group.create_dataset(name, data=data, chunks=True, maxshape=(None,))
            group.create_group("infos")
    if metadata is not None:
        (folder / "metadata.json").write_text(json.dumps(metadata))
    return root


def columns(log: bm.Transitions) -> dict[str, list[Any]]:
    return {name: x.tolist() for name, x in log.table.columns.items()}  # type: ignore[attr-defined]


def test_observations_become_transitions_of_ids_from_0(tmp_path: Path) -> None:
    root = write(tmp_path / "lake-v0", [FIRST, SECOND])
    log = read_minari(root)
    assert columns(log) == {
        "state": [0, 1, 2, 1],
        "action": [0, 1, 0, 1],
        "next_state": [1, 2, 0, 1],
        "reward": [0.0, 1.0, 0.5, -1.0],
        "episode": [0, 0, 0, 1],
        "step": [0, 1, 2, 0],
        "terminated": [False, False, True, False],
        "truncated": [False, False, False, True],
    }
    assert log.notes == ()
    counts = log.counts()
    assert (counts.n_states, counts.n_actions) == (4, 2)  # state 3 was not visited
    assert counts.total == 4  # the truncated step counts
    for path in (str(root), root / "data", root / "data" / "main_data.hdf5"):
        assert columns(read_minari(path)) == columns(log)


def test_episodes_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    episodes = [{**SECOND, "rewards": [float(i)]} for i in range(12)]
    rows = columns(read_minari(write(tmp_path / "x", episodes)))
    assert rows["reward"] == [float(i) for i in range(12)]
    assert rows["episode"] == list(range(12))


def test_without_metadata_ids_are_taken_as_they_stand(tmp_path: Path) -> None:
    log = read_minari(write(tmp_path / "x", [FIRST], None))
    assert columns(log)["state"] == [5, 6, 7]
    assert "ids are taken as they stand" in log.notes[0]
    silent = {"total_episodes": 1}  # as where only an environment is named
    assert read_minari(write(tmp_path / "y", [FIRST], silent)).notes == log.notes


def test_spaces_of_old_datasets_are_read_from_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [FIRST], None) / "data" / "main_data.hdf5"
    with h5py.File(path, "a") as file:
        file.attrs["observation_space"] = space(4, 5)
        file.attrs["action_space"] = space(2, 1)
    log = read_minari(path)
    assert columns(log)["state"] == [0, 1, 2]
    assert log.notes == ()


def test_an_episode_without_steps_is_nothing(tmp_path: Path) -> None:
    empty: Parts = {name: np.zeros(0) for name in FIRST}
    empty |= {"observations": [5], "actions": np.zeros(0, dtype=int)}
    rows = columns(read_minari(write(tmp_path / "x", [empty, SECOND])))
    assert rows["episode"] == [1]


def test_a_log_survives_the_way_through_a_dataset(tmp_path: Path) -> None:
    log = collect("FrozenLake-v1", "uniform", 30, seed=0)
    rows = log.table.columns  # type: ignore[attr-defined]
    episodes = []
    for number in range(30):
        at = rows["episode"] == number
        seen = [rows["state"][at][0], *rows["next_state"][at]]
        parts = {"observations": seen, "actions": rows["action"][at]}
        parts |= {"rewards": rows["reward"][at]}
        parts |= {f"{x[:-2]}ions": rows[x][at] for x in ("terminated", "truncated")}
        episodes.append(parts)
    about = {"observation_space": space(16, 0), "action_space": space(4, 0)}
    again = read_minari(write(tmp_path / "x", episodes, about))
    assert columns(again) == {x: v.tolist() for x, v in rows.items()}


def loaded(*episodes: Parts, **changes: Any) -> Any:
    """Return what stands in for a dataset that Minari loaded."""
    records = [SimpleNamespace(id=3 + i, **x) for i, x in enumerate(episodes)]
    fields = {
        "iterate_episodes": lambda: iter(records),
        "observation_space": Discrete(4, start=5),
        "action_space": Discrete(2, start=1),
    }
    return SimpleNamespace(**(fields | changes))


def test_a_loaded_dataset_is_read_as_its_file(tmp_path: Path) -> None:
    here = columns(read_minari(write(tmp_path / "x", [FIRST, SECOND])))
    there = columns(read_minari(loaded(FIRST, SECOND)))
    assert there.pop("episode") == [3, 3, 3, 4]  # filtered: its numbers stay
    here.pop("episode")
    assert there == here


def changed(**parts: Any) -> list[Parts]:
    return [FIRST, {**SECOND, **parts}]


def said(**metadata: Any) -> dict[str, Any]:
    return METADATA | metadata


BAD_EPISODES: dict[str, tuple[list[Parts], dict[str, Any], str]] = {
    "none": ([], METADATA, "`main_data.hdf5` holds no steps"),
    "T": (
        changed(observations=[6]),
        METADATA,
        "Observations of episode 1 .* be 2.*.1,",
    ),
    "rewards": (
        changed(rewards=[1.0, 2.0]),
        METADATA,
        "Rewards of episode 1.*got shape .2,",
    ),
    "flags": (
        changed(terminations=[]),
        METADATA,
        "Terminations of episode 1 .*got shape .0,",
    ),
    "values": (changed(truncations=[7]), METADATA, "truncations of episode 1.*True"),
    "NaN": (changed(rewards=[np.nan]), METADATA, "rewards of episode 1.*step 0 is nan"),
    "below": (
        changed(observations=[6, 4]),
        METADATA,
        "least 5 and at most 8: step 1 has 4",
    ),
    "above": (
        changed(actions=[3]),
        METADATA,
        "Actions of episode 1.*most 2: step 0 has 3",
    ),
    "negative": (changed(actions=[-1]), {}, "at least 0: step 0 has -1"),
    "fractions": (changed(observations=[0.5, 1]), METADATA, "one whole number a step"),
    "dict": (
        changed(observations={"place": [0, 1], "time": [0, 1]}),
        METADATA,
        r"Episode 1 .* observations in parts \(place, time\).*from_arrays",
    ),
    "box": ([FIRST], said(observation_space=space(4, 0, "Box")), "Discrete; it is Box"),
    "no n": ([FIRST], said(action_space='{"type": "Discrete"}'), "`action_space` of"),
    "text": ([FIRST], said(action_space="Discrete(2)"), "as Minari does"),
    "without end": (
        [FIRST],
        said(action_space='{"type": "Discrete", "n": Infinity, "start": 0}'),
        "as Minari does",
    ),
    "list": ([FIRST], said(action_space=["Discrete"]), "as Minari does"),
    "size": ([FIRST], said(action_space=space(0, 1)), "`n` must be at least 1; got 0"),
    "missing": ([{"observations": [5, 6]}], METADATA, "Episode 0 .* has no actions"),
}


@pytest.mark.parametrize("name", BAD_EPISODES)
def test_bad_datasets_are_refused(name: str, tmp_path: Path) -> None:
    episodes, metadata, pattern = BAD_EPISODES[name]
    refused(write(tmp_path / "x", episodes, metadata), pattern)


def refused(source: Any, pattern: str, error: type = CountsError) -> None:
    with pytest.raises(error, match=pattern) as caught:
        read_minari(source)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3000])


def other(path: Path) -> None:
    path.unlink()
    with h5py.File(path, "w") as file:
        file["images"] = [1, 2, 3]


def flat(path: Path) -> None:
    path.unlink()
    with h5py.File(path, "w") as file:
        file["episode_0"] = [1, 2, 3]


BAD_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "torn": (torn, "main_data.hdf5` is damaged, or not an HDF5 file"),
    "text": (lambda path: path.write_text("s,a,t\n0,0,1\n"), "not an HDF5 file"),
    "empty": (lambda path: path.write_bytes(b""), "not an HDF5 file"),
    "foreign": (other, "not a Minari dataset: it holds 'images'"),
    "flat": (flat, "Episode 0 of `main_data.hdf5` has no observations"),
    "gone": (lambda path: path.unlink(), "holds neither main_data.hdf5 nor data/"),
    "metadata": (
        lambda path: path.with_name("metadata.json").write_bytes(b"\xff{"),
        "metadata.json` is damaged: it is not JSON",
    ),
    "metadata list": (
        lambda path: path.with_name("metadata.json").write_text("[]"),
        "not the metadata of a Minari dataset",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused(name: str, tmp_path: Path) -> None:
    spoil, pattern = BAD_FILES[name]
    root = write(tmp_path / "x", [FIRST])
    spoil(root / "data" / "main_data.hdf5")
    refused(root, pattern)


def test_every_beginning_of_a_file_is_read_or_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [FIRST, SECOND]) / "data" / "main_data.hdf5"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for size in range(0, len(whole), 997):
        path.write_bytes(whole[:size])
        refused(path, "main_data.hdf5")
    for _ in range(200):
        spoilt = bytearray(whole)
        for at in rng.integers(0, len(whole), 40):
            spoilt[at] = rng.integers(256)
        path.write_bytes(spoilt)
        with suppress(bm.BayesmdpError):  # and nothing else
            read_minari(path)


def test_other_bad_sources_are_refused(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere` does not exist")
    refused([FIRST], "path of a Minari dataset.* got list", ArgumentError)
    refused(loaded(FIRST, action_space=Box(0, 1)), "Discrete; got Box", ArgumentError)
    refused(loaded(FIRST, observation_space=None), "got None", ArgumentError)
    refused(loaded(), "holds no steps")
    refused(loaded({**FIRST, "observations": {"place": [1]}}), "one whole number")


def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path / "x", [FIRST])
    monkeypatch.setitem(sys.modules, "h5py", None)
    refused(root, r'pip install "bayesmdp\[minari\]"', ArgumentError)
