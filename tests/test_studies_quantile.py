"""Quantile networks without torch: refusals, parts of uncertainty, the verdict."""

import copy
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, EndlessError, PolicyError, TooLargeError
from studies import find_study
from studies.__main__ import main
from studies.quantile import _parted, quantile_evaluate

WORLD = bm.worlds.gridworld()
POLICY = np.where(np.arange(25) % 5 == 4, 2, 1)


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.usefixtures("no_torch")
def test_without_torch_the_remedy_is_said_and_the_study_writes_nothing(
    tmp_path: Path,
) -> None:
    with pytest.raises(ArgumentError, match="pip install --group studies"):
        quantile_evaluate(POLICY, WORLD)
    asked = ["ensemble", "--quick", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 2
    assert "pip install --group studies" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_networks": 1}, "`n_networks` must be at least 2"),
        ({"n_quantiles": 1}, "`n_quantiles` must be at least 2"),
        ({"n_steps": 0}, "`n_steps` must be at least 1"),
        ({"n_steps": 500}, "`n_steps` must exceed `warm_up`, 500"),
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"width": 2.5}, "`width` must be a whole number"),
        ({"target_every": 0}, "`target_every`"),
        ({"log_every": 0}, "`log_every`"),
        ({"warm_up": 0}, "`warm_up` must be at least 1"),
        ({"learning_rate": 0}, "`learning_rate` must be in"),
        ({"weight_scale": 0}, "`weight_scale` must be in"),
        ({"noise_scale": -1}, "`noise_scale` must be in"),
        ({"seed": -1}, "`seed`"),
    ],
)
def test_bad_arguments_are_named_before_torch_is_asked_for(
    options: dict[str, Any], match: str
) -> None:
    with pytest.raises(ArgumentError, match=match):
        quantile_evaluate(POLICY, WORLD, **options)


def test_what_is_no_world_no_policy_or_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ArgumentError, match="`world` must be an MDP, or a posterior"):
        quantile_evaluate(POLICY, WORLD.task)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="`policy`"):
        quantile_evaluate([0, 1], WORLD)
    monkeypatch.setenv("BAYESMDP_MEMORY", "100MB")
    for name in ("n_quantiles", "n_networks", "n_steps", "width", "batch_size"):
        large: dict[str, Any] = {name: 10**9}
        with pytest.raises(TooLargeError, match=f"100 MB are free: use .*`{name}`"):
            quantile_evaluate(POLICY, WORLD, **large)


def test_episodes_that_need_not_end_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", object())  # never gets to it
    still = bm.Dynamics.from_dense([[[1.0]]])
    world = bm.MDP(still, bm.Task(1, 1, reward=[1], discount=1.0))
    with pytest.raises(EndlessError):
        quantile_evaluate([0], world)


def test_episodes_that_hardly_ever_begin_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", object())  # never gets to it
    ends = bm.Dynamics.from_dense([[[0.0, 1.0]], [[0.0, 1.0]]])
    task = bm.Task(2, 1, [0, 1], discount=0.9, terminal=[1], start=[1e-12, 1 - 1e-12])
    with pytest.raises(ArgumentError, match="`start` on states that are not terminal"):
        quantile_evaluate([0, 0], bm.MDP(ends, task), n_steps=9, warm_up=1)


def test_a_log_of_ends_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", object())  # never gets to it
    padded = bm.Counts.from_arrays([24], [0], [24], n_states=25, n_actions=4)
    with pytest.raises(ArgumentError, match="`world` has logged no transition"):
        quantile_evaluate(POLICY, bm.fit(padded, WORLD.task, prior=bm.SymmetricPrior()))


def test_doubt_is_parted_as_published_for_two_networks() -> None:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(2, 3, 1, 7)) * 0.3 + rng.normal(size=(1, 3, 1, 7))
    first, second = theta
    found, values = _parted(theta, np.ones((3, 1)))
    a, b = first[:, 0], second[:, 0]
    epistemic = ((a - b) ** 2).mean(axis=1) / 2
    covariance = [np.cov(x, y, ddof=0)[0, 1] for x, y in zip(a, b, strict=True)]
    assert min(covariance) > 0
    assert np.allclose(found["epistemic_sd"] ** 2, epistemic)
    assert np.allclose(found["aleatoric_sd"] ** 2, covariance)
    assert np.allclose(values, [a.mean(axis=1), b.mean(axis=1)])
    assert np.allclose(found["value"], (a + b).mean(axis=1) / 2)


def test_doubt_of_several_networks_averages_over_pairs_and_actions() -> None:
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(4, 2, 3, 5)) * 0.2 + rng.normal(size=(1, 2, 3, 5))
    weights = rng.dirichlet(np.ones(3), size=2)
    found, _ = _parted(theta, weights)
    for x in range(2):
        atoms = theta[:, x].reshape(4, 15)
        share = np.repeat(weights[x] / 5, 5)
        pairs = [
            np.cov(atoms[i], atoms[j], aweights=share, ddof=0)[0, 1]
            for i, j in combinations(range(4), 2)
        ]
        mixed = np.tensordot(theta[:, x], weights[x], (1, 0))  # [M, Q]
        assert found["aleatoric_sd"][x] ** 2 == pytest.approx(np.mean(pairs))
        assert found["epistemic_sd"][x] ** 2 == pytest.approx(
            mixed.var(axis=0, ddof=1).mean()
        )
        assert found["value"][x] == pytest.approx((atoms @ share).mean())
    squares = found["epistemic_sd"] ** 2 + found["aleatoric_sd"] ** 2
    assert np.allclose(found["total_sd"] ** 2, squares)


def test_networks_that_agree_have_no_epistemic_doubt_and_that_of_their_quantiles() -> (
    None
):
    one = np.random.default_rng(2).normal(size=(1, 2, 1, 9))
    found, _ = _parted(np.repeat(one, 3, axis=0), np.ones((2, 1)))
    assert np.allclose(found["epistemic_sd"], 0.0)
    assert np.allclose(found["aleatoric_sd"], one[0, :, 0].std(axis=1))


def records(simulated: list[float], replayed: list[float]) -> list[dict[str, Any]]:
    """Make records of two series with given sds for 25 and 25,000 transitions."""
    sds = {"simulated": simulated, "replayed": replayed, "posterior": [0.2, 0.02]}
    out: list[dict[str, Any]] = []
    for method, pair in sds.items():
        for size, sd in zip((25, 25_000), pair, strict=True):
            for series in (0, 1):
                record = {"size": size, "series": series, "method": method}
                record |= {"epistemic_sd": [sd, sd], "error": 0.1}
                if method != "posterior":
                    curve = [1.0, 0.5 + sd / 2]
                    record |= {"step": [0, 100], "loss": curve, "epistemic": curve}
                out.append(record)
    return out


@pytest.mark.parametrize(
    ("simulated", "replayed", "verdict"),
    [
        ([0.05, 0.05], [0.06, 0.05], ": confirmed."),
        ([0.05, 0.05], [0.50, 0.05], ": confirmed with a caveat."),
        ([0.20, 0.02], [0.20, 0.02], ": not confirmed."),  # follows the data
        ([0.60, 0.60], [0.60, 0.60], ": not confirmed."),  # does not collapse
    ],
)
def test_the_verdict_follows_the_records(
    simulated: list[float], replayed: list[float], verdict: str
) -> None:
    study = find_study("ensemble")
    told = study.tell(records(simulated, replayed))
    (line,) = [x for x in told.splitlines() if x.startswith("**Verdict:**")]
    assert line.endswith(verdict)
    assert f"| 25 | {simulated[0]:.3f} ± 0.000 |" in told
    assert "10.0-fold" in line  # the posterior's


def test_the_picture_has_a_column_a_size() -> None:
    study = find_study("ensemble")
    assert study.plot is not None
    figure = study.plot(copy.deepcopy(records([0.05, 0.05], [0.5, 0.05])))["ensemble"]
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[:2] == ["25 transitions", "25,000 transitions"]
    heights = {line.get_ydata()[0] for line in figure.axes[0].lines}
    assert 0.2 in heights  # ours, a horizontal line
