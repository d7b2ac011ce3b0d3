"""Policies of others for sets of models, against planning, grids and programmes."""

from itertools import product

import numpy as np
import pytest

import bayesmdp as bm
from studies import model_policies as others

RNG = np.random.default_rng(4)
THETA = RNG.dirichlet(np.ones(4), size=(7, 4, 2))
REWARD = RNG.normal(size=(7, 4, 2))
START = np.array([0.4, 0.3, 0.2, 0.1])
MODELS = others.Models(THETA, REWARD, START, 0.9)


def ensemble(models: others.Models) -> bm.Ensemble:
    zero = np.zeros(models.reward.shape[1:])
    task = bm.Task(*zero.shape, zero, discount=models.discount, start=models.start)
    return bm.Ensemble(models.theta, task, list(models.reward))


def test_models_of_an_ensemble_are_its_models() -> None:
    made = others.Models.of(ensemble(MODELS))
    assert made.theta == pytest.approx(THETA)
    assert made.reward == pytest.approx(REWARD)
    assert made.start == pytest.approx(START)


@pytest.mark.parametrize("objective", [bm.Quantile(0.1), bm.CVaR(0.2), bm.Entropic(2)])
def test_with_one_model_every_iteration_is_planning(objective: bm.CVaR) -> None:
    one = others.Models(THETA[:1], REWARD[:1], START, 0.9)
    best = bm.policies.nominal(ensemble(one)).argmax(axis=1)
    assert np.array_equal(others.rectangular(one, objective), best)


def test_percentile_iteration_has_the_best_bound_of_all_policies() -> None:
    """Its value is the largest, over policies, of fixed points of the same backup.

    And with the level over the number of states it is a lower bound on the quantile of
    the policy's own value, if by the union of events alone.
    """
    level = 0.3

    def bound(choice: tuple[int, ...], at: float) -> np.ndarray:
        v, every = np.zeros(4), np.arange(4)
        for _ in range(400):
            q = REWARD[:, every, choice] + 0.9 * THETA[:, every, choice] @ v
            v = np.quantile(q, at, axis=0, method="inverted_cdf")
        return v

    choices = list(product((0, 1), repeat=4))
    bounds = np.array([bound(choice, level) for choice in choices])
    found = tuple(others.rectangular(MODELS, bm.Quantile(level)).tolist())
    assert bound(found, level) == pytest.approx(bounds.max(axis=0))
    for choice in choices:
        values = bm.evaluate(list(choice), ensemble(MODELS)).start_values
        low = np.quantile(values, level, method="inverted_cdf")
        assert START @ bound(choice, level / 4) <= low + 1e-9


@pytest.mark.parametrize(("weight", "tail"), [(0.0, 0.3), (0.4, 0.5), (1.0, 0.1)])
def test_the_programme_is_the_best_of_a_fine_grid(weight: float, tail: float) -> None:
    """One decision with three actions, rewards of nine models."""
    rng = np.random.default_rng(1)
    theta = np.zeros((2, 3, 2))
    theta[:, :, 1] = 1.0
    reward = np.zeros((9, 2, 3))
    reward[:, 0] = rng.normal(size=(9, 3))
    models = others.Models(
        np.tile(theta, (9, 1, 1, 1)), reward, np.array([1.0, 0]), 0.5
    )
    ticks = np.linspace(0, 1, 101)
    grid = np.array([(a, b, 1 - a - b) for a in ticks for b in ticks if a + b <= 1])
    objective, share = bm.SoftRobust(weight, tail), np.full(9, 1 / 9)

    def judged(policy: np.ndarray) -> float:
        return objective.value(reward[:, 0] @ policy, share)

    found = others.broil(models, weight, tail)[0]
    best = max(judged(policy) for policy in grid)
    assert best <= judged(found) <= best + 0.02
    with pytest.raises(bm.BayesmdpError, match="rewards alone"):
        others.broil(MODELS, weight, tail)
