"""Minari datasets, read from their files.

A dataset is a folder with ``data/main_data.hdf5`` and ``data/metadata.json``. In the
first, the group ``episode_k`` holds one more observation than actions; what is between
two observations is a transition. The second says what the spaces are: ids of
``Discrete(n, start=k)`` are stored as they are, from k on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._io import MOST_PACKED
from bayesmdp._resources import check_room
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._transitions import Transitions
from bayesmdp.data.environments import discrete
from bayesmdp.errors import ArgumentError, BayesmdpError, CountsError

_FILE, _METADATA, _FOLDER = "main_data.hdf5", "metadata.json", "data"
_PARTS = ("observations", "actions", "rewards", "terminations", "truncations")
# A damaged file makes h5py raise whatever its bytes happen to lead to.
_H5PY_RAISES = (OSError, LookupError, RuntimeError, TypeError, ValueError, MemoryError)
_GROUP = re.compile("episode_(0|[1-9][0-9]{0,17})")
_BYTES_A_STEP = 128  # of all columns, while they are joined
_FAR = 2**53  # as far from 0 as ids may start
_REMEDY = "number them from 0 and give them to `bm.Transitions.from_arrays`"


class _Space(NamedTuple):
    """A discrete space: its size, where known, and its first id."""

    n: int | None = None
    start: int = 0


@dataclass(frozen=True, eq=False)
class _Episode:
    """One episode as it is stored."""

    number: int
    parts: dict[str, Any]  # [T + 1] observations, [T] others; arrays, or still on disk


def read_minari(source: str | PathLike[str] | Any) -> Transitions:
    """Read a Minari dataset of discrete observations and actions.

    Only h5py is needed for files, not Minari. Ids are counted from 0, wherever the
    spaces start. An episode that was truncated did not end: its last step is a
    transition as any other, and only ``terminated`` says that something ended.

    Parameters
    ----------
    source
        The folder of a dataset, its ``main_data.hdf5``, or a loaded
        ``minari.MinariDataset``, which may be filtered, and stored in any format.

    Returns
    -------
    Transitions
        With rewards, flags, and the dataset's numbers of episodes; ``notes`` say where
        the spaces were not found and ids were taken as they stand.

    Examples
    --------
    >>> import pathlib, tempfile, h5py, bayesmdp as bm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "main_data.hdf5")
    >>> with h5py.File(path, "w") as file:  # as Minari writes it
    ...     episode = file.create_group("episode_0")
    ...     episode["observations"], episode["actions"] = [0, 1, 2], [1, 0]
    ...     episode["rewards"] = [0.0, 1.0]
    ...     episode["terminations"] = [False, True]
    ...     episode["truncations"] = [False, False]
    >>> bm.data.read_minari(path).counts().next_state.tolist()
    [1, 2]
    """
    if isinstance(source, str | PathLike):
        return _read_file(Path(source))
    if not callable(getattr(source, "iterate_episodes", None)):
        raise ArgumentError(
            "`source` must be the path of a Minari dataset, or a dataset loaded by "
            f"Minari; got {type(source).__name__}."
        )
    states, actions = (
        _Space(*discrete(getattr(source, name, None), f"source.{name}"))
        for name in ("observation_space", "action_space")
    )
    episodes = (
        _Episode(x.id, {name: np.asarray(getattr(x, name)) for name in _PARTS})
        for x in source.iterate_episodes()
    )
    return _transitions(episodes, states, actions, "`source`")


def _read_file(path: Path) -> Transitions:
    h5py = _checks.extra("h5py", "minari", "read_minari")
    try:
        path = _data_file(path.expanduser())
        said = f"`{path.name}`"
        with h5py.File(path, "r") as file:
            metadata = _metadata(path, dict(file.attrs))
            states = _space(metadata, "observation_space", path)
            actions = _space(metadata, "action_space", path)
            found = _transitions(_stored(file, h5py, said), states, actions, said)
    except BayesmdpError:
        raise
    except _H5PY_RAISES as problem:
        denied = isinstance(problem, PermissionError)
        why = "may not be read" if denied else "is damaged, or not an HDF5 file"
        raise CountsError(f"`{path}` {why}; Minari writes {_FILE}.") from problem
    if states.n is not None and actions.n is not None:
        return found
    note = (
        f"{_METADATA} beside {path.name} does not say what the spaces are: ids are "
        "taken as they stand."
    )
    return replace(found, notes=(note,))


def _data_file(path: Path) -> Path:
    """Find the file of a dataset, given its folder or the file itself."""
    if path.is_file():
        return path
    if not path.exists():
        raise CountsError(f"`{path}` does not exist.")
    for folder in (path, path / _FOLDER):
        if (folder / _FILE).is_file():
            return folder / _FILE
    raise CountsError(
        f"`{path}` holds neither {_FILE} nor {_FOLDER}/{_FILE}; a dataset in another "
        "format can be loaded by Minari and given as it is."
    )


def _metadata(path: Path, older: dict[str, Any]) -> dict[str, Any]:
    """Read what is said about the file: beside it, or in old datasets inside."""
    beside = path.with_name(_METADATA)
    if not beside.is_file():
        return older
    try:
        metadata = json.loads(beside.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise CountsError(f"`{beside}` is damaged: it is not JSON.") from problem
    if not isinstance(metadata, dict):
        raise CountsError(f"`{beside}` is not the metadata of a Minari dataset.")
    return metadata


def _space(metadata: dict[str, Any], name: str, path: Path) -> _Space:
    """Read a space as Minari writes it, JSON inside JSON."""
    said = metadata.get(name)
    if said is None:
        return _Space()
    try:
        space = json.loads(said)
        kind = space["type"]
        if kind == "Discrete":
            n = _checks.size("n", space["n"], CountsError)
            first = _checks.integer("start", space["start"], -_FAR, CountsError)
            if first > _FAR:
                raise CountsError(f"`start` must be at most {_FAR}; got {first}.")
            return _Space(n, first)
    except (TypeError, ValueError, KeyError, RecursionError) as problem:
        why = f"; {problem}" if isinstance(problem, BayesmdpError) else "."
        raise CountsError(
            f"`{name}` of `{path.parent}` must describe a space as Minari does; got "
            f"{said!r:.80}{why}"
        ) from problem
    raise CountsError(
        f"`{name}` of `{path.parent}` must be Discrete; it is {kind!s:.40}: {_REMEDY}."
    )


def _stored(file: Any, h5py: Any, said: str) -> Iterator[_Episode]:
    """Episodes of a file in the order of their numbers, one at a time."""
    strange = [name for name in file if not _GROUP.fullmatch(name)]
    if strange:
        raise CountsError(
            f"{said} is not a Minari dataset: it holds {strange[0]!r:.40} where groups "
            "are named episode_0, episode_1, and so on."
        )
    for number in sorted(int(name.removeprefix("episode_")) for name in file):
        group = file[f"episode_{number}"]
        for name in _PARTS:
            part = group.get(name) if isinstance(group, h5py.Group) else None
            if isinstance(part, h5py.Group):
                raise CountsError(
                    f"Episode {number} of {said} has {name} in parts "
                    f"({', '.join(part)!s:.60}), not one whole number a step: "
                    f"{_REMEDY}."
                )
            if not isinstance(part, h5py.Dataset):
                raise CountsError(f"Episode {number} of {said} has no {name}.")
        yield _Episode(number, {name: group[name] for name in _PARTS})


def _transitions(
    episodes: Iterator[_Episode], states: _Space, actions: _Space, said: str
) -> Transitions:
    columns: dict[str, list[IntArray | FloatArray | BoolArray]] = {
        name: [] for name in ("state", "next_state", "action", "episode", "step")
    }
    columns |= {name: [] for name in ("reward", "terminated", "truncated")}
    n_steps = 0
    for episode in episodes:
        where = f"of episode {episode.number} of {said}"
        _check_parts(episode, where)
        n_steps += episode.parts["actions"].size
        _check_memory(n_steps, where)
        parts = {name: np.asarray(x[()]) for name, x in episode.parts.items()}
        seen = _ids(parts["observations"], "observations", states, where)
        acted = _ids(parts["actions"], "actions", actions, where)
        columns["state"].append(seen[:-1])
        columns["next_state"].append(seen[1:])
        columns["action"].append(acted)
        columns["episode"].append(np.full(acted.size, episode.number))
        columns["step"].append(np.arange(acted.size))
        paid = _checks.float_array(
            f"rewards {where}", parts["rewards"], ("step",), CountsError
        )
        columns["reward"].append(paid)
        for name, part in (
            ("terminated", "terminations"),
            ("truncated", "truncations"),
        ):
            flags = _checks.flags(f"{part} {where}", parts[part], CountsError)
            columns[name].append(flags)
    if not any(part.size for part in columns["state"]):
        raise CountsError(f"{said} holds no steps.")
    joined: dict[str, Any] = {name: np.concatenate(x) for name, x in columns.items()}
    return Transitions.from_arrays(**joined, n_states=states.n, n_actions=actions.n)


def _check_parts(episode: _Episode, where: str) -> None:
    """Look at kinds, shapes and sizes before any is read: they may claim anything."""
    for name in ("actions", "observations"):
        part = episode.parts[name]
        if part.ndim != 1 or part.dtype.kind not in "iu":
            raise CountsError(
                f"{name.capitalize()} {where} must be one whole number a step; got "
                f"{part.dtype} of shape {part.shape}: {_REMEDY}."
            )
    (n_steps,) = episode.parts["actions"].shape
    for name in _PARTS:
        shape = episode.parts[name].shape
        wanted = n_steps + (name == "observations")
        if shape != (wanted,):
            raise CountsError(
                f"{name.capitalize()} {where} must be {wanted}, for {n_steps} actions; "
                f"got shape {shape}."
            )
        _check_stored(episode.parts[name], f"{name.capitalize()} {where}")


def _check_stored(part: Any, what: str) -> None:
    """Refuse more than the bytes of a file can stand for."""
    if isinstance(part, np.ndarray):
        return
    claimed, there = part.size * part.dtype.itemsize, part.id.get_storage_size()
    if claimed > MOST_PACKED * there:
        raise CountsError(
            f"{what} claim {claimed} bytes, and the file holds {there} of them: it is "
            "damaged, or was never written to its end."
        )


def _check_memory(n_steps: int, where: str) -> None:
    remedy = "give fewer episodes, loaded by Minari"
    what = f"{n_steps} steps, up to those {where}, take"
    check_room(_BYTES_A_STEP * n_steps, what, lambda _: remedy)


def _ids(values: NDArray[Any], part: str, space: _Space, where: str) -> IntArray:
    """Return ids from 0."""
    top = np.inf if space.n is None else space.start + space.n
    bad = (values < space.start) | (values >= top)
    if bad.any():
        step = int(np.argmax(bad))
        last = "" if space.n is None else f" and at most {space.start + space.n - 1}"
        raise CountsError(
            f"{part.capitalize()} {where} must be at least {space.start}{last}: step "
            f"{step} has {values[step]}."
        )
    return np.asarray(values.astype(np.int64) - space.start)
