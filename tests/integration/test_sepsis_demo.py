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
from test_cli_json import KEYS, keys

import bayesmdp as bm
from bayesmdp.cli import main
from bayesmdp.cli.commands import demo
from bayesmdp.cli.commands.demo import Story, tell_story
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


def test_values_are_those_of_dense_models(story: Story) -> None:
    world = bm.worlds.icu_sepsis(discount=0.999)
    counts = np.zeros((716, 25, 716))
    seen = world.simulate(world.expert, PATIENTS, seed=0).counts()
    counts[seen.state, seen.action, seen.next_state] = seen.count
    visits = counts.sum(axis=2, keepdims=True)
    frequencies = np.divide(counts, visits, np.zeros_like(counts), where=visits > 0)
    theta, start = world.dynamics.to_dense(), world.task.start
    assert [(x.policy, x.model) for x in story.predictions] == [
        ("behaviour", "posterior"),
        ("mle", "frequencies"),
        ("mle", "posterior"),
        ("optimised", "posterior"),
    ]
    evaluations = story.comparison.evaluations
    logged = evaluations["behaviour"].policy
    for x in story.predictions:
        judged = evaluations[x.policy]
        truth = solved(theta, start, judged.policy)
        assert x.true_value == pytest.approx(truth, abs=1e-9)
        gain = truth - solved(theta, start, logged)
        assert x.true_gain == pytest.approx(gain, abs=1e-9)
        if x.model == "frequencies":
            value = solved(frequencies, start, judged.policy)
            gain = value - solved(frequencies, start, logged)
            assert x.predicted_value == pytest.approx(value, abs=1e-6)
            assert x.predicted_gain == pytest.approx(gain, abs=1e-6)
            assert (x.predicted_mcse, x.interval) == (0.0, None)
        else:
            ends = np.quantile(
                judged.start_values, [0.025, 0.975], method="inverted_cdf"
            )
            assert x.interval == tuple(ends)
            assert ends[0] < x.predicted_value < ends[1]
            gain = judged.start_value - evaluations["behaviour"].start_value
            assert x.predicted_gain == pytest.approx(gain)
    assert story.best_true_value == pytest.approx(0.8663050, abs=5.1e-8)  # published


def test_observed_returns_are_those_of_survivors(story: Story) -> None:
    """Only survival pays, on arrival, discounted by the steps before it."""
    world = bm.worlds.icu_sepsis(discount=0.999)
    (log,) = world.simulate(world.expert, PATIENTS, seed=0).episodes()
    last = log.start[1:] - 1
    returns = 0.999 ** log.step[last] * (log.next_state[last] == SURVIVAL)
    assert story.observed_return == pytest.approx(returns.mean())
    error = returns.std(ddof=1) / np.sqrt(PATIENTS)
    assert story.observed_error == pytest.approx(error)
    truth = solved(world.dynamics.to_dense(), world.task.start, world.expert)
    assert abs(story.observed_return - truth) < 4 * error


def test_the_table_and_the_words_hold_the_numbers(story: Story) -> None:
    said = story.summary()
    assert "\\n" not in said  # lines are lines
    lines = [y.split() for y in said.splitlines()]
    for x in story.predictions:
        (line,) = [y for y in lines if y[:2] == [x.policy, x.model]]
        assert f"{x.true_value:.4f}" in line
        printed = float(line[2])
        error = max(x.predicted_mcse, 5.1e-5)
        assert printed == pytest.approx(x.predicted_value, abs=error)
        if x.policy != "behaviour":
            assert float(line[-1]) == pytest.approx(x.true_gain, abs=5.1e-4)
            predicted = pytest.approx(x.predicted_gain, abs=5.1e-4)
            assert float(line[-3]) == predicted
    (line,) = [y for y in lines if y[1:3] == ["observed", "returns"]]
    observed = pytest.approx(story.observed_return, abs=story.observed_error)
    assert float(line[3]) == observed
    assert story.cautions
    words = " ".join(said.split())
    assert all(f"- Before you believe it: {x}" in words for x in story.cautions)
    assert said.endswith("your own data")
    assert str(story.html) in said


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        (0.9, "above the 95 % interval"),
        (0.5, "in the 95 % interval"),
        (0.1, "below the 95 % interval"),
    ],
)
def test_the_words_follow_the_numbers(story: Story, truth: float, words: str) -> None:
    gain = truth - 0.3
    turned = [
        replace(x, interval=(0.4, 0.6), true_value=truth, true_gain=gain)
        if x.policy == "optimised"
        else x
        for x in story.predictions
    ]
    said = " ".join(replace(story, predictions=tuple(turned)).summary().split())
    more = f"{abs(gain):.3f} {'more' if gain > 0 else 'less'}"
    assert f"the true value is {truth:.3f}, {more}, {words}." in said


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

    monkeypatch.setattr(demo, "tell_story", tell)
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


def test_json_has_the_keys_it_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As those of the other commands."""
    make_quick(monkeypatch)
    few = ("--threads", "1", "--patients", "50", "--draws", "16")
    call = ["demo", *few, "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(main, call)
    assert result.exit_code in (0, 1), result.output
    record = json.loads(result.stdout, parse_constant=pytest.fail)
    assert record.pop("schema_version") == 1
    assert sorted(keys(record)) == sorted(KEYS["demo"].split())
