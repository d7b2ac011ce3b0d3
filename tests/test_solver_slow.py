"""Draws that converge slowly: retried by elimination, or left out and said to be."""

import numpy as np
import pytest
from test_solver import QUANTITIES, assert_close, random_posterior, ring

import bayesmdp as bm
from bayesmdp.engine import _choose
from bayesmdp.errors import ConvergenceError


def test_slow_draws_are_retried_by_elimination_and_counted() -> None:
    posterior, policy = ring(), np.ones((600, 1))
    draws = posterior.draws(20, seed=1)
    found = bm.evaluate(policy, draws, solver="iterative", control=False)
    dense = bm.evaluate(policy, draws, solver="dense", control=False)
    assert found.solver == "iterative"
    assert (found.n_retried, found.n_unsolved, found.n_endless) == (20, 0, 0)
    assert found.notes == ()
    for name in ("value", "aleatoric_sd", "occupancy", "start_values"):
        assert_close(getattr(found, name), getattr(dense, name), name)


@pytest.fixture(scope="module")
def scenarios() -> bm.Ensemble:
    """Five models: the second and the last are rings, the mean of all is not."""
    slow = ring()
    easy = [random_posterior(600, n_actions=1, n_next=k).mean() for k in (3, 4, 5)]
    models = [easy[0], slow.mean(), easy[1], easy[2], slow.mean()]
    return bm.Ensemble(models, slow.task, weights=[0.3, 0.2, 0.1, 0.3, 0.1])


def test_only_slow_draws_are_retried(scenarios: bm.Ensemble) -> None:
    policy = np.ones((600, 1))
    found = bm.evaluate(policy, scenarios.draws(), solver="iterative")
    dense = bm.evaluate(policy, scenarios.draws(), solver="dense")
    assert (found.n_retried, found.n_unsolved) == (2, 0)
    for name in QUANTITIES:
        assert_close(getattr(found, name), getattr(dense, name), name)


def test_slow_draws_out_of_reach_are_left_out_and_said_to_be(
    scenarios: bm.Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = np.ones((600, 1))
    everything = bm.evaluate(policy, scenarios.draws(), solver="dense")
    monkeypatch.setattr(_choose, "_MOST_OPERATIONS", 0)
    with pytest.warns(bm.BayesmdpWarning, match="2 of 5 draws converge too slowly"):
        found = bm.evaluate(policy, scenarios.draws(), solver="iterative")
    assert (found.n_retried, found.n_unsolved, found.n_endless) == (0, 2, 0)
    assert np.isnan(found.start_values).tolist() == [False, True, False, False, True]
    kept = np.array([0, 2, 3])
    assert_close(found.start_values[kept], everything.start_values[kept], "start")
    share = scenarios.weights[kept] / scenarios.weights[kept].sum()
    mean = share @ everything.start_values[kept]
    assert found.start_value == pytest.approx(mean, rel=1e-8)
    assert any("2 of 5 draws" in note for note in found.notes)
    assert "2 of 5 draws" in found.summary()


def test_a_nominal_model_out_of_reach_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posterior = ring()
    monkeypatch.setattr(_choose, "_MOST_OPERATIONS", 0)
    with pytest.raises(ConvergenceError, match="600 states converges too slowly"):
        bm.evaluate(np.ones((600, 1)), posterior.draws(20), solver="iterative")


def test_a_model_without_rewards_needs_no_retry() -> None:
    """Iterations start from the mean of the models, which has some."""
    belief = random_posterior(100, n_actions=1)
    models = [belief.draws(3).dynamics(i) for i in range(3)]
    rewards = [belief.task.reward, np.zeros(100), belief.task.reward]
    ensemble = bm.Ensemble(models, belief.task, rewards=rewards)
    found = bm.evaluate([0] * 100, ensemble.draws(), solver="iterative")
    assert found.start_values[1] == 0.0
    assert found.n_retried == 0
