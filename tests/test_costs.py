"""Costs are shown as costs: each number is minus that of the reward ``-cost``."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, BeliefError, TaskError

S, A = 4, 2
RNG = np.random.default_rng(4)
COST = RNG.gamma(2.0, 3.0, size=(S, A))
COUNTS = bm.Counts.from_dense(RNG.poisson(3.0, size=(S, A, S)))
LOG = bm.Transitions.from_arrays(
    [0, 1, 2, 0, 1, 2],
    [0, 1, 0, 0, 1, 0],
    [1, 2, 3, 1, 2, 3],
    reward=[5.0, 2.0, 1.0] * 2,
    episode=[0, 0, 0, 1, 1, 1],
    step=[0, 1, 2] * 2,
)
MORE: dict[str, dict[str, Any]] = {
    "discounted": {"discount": 0.9},
    "horizon": {"discount": 0.97, "horizon": 6, "cycle": "half"},
    "average": {"criterion": "average"},
}
POLICIES = {"first": [0] * S, "second": [1] * S}


def both(**more: Any) -> tuple[bm.Posterior, bm.Posterior]:
    """Return a belief about costs, and the same about their negatives."""
    prior = bm.SymmetricPrior()
    costs = bm.fit(COUNTS, bm.Task(S, A, cost=COST, **more), prior=prior)
    return costs, bm.fit(COUNTS, bm.Task(S, A, -COST, **more), prior=prior)


@pytest.mark.parametrize("more", MORE.values(), ids=list(MORE))
def test_evaluations_and_comparisons_are_in_costs(more: dict[str, Any]) -> None:
    costs, rewards = both(**more)
    keep = {"keep_values": "criterion" not in more, "n_draws": 64}
    here, there = (bm.evaluate([0] * S, x, **keep) for x in (costs, rewards))
    assert here.start_value > 0 > there.start_value
    for name in ("value", "start_value", "start_values", "values", "bias"):
        mine, other = getattr(here, name), getattr(there, name)
        if other is not None:
            np.testing.assert_array_equal(mine, -other)
    for name in ("epistemic_sd", "aleatoric_sd", "value_mcse", "occupancy"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))
    low, high = here.interval()
    assert low <= here.start_value <= high
    assert "cost" in here.summary().lower()
    mine, other = (bm.compare(POLICIES, x.draws(64)) for x in (costs, rewards))
    assert [x.name for x in mine.rows] == [x.name for x in other.rows]
    assert mine.rows[0].value < mine.rows[1].value  # the least cost first
    for row, plain in zip(mine.rows, other.rows, strict=True):
        assert row.difference == -plain.difference
        assert row.probability_better == plain.probability_better
        assert row.interval[0] <= row.value <= row.interval[1]
        if row.difference_interval and plain.difference_interval:
            ends = plain.difference_interval
            assert row.difference_interval == (-ends[1], -ends[0])
    assert "probability of a lower cost" in mine.summary()


class Least(bm.optimisation.Objective):
    """The worst draw, as somebody's own class that says what it is of costs."""

    title, cost_title, few = "Worst value", "Highest cost", 0

    def value(self, values: Any, probability: Any) -> float:
        return float(values.min())

    def weights(self, values: Any, probability: Any) -> Any:
        return (values == values.min()) / (values == values.min()).sum()


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (None, "Expected cost"),
        (bm.PosteriorMean(), "Expected cost"),
        (bm.CVaR(0.25), "Mean over the worst quarter of draws of the cost from the"),
        (bm.Quantile(0.1), "Percentile 90 over draws of the cost from the start"),
        (bm.MeanSd(1.0), "Mean plus 1 sd over draws of the cost from the start"),
        (bm.SoftRobust(0.5, 0.5), "mean over the worst half of draws of the cost"),
        (bm.Entropic(0.01), "at aversion 0.01 of the cost from the start"),
        (bm.EVaR(0.8), "Entropic bound on the worst 80 % of draws of the cost"),
        (Least(), "Highest cost: "),
    ],
    ids=lambda x: type(x).__name__,
)
def test_the_least_cost_is_found_and_its_worst_tail_is_the_dearest(
    objective: Any, said: str
) -> None:
    costs, rewards = both(discount=0.9)
    how: dict[str, Any] = {"objective": objective, "effort": "quick"}
    mine, other = (bm.optimise(x, **how) for x in (costs, rewards))
    np.testing.assert_array_equal(mine.policy, other.policy)
    assert mine.start_value == -other.start_value > 0
    assert mine.objective_value == -other.objective_value
    assert said in mine.summary()
    assert "value" not in mine.objective_title
    if mine.bounded:
        assert mine.upper_bound == -other.upper_bound  # the least that can be reached
        assert mine.upper_bound <= mine.objective_value
        assert mine.gap == other.gap
        assert "at least" in mine.summary()
    if not isinstance(objective, bm.PosteriorMean | None):
        assert mine.objective_value > mine.start_value
    values = mine.evaluation.start_values  # of 512 draws
    if isinstance(objective, bm.Quantile):
        assert mine.objective_value == np.sort(values)[-52]
    if isinstance(objective, bm.MeanSd):
        assert mine.objective_value == pytest.approx(values.mean() + values.std())
    assert "cost" in mine.summary().lower()
    for name in ("nominal", "mle"):
        of = getattr(bm.policies, name)
        np.testing.assert_array_equal(of(costs), of(rewards))


def test_what_shows_rewards_refuses_costs() -> None:
    costs, _ = both(discount=0.9)
    policy, task = [0] * S, costs.task
    dynamics = costs.mean()
    fitted = bm.fit(LOG, task, prior=bm.SymmetricPrior())
    cases = {
        "improve": lambda: bm.improve(costs),
        "risk_frontier": lambda: bm.risk_frontier(costs),
        "of='improvement'": lambda: bm.optimise(
            costs, objective=bm.CVaR(0.1, of="improvement")
        ),
        "regret": lambda: bm.optimise(costs, objective=bm.CVaR(0.1, of="regret")),
        "action_values": lambda: bm.action_values(policy, costs),
        "evaluate_analytic": lambda: bm.evaluate_analytic(policy, costs),
        "rollout_evaluate": lambda: bm.evaluation.rollout_evaluate(
            policy, costs.draws(16), 8, 10
        ),
        "value_of_information": lambda: bm.value_of_information(costs),
        "next_trial": lambda: bm.next_trial(costs),
        "check": lambda: bm.check(fitted, LOG),
        "off_policy": lambda: bm.off_policy(policy, LOG, task),
        "cross_fit": lambda: bm.cross_fit(LOG, task),
        "negative_control": lambda: bm.negative_control(LOG, task),
        "compare_priors": lambda: bm.compare_priors(
            {"a": bm.SymmetricPrior(), "b": bm.SymmetricPrior(2)}, LOG, task
        ),
        "prior_sensitivity": lambda: bm.prior_sensitivity(
            policy, COUNTS, task, {"a": bm.SymmetricPrior()}
        ),
        "check_calibration": lambda: bm.check_calibration(task, bm.SymmetricPrior()),
        "msbi": lambda: bm.policies.msbi(costs),
        "second_order": lambda: bm.policies.second_order(costs),
        "MDP": lambda: bm.MDP(dynamics, task),
        "Ensemble": lambda: bm.Ensemble([dynamics], task, [COST]),
    }
    for name, call in cases.items():
        with pytest.raises(TaskError, match=f"{name}.* knows rewards, not `cost`"):
            call()
    timed, _ = both(discount=0.9, horizon=3)
    with pytest.raises(TaskError, match="knows rewards, not `cost`"):
        bm.evaluation.values_to_go(policy, timed)


def test_a_report_shows_costs_and_the_least_is_best() -> None:
    """Numbers are minus those of the same page in rewards; who is best is the same."""
    made = []
    for posterior in both(discount=0.9):
        best = bm.optimise(posterior, effort="quick")
        policies = {**POLICIES, "optimised": best.policy}
        table = bm.compare(policies, posterior.draws(64))
        made.append(bm.report(posterior, table, optimisation=best))
    (mine, other), (page, _) = (x.data for x in made), (x.html() for x in made)
    here, there = mine["summary"], other["summary"]
    assert here["recommended"] == there["recommended"] == "optimised"
    for name in ("value", "difference", "upper_bound"):
        assert here[name]["value"] == -there[name]["value"]
    assert here["difference"]["value"] < 0 < here["probability_better"]["value"]
    low, high = (here["difference_interval"][x]["value"] for x in ("low", "high"))
    assert low <= here["difference"]["value"] <= high < 0
    for name in ("epistemic_share", "total_sd", "probability_better"):
        assert here[name] == there[name]
    for row, plain in zip(
        mine["policies"]["rows"], other["policies"]["rows"], strict=True
    ):
        assert row["name"] == plain["name"]
        assert row["probability_best"] == plain["probability_best"]
    assert mine["policies"]["acceptability"] == other["policies"]["acceptability"]
    assert [x["level"] for x in here["cautions"]] == [
        x["level"] for x in there["cautions"]
    ]
    assert "expected cost" in here["sentences"]["value"]
    assert " less than that of " in here["sentences"]["gain"]
    assert "Expected cost" in page
    assert "at least" in page
    said = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
    of_policies = r"\b[Vv]alue (?:from|under|of (?!more data|perfect information))"
    assert re.findall(of_policies, said) == []
    unknown = {x["text"] for x in here["checks"] if x["name"] != "states"}
    assert unknown == {"Not known for costs."}
    values = mine["states"]["policies"]["optimised"]["value"]
    assert min(values) > 0
    assert mine["explorer"]["value"] is None


def test_a_task_says_and_keeps_its_cost(tmp_path: Path) -> None:
    costs, _ = both(discount=0.9)
    np.testing.assert_array_equal(costs.task.cost, COST)
    np.testing.assert_array_equal(costs.task.reward, -COST)
    assert "cost: of pairs" in costs.task.summary()
    assert costs.task.as_reward.cost is None
    run = bm.storage.save(costs, tmp_path / "run")
    kept = bm.storage.load(run).posterior
    assert kept.task.is_cost
    made = bm.evaluate([0] * S, costs, n_draws=16)
    bm.storage.save_result(run, "one", made)
    again = bm.storage.load_result(run, "one", bm.Evaluation)
    assert again.start_value == made.start_value > 0
    assert again.task.is_cost
    file = tmp_path / "task.toml"
    file.write_text("discount = 0.9\nn_states = 2\nn_actions = 1\nterminal = []\n")
    with file.open("a") as out:
        out.write("[cost]\nstate = { 0 = 7.0 }\n")
    assert bm.storage.read_task(file).cost.tolist() == [7, 0]
    assert made.to_dict()["is_cost"]
    assert bm.compare(POLICIES, costs.draws(16)).to_dict()["is_cost"]
    logged = bm.Task.from_data(LOG, discount=0.9, terminal=[3], cost="logged")
    assert logged.cost.reward.tolist() == [5, 2, 1]
    file.write_text("discount = 0.9\nterminal = [3]\n[cost]\nfrom_data = true\n")
    assert bm.storage.read_task(file, LOG).cost.reward.tolist() == [5, 2, 1]


def test_arrivals_never_logged_cost_what_logged_ones_cost() -> None:
    """Two pairs end, each at a cost of 5: so do the other two, and none pays."""
    end = [2, 2]
    log = bm.Transitions.from_arrays([0, 1], [0, 1], end, reward=[5.0, 5.0])
    task = bm.Task.from_data(log, discount=0.9, terminal=[2], cost="logged")
    assert task.cost.reward.tolist() == [5, 5, 5, 5]
    assert not any("paid otherwise" in str(x) for x in bm.validate(log, task))


def test_costs_and_rewards_do_not_mix() -> None:
    costs, rewards = both(discount=0.9)
    table = bm.compare(POLICIES, costs.draws(16))
    with pytest.raises(ArgumentError, match="another `cost`"):
        bm.report(costs.with_task(costs.task.as_reward), table)
    timed, others = both(discount=0.9, horizon=4)
    with pytest.raises(BeliefError, match="`cost` or `reward`"):
        bm.posterior.BeliefsByCycle([timed, others], [2])
    with pytest.raises(BeliefError, match="another `is_cost`"):
        bm.Ensemble.from_function(
            lambda rng: (costs.mean(), costs.task), 2, 0, task=rewards.task
        )


def test_pictures_speak_of_costs() -> None:
    costs, _ = both(discount=0.9)
    table = bm.compare(POLICIES, costs.draws(16))
    assert bm.plots.intervals(table).get_xlabel().startswith("cost from the start")
    ax = bm.plots.diagonal(table, "first", "second")
    assert [x.get_text() for x in ax.texts][-2:] == [
        "better under first",  # top left: the second one costs more there
        "better under second",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "give either"),
        ({"reward": [1, 2], "cost": [1, 2]}, "give only one"),
        ({"cost": {"a": [1, 2], "b": [1, 2]}}, "`cost` must be a single one"),
        ({"cost": [1, 2, 3]}, "`cost` must have shape"),
        ({"cost": [1, np.nan]}, "`cost` must be finite"),
        ({"reward": [1, 2], "is_cost": "no"}, "`is_cost` must be of type bool"),
        ({"reward": {"a": [1, 2], "b": [1, 2]}, "is_cost": True}, "`is_cost` is for"),
    ],
)
def test_bad_costs_are_told(given: dict[str, Any], said: str) -> None:
    with pytest.raises(TaskError, match=said):
        bm.Task(2, 1, **given, discount=0.9)
