"""Minari datasets: `read_minari` beside the arrays that were written; and damage."""

import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import bayesmdp as bm
from fuzz import Case, DifferenceError, attempt, tables
from fuzz.readers import counted

PARTS = ("observations", "actions", "rewards", "terminations", "truncations")
SPACES: list[Any] = [None, "{", "[]", 7, '{"type": "Box"}', '{"type": "Discrete"}']
SPACES += ['{"type": "Discrete", "n": "x", "start": 0}', "null", '{"n": 3}', {}]
SPACES += ['{"type": "Discrete", "n": 1e400, "start": 0}', '{"type": ["Discrete"]}']
SPACES += ['{"type": "Discrete", "n": -1, "start": 0}', "[" * 5000]
SPACES += ['{"type": "Discrete", "n": 3, "start": 9223372036854775807}']
Episodes = dict[str, dict[str, Any]]


def check(case: Case) -> bool:
    """Read one dataset; without h5py there is nothing to read."""
    if find_spec("h5py") is None:
        return False
    start = case.random.choice([0, 0, 1, -2])
    episodes = _episodes(case, start)
    spoilt = case.happens(0.35)
    if spoilt:
        _spoil(case, episodes)
    case.note("episodes", episodes)
    path = case.folder / "main_data.hdf5"
    _write(path, episodes)
    known = case.happens(0.85)  # where ids begin
    damaged = _metadata(case, start) if known else False
    if case.happens(0.3):
        path.write_bytes(tables.damaged(case, path.read_bytes()))
        damaged = True
    counts = attempt(lambda: bm.data.read_minari(path).counts())
    if isinstance(counts, Exception):
        if not (spoilt or damaged) and (known or start >= 0):
            raise DifferenceError(f"a sound dataset is refused: {counts}")
        return False
    if not damaged:  # there are no checksums
        wanted = _naive(episodes, start if known else 0)
        if counted(counts) != wanted:
            raise DifferenceError(f"{counted(counts)}, and naively {wanted}")
    return True


def _metadata(case: Case, start: int) -> bool:
    """Write what the spaces are; whether that is damaged."""
    spaces: Any = {"observation_space": _space(6, start), "action_space": _space(3, 0)}
    odd = case.happens(0.2)
    if odd:
        spaces[case.random.choice(list(spaces))] = case.random.choice(SPACES)
    said = json.dumps(spaces).encode()
    damaged = case.happens(0.08)
    if damaged:
        said = tables.damaged(case, said)
    case.note("metadata", said)
    (case.folder / "metadata.json").write_bytes(said)
    return odd or damaged


def _space(n: int, start: int) -> str:
    return json.dumps({"type": "Discrete", "n": n, "start": start})


def _episodes(case: Case, start: int) -> Episodes:
    numbers = np.random.default_rng(case.random.getrandbits(32))
    found: Episodes = {}
    for k in case.random.sample(range(20), case.random.randint(1, 3)):
        n = case.random.choice([1, 2, 5, 12])
        found[f"episode_{k}"] = {
            "observations": numbers.integers(start, start + 6, n + 1),
            "actions": numbers.integers(0, 3, n),
            "rewards": numbers.normal(size=n),
            "terminations": np.arange(n) == n - 1,
            "truncations": np.zeros(n, dtype=bool),
        }
    return found


def _spoil(case: Case, episodes: Episodes) -> None:
    """Change a part of an episode: its type, length, values, name."""
    pick = case.random
    episode = episodes[pick.choice(list(episodes))]
    part = pick.choice(PARTS)
    how = pick.choice(["type", "length", "value", "drop", "group", "name", "axes"])
    case.note("spoilt", (how, part))
    if how == "type":
        kind = pick.choice(["f4", "u1", "S3", "c16", "?", "f2", "u8", "i1"])
        episode[part] = np.zeros(len(episode[part]), kind)
    elif how == "length":
        episode[part] = np.resize(episode[part], pick.choice([0, 1, 40]))
    elif how == "value" and episode[part].dtype.kind in "if":
        odd = [-9, 10**9, 2**62] if episode[part].dtype.kind == "i" else [np.nan, 1e308]
        episode[part][0] = pick.choice(odd)
    elif how == "drop":
        del episode[part]
    elif how == "group":
        episode[part] = {"a": episode[part], "b": episode[part]}
    elif how == "name":
        episodes[pick.choice(["episode_01", "episode_", "x", "episode_²"])] = episode
    elif how == "axes":
        episode[part] = np.zeros((len(episode[part]), pick.choice([0, 1, 2])))


def _write(path: Path, episodes: Episodes) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, parts in episodes.items():
            group = file.create_group(name)
            for part, content in parts.items():
                if isinstance(content, dict):
                    inside = group.create_group(part)
                    for key, value in content.items():
                        inside[key] = value
                else:
                    group[part] = content


def _naive(episodes: Episodes, start: int) -> Counter[tuple[int, int, int]]:
    """Count step by step."""
    found: Counter[tuple[int, int, int]] = Counter()
    for parts in episodes.values():
        seen = [int(x) - start for x in parts["observations"]]
        for i, action in enumerate(parts["actions"]):
            found[seen[i], int(action), seen[i + 1]] += 1
    return found
