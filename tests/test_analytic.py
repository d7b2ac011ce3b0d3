"""The answer without draws, against dense formulas and against draws."""

import math

import numpy as np
import pytest
import reference
from reference import Array

import bayesmdp as bm


def problem(
    form: int, scale: int = 1, terminal: tuple[int, ...] = (2,), discount: float = 0.9
) -> tuple[Array, bm.Posterior, Array]:
    """Policy, posterior and reward of a random problem of 5 states and 3 actions."""
    rng = np.random.default_rng(form)
    reward = rng.normal(size=(5, 3, 5)[:form])
    start = [0.2, 0.3, 0.1, 0.4, 0.0]
    task = bm.Task(5, 3, reward, discount=discount, start=start, terminal=terminal)
    counts = scale * rng.poisson(2.0, size=(5, 3, 5))
    counts[list(terminal)] = 0
    posterior = bm.fit(bm.Counts.from_dense(counts), task, prior=bm.SymmetricPrior())
    return rng.dirichlet(np.ones(3), size=5), posterior, reward


CASES = {
    "[S]": (1, 1, (2,), 0.9),
    "[S, A]": (2, 1, (), 0.999),
    "[S, A, S]": (3, 1, (0, 2), 0.95),
    "discount 0": (3, 1, (2,), 0.0),
    "discount 1": (3, 2, (0, 2), 1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_analytic_evaluation_equals_the_dense_formulas(name: str) -> None:
    policy, posterior, reward = problem(*CASES[name])
    at = reference.setting(posterior.task, reward)
    nominal = reference.expand(policy, reference.dense_alpha(posterior), at)
    q = nominal.spread.sum(axis=1)
    value = nominal.value + at.g * nominal.inverse @ nominal.k
    terms = nominal.occupancy[:, None] ** 2 * nominal.spread
    covariance = nominal.inverse @ np.diag(q) @ nominal.inverse.T
    start_sd = np.sqrt(at.rho @ covariance @ at.rho)
    quick = bm.evaluate_analytic(policy, posterior)
    expected = {
        "nominal_value": nominal.value,
        "value": value,
        "epistemic_sd": np.sqrt(np.diag(covariance)),
        "start_nominal_value": at.rho @ nominal.value,
        "start_value": at.rho @ value,
        "start_epistemic_sd": start_sd,
        "variance_share": terms / start_sd**2,
    }
    for key, wanted in expected.items():
        np.testing.assert_allclose(
            getattr(quick, key), wanted, rtol=1e-10, atol=1e-13, err_msg=key
        )


def test_nominal_value_is_that_of_the_mean_model() -> None:
    policy, posterior, _ = problem(1)
    world = bm.MDP(posterior.mean(), posterior.task)
    quick = bm.evaluate_analytic(policy, posterior)
    np.testing.assert_allclose(quick.nominal_value, world.value(policy), rtol=1e-12)


@pytest.mark.parametrize("form", [1, 2, 3])
def test_analytic_evaluation_agrees_with_draws_where_doubt_is_small(form: int) -> None:
    """Rows have seen about 10,000 transitions, so what the expansion leaves out (a
    relative 1e-4 of the sd) is below the error of 20,000 draws (about 5e-3).

    Five states and the start, two quantities: 12 correlated comparisons at 4 standard
    errors (6.3e-5 each), an error rate below 8e-4 a case.
    """
    policy, posterior, _ = problem(form, scale=1000)
    quick = bm.evaluate_analytic(policy, posterior)
    slow = bm.evaluate(policy, posterior.draws(20_000, seed=0), control=False)
    for key in ("value", "epistemic_sd", "start_value", "start_epistemic_sd"):
        error = getattr(slow, f"{key}_mcse")
        difference = np.abs(np.subtract(getattr(quick, key), getattr(slow, key)))
        assert (difference <= 4 * error + 1e-12).all()
    assert slow.start_epistemic_sd_mcse < 0.01 * slow.start_epistemic_sd


@pytest.mark.parametrize("form", [1, 2, 3])
def test_second_order_explains_most_of_what_the_nominal_value_misses(form: int) -> None:
    policy, posterior, _ = problem(form)
    quick = bm.evaluate_analytic(policy, posterior)
    slow = bm.evaluate(policy, posterior.draws(20_000, seed=0))
    missed = abs(quick.start_nominal_value - slow.start_value)
    left = abs(quick.start_value - slow.start_value)
    assert missed > 10 * slow.start_value_mcse
    assert left < 0.5 * missed


@pytest.mark.parametrize("name", CASES)
def test_shares_of_the_doubt_sum_to_one_and_lie_on_what_the_policy_uses(
    name: str,
) -> None:
    policy, posterior, _ = problem(*CASES[name])
    policy = np.eye(3)[policy.argmax(axis=1)]
    uncertainty = bm.evaluate_analytic(policy, posterior).variance_share
    assert uncertainty.sum() == pytest.approx(1, abs=1e-12)
    assert (uncertainty >= 0).all()
    assert (uncertainty[policy == 0] == 0).all()
    assert (uncertainty[posterior.task.terminal] == 0).all()


def test_a_model_that_is_certain_leaves_no_doubt() -> None:
    onward = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 1]], dtype=bool)
    task = bm.Task(3, 1, [1, 2, 3], discount=0.5)
    counts = bm.Counts.from_arrays([0], [0], [1], n_states=3, n_actions=1)
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior(support=onward))
    quick = bm.evaluate_analytic([0, 0, 0], posterior)
    np.testing.assert_allclose(quick.value, [3.5, 5, 6], rtol=1e-14)
    assert (quick.epistemic_sd == 0).all()
    assert (quick.variance_share == 0).all()
    assert quick.start_epistemic_sd == 0


def test_more_data_on_the_pair_of_most_doubt_reduces_it_most() -> None:
    policy, posterior, _ = problem(3)
    quick = bm.evaluate_analytic(policy, posterior)
    mean = posterior.mean().to_dense()
    left = np.full(quick.variance_share.shape, np.inf)
    for state in posterior.task.live:
        for action in range(3):
            more = np.zeros((5, 3, 5), dtype=int)
            more[state, action] = np.round(1e6 * mean[state, action])  # the same mean
            after = posterior.update(bm.Counts.from_dense(more))
            sd = bm.evaluate_analytic(policy, after).start_epistemic_sd
            left[state, action] = sd**2 / quick.start_epistemic_sd**2
    assert left.argmin() == quick.variance_share.argmax()
    live = posterior.task.live
    np.testing.assert_allclose(left[live], 1 - quick.variance_share[live], atol=1e-4)


# Draws needed


@pytest.mark.parametrize("error", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("failure", [0.05, 0.001])
def test_draws_needed_is_the_hoeffding_bound(
    error: float, discount: float, failure: float
) -> None:
    needed = bm.draws_needed(error, discount=discount, max_reward=3, failure=failure)
    v_max = 3 / (1 - discount)

    def chance_of_failure(n: int) -> float:
        return 2 * math.exp(-2 * n * error**2 / (2 * v_max) ** 2)

    assert chance_of_failure(needed) <= failure * (1 + 1e-12)
    assert chance_of_failure(needed - 1) > failure * (1 - 1e-12)


def test_rollouts_need_what_is_left_after_truncation() -> None:
    lost = 0.9**100 / 0.1
    exact = bm.draws_needed(0.1 - lost, discount=0.9)
    assert bm.draws_needed(0.1, discount=0.9, horizon=100) == exact
    assert bm.draws_needed(0.1, discount=0.9, horizon=10_000) == bm.draws_needed(
        0.1, discount=0.9
    )


def test_a_horizon_that_loses_too_much_is_refused_with_the_least_that_does() -> None:
    with pytest.raises(bm.BayesmdpError, match=r"at least 13809\."):
        bm.draws_needed(0.001, discount=0.999, horizon=13_808)
    assert bm.draws_needed(0.001, discount=0.999, horizon=13_809) > 0


def test_draws_needed_is_undefined_at_discount_one() -> None:
    with pytest.raises(bm.BayesmdpError, match="below 1"):
        bm.draws_needed(0.1, discount=1.0)
