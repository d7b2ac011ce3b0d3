"""Gradients of mixtures: by central differences, and by component."""

from typing import Any

import numpy as np
import pytest
import reference
from sweeps import gradient_of
from test_mixture import CHOICE, MIXTURE, POLICY, REWARD, TASK, A, Array, S, Z

import bayesmdp as bm
from bayesmdp import engine


def problem_of(policy: Array, draws: bm.Draws) -> engine.Problem:
    return engine.Problem.of_draws(draws, policy[None], every_row=True)


def slopes(policy: Array, draws: bm.Draws, solver: str = "auto") -> Any:
    problem = problem_of(policy, draws)
    with engine.workers(2, None) as pool:
        rows = problem.policies[0]
        found = engine.slopes(problem, rows, draws.n_draws, pool=pool, solver=solver)
    return problem.rows.row_id.T, found


@pytest.mark.parametrize("solver", ["dense", "iterative"])
def test_the_gradient_is_that_of_central_differences(solver: str) -> None:
    """Move mass between two actions of a state, on the same draws; step 1e-5."""
    draws = MIXTURE.draws(100, seed=3)
    (state, action), found = slopes(POLICY, draws, solver)
    slope = np.zeros((S, A))
    slope[state, action] = found.slope
    for s in range(4):
        for a, b in ((0, 1), (1, 2)):
            step = np.zeros((S, A))
            step[s, a], step[s, b] = 1e-5, -1e-5
            up, down = (
                bm.evaluate(POLICY + x, draws, control=False).start_value
                for x in (step, -step)
            )
            expected = (up - down) / 2e-5
            assert slope[s, a] - slope[s, b] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("n_draws", [70, 33])
def test_rows_without_probability_have_the_mean_of_their_component(
    n_draws: int,
) -> None:
    """By hand; the mean of the mixture in its place would be another gradient."""
    draws = MIXTURE.draws(n_draws, seed=8)
    (state, action), found = slopes(CHOICE, draws)
    at = reference.setting(TASK, REWARD)
    means = [c.mean().to_dense() for c in MIXTURE.components]
    right, wrong = [], []
    for i, c in enumerate(draws.members):
        theta = draws.dynamics(i).to_dense()
        for out, mean in ((right, means[c]), (wrong, MIXTURE.mean().to_dense())):
            kept = np.where(CHOICE[:, :, None] > 0, theta, mean)
            one = reference.solve(kept, CHOICE, at)
            value = (one.value - at.terminal_value)[:, None]
            out.append((one.occupancy[:, None] * (one.q - value))[state, action])
    np.testing.assert_allclose(found.slope, np.mean(right, axis=0), atol=1e-12)
    slope, noise = gradient_of(problem_of(CHOICE, draws), n_draws)
    np.testing.assert_allclose(slope, found.slope, atol=1e-12)
    wanted = np.var(right, axis=0) / (n_draws - 1)
    np.testing.assert_allclose(noise, wanted, rtol=1e-6, atol=1e-15)
    assert np.abs(np.mean(wrong, axis=0) - found.slope).max() > 1e-3


def test_rows_without_probability_have_the_gradient_of_sampled_rows() -> None:
    """The expectation is the same: 5 errors, 1e-5 for all rows."""
    n_draws = 3000
    draws = MIXTURE.draws(n_draws, seed=9)
    (state, action), found = slopes(CHOICE, draws)
    at = reference.setting(TASK, REWARD)
    each = []
    for i in range(n_draws):
        one = reference.solve(draws.dynamics(i).to_dense(), CHOICE, at)
        value = (one.value - at.terminal_value)[:, None]
        each.append((one.occupancy[:, None] * (one.q - value))[state, action])
    plain = np.array(each)
    noise = plain.var(axis=0) / n_draws
    off = np.abs(found.slope - plain.mean(axis=0))
    _, own_noise = gradient_of(problem_of(CHOICE, draws), n_draws)
    assert (off <= Z * np.sqrt(noise + own_noise) + 1e-12).all()
