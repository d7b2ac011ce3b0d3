"""Gradients over draws, what is left to gain, and its error, against plain NumPy.

Half of the draws chooses the action of each state, the other half says what it gains.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import reference
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.optimisation import Objective
from bayesmdp.optimisation._oracle import Oracle

Array = NDArray[np.float64]
S, A = 6, 3
HALF = 48  # of 100 draws, in whole blocks of 16
RNG = np.random.default_rng(5)
REWARD = RNG.normal(size=(S, A))
TASK = bm.Task(S, A, REWARD, discount=0.9, terminal=[5])
COUNTS = RNG.poisson(1.0, size=(S, A, S)) * (np.arange(S) < 5)[:, None, None]
POSTERIOR = bm.fit(bm.Counts.from_dense(COUNTS), TASK, prior=bm.SymmetricPrior())
POLICY = RNG.dirichlet(np.ones(A), size=S)
POLICY[1] = [0, 1, 0]  # rows without probability, for which their means stand


@dataclass(frozen=True)
class Each:
    """Every draw by NumPy: start value, slope of each pair, visits."""

    value: Array  # [D]
    slope: Array  # [D, S, A], of live states
    visits: Array  # [D, S]


@cache
def each(n_draws: int = 100) -> Each:
    draws, at = POSTERIOR.draws(n_draws, seed=2), reference.setting(TASK, REWARD)
    mean = POSTERIOR.mean().to_dense()
    found = []
    for i in range(n_draws):
        theta = np.where(POLICY[:, :, None] > 0, draws.dynamics(i).to_dense(), mean)
        found.append(reference.solve(theta, POLICY, at))
    value = np.array([one.value for one in found])
    visits = np.array([one.occupancy for one in found])[:, :5]
    advantage = np.array([one.q for one in found]) - value[:, :, None]
    return Each(value @ at.rho, visits[:, :, None] * advantage[:, :5], visits)


def found_slopes(n_draws: int = 100, first: int = 0, **how: Any) -> engine.Slopes:
    draws = POSTERIOR.draws(n_draws, seed=2)
    problem = engine.Problem.of_draws(draws, POLICY[None], every_row=True)
    with engine.workers(1, None) as pool:
        return engine.slopes(
            problem, problem.policies[0], n_draws, pool=pool, first=first, **how
        )


def crossed(slope: Array, weights: Array, totals: tuple[float, float]) -> Any:
    """Gap and its error: each half chooses for the other."""
    parts = [slice(0, HALF), slice(HALF, None)]
    means, noises = [], []
    for part, total in zip(parts, totals, strict=True):
        n = int((weights[part] != 0).sum())
        gain = weights[part, None, None] * slope[part]
        mean = gain.sum(axis=0) / total
        square = n * (gain**2).sum(axis=0) / total**2
        means.append(mean)
        noises.append((square - mean**2) / (n - 1))
    gaps, noise = [], 0.0
    for chooser, judge in ((0, 1), (1, 0)):
        best = means[chooser].argmax(axis=1)
        rows = (np.arange(5), best)
        better = means[chooser][rows] > 0
        gaps.append(means[judge][rows][better].sum())
        noise += noises[judge][rows][better].sum()
    return np.mean(gaps), np.sqrt(noise) / 2


def test_the_gap_is_chosen_on_one_half_and_judged_on_the_other() -> None:
    found, drawn = found_slopes(), each()
    assert found.value == pytest.approx(drawn.value.mean(), rel=1e-10)
    np.testing.assert_allclose(
        found.slope, drawn.slope.mean(axis=0).ravel(), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(found.visits, drawn.visits.mean(axis=0), rtol=1e-10)
    gap, error = crossed(drawn.slope, np.ones(100), (HALF, 100 - HALF))
    assert found.gap == pytest.approx(gap, rel=1e-9)
    assert found.gap_mcse == pytest.approx(error, rel=1e-7)


WEIGHTS = {
    "positive": np.random.default_rng(0).exponential(size=100),
    "some are 0": np.random.default_rng(1).exponential(size=100)
    * (np.arange(100) % 3 > 0),
    "some are negative": np.random.default_rng(2).normal(0.5, 1.0, size=100),
}


@pytest.mark.parametrize("solver", ["dense", "iterative"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_draws_are_weighted(name: str, solver: str) -> None:
    """Sums are divided by a total that is given, in shares of the halves."""
    weights, drawn = WEIGHTS[name], each()
    found = found_slopes(weights=weights, total=100.0, solver=solver)
    wanted = np.tensordot(weights, drawn.slope, axes=1) / 100
    np.testing.assert_allclose(found.slope, wanted.ravel(), rtol=1e-7, atol=1e-9)
    assert found.value == pytest.approx(weights @ drawn.value / 100, rel=1e-8)
    gap, error = crossed(drawn.slope, weights, (HALF, 100 - HALF))
    assert found.gap == pytest.approx(gap, rel=1e-6, abs=1e-9)
    assert found.gap_mcse == pytest.approx(error, rel=1e-6)


def test_weights_without_a_total_are_those_of_a_mean() -> None:
    weights, drawn = WEIGHTS["some are 0"], each()
    found = found_slopes(weights=weights)
    wanted = np.tensordot(weights, drawn.slope, axes=1) / weights.sum()
    np.testing.assert_allclose(found.slope, wanted.ravel(), rtol=1e-9, atol=1e-12)
    halves = (weights[:HALF].sum(), weights[HALF:].sum())
    gap, error = crossed(drawn.slope, weights, halves)
    assert found.gap == pytest.approx(gap, rel=1e-9)
    assert found.gap_mcse == pytest.approx(error, rel=1e-7)


def test_draws_that_are_all_there_are_leave_no_error() -> None:
    weights, drawn = WEIGHTS["some are 0"], each()
    found = found_slopes(weights=weights, exact=True)
    mean = np.tensordot(weights, drawn.slope, axes=1) / weights.sum()
    gap = np.maximum(mean.max(axis=1), 0).sum()
    assert found.gap == pytest.approx(gap, rel=1e-9)
    assert found.gap_mcse == 0


def test_the_error_of_a_gap_is_how_far_it_varies() -> None:
    """Over 60 samples of 64 draws: a ratio of sds, known to 9 %; 5 errors are 45 %.

    Actions are the same in all samples where one of them is clearly best.
    """
    found = [found_slopes(64, first=64 * i) for i in range(60)]
    gaps = np.array([x.gap for x in found])
    said = np.sqrt(np.mean([x.gap_mcse**2 for x in found]))
    assert 0.55 < gaps.std(ddof=1) / said < 1.45


def test_where_nothing_can_be_gained_the_gap_is_around_zero() -> None:
    """Actions are exchangeable: 60 samples of 64 draws, 4 errors, 6e-5.

    Were actions chosen and judged on the same draws, noise would look like a gain.
    """
    task = bm.Task(4, A, [1.0, -1.0, 0.5, 2.0], discount=0.9)
    counts = np.repeat(RNG.poisson(1.0, size=(4, 1, 4)), A, axis=1)
    posterior = bm.fit(bm.Counts.from_dense(counts), task, prior=bm.SymmetricPrior())
    uniform = np.full((1, 4, A), 1 / A)
    problem = engine.Problem.of_draws(posterior.draws(2), uniform, every_row=True)
    with engine.workers(1, None) as pool:
        found = [
            engine.slopes(problem, problem.policies[0], 64, pool=pool, first=64 * i)
            for i in range(60)
        ]
    gaps = np.array([x.gap for x in found])
    error = gaps.std(ddof=1) / np.sqrt(60)
    assert abs(gaps.mean()) < 4 * error
    naive = [x.slope.reshape(4, A).max(axis=1).sum() for x in found]
    assert np.mean(naive) > 10 * error


def test_values_of_draws_are_those_of_a_loop() -> None:
    draws = POSTERIOR.draws(100, seed=2)
    problem = engine.Problem.of_draws(draws, POLICY[None], every_row=True)
    with engine.workers(1, None) as pool:
        found, visits = engine.draw_values(problem, problem.policies[0], 100, pool=pool)
        later, _ = engine.draw_values(
            problem, problem.policies[0], 36, pool=pool, first=64
        )
    np.testing.assert_allclose(found, each().value, rtol=1e-10)
    np.testing.assert_allclose(visits, each().visits.mean(axis=0), rtol=1e-10)
    np.testing.assert_array_equal(later, found[64:])


@dataclass(frozen=True)
class LessSpread(Objective):
    """Mean less a multiple of the variance: draws of large values weigh negative."""

    factor: float

    def value(self, values: Array, probability: Array) -> float:
        mean = probability @ values
        return float(mean - self.factor * probability @ (values - mean) ** 2)

    def weights(self, values: Array, probability: Array) -> Array:
        mean = probability @ values
        return np.asarray(probability * (1 - 2 * self.factor * (values - mean)))


@pytest.mark.parametrize("kind", ["posterior", "models"])
def test_the_gradient_of_any_objective_is_that_of_central_differences(
    kind: str,
) -> None:
    """Step 1e-4: truncation of order 1e-8, rounding of order 1e-12."""
    belief: Any = POSTERIOR
    if kind == "models":
        models = [POSTERIOR.draws(5, seed=3).dynamics(i) for i in range(5)]
        belief = bm.Ensemble(models, TASK, weights=[0.1, 0.3, 0.2, 0.3, 0.1])
    objective, h = LessSpread(2.0), 1e-4
    rng = np.random.default_rng(0)
    with engine.workers(1, None) as pool:
        oracle = Oracle(belief, objective, 0, pool)
        policy = oracle.rows(0.8 * POLICY + 0.2 / A)
        n = 5 if kind == "models" else 96
        assert oracle.problem.stream is not None
        share = oracle.problem.stream.weights(n) / n
        found = oracle.slopes(policy, n, 0)
        assert oracle.slopes(policy.copy(), n, 0) is found  # asked for last
        values, _ = engine.draw_values(oracle.problem, policy, n, pool=pool)
        assert found.value == pytest.approx(objective.value(values, share))
        assert (objective.weights(values, share) < 0).any()
        for _ in range(4):
            step = rng.normal(size=(5, A))
            step = (step - step.mean(axis=1, keepdims=True)).ravel()
            up, down = (
                objective.value(
                    engine.draw_values(oracle.problem, policy + x, n, pool=pool)[0],
                    share,
                )
                for x in (h * step, -h * step)
            )
            assert found.slope @ step == pytest.approx((up - down) / (2 * h), rel=1e-5)
