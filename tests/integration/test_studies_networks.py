"""Quantile networks against returns that are known, and the study end to end.

Training is deterministic, so a test passes or fails for good on one machine. Seeds and
tolerances are fixed; how far other seeds stray was not measured.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import BayesmdpWarning, ConvergenceError
from studies import Effort, find_study, run_study
from studies import ensemble as study_file
from studies import quantile_networks as _networks
from studies.quantile import quantile_evaluate

pytestmark = pytest.mark.integration
torch = pytest.importorskip("torch")

SMALL = {"n_networks": 2, "n_quantiles": 20, "width": 32, "warm_up": 100}
TINY: dict[str, Any] = {**SMALL, "n_steps": 160, "log_every": 20, "width": 16}


def chain(discount: float = 0.9) -> bm.MDP:
    """State 0 goes on to 1 (0.7, paid 0.5), 1 ends well (0.6, paid 1); else badly."""
    dynamics, reward = np.zeros((4, 1, 4)), np.zeros((4, 1, 4))
    dynamics[0, 0, [1, 3]] = 0.7, 0.3
    dynamics[1, 0, [2, 3]] = 0.6, 0.4
    dynamics[[2, 3], 0, [2, 3]] = 1.0
    reward[0, 0, 1], reward[1, 0, 2] = 0.5, 1.0
    task = bm.Task(4, 1, reward, discount=discount, terminal=[2, 3], start=0)
    return bm.MDP(bm.Dynamics.from_dense(dynamics), task)


# Returns of the chain, and how likely: nothing, the first payment, both.
RETURNS, SHARES = np.array([0.0, 0.5, 0.5 + 0.9]), np.array([0.3, 0.28, 0.42])
ALEATORIC = np.sqrt(SHARES @ (RETURNS - SHARES @ RETURNS) ** 2)


@pytest.mark.parametrize("source", ["world", "log"])
def test_quantiles_of_a_chain_have_the_mean_and_the_spread_of_its_returns(
    source: str,
) -> None:
    world = chain()
    learn_from: Any = world
    if source == "log":
        log = world.simulate([0] * 4, 20_000, seed=1)
        learn_from = bm.fit(log, world.task, prior=bm.SymmetricPrior())
    found = quantile_evaluate([0] * 4, learn_from, n_steps=2_000, **SMALL)
    e = found.evaluation
    # 0.03: 20 quantiles on two or three values leave up to half a step of 0.05 * 1.4.
    assert e.value[:2] == pytest.approx(world.value([0] * 4)[:2], abs=0.03)
    assert e.aleatoric_sd[:2] == pytest.approx([ALEATORIC, np.sqrt(0.24)], abs=0.03)
    assert (e.epistemic_sd[:2] < 0.06).all()
    assert e.start_value == pytest.approx(e.value[0])
    assert e.start_aleatoric_sd == pytest.approx(e.aleatoric_sd[0])
    assert e.start_epistemic_sd == pytest.approx(e.epistemic_sd[0])
    assert e.start_values.mean() == pytest.approx(e.start_value)
    assert np.array_equal(e.value[2:], [0.0, 0.0])
    assert np.allclose(e.total_sd**2, e.epistemic_sd**2 + e.aleatoric_sd**2)
    assert found.history.epistemic_sd[0, :2].min() > 0.3  # before any training
    assert found.history.loss[-1] < 0.5 * found.history.loss[0]
    assert "state 1" in e.summary()


def test_rewards_of_states_and_mixed_actions() -> None:
    dynamics = np.zeros((3, 2, 3))
    dynamics[0, 0, 1] = dynamics[0, 1, 2] = dynamics[1:, :, 0] = 1.0
    task = bm.Task(3, 2, [0.2, 1, -0.5], discount=0.8, terminal=[1, 2], start=[1, 0, 0])
    world = bm.MDP(bm.Dynamics.from_dense(dynamics), task)
    policy = np.array([[0.25, 0.75], [1, 0], [1, 0]])
    e = quantile_evaluate(policy, world, n_steps=1_000, **SMALL).evaluation
    # Either 0.2 + 0.8 or 0.2 - 0.4, known once the action is.
    assert e.value == pytest.approx(world.value(policy), abs=0.02)
    assert e.aleatoric_sd[0] == pytest.approx(1.2 * np.sqrt(0.25 * 0.75), abs=0.02)
    assert np.array_equal(e.value[1:], [1.0, -0.5])


def test_a_process_without_end_has_its_discounted_value() -> None:
    still = bm.Dynamics.from_dense([[[1.0]]])
    world = bm.MDP(still, bm.Task(1, 1, [1], discount=0.5))
    e = quantile_evaluate(
        [0], world, n_steps=1_500, target_every=20, **SMALL
    ).evaluation
    assert e.value == pytest.approx([2.0], abs=0.02)
    # Nothing is random: what is left is the jitter of Adam at a fixed rate.
    assert e.aleatoric_sd == pytest.approx([0.0], abs=0.05)


def test_the_loss_is_that_of_all_pairs_and_so_is_its_slope() -> None:
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(3, 4, 6)), requires_grad=True)
    y = torch.tensor(rng.normal(size=(4, 6)))
    level = (torch.arange(6) + 0.5) / 6
    away = y[None, :, None, :] - x[..., None]  # [M, B, Q, J]
    slow = ((level[:, None] - (away < 0).double()).abs() * away.abs()).mean(dim=3)
    slow = slow.sum(dim=2).mean(dim=1)
    fast = _networks._Quantiles(torch, 1, 6).loss(x, y)
    assert torch.allclose(fast, slow)
    slopes = [torch.autograd.grad(loss.sum(), x)[0] for loss in (fast, slow)]
    assert torch.allclose(*slopes)


def test_networks_that_begin_alike_stay_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = _networks.initial_weights

    def alike(*given: Any) -> list[Any]:
        return [w[:1].repeat(w.shape[0], 1, 1) for w in drawn(*given)]

    monkeypatch.setattr(_networks, "initial_weights", alike)
    found = quantile_evaluate([0] * 4, chain(), **TINY)
    assert found.evaluation.epistemic_sd.max() < 1e-6
    assert found.history.epistemic_sd.max() < 1e-6


def test_networks_learn_apart_and_a_larger_ensemble_holds_the_smaller() -> None:
    few = quantile_evaluate([0] * 4, chain(), **TINY)
    more = quantile_evaluate([0] * 4, chain(), **{**TINY, "n_networks": 4})
    assert np.allclose(
        few.evaluation.start_values, more.evaluation.start_values[:2], atol=1e-5
    )


def test_a_strong_pull_keeps_networks_where_they_began() -> None:
    free, held = (
        quantile_evaluate([0] * 4, chain(), **TINY, noise_scale=scale)
        for scale in (0.0, 1e4)
    )
    began = held.history.epistemic_sd[0, 0]
    assert held.evaluation.epistemic_sd[0] > 0.8 * began
    assert free.evaluation.epistemic_sd[0] < 0.6 * began


def test_the_same_seed_gives_the_same_bits_and_torch_is_left_as_it_was() -> None:
    random, threads = torch.random.get_rng_state(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    try:
        one = quantile_evaluate([0] * 4, chain(), **TINY)
    finally:
        torch.set_default_dtype(torch.float32)
    two = quantile_evaluate([0] * 4, chain(), **TINY)
    other = quantile_evaluate([0] * 4, chain(), **TINY, seed=1)
    assert np.array_equal(one.history.epistemic_sd, two.history.epistemic_sd)
    assert np.array_equal(one.evaluation.value, two.evaluation.value)
    assert one.evaluation.start_value != other.evaluation.start_value
    assert one.history.step.tolist() == [100, 120, 140]
    assert torch.equal(random, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads
    with pytest.raises(ValueError, match="read-only"):
        one.history.loss[0] = 0


def test_an_interrupt_leaves_torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Any, step: int) -> float:
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt

    threads = torch.get_num_threads()
    monkeypatch.setattr(_networks._Training, "step", stop)
    with pytest.raises(KeyboardInterrupt):
        quantile_evaluate([0] * 4, chain(), **TINY)
    assert torch.get_num_threads() == threads


def test_states_without_data_are_named() -> None:
    world = chain()
    posterior = bm.fit(
        bm.Counts.from_arrays([0], [0], [1]), world.task, prior=bm.SymmetricPrior()
    )
    with pytest.warns(BayesmdpWarning, match=r"In 1 of 2 states \(first: state 1\)"):
        found = quantile_evaluate([0] * 4, posterior, **TINY)
    assert found.evaluation.notes
    assert found.history.step[0] == 0  # a log needs no warm-up


def test_rewards_beyond_single_precision_are_refused() -> None:
    still = bm.Dynamics.from_dense([[[1.0]]])
    world = bm.MDP(still, bm.Task(1, 1, [1e39], discount=0.5))
    with pytest.raises(ConvergenceError, match="scale rewards"):
        quantile_evaluate([0], world, **TINY)


def test_a_quick_study_runs_and_more_steps_begin_like_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_file, "_SIZES", (25, 25_000))
    study = find_study("ensemble")
    outcome = run_study(study, Effort(quick=True), tmp_path)
    records = [
        json.loads(line)
        for line in (outcome.directory / "records.jsonl").read_text().splitlines()
    ]
    assert [(x["size"], x["method"]) for x in records] == [
        (size, method)
        for size in (25, 25_000)
        for method in ("simulated", "replayed", "posterior")
    ]
    assert "**Verdict:**" in outcome.summary
    assert (outcome.directory / "ensemble.png").exists()
    job = next(x for x in study.jobs(Effort(quick=True)) if "simulated" in x.key)
    short = {**job.params["training"], "n_steps": 200}
    here = study.work(**{**job.params, "training": short})
    assert here[0]["epistemic"] == records[0]["epistemic"][: len(here[0]["epistemic"])]
