"""The demonstration: its numbers found another way, its words, its files.

The search, which takes most of its time, is left out; tests of `optimise` look at it,
and `make demo` runs all of it.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from quick_search import make_quick

import bayesmdp as bm
from bayesmdp.cli import _sepsis_demo, main
from bayesmdp.cli._sepsis_demo import Story, tell_story
from bayesmdp.errors import ArgumentError, StorageError
from bayesmdp.worlds import _sepsis

pytestmark = pytest.mark.integration

N_LIVE, SURVIVAL = 713, 714
PATIENTS = 500


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, told: list[str]) -> Story:
    with pytest.MonkeyPatch.context() as patch:
        make_quick(patch)
        return tell_story(
            tmp_path_factory.mktemp("story") / "new" / "place",
            n_patients=PATIENTS,
            n_draws=16,
            threads=1,
            say=told.append,
        )


def solved(theta: np.ndarray, start: np.ndarray, policy: np.ndarray) -> float:
    """Value from the start by elimination on dense arrays; survival pays 1."""
    chain = np.einsum("sa,sat->st", policy[:N_LIVE], theta[:N_LIVE])
    system = np.eye(N_LIVE) - 0.999 * chain[:, :N_LIVE]
    return float(start[:N_LIVE] @ np.linalg.solve(system, chain[:, SURVIVAL]))


def test_promise_and_delivery_are_those_of_dense_models(story: Story) -> None:
    world = bm.worlds.icu_sepsis(discount=0.999)
    counts = np.zeros((716, 25, 716))
    seen = world.simulate(world.expert, PATIENTS, seed=0).counts()
    counts[seen.state, seen.action, seen.next_state] = seen.count
    visits = counts.sum(axis=2, keepdims=True)
    frequencies = np.divide(counts, visits, np.zeros_like(counts), where=visits > 0)
    theta, start = world.dynamics.to_dense(), world.task.start
    assert [x.policy for x in story.promises] == list(story.comparison.evaluations)
    for x in story.promises[:3]:  # the last is the nominal policy again
        policy = story.comparison.evaluations[x.policy].policy
        assert x.delivery == pytest.approx(solved(theta, start, policy), abs=1e-9)
        if x.model == "frequencies":
            promise = solved(frequencies, start, policy)
            assert x.promise == pytest.approx(promise, abs=1e-6)
            assert (x.promise_error, x.interval) == (0.0, None)
        else:
            values = np.sort(story.comparison.evaluations[x.policy].start_values)
            assert x.interval is not None
            assert values[0] < x.interval[0] < x.promise < x.interval[1] < values[-1]
    assert story.best_delivery == pytest.approx(0.8663050, abs=5.1e-8)  # published


def test_the_table_and_the_words_hold_the_numbers(story: Story) -> None:
    said = story.summary()
    assert "\\n" not in said  # lines are lines
    for x in story.promises:
        (line,) = [y for y in said.splitlines() if y.startswith(x.policy)]
        assert line.endswith(f"{x.delivery:.4f}")
        printed = float(line.split()[2])
        assert printed == pytest.approx(x.promise, abs=max(x.promise_error, 5.1e-5))
    assert "Under its prior death is always possible" in said
    assert story.cautions
    words = " ".join(said.split())
    assert all(f"- Before you believe it: {x}" in words for x in story.cautions)
    assert said.endswith("your own data")
    assert str(story.html) in said


@pytest.mark.parametrize(
    ("delivery", "words"),
    [
        (0.9, "the truth lies above its interval"),
        (0.5, "its interval holds the truth"),
        (0.1, "and yet the truth lies below its interval"),
    ],
)
def test_the_words_follow_the_numbers(
    story: Story, delivery: float, words: str
) -> None:
    turned = [
        replace(x, interval=(0.4, 0.6), delivery=delivery)
        if x.policy == "optimised"
        else replace(x, delivery=0.3)
        for x in story.promises
    ]
    said = replace(story, promises=tuple(turned)).summary()
    assert words in said
    gain = f"{abs(delivery - 0.3):.3f} {'more' if delivery > 0.3 else 'less'} than"
    assert gain in said


def test_the_page_and_its_data_are_written(story: Story, told: list[str]) -> None:
    assert "</html>" in story.html.read_text()
    data = json.loads(story.json.read_text())
    assert data["summary"]["recommended"] == "optimised"
    assert data["summary"]["reference"] == "behaviour"
    assert told[0] == "simulating 500 patients, treated as clinicians did"
    assert len(told) == 7


def test_where_nothing_can_be_written_nothing_is_begun(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"file.x` cannot be made"):
        tell_story(tmp_path / "file" / "x", say=pytest.fail)


def test_few_patients_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="`n_patients` must be"):
        tell_story(tmp_path, n_patients=49)


def test_ctrl_c_in_the_search_ends_the_story(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = replace(story.optimisation, outcome=bm.optimisation.Outcome.INTERRUPTED)
    monkeypatch.setattr(bm, "optimise", lambda *_, **__: stopped)
    call = ["demo", "--patients", "50", "--out", str(tmp_path / "here")]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 130
    assert done.stdout == ""
    assert done.stderr.endswith("bayesmdp: interrupted.\n")
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("quiet", [True, False])
def test_the_command_tells_the_story(
    story: Story, quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {}

    def tell(out: Path, **more: object) -> Story:
        asked.update(more, out=out)
        more["say"]("working")  # type: ignore[operator]
        return story

    monkeypatch.setattr(_sepsis_demo, "tell_story", tell)
    done = CliRunner().invoke(main, ["demo", "--seed", "3", *["-q"] * quiet])
    assert done.exit_code == 0, done.output
    assert asked["out"] == Path("demo")
    assert (asked["n_patients"], asked["seed"]) == (18_000, 3)
    assert done.stdout == ("" if quiet else story.summary() + "\n")
    assert done.stderr == ""  # a pipe, not a terminal


def test_without_the_data_a_sentence_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sepsis, "find_spec", lambda _: None)
    done = CliRunner().invoke(main, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "pip install --no-deps icu-sepsis==2.0.1" in done.stderr
    assert done.stderr.count("\n") == 1
