"""A finite set of models: the exact sweep against a plain loop over the models.

Tolerances are rounding: 1e-10 of the largest number compared. Error rates of the two
statistical tests stand in their docstrings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import reference
from numpy.typing import ArrayLike, NDArray
from scipy import stats

import bayesmdp as bm

Array = NDArray[np.float64]

S, A = 5, 3
TERMINAL = [1, 4]
DISCOUNT = 0.93
START = np.array([0.3, 0.15, 0.2, 0.1, 0.25])  # some of it on terminal states
WEIGHTS = np.array([0.5, 0.05, 0.25, 0.2])
FORMS = ("state", "pair", "transition", "triplets")
ERRORS = ("value", "epistemic_sd", "aleatoric_sd", "total_sd")


@dataclass(frozen=True)
class Reward:
    """A reward as a task takes it, and as a dense array."""

    given: Any
    dense: Array


def reward_of(form: str, rng: np.random.Generator) -> Reward:
    if form == "state":
        dense = rng.normal(size=S)
    elif form == "pair":
        dense = rng.normal(size=(S, A))
    else:
        dense = rng.normal(size=(S, A, S))
    if form != "triplets":
        return Reward(dense, dense)
    dense[rng.random(dense.shape) < 0.5] = 0.0
    at = np.nonzero(dense)
    return Reward((*at, dense[at]), dense)


def task_of(given: Any, **changes: Any) -> bm.Task:
    arguments: dict[str, Any] = {
        "discount": DISCOUNT,
        "start": START,
        "terminal": TERMINAL,
    }
    return bm.Task(S, A, given, **(arguments | changes))


def models_of(
    rng: np.random.Generator, n_models: int, unavailable: Sequence[tuple[int, int]] = ()
) -> list[Array]:
    """Dense models, each with next states of its own that are impossible."""
    models = []
    for _ in range(n_models):
        dense = rng.dirichlet(np.ones(S), size=(S, A))
        dense[rng.random(dense.shape) < 0.4] = 0.0
        dense[:, :, 0] += 0.01
        dense /= dense.sum(axis=2, keepdims=True)
        for pair in unavailable:
            dense[pair] = 0.0
        models.append(dense)
    return models


def policy_of(rng: np.random.Generator, available: ArrayLike | None = None) -> Array:
    weight = rng.exponential(size=(S, A))
    if available is not None:
        weight = np.where(available, weight, 0.0)
    weight[TERMINAL] = 1.0
    return weight / weight.sum(axis=1, keepdims=True)


def ensemble_of(models: Sequence[Array], *args: Any, **kwargs: Any) -> bm.Ensemble:
    return bm.Ensemble([bm.Dynamics.from_dense(m) for m in models], *args, **kwargs)


def by_hand(
    models: Sequence[Array],
    policy: Array,
    rewards: Sequence[Array],
    weights: Array,
    task: bm.Task,
) -> dict[str, Array]:
    """Weighted moments over a plain loop, population variance."""
    values, variances, visits = [], [], []
    for theta, reward in zip(models, rewards, strict=True):
        solved = reference.solve(theta, policy, reference.setting(task, reward))
        values.append(solved.value)
        variances.append(solved.variance)
        visits.append(solved.occupancy)
    V, chance = np.array(values), np.array(variances)
    start = V @ task.start
    spread = (chance + (V - start[:, None]) ** 2) @ task.start
    found = {"occupancy": weights @ np.array(visits), "start_values": start}
    for prefix, of, uncertainty in (("", V, chance), ("start_", start, spread)):
        mean = weights @ of
        epistemic, aleatoric = weights @ (of - mean) ** 2, weights @ uncertainty
        found |= {
            f"{prefix}value": mean,
            f"{prefix}epistemic_sd": np.sqrt(epistemic),
            f"{prefix}aleatoric_sd": np.sqrt(aleatoric),
            f"{prefix}total_sd": np.sqrt(epistemic + aleatoric),
        }
    return found


def assert_same(evaluation: bm.Evaluation, expected: dict[str, Array]) -> None:
    for name, wanted in expected.items():
        found = getattr(evaluation, name)
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * scale)


def assert_no_error(evaluation: bm.Evaluation) -> None:
    for prefix in ("", "start_"):
        for name in ERRORS:
            assert np.all(getattr(evaluation, f"{prefix}{name}_mcse") == 0)
    assert (evaluation.occupancy_mcse == 0).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_the_exact_sweep_is_a_weighted_loop_over_models(
    form: str, weights: Array | None
) -> None:
    rng = np.random.default_rng(1)
    reward, models, policy = reward_of(form, rng), models_of(rng, 4), policy_of(rng)
    task = task_of(reward.given)
    ensemble = ensemble_of(models, task, weights=weights)
    evaluation = bm.evaluate(policy, ensemble.draws())
    shares = np.full(4, 0.25) if weights is None else weights
    assert_same(evaluation, by_hand(models, policy, [reward.dense] * 4, shares, task))
    assert_no_error(evaluation)
    assert evaluation.n_draws == ensemble.n_models == 4
    assert (evaluation.epistemic_sd[task.live] > 0.01).all()


@pytest.mark.parametrize("form", FORMS)
def test_every_model_may_bring_a_reward_of_its_own(form: str) -> None:
    rng = np.random.default_rng(2)
    rewards = [reward_of(form, rng) for _ in range(4)]
    models, policy = models_of(rng, 4), policy_of(rng)
    task = task_of(np.zeros(S))
    given = [reward.given for reward in rewards]
    evaluation = bm.evaluate(
        policy, ensemble_of(models, task, given, WEIGHTS).draws(), threads=2
    )
    dense = [reward.dense for reward in rewards]
    assert_same(evaluation, by_hand(models, policy, dense, WEIGHTS, task))
    assert_no_error(evaluation)


def test_rewards_of_several_forms_may_stand_side_by_side() -> None:
    rng = np.random.default_rng(3)
    rewards = [reward_of(form, rng) for form in FORMS]
    models, policy = models_of(rng, 4), policy_of(rng)
    task = task_of(np.ones(S))
    given = [reward.given for reward in rewards]
    evaluation = bm.evaluate(policy, ensemble_of(models, task, given, WEIGHTS).draws())
    dense = [reward.dense for reward in rewards]
    assert_same(evaluation, by_hand(models, policy, dense, WEIGHTS, task))


def test_terminal_states_are_as_doubtful_as_their_rewards() -> None:
    rng = np.random.default_rng(4)
    models, policy = models_of(rng, 2), policy_of(rng)
    rewards = [[0.0, 3.0, 0.0, 0.0, -1.0], [0.0, -2.0, 0.0, 0.0, 7.0]]
    shares = np.array([0.25, 0.75])
    ensemble = ensemble_of(models, task_of(np.zeros(S)), rewards, shares)
    evaluation = bm.evaluate(policy, ensemble.draws())
    np.testing.assert_allclose(evaluation.value[TERMINAL], [-0.75, 5.0], rtol=1e-12)
    half = np.sqrt(0.25 * 0.75)
    np.testing.assert_allclose(
        evaluation.epistemic_sd[TERMINAL], [5 * half, 8 * half], rtol=1e-12
    )
    assert (evaluation.aleatoric_sd[TERMINAL] == 0).all()
    np.testing.assert_allclose(
        evaluation.start_value, START @ evaluation.value, rtol=1e-12
    )


def test_rows_list_what_some_model_allows() -> None:
    rng = np.random.default_rng(5)
    models = models_of(rng, 3)
    ensemble = ensemble_of(models, task_of(np.zeros(S)))
    allowed = np.any([model > 0 for model in models], axis=0)
    allowed[TERMINAL] = False
    assert ensemble.layout.next_state.size == allowed.sum()
    assert (np.count_nonzero(ensemble.table, axis=1) < allowed.sum()).all()
    for m, model in enumerate(models):
        live = np.where(np.isin(np.arange(S), TERMINAL)[:, None, None], 0.0, model)
        np.testing.assert_array_equal(ensemble.draws().dynamics(m).to_dense(), live)


def test_a_pair_that_one_model_lacks_is_available_to_no_policy() -> None:
    rng = np.random.default_rng(6)
    models = [*models_of(rng, 2), *models_of(rng, 2, unavailable=[(0, 1), (3, 0)])]
    reward = reward_of("pair", rng)
    task = task_of(reward.given)
    ensemble = ensemble_of(models, task)
    expected = np.ones((S, A), dtype=bool)
    expected[TERMINAL] = False
    expected[0, 1] = expected[3, 0] = False
    np.testing.assert_array_equal(ensemble.available, expected)
    policy = policy_of(rng, expected)
    evaluation = bm.evaluate(policy, ensemble.draws())
    wanted = by_hand(models, policy, [reward.dense] * 4, np.full(4, 0.25), task)
    assert_same(evaluation, wanted)
    with pytest.raises(bm.errors.PolicyError, match="state 0, action 1"):
        bm.evaluate([1] * S, ensemble.draws())


def test_available_narrows_what_a_policy_may_use() -> None:
    rng = np.random.default_rng(7)
    models, reward = models_of(rng, 3), reward_of("transition", rng)
    allowed = np.ones((S, A), dtype=bool)
    allowed[2] = [False, True, False]
    task = task_of(reward.given)
    ensemble = ensemble_of(models, task, available=allowed)
    live = ~np.isin(np.arange(S), TERMINAL)
    np.testing.assert_array_equal(ensemble.available, allowed & live[:, None])
    policy = policy_of(rng, allowed)
    evaluation = bm.evaluate(policy, ensemble.draws())
    wanted = by_hand(models, policy, [reward.dense] * 3, np.full(3, 1 / 3), task)
    assert_same(evaluation, wanted)
    assert bm.policies.nominal(ensemble)[2].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.usefixtures("many_tasks")
def test_random_draws_are_a_pure_function_of_seed_and_draw() -> None:
    rng = np.random.default_rng(8)
    ensemble = ensemble_of(models_of(rng, 4), task_of(np.ones(S)), weights=WEIGHTS)
    few, many = ensemble.draws(40, seed=3), ensemble.draws(400, seed=3)
    for draw in (0, 7, 39):
        np.testing.assert_array_equal(
            few.dynamics(draw).probability, many.dynamics(draw).probability
        )
    shown = [many.dynamics(i).probability for i in range(400)]
    found = [np.flatnonzero((ensemble.table == x).all(axis=1)).tolist() for x in shown]
    assert [len(models) for models in found] == [1] * 400
    np.testing.assert_array_equal(np.concatenate(found), many.members)
    other = ensemble.draws(400, seed=4)
    assert (other.members != many.members).any()
    policy = policy_of(rng)
    one = bm.evaluate(policy, many, threads=1)
    two = bm.evaluate(policy, ensemble.draws(400, seed=3), threads=2)
    np.testing.assert_array_equal(one.start_values, two.start_values)
    np.testing.assert_array_equal(one.value, two.value)


def test_random_draws_are_averaged_like_draws_of_a_posterior() -> None:
    rng = np.random.default_rng(9)
    rewards = [reward_of("state", rng) for _ in range(4)]
    models, policy = models_of(rng, 4), policy_of(rng)
    task = task_of(np.zeros(S))
    given = [reward.given for reward in rewards]
    draws = ensemble_of(models, task, given, WEIGHTS).draws(300, seed=1)
    evaluation = bm.evaluate(policy, draws)
    at = [reference.setting(task, reward.dense) for reward in rewards]
    solved = [reference.solve(models[m], policy, at[m]) for m in draws.members]
    values = np.array([one.value for one in solved])
    wanted = reference.errors_of(values, np.array([one.variance for one in solved]))
    assert_same(evaluation, wanted)
    np.testing.assert_allclose(evaluation.start_values, values @ START, rtol=1e-10)


def test_random_draws_approach_the_exact_answer() -> None:
    """Five states, three numbers each, at 5 errors: fails with probability 9e-6.

    The models' frequencies are tested at a chi-square tail of 1e-6.
    """
    rng = np.random.default_rng(10)
    models, policy = models_of(rng, 4), policy_of(rng)
    rewards = [reward_of("state", rng).given for _ in range(4)]
    ensemble = ensemble_of(models, task_of(np.zeros(S)), rewards, WEIGHTS)
    exact = bm.evaluate(policy, ensemble.draws())
    draws = ensemble.draws(20_000, seed=0)
    found = bm.evaluate(policy, draws)
    for name in ("value", "epistemic_sd", "aleatoric_sd"):
        error = getattr(found, f"{name}_mcse")
        off = np.abs(getattr(found, name) - getattr(exact, name))
        assert (off <= 5 * error + 1e-12).all()
        assert error[0] > 0
    seen = np.bincount(draws.members, minlength=4)
    assert stats.chisquare(seen, 20_000 * WEIGHTS).pvalue > 1e-6
    assert stats.chisquare(seen, 20_000 * WEIGHTS[::-1]).pvalue < 1e-6


def test_the_mean_model_keeps_expected_rewards() -> None:
    rng = np.random.default_rng(11)
    rewards = [reward_of("transition", rng) for _ in range(4)]
    models = models_of(rng, 4)
    given = [reward.given for reward in rewards]
    ensemble = ensemble_of(models, task_of(np.zeros(S)), given, WEIGHTS)
    live = np.setdiff1d(np.arange(S), TERMINAL)
    mean = np.tensordot(WEIGHTS, models, axes=1)
    np.testing.assert_allclose(ensemble.mean().to_dense()[live], mean[live], atol=1e-15)
    paid = np.zeros((S, A))
    rows = ensemble.layout
    entry = rows.row_of_entry
    each = ensemble.mean().probability * ensemble.rows().reward
    np.add.at(paid, (rows.state[entry], rows.action[entry]), each)
    wanted = sum(
        weight * (model * reward.dense).sum(axis=2)
        for weight, model, reward in zip(WEIGHTS, models, rewards, strict=True)
    )
    np.testing.assert_allclose(paid[live], wanted[live], atol=1e-14)


def test_the_nominal_policy_of_an_ensemble_is_best_in_its_mean_model() -> None:
    rng = np.random.default_rng(12)
    rewards = [reward_of("transition", rng) for _ in range(3)]
    models = models_of(rng, 3)
    given = [reward.given for reward in rewards]
    ensemble = ensemble_of(models, task_of(np.zeros(S)), given)
    mean = np.mean(models, axis=0)
    paid = np.mean([m * r.dense for m, r in zip(models, rewards, strict=True)], axis=0)
    at = reference.setting(ensemble.task, paid.sum(axis=2))
    best = max(
        START @ reference.solve(mean, np.eye(A)[list(choice)], at).value
        for choice in np.ndindex(*([A] * S))
    )
    chosen = reference.solve(mean, bm.policies.nominal(ensemble), at)
    np.testing.assert_allclose(START @ chosen.value, best, rtol=1e-12)


def test_an_ensemble_of_posterior_draws_repeats_their_evaluation() -> None:
    rng = np.random.default_rng(13)
    counts = bm.Counts.from_dense(rng.integers(0, 4, size=(S, A, S)))
    reward = reward_of("state", rng).given
    task = task_of(reward, terminal=[])
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
    draws = posterior.draws(150, seed=5)
    policy = policy_of(rng)
    plain = bm.evaluate(policy, draws, control=False)
    ensemble = bm.Ensemble([draws.dynamics(i) for i in range(150)], task)
    exact = bm.evaluate(policy, ensemble.draws())
    for name in ("value", "aleatoric_sd", "occupancy", "start_value", "start_values"):
        np.testing.assert_allclose(
            getattr(exact, name), getattr(plain, name), rtol=1e-10
        )
    wider = np.sqrt(150 / 149)
    for name in ("epistemic_sd", "start_epistemic_sd"):
        np.testing.assert_allclose(
            wider * getattr(exact, name), getattr(plain, name), rtol=1e-10
        )
    assert_no_error(exact)


def test_a_model_of_weight_nought_changes_nothing() -> None:
    rng = np.random.default_rng(14)
    models, policy = models_of(rng, 3), policy_of(rng)
    rewards = [reward_of("state", rng).given for _ in range(3)]
    task = task_of(np.zeros(S))
    two = ensemble_of(models[:2], task, rewards[:2], [0.4, 0.6])
    three = ensemble_of(models, task, rewards, [0.4, 0.6, 0.0])
    first, second = (bm.evaluate(policy, e.draws()) for e in (two, three))
    for name in (
        "value",
        "epistemic_sd",
        "aleatoric_sd",
        "occupancy",
        "start_total_sd",
    ):
        np.testing.assert_allclose(
            getattr(first, name), getattr(second, name), rtol=1e-12, atol=1e-12
        )
    assert not (three.draws(500, seed=0).members == 2).any()


@pytest.mark.parametrize("p", [0.0, 0.2, 0.6907, 1.0])
@pytest.mark.parametrize(
    ("payout", "g", "p_lose"), [(10.0, 0.99, 0.5), (3.0, 0.8, 0.25)]
)
def test_the_casino_is_worth_its_closed_form(
    p: float, payout: float, g: float, p_lose: float
) -> None:
    casino = bm.worlds.casino(payout, g, p_lose)
    evaluation = bm.evaluate([[p, 1 - p], [1, 0], [1, 0]], casino.draws())
    win, lose = -1 + payout * g * p, -1 / (1 - g * p)
    value = (1 - p_lose) * win + p_lose * lose
    np.testing.assert_allclose(evaluation.start_value, value, rtol=1e-12)
    spread = np.sqrt(p_lose * (1 - p_lose)) * abs(win - lose)
    np.testing.assert_allclose(evaluation.start_epistemic_sd, spread, atol=1e-12)


def test_the_casino_has_the_values_of_the_paper_its_slip_mended() -> None:
    draws = bm.worlds.casino().draws()
    assert bm.evaluate([1, 0, 0], draws).start_value == -1.0
    assert bm.evaluate([0, 0, 0], draws).start_value == pytest.approx(-45.55)
    best = bm.evaluate([[0.6907, 0.3093], [1, 0], [1, 0]], draws).start_value
    assert best == pytest.approx(1.3377, abs=5e-5)
