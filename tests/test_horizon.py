"""Horizons, cycles and several rewards against all paths, and against each other."""

import inspect
import re
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from all_paths import (
    COUNTS,
    CYCLES,
    DISCOUNTS,
    MODELS,
    POLICY,
    SHAPES,
    START,
    WEIGHTS,
    A,
    S,
    paths,
    rewards,
    task,
)
from bad_input import case, check

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.errors import BayesmdpWarning, TaskError
from bayesmdp.model import said_terms


@pytest.mark.parametrize("form", SHAPES)
@pytest.mark.parametrize("cycle", CYCLES)
def test_horizons_are_what_all_paths_say(form: str, cycle: str) -> None:
    every = [list(paths(model, form, WEIGHTS[cycle])) for model in MODELS]
    for g in DISCOUNTS.values():
        means, covariances = [], []
        for some in every:
            chance = np.array([p for p, _ in some])
            fade = [{t: np.array(g) ** t for t in range(5)}] * len(some)
            returns = np.array(
                [
                    sum(f[t] * x for t, x in earned)
                    for f, (_, earned) in zip(fade, some, strict=True)
                ]
            )
            means.append(chance @ returns)
            off = returns - means[-1]
            covariances.append((off * chance[:, None]).T @ off)
        ensemble = bm.Ensemble(MODELS, task(form, g, horizon=4, cycle=cycle))
        found = bm.evaluate(POLICY, ensemble)
        assert found.rewards is not None
        values = np.array([x.start_values for x in found.rewards.values()]).T
        np.testing.assert_allclose(values, means, rtol=1e-11)
        aleatoric = np.mean(covariances, axis=0)
        np.testing.assert_allclose(found.start_aleatoric_covariance, aleatoric)
        epistemic = np.cov(np.array(means).T, bias=True)
        np.testing.assert_allclose(found.start_epistemic_covariance, epistemic)
        k = np.array([-1.0, 3.0])
        benefit = bm.evaluate(POLICY, ensemble, reward={"qaly": 3, "cost": -1})
        np.testing.assert_allclose(benefit.start_values, np.array(means) @ k)
        np.testing.assert_allclose(benefit.start_aleatoric_sd**2, k @ aleatoric @ k)
        one = bm.evaluate(POLICY, ensemble, reward="qaly", keep_values=True)
        assert one.values is not None
        np.testing.assert_allclose(one.values @ START, np.array(means)[:, 1])
        if form == "states":
            paid = rewards(form)["qaly"]
            np.testing.assert_allclose(one.occupancy @ paid, one.start_value)


@pytest.mark.parametrize("g", DISCOUNTS.values(), ids=list(DISCOUNTS))
def test_rewards_together_are_those_of_each_alone(g: tuple[float, float]) -> None:
    """With control variates, whose coefficients and means differ by reward."""
    belief = bm.fit(COUNTS, task("pairs", g), prior=bm.SymmetricPrior(2.0))
    both = bm.evaluate(POLICY, belief, n_draws=300)
    assert both.rewards is not None
    for name, found in both.rewards.items():
        alone = bm.evaluate(POLICY, belief, reward=name, n_draws=300)
        assert found.variance_reduction > 1.5
        for field, value in vars(alone).items():
            if isinstance(value, float | np.ndarray):
                got = getattr(found, field)
                np.testing.assert_allclose(got, value, rtol=1e-9, err_msg=field)


def test_errors_of_covariances_are_those_of_repeated_runs() -> None:
    """40 runs: a ratio of sds is within 0.65 and 1.5 in all but 1 of 1,000 cases."""
    one = bm.fit(COUNTS, task("pairs", (0.9, 0.9)), prior=bm.SymmetricPrior())
    runs = [
        bm.evaluate(POLICY, one, n_draws=200, seed=s, control=False) for s in range(40)
    ]
    for name in ("start_epistemic_covariance", "start_aleatoric_covariance"):
        spread = np.std([getattr(x, name) for x in runs], axis=0, ddof=1)
        claimed = np.mean([getattr(x, f"{name}_mcse") for x in runs], axis=0)
        assert ((spread / claimed > 0.65) & (spread / claimed < 1.5)).all(), name
        assert np.shape(runs[0].to_dict()[f"{name}_mcse"]) == (2, 2)
    exact = bm.evaluate(POLICY, bm.Ensemble(MODELS, one.task))
    assert not np.any(exact.start_epistemic_covariance_mcse)


@pytest.mark.parametrize("form", SHAPES)
@pytest.mark.parametrize("cycle", CYCLES[:4])
def test_a_long_horizon_is_no_horizon(form: str, cycle: str) -> None:
    """Also with random actions at the first point of time, and its covariances."""
    long, never = (
        bm.evaluate(
            POLICY, bm.Ensemble(MODELS, task(form, (0.9, 0.8), horizon=h, cycle=cycle))
        )
        for h in (400, None)
    )
    assert long.rewards is not None
    assert never.rewards is not None
    for name, one in never.rewards.items():
        other = long.rewards[name]
        for field in ("value", "epistemic_sd", "aleatoric_sd", "start_values"):
            there, here = getattr(other, field), getattr(one, field)
            np.testing.assert_allclose(here, there, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(one.start_aleatoric_sd, other.start_aleatoric_sd)
    for field in ("start_aleatoric_covariance", "start_epistemic_covariance"):
        np.testing.assert_allclose(getattr(never, field), getattr(long, field))


def test_half_a_cycle_without_a_horizon_is_the_value_less_half_a_reward() -> None:
    paid = rewards("states")["qaly"]
    one, half = (
        bm.evaluate(
            POLICY,
            bm.Ensemble(MODELS, task("states", (0.9, 0.9), cycle=cycle)),
            reward="qaly",
        )
        for cycle in ("start", "half")
    )
    np.testing.assert_allclose(half.start_values, one.start_values - START @ paid / 2)
    np.testing.assert_allclose(half.value, one.value - paid / 2)


@pytest.mark.parametrize("horizon", [6, None])
@pytest.mark.parametrize("form", SHAPES)
@pytest.mark.parametrize("cycle", ["start", "half"])
@pytest.mark.parametrize("draws", ["models", "posterior"])
def test_gradients_equal_central_differences(
    horizon: int | None, form: str, cycle: str, draws: str
) -> None:
    """On every draw at once; differences are right to 1e-8 at this step."""
    about = task(form, (0.95, 0.8), horizon=horizon, cycle=cycle)
    belief: Any = bm.Ensemble(MODELS, about)
    if draws == "posterior":
        state, action, next_state = np.indices((3, A, S)).reshape(3, -1)
        counts = bm.Counts.from_arrays(state, action, next_state)
        belief = bm.fit(counts, about, prior=bm.SymmetricPrior())
    belief = belief.with_reward(
        {"qaly": 3, "cost": -1} if horizon is not None else "qaly"
    )
    taken = belief.draws(16, seed=1)
    problem = engine.Problem.of_belief(belief).with_stream(taken.stream)
    policy = np.where(POLICY == 1, 0.5, np.where(POLICY == 0, 0.5, POLICY))
    rows = problem.rows.of_rows(policy)
    with engine.workers(1, None) as pool:
        found = engine.slopes(problem, rows, taken.n_draws, pool=pool)
    step = 1e-4
    for s in range(3):
        change = np.zeros((S, A))
        change[s] = [step, -step]
        up, down = (
            bm.evaluate(policy + sign * change, taken, control=False).start_value
            for sign in (1, -1)
        )
        mine = found.slope[problem.rows.row_id[:, 0] == s]
        np.testing.assert_allclose(
            mine[0] - mine[1], (up - down) / (2 * step), atol=1e-6
        )


def test_control_variates_cut_the_noise_and_shift_nothing() -> None:
    state, action, next_state = np.indices((3, A, S)).reshape(3, -1)
    counts = bm.Counts.from_arrays(state, action, next_state, np.full(state.size, 9))
    about = task("pairs", (0.97, 0.97), horizon=20, cycle="half")
    posterior = bm.fit(counts, about, prior=bm.SymmetricPrior())
    plain = bm.evaluate(POLICY, posterior, n_draws=20_000, control=False)
    less = bm.evaluate(POLICY, posterior, n_draws=2_000, seed=1)
    assert plain.rewards is not None
    assert less.rewards is not None
    for name, one in less.rewards.items():
        other = plain.rewards[name]
        assert one.variance_reduction > 5
        error = np.hypot(one.start_value_mcse, other.start_value_mcse)
        assert abs(one.start_value - other.start_value) < 4 * error


@pytest.mark.parametrize(
    ("error", "call", "said"),
    [
        case(
            "no cycles", TaskError, lambda: task("states", (0.9, 0.9), horizon=0),
            "`horizon` must be", "got 0",
        ),
        case(
            "ages", TaskError, lambda: task("states", (0.9, 0.9), horizon=10**12),
            "`horizon` must be at most 1,000,000 cycles", "got 1000000000000",
        ),
        case(
            "cycle", TaskError, lambda: task("states", (0.9, 0.9), cycle="simpson"),
            "`cycle` must be one of start, end, both, half, darth; got 'simpson'",
        ),
        case(
            "darth", TaskError, lambda: task("states", (0.9, 0.9), cycle="darth"),
            "`cycle='darth'` needs a `horizon`",
        ),
        case(
            "shapes", TaskError,
            lambda: bm.Task(2, 2, {"cost": np.eye(2), "qaly": [1, 0]}, discount=1),
            "`reward` must have one form", "[S, A], and 'qaly' by state, [S];",
        ),
        case(
            "size", TaskError,
            lambda: bm.Task(2, 2, {"cost": [1, 2, 3], "qaly": [1, 0]}, discount=1),
            "Reward 'cost': `reward` must",
        ),
        case(
            "unknown discount", TaskError,
            lambda: bm.Task(
                2, 1, {"cost": [1, 2], "qaly": [1, 0]}, discount={"costs": 1, "qaly": 1}
            ),
            "`discount` names 'costs', which is none of the rewards", "'cost'",
        ),
        case(
            "missing discount", TaskError,
            lambda: bm.Task(
                2, 1, {"cost": [1, 2], "qaly": [1, 0]}, discount={"qaly": 1}
            ),
            "`discount` lacks reward 'cost'",
        ),
        case(
            "one by name", TaskError,
            lambda: bm.Task(2, 1, {"cost": [1, 2]}, discount=1),
            "`reward` by name must hold two or more",
        ),
        case(
            "discount by name", TaskError,
            lambda: bm.Task(2, 1, [1, 2], discount={"cost": 1}),
            "`discount` by name needs rewards by name",
        ),
        case(
            "unknown reward", TaskError,
            lambda: task("states", (0.9, 0.9)).with_reward("qualy"),
            "`reward` 'qualy' is none of the rewards: cost, qaly", "'qaly'",
        ),
        case(
            "no weights", TaskError,
            lambda: task("states", (0.9, 0.9)).with_reward({"cost": 0}),
            "`reward` has a weight of 0 for every reward",
        ),
        case(
            "no number as a weight", TaskError,
            lambda: task("states", (0.9, 0.9)).with_reward({"cost": np.nan}),
            "`reward['cost']` must be finite; got nan",
        ),
        case(
            "chosen before", TaskError,
            lambda: task("states", (0.9, 0.9)).with_reward("qaly").with_reward("cost"),
            "one was chosen before, 'qaly'", "give the posterior of all rewards",
        ),
        case(
            "nothing to choose", TaskError,
            lambda: bm.worlds.gridworld().task.with_reward("cost"),
            "cannot be chosen: the task has one unnamed reward", "[reward.cost]",
        ),
        case(
            "no discount", TaskError, lambda: bm.Task(2, 1, [1, 2]),
            "`discount` is missing",
        ),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(error: Any, call: Any, said: Any) -> None:
    check(error, call, said)


def test_a_discount_that_looks_like_a_rate_is_warned_of() -> None:
    with pytest.warns(BayesmdpWarning, match=r"\['cost'\]` 0.06 looks like.* = 0.9434"):
        about = task("pairs", (0.06, 1.0))
    with pytest.warns(BayesmdpWarning, match=r"`discount` 0.03 looks like.* = 0.9709"):
        bm.Task(2, 1, [1, 0], discount=0.03, horizon=5)
    with warnings.catch_warnings():  # said once, not again for each model
        warnings.simplefilter("error")
        bm.Ensemble(MODELS, about, [about.reward] * len(MODELS))
        bm.Task(2, 1, [1, 0], discount=0.03)


BELIEF = bm.Ensemble(MODELS, task("pairs", (0.9, 0.9), horizon=5))


@pytest.mark.parametrize(
    "call",
    ids=range(10),
    argvalues=[
        partial(bm.compare, {"a": POLICY, "b": [0] * 4}),
        bm.optimise,
        partial(bm.improve, baseline=POLICY),
        bm.risk_frontier,
        bm.value_of_information,
        bm.policies.nominal,
        bm.policies.mle,
        bm.policies.msbi,
        partial(bm.action_values, POLICY),
        partial(bm.evaluate_analytic, POLICY),
    ],
)
def test_several_rewards_are_refused_where_one_is_looked_at(call: Any) -> None:
    with pytest.raises(TaskError, match=r"one reward, and this task has sev") as found:
        call(BELIEF.with_task(task("pairs", (0.9, 0.9))))
    can = "reward" in inspect.signature(call).parameters
    remedy = "`reward='qaly'`." if can else "`posterior.with_reward('qaly')`."
    assert f"choose one, {remedy}" in str(found.value)


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (task("pairs", (0.9, 0.9)), "discount 0.9; rewards cost, qaly"),
        (
            task("pairs", (0.9, 1.0), horizon=5).with_reward({"qaly": 3, "cost": -1}),
            "discounts by reward, 5 cycles; "
            "rewards cost (discount 0.9), qaly (discount 1)",
        ),
        (task("pairs", (0.9, 1.0), horizon=5).with_reward("cost"), "discount 0.9, 5"),
    ],
)
def test_terms_name_every_discount(about: bm.Task, said: str) -> None:
    assert said_terms(about).startswith(said)
    assert said_terms(about).count("rewards") == said.count("rewards")


PRIORS = {"flat": bm.SymmetricPrior(), "sparse": bm.SparsePrior()}


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (partial(bm.compare_priors, PRIORS, COUNTS), "task.with_reward("),
        (
            partial(bm.prior_sensitivity, POLICY, COUNTS, priors=PRIORS),
            "task.with_reward(",
        ),
        (partial(bm.cross_fit, COUNTS), "task.with_reward("),
        (partial(bm.negative_control, COUNTS), "task.with_reward("),
        (partial(bm.evaluation.truncation_bound, horizon=9), "task.with_reward("),
        (
            lambda about: bm.evaluation.values_to_go(POLICY, BELIEF.with_task(about)),
            "reward=",
        ),
    ],
)
def test_the_remedy_names_what_the_function_was_given(call: Any, remedy: str) -> None:
    with pytest.raises(TaskError, match=rf"choose one, `{re.escape(remedy)}'qaly'"):
        call(task("pairs", (0.9, 0.9)))


@pytest.mark.parametrize(
    "call",
    ids=range(5),
    argvalues=[
        lambda belief: bm.evaluation.values_to_go(POLICY, belief),
        lambda belief: bm.policies.msbi(belief),
        lambda belief: bm.action_values(POLICY, belief),
        lambda belief: bm.evaluate_analytic(POLICY, belief),
        lambda belief: bm.next_trial(belief),
    ],
)
@pytest.mark.parametrize("horizon", [5, None])
def test_sums_over_different_discounts_are_refused_as_such(
    call: Any, horizon: int | None
) -> None:
    about = task("pairs", (0.9, 1.0), horizon=horizon)
    belief = bm.Ensemble(MODELS, about).with_reward({"qaly": 2, "cost": -1})
    said = r"no sums of rewards of different discounts, such as 2 qaly - cost"
    with pytest.raises(TaskError, match=said):
        call(belief)


@pytest.mark.parametrize(
    "call",
    ids=range(5),
    argvalues=[
        lambda belief: bm.value_of_information(belief),
        lambda belief: bm.policies.msbi(belief),
        lambda belief: bm.action_values(POLICY, belief),
        lambda belief: bm.evaluate_analytic(POLICY, belief),
        lambda belief: bm.evaluation.rollout_evaluate(POLICY, belief.draws(9), 5, 5),
    ],
)
def test_a_horizon_is_refused_where_it_is_not_known(call: Any) -> None:
    some = [BELIEF, BELIEF.with_reward("qaly")]  # no choice of one helps
    if "value_of_information" in call.__code__.co_names:  # nor does a sum
        about = task("pairs", (0.9, 1.0), horizon=5)
        some.append(bm.Ensemble(MODELS, about).with_reward({"qaly": 2, "cost": -1}))
    for belief in some:
        with pytest.raises(TaskError, match=r"horizon=5: fit .* without `horizon`\."):
            call(belief)
