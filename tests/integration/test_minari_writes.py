"""Datasets that Minari itself writes and loads."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete

import bayesmdp as bm
from bayesmdp.data import collect, read_minari

# Minari says that these datasets name no environment; they need none.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def minari(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("minari")))
        yield pytest.importorskip("minari")


def written(minari: Any, name: str, buffers: list[Any], **options: Any) -> Any:
    return minari.create_dataset_from_buffers(
        f"test/{name}-v0",
        buffer=buffers,
        env=None,
        algorithm_name="uniform",
        author="tests",
        author_email="tests@example.org",
        code_permalink="https://example.org",
        description="for tests",
        **options,
    )


def buffers(minari: Any, log: bm.Transitions, first: int) -> list[Any]:
    rows = log.table.columns  # type: ignore[attr-defined]
    episodes = []
    for number in np.unique(rows["episode"]):
        at = rows["episode"] == number
        seen = [rows["state"][at][0], *rows["next_state"][at]]
        episodes.append(
            minari.data_collector.EpisodeBuffer(
                id=None,
                observations=[int(x) + first for x in seen],
                actions=[int(x) + first for x in rows["action"][at]],
                rewards=rows["reward"][at].tolist(),
                terminations=rows["terminated"][at].tolist(),
                truncations=rows["truncated"][at].tolist(),
                infos={},
            )
        )
    return episodes


@pytest.mark.parametrize("first", [0, 3])
def test_a_log_survives_the_way_through_minari(minari: Any, first: int) -> None:
    log = collect("FrozenLake-v1", "uniform", 40, seed=0, max_steps=7)
    rows = log.table.columns  # type: ignore[attr-defined]
    assert rows["truncated"].any()
    assert rows["terminated"].any()
    dataset = written(
        minari,
        f"lake{first}",
        buffers(minari, log, first),
        observation_space=Discrete(16, start=first),
        action_space=Discrete(4, start=first),
    )
    folder = Path(os.environ["MINARI_DATASETS_PATH"], f"test/lake{first}-v0")
    for source in (folder, dataset, minari.load_dataset(f"test/lake{first}-v0")):
        got = read_minari(source)
        assert got.notes == ()
        for name, column in got.table.columns.items():  # type: ignore[attr-defined]
            assert np.array_equal(column, rows[name]), name
    some = read_minari(dataset.filter_episodes(lambda x: x.terminations[-1]))
    assert 0 < some.n_rows < log.n_rows


def test_observations_in_parts_are_refused(minari: Any) -> None:
    buffer = minari.data_collector.EpisodeBuffer(
        id=None,
        observations={"place": [0, 1], "time": [0, 1]},
        actions=[0],
        rewards=[0.0],
        terminations=[True],
        truncations=[False],
        infos={},
    )
    spaces = Dict(place=Discrete(2), time=Discrete(2))
    written(
        minari, "parts", [buffer], observation_space=spaces, action_space=Discrete(1)
    )
    folder = Path(os.environ["MINARI_DATASETS_PATH"], "test/parts-v0")
    with pytest.raises(bm.BayesmdpError, match="must be Discrete; it is Dict"):
        read_minari(folder)
