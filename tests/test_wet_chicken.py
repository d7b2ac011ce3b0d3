"""Wet Chicken: published values, and rows against throws of the formula."""

import numpy as np
import pytest

import bayesmdp as bm

WORLD = bm.worlds.wet_chicken()


@pytest.mark.parametrize(
    ("epsilon", "value"),
    [(0.1, 29.7502), (0.2, 29.5036), (0.5, 27.3664), (1.0, 20.6598)],
)
def test_the_heuristic_has_its_published_value(epsilon: float, value: float) -> None:
    policy = bm.worlds.wet_chicken_baseline(epsilon)
    assert float(WORLD.value(policy)[0]) == pytest.approx(value, abs=5e-5)


def test_the_best_policy_has_its_published_value() -> None:
    known = bm.Ensemble(WORLD.dynamics.to_dense()[None], WORLD.task)
    best = WORLD.value(bm.policies.nominal(known))
    assert float(best[0]) == pytest.approx(43.08, abs=5e-5)


@pytest.mark.parametrize(("x", "y", "action"), [(0, 0, 0), (3, 4, 2), (4, 2, 4)])
def test_rows_are_those_of_the_river(x: int, y: int, action: int) -> None:
    """200,000 throws; shares are within five binomial errors."""
    paddle = np.array([(0, 0), (-1, 0), (-2, 0), (0, -1), (0, 1)])[action]
    current = 3 * y / 5
    noise = np.random.default_rng(action).uniform(-1, 1, 200_000) * (3.5 - current)
    lands = np.round(x + paddle[0] + current + noise)
    side = np.clip(y + paddle[1], 0, 4)
    to = np.where(lands >= 5, 0, np.clip(lands, 0, 4) * 5 + side).astype(int)
    found = np.bincount(to, minlength=25) / to.size
    row = WORLD.dynamics.to_dense()[5 * x + y, action]
    assert (np.abs(found - row) <= 5 * np.sqrt(row / to.size) + 1e-12).all()


def test_a_step_pays_where_it_leads() -> None:
    to = np.arange(25)
    pays = WORLD.task.transition_reward(np.full(25, 12), np.zeros(25, dtype=int), to)
    possible = WORLD.dynamics.to_dense()[12, 0] > 0
    assert np.array_equal(pays[possible], (to // 5)[possible])


def test_bad_settings_are_refused() -> None:
    with pytest.raises(bm.BayesmdpError, match="`discount` must be below 1"):
        bm.worlds.wet_chicken(discount=1)
    with pytest.raises(bm.BayesmdpError, match="`epsilon`"):
        bm.worlds.wet_chicken_baseline(2)
