"""Sums of rewards of different discounts, without a horizon, against dense solves."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from all_paths import COUNTS, END, MODELS, POLICY, SHAPES, START, A, Array, S, task
from mixed_sums import BENEFIT, CASES, CYCLES, ensemble_of, every_policy
from nested_oracle import agree, nested

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine.planning import plan
from bayesmdp.errors import BackendError, BayesmdpWarning, EndlessError, TaskError


def solved(
    model: Array, pi: Array, reward: Array, g: float, cycle: str = "start"
) -> Array:
    """Values of states of one model and reward, by a dense solve."""
    chain = np.einsum("sa,sat->st", pi, model)
    lost = 1.0 - CYCLES[cycle] if reward.ndim < 3 else 0.0
    end = float(reward[END]) if reward.ndim == 1 else 0.0
    if reward.ndim == 1:
        own = paid = reward[:END]
        paid = own + g * end * chain[:END, END]
    else:
        expected = reward if reward.ndim == 2 else (model * reward).sum(axis=2)
        own = paid = (pi * expected).sum(axis=1)[:END]
    value = np.linalg.solve(np.eye(END) - g * chain[:END, :END], paid)
    return np.append(value - lost * own, (1.0 - lost) * end)


def net(about: bm.Task, model: Array, pi: Array, cycle: str = "start") -> float:
    """Start value of the sum, of one model."""
    total = 0.0
    for name, weight in BENEFIT.items():
        part: Any = about.parts[name]
        value = solved(model, pi, part.reward, part.discount, cycle)
        total += weight * float(START @ value)
    return total


@pytest.mark.parametrize("g", CASES.values(), ids=list(CASES))
@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.parametrize("form", SHAPES)
def test_values_are_those_of_a_solve_for_each_discount(
    form: str, cycle: str, g: tuple[float, float]
) -> None:
    about = task(form, g, cycle=cycle)
    ensemble = bm.Ensemble(MODELS, about)
    found = bm.evaluate(POLICY, ensemble, reward=BENEFIT, keep_values=True)
    want = [net(about, model, POLICY, cycle) for model in MODELS]
    np.testing.assert_allclose(found.start_values, want, rtol=1e-12)
    assert found.values is not None
    np.testing.assert_allclose(found.values @ START, want, rtol=1e-12)
    both = bm.evaluate(POLICY, ensemble)
    assert both.rewards is not None
    assert both.start_aleatoric_covariance is not None
    k = np.array([BENEFIT[name] for name in both.rewards])
    spread = k @ both.start_aleatoric_covariance @ k
    assert found.start_aleatoric_sd**2 == pytest.approx(spread)
    by_state = sum(BENEFIT[name] * one.value for name, one in both.rewards.items())
    np.testing.assert_allclose(found.value, by_state)
    slow = both.rewards[max(BENEFIT, key=lambda x: about.parts[x].discount)]
    np.testing.assert_allclose(found.occupancy, slow.occupancy)


@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.parametrize("g", CASES.values(), ids=list(CASES))
def test_gradients_are_differences_of_values(
    g: tuple[float, float], cycle: str
) -> None:
    """Central differences of a smooth function at 1e-5: errors of 1e-10, relative."""
    ensemble = ensemble_of(g, cycle=cycle)
    problem = engine.Problem.of_draws(ensemble.draws(), POLICY[None], every_row=True)
    rows = problem.policies[0]
    with engine.workers(1, None) as pool:
        weights = np.full(3, 1.0)
        how: dict[str, Any] = {"pool": pool, "weights": weights, "exact": True}
        found = engine.slopes(problem, rows, 3, **how)
        for row in range(rows.size):
            if rows[row] in (0.0, 1.0):  # nothing on the other side
                continue
            own = problem.rows.source == problem.rows.source[row]
            to = np.where(own, -rows, 0.0)
            to[row] += 1.0
            values = []
            for step in (1e-5, -1e-5):
                policy = problem.rows.as_policy(rows + step * to)
                policy[END] = [1, 0]
                values.append(bm.evaluate(policy, ensemble).start_value)
            slope = (values[0] - values[1]) / 2e-5
            assert found.slope @ to == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("g", CASES.values(), ids=list(CASES))
def test_searches_reach_the_best_of_all_deterministic_policies(
    g: tuple[float, float], seed: int
) -> None:
    """A policy that mixes actions may be better still: values are not linear in it."""
    ensemble = ensemble_of(g, seed)
    values = {
        i: np.asarray(bm.evaluate(policy, ensemble).start_values)
        for i, policy in enumerate(every_policy())
    }
    most = max(x.mean() for x in values.values())
    found = bm.optimise(ensemble, effort="quick")
    assert found.start_value >= most - 1e-6 * abs(most)
    assert found.upper_bound >= found.start_value - 1e-9
    worst = max(float(x.min()) for x in values.values())
    with pytest.warns(BayesmdpWarning, match="rests on 1 of 3"):
        tail = bm.optimise(ensemble, bm.optimisation.CVaR(1 / 3), effort="quick")
    assert tail.objective_value >= worst - 1e-4 * abs(worst)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.parametrize("g", CASES.values(), ids=list(CASES))
def test_no_change_in_one_state_betters_a_plan(
    g: tuple[float, float], cycle: str, seed: int
) -> None:
    """It need not be the best of all policies (docs/limits.md)."""
    ensemble = ensemble_of(g, seed, 1, cycle=cycle)
    nominal = bm.policies.nominal(ensemble)
    value = bm.evaluate(nominal, ensemble).start_value
    result = plan(engine.Problem.of_belief(ensemble))
    assert START @ result.value == pytest.approx(value)
    assert result.converged
    for state, action in product(range(END), range(A)):
        other = nominal.copy()
        other[state] = np.eye(A)[action]
        assert bm.evaluate(other, ensemble).start_value <= value + 1e-9 * abs(value)


@pytest.fixture(scope="module")
def posterior() -> bm.Posterior:
    about = task("pairs", (0.9, 0.97))
    return bm.fit(COUNTS, about, prior=bm.SymmetricPrior())


def test_draws_are_those_of_both_rewards(posterior: bm.Posterior) -> None:
    found = bm.evaluate(POLICY, posterior, reward=BENEFIT)
    both = bm.evaluate(POLICY, posterior)
    assert both.rewards is not None
    apart = sum(BENEFIT[x] * both.rewards[x].start_values for x in BENEFIT)
    np.testing.assert_allclose(found.start_values, apart)
    again = bm.evaluate(POLICY, posterior, reward=BENEFIT, threads=2)
    np.testing.assert_array_equal(again.start_values, found.start_values)
    assert again.start_value == found.start_value


def test_errors_are_those_of_repeated_runs(posterior: bm.Posterior) -> None:
    """40 runs: a ratio of sds is within 0.65 and 1.5 in all but 1 of 1,000 cases."""
    for control in (True, False):
        runs = [
            bm.evaluate(
                POLICY, posterior, reward=BENEFIT, n_draws=200, seed=s, control=control
            )
            for s in range(40)
        ]
        spread = np.std([x.start_value for x in runs], ddof=1)
        claimed = np.mean([x.start_value_mcse for x in runs])
        assert 0.65 < spread / claimed < 1.5
    assert (
        runs[0].start_value_mcse
        > 1.5
        * bm.evaluate(POLICY, posterior, reward=BENEFIT, n_draws=200).start_value_mcse
    )  # the control variate works


def test_policies_are_compared_and_improved_by_a_sum(posterior: bm.Posterior) -> None:
    policies = {"mixed": POLICY, "first": [0] * 4}
    table = bm.compare(policies, posterior, reward=BENEFIT)
    values = {
        name: bm.evaluate(policy, posterior, reward=BENEFIT).start_value
        for name, policy in policies.items()
    }
    for row in table.rows:
        assert row.value == pytest.approx(values[row.name])
    better = bm.improve(posterior, baseline=POLICY, reward=BENEFIT, effort="quick")
    assert better.improvement > 0
    frontier = bm.risk_frontier(posterior, [1.0, 0.1], reward=BENEFIT, effort="quick")
    assert frontier.mean[1] > frontier.mean[0] - 1e-3


def test_at_discount_1_what_does_not_end_is_refused() -> None:
    stay = np.zeros((S, A, S))
    stay[:, 0] = np.eye(S)
    stay[:, 1, END] = 1.0
    about = task("pairs", (0.94, 1.0))
    ensemble = bm.Ensemble([stay], about).with_reward(BENEFIT)
    with pytest.raises(EndlessError, match="every episode must end"):
        bm.evaluate([0, 0, 0, 0], ensemble)
    assert bm.policies.nominal(ensemble)[:END].argmax(axis=1).tolist() == [1, 1, 1]


class Old(engine.CPU):
    """A device that says nothing of such sums."""

    name = "old"
    mixes_discounts = False


def test_a_device_that_does_not_know_such_sums_refuses_them(
    posterior: bm.Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = dict(engine._backend._BACKENDS)
    monkeypatch.setattr(engine._backend, "_BACKENDS", known | {"old": Old()})
    with pytest.raises(BackendError, match=r"different discounts: take device='cpu'"):
        bm.evaluate(POLICY, posterior, reward=BENEFIT, device="old")
    assert bm.evaluate(POLICY, posterior, reward="qaly", device="old").device == "old"
    auto = bm.evaluate(POLICY, posterior, reward=BENEFIT, device="auto")
    assert auto.device == "cpu"


@pytest.mark.parametrize("pair", [(0, 1), (1, 0)])
def test_information_agrees_with_nested_draws(
    posterior: bm.Posterior, pair: tuple[int, int]
) -> None:
    """Each policy's values are solved for every model of the oracle."""
    benefit = posterior.with_reward(BENEFIT)
    policies = np.stack([np.eye(A)[[*choice, 0]] for choice in [(0, 0, 0), (1, 0, 0)]])
    policies = np.concatenate([policies, policies[:, [1, 0, 2, 3]]])
    info = bm.value_of_information(
        posterior, list(policies), n_visits=(10,), reward=BENEFIT
    )
    s, a = pair
    for found, error, n in (
        (info.evppi, info.evppi_mcse, None),
        (info.evsi[0], info.evsi_mcse[0], 10),
    ):
        oracle = nested(benefit, policies, pair, n, 200, 300, seed=3)
        assert agree((found[s, a], error[s, a]), oracle), (n, found[s, a], oracle)


def test_information_of_a_reward_that_is_0_is_that_of_the_other() -> None:
    """The same draws; levels of policies have other control variates."""
    paid = {
        "a": np.array([[1.0, 2.0], [0.5, 3.0], [0, 0], [0, 0]]),
        "b": np.zeros((S, A)),
    }
    about = bm.Task(
        S, A, paid, discount={"a": 0.9, "b": 0.8}, start=START, terminal=[END]
    )
    posterior = bm.fit(COUNTS, about, prior=bm.SymmetricPrior())
    policies = every_policy()
    one = bm.value_of_information(posterior, policies, reward="a")
    both = bm.value_of_information(posterior, policies, reward={"a": 2, "b": 1})
    for name in ("evpi", "switch_evppi", "switch_evsi", "patients_evsi"):
        np.testing.assert_allclose(getattr(both, name), 2 * getattr(one, name))
    np.testing.assert_allclose(both.prior_visits, one.prior_visits)
    for name in ("evppi", "evsi", "state_evppi", "state_evsi"):
        error = getattr(both, f"{name}_mcse") + 2 * getattr(one, f"{name}_mcse")
        off = getattr(both, name) - 2 * getattr(one, name)
        assert (np.abs(off) <= 2 * error + 1e-12).all(), name
    assert both.evpi_bound >= both.evpi


def test_what_looks_at_one_chain_refuses_such_sums(posterior: bm.Posterior) -> None:
    """It names what knows them."""
    said = "no sums of rewards of different discounts, such as 3 qaly - cost"
    with pytest.raises(TaskError, match=said):
        bm.next_trial(posterior, reward=BENEFIT)
