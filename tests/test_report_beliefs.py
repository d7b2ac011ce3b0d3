"""Pages of averages, of sampled models and of sums: what they say, and leave out."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.reporting._summary import known

S = ["well", "ill", "dead"]
PAID: dict[str, Any] = {
    "cost": [[1000, 9000], [3000, 12000], [0, 0]],
    "qaly": [[1, 1], [0.6, 0.6], [0, 0]],
}
BENEFIT = {"qaly": 50_000, "cost": -1}
TWO = {"usual": [0, 0, 0], "drug": [1, 1, 0]}
N = 200


def average(*, cost: bool = False, **more: Any) -> bm.Posterior:
    counts = bm.Counts.from_dense(np.random.default_rng(1).poisson(6.0, (3, 2, 3)))
    paid = {"cost" if cost else "reward": [[1, 12], [3, 12], [30, 18]]}
    task = bm.Task(3, 2, **paid, criterion="average", **more)
    return bm.fit(counts, task, prior=bm.SymmetricPrior())


def sampled(*, own: bool, sampled: bool = True, **more: Any) -> bm.Ensemble:
    """Return models of a patient, whose drug has an uncertain price or a known one."""
    rng = np.random.default_rng(3)
    more = {"discount": 0.97} | more
    task = bm.Task(3, 2, PAID, terminal=2, start=0, state_labels=S, **more)
    rows = np.zeros((N, 3, 2, 3))
    rows[:, 2, :, 2] = 1
    for s, a, weight in ((0, 0, (80, 15, 5)), (0, 1, (85, 10, 5))):
        rows[:, s, a] = rng.dirichlet(weight, N)
    rows[:, 1] = rng.dirichlet((5, 70, 25), (N, 2))
    rewards = None
    if own:
        cost = np.tile(np.array(PAID["cost"], dtype=float), (N, 1, 1))
        cost[:, :2, 1] = cost[:, :2, 0] + rng.gamma(20, 400, (N, 1))
        rewards = [{"cost": x, "qaly": PAID["qaly"]} for x in cost]
    return bm.Ensemble(rows, task, rewards, sampled=sampled)


@pytest.fixture(scope="module")
def psa() -> bm.Report:
    belief = sampled(own=True).with_reward(BENEFIT)
    found = bm.optimise(belief, effort="quick")
    policies = {**TWO, "best": found.policy}
    return bm.report(belief, bm.compare(policies, belief), optimisation=found)


def words(made: bm.Report) -> str:
    """Return what the page says, without script and style."""
    text = re.sub(r"<(script|style).*?</\1>", "", made.html(), flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_an_average_has_no_total_sd(tmp_path: Path) -> None:
    belief = average()
    found = bm.evaluate([0, 1, 1], belief, n_draws=64)
    assert math.isnan(found.start_total_sd)
    assert np.isnan(found.total_sd).all()
    assert found.to_dict()["start_total_sd"] is None
    assert found.start_aleatoric_sd > found.start_epistemic_sd > 0
    run = bm.storage.save(belief, tmp_path / "run")
    bm.storage.save_result(run, "one", found)
    kept = bm.storage.load_result(run, "one", bm.Evaluation)
    assert math.isnan(kept.start_total_sd_mcse)
    one = bm.compare({"a": [0, 1, 1], "b": [0, 0, 1]}, belief, n_draws=64)
    said = one.evaluations["a"].summary()  # with no bias, unlike that of `evaluate`
    assert "total sd" not in said
    assert "over sqrt(n)" in said
    exact = bm.Ensemble([belief.draws(2).dynamics(0)], belief.task)
    assert "over 1 model, exactly" in bm.evaluate([0, 1, 1], exact).summary()


@pytest.mark.parametrize("cost", [False, True])
def test_a_page_of_averages_divides_no_outcome(cost: bool) -> None:
    belief = average(cost=cost, reward_unit="kEUR")
    table = bm.compare({"a": [0, 1, 1], "b": [0, 0, 1]}, belief, n_draws=64)
    made = bm.report(belief, table)
    summary = made.data["summary"]
    for name in ("total_sd", "epistemic_share"):
        assert summary[name] == {"value": None, "mcse": None}
    assert summary["average"]
    sd = table.evaluations[summary["recommended"]].start_aleatoric_sd
    assert summary["aleatoric_sd"]["value"] == pytest.approx(sd)
    assert "over the square root of n" in summary["sentences"]["uncertainty"]
    assert "outcome" not in summary["sentences"]["uncertainty"]
    said = words(made)
    for wrong in ("one outcome", "Total sd", "Epistemic share", "variance of the rew"):
        assert wrong not in said
    for right in ("aleatoric²/n", "asymptotic variance", "per step, the difference"):
        assert right in said
    what = "cost" if cost else "reward"
    assert f"the average {what} per step is" in summary["sentences"]["value"]
    assert ["Discount", "none: averages per step"] in made.data["data"]["facts"]


def test_a_sample_of_models_is_not_called_exact(psa: bm.Report) -> None:
    belief = sampled(own=False)
    assert repr(belief.draws()) == f"Draws({N} models, sampled)"
    assert repr(sampled(own=False, sampled=False).draws()).endswith("models, exact)")
    summary, said = psa.data["summary"], words(psa)
    assert not summary["exact"]
    assert summary["drawn"] == f"{N} sampled models"
    assert re.findall(r"[Ee]xact", said) == []
    assert f"chosen and judged on the same {N} sampled models" in said
    assert "over the same sampled models" in summary["sentences"]["choice"]
    levels = {x["topic"]: x["level"] for x in summary["cautions"]}
    assert levels["Draws"] == "note"
    assert "over the models, it lies" in summary["sentences"]["value"]
    assert "the data and the prior" not in said


def test_probabilities_of_a_sample_of_models_have_errors(psa: bm.Report) -> None:
    for row in psa.data["policies"]["rows"]:
        for name in ("probability_better", "probability_best"):
            found = row[name]
            if found is not None:
                p = found["value"]
                wanted = max(math.sqrt(p * (1 - p) / N), 1 / N)
                assert found["mcse"] == pytest.approx(wanted, rel=1e-3)
        assert row["interval"]["low"]["mcse"] > 0
    known_models = sampled(own=True, sampled=False).with_reward(BENEFIT)
    made = bm.report(known_models, bm.compare(TWO, known_models)).data
    rows = {x["name"]: x for x in made["policies"]["rows"]}
    assert rows["drug"]["probability_better"]["mcse"] == 0
    assert rows["drug"]["interval"]["low"]["mcse"] == 0
    assert made["summary"]["exact"]


def test_the_summary_of_several_rewards_explains_its_errors() -> None:
    said = bm.evaluate(TWO["drug"], sampled(own=False)).summary()
    assert "± Monte Carlo error" in said.splitlines()
    exact = bm.evaluate(TWO["drug"], sampled(own=False, sampled=False)).summary()
    assert "±" not in exact


@pytest.mark.parametrize("own", [True, False])
def test_rewards_of_models_are_not_called_known(own: bool) -> None:
    timed = {"discount": {"cost": 0.94, "qaly": 1.0}, "horizon": 9}
    belief = sampled(own=own, **timed).with_reward(BENEFIT)
    data = bm.report(belief, bm.compare(TWO, belief)).data
    facts = dict(data["data"]["facts"])
    assert len(facts) == len(data["data"]["facts"])  # one line for a sum of two
    said = " ".join(f"{x}: {y}" for x, y in facts.items())
    assert ("Reward: each model has its own" in said) == own
    assumed = " ".join(data["methods"]["assumptions"])
    assert ("Rewards are known" in assumed) != own
    assert "prior" not in assumed
    assert facts["Models"] == f"{N}, a sample"


def test_an_ensemble_is_not_told_to_run_a_log() -> None:
    belief = sampled(own=False).with_reward("qaly")
    data = bm.report(belief, bm.compare(TWO, belief)).data
    checks = [x for x in data["summary"]["checks"] if x["name"] != "states"]
    assert {x["command"] for x in checks} == {None}
    assert {x["text"] for x in checks} == {
        "Not known for an ensemble: this needs logged episodes."
    }
    assert "bayesmdp information" not in data["information"]["left_out"]


def fitted(reward: Any, **more: Any) -> bm.Posterior:
    task = bm.Task(3, 2, PAID, terminal=2, start=0, state_labels=S, **more)
    log = np.array([[[80, 15, 5], [90, 8, 2]], [[5, 70, 25], [15, 70, 15]]])
    counts = bm.Counts.from_dense(np.concatenate([log, np.zeros((1, 2, 3), int)]))
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
    return posterior.with_reward(reward)


@pytest.mark.parametrize(
    ("reward", "said"),
    [("qaly", " --reward qaly"), (BENEFIT, " --reward qaly=50000 --reward cost=-1")],
)
def test_commands_name_the_reward(reward: Any, said: str) -> None:
    belief = fitted(reward, discount=0.97)
    data = bm.report(belief, bm.compare(TWO, belief, n_draws=64)).data
    checks = {x["name"]: x["command"] for x in data["summary"]["checks"]}
    assert checks["check"] == f"bayesmdp check RUN LOG{said}"
    left_out = data["information"]["left_out"]
    assert f"`bayesmdp information RUN{said}`" in left_out


def test_a_horizon_gets_no_advice_that_is_refused() -> None:
    belief = fitted("qaly", discount=0.97, horizon=9)
    data = bm.report(belief, bm.compare(TWO, belief, n_draws=64)).data
    with pytest.raises(bm.BayesmdpError):
        bm.value_of_information(belief)
    left_out = data["information"]["left_out"]
    assert "not known for tasks with a horizon" in left_out
    assert "value_of_information" not in left_out
    assert "bm.information.evppi" in left_out


def test_the_unit_of_a_sum_stands_before_the_number() -> None:
    belief = fitted(BENEFIT, discount=0.97)
    data = bm.report(belief, bm.compare(TWO, belief, n_draws=64)).data
    said = data["summary"]["sentences"]["value"]
    assert re.search(r"from the start \(50000 qaly - cost\) is \d+ \(Monte", said)
    assert re.search(r"\(Monte Carlo error \d+\)", said)  # not 4e+01


@pytest.mark.parametrize(
    ("value", "error", "sd", "said"),
    [
        (171_192.0, 2_000.0, 23_000.0, "171000"),
        (171_192.0, 0.0, 23_000.0, "171000"),
        (476_139.0, 40.0, 24_700.0, "476000"),
        (2.5137, 0.0005, 0.07, "2.514"),
        (2.5137, 0.02, 0.07, "2.51"),
        (413_746.0, 0.0, 0.0, "413746"),
    ],
)
def test_numbers_have_no_more_digits_than_they_know(
    value: float, error: float, sd: float, said: str
) -> None:
    assert known({"value": value, "mcse": error}, sd) == said


def test_the_task_answers_what_a_log_leaves_open(tmp_path: Path) -> None:
    rows = [("well", "ill"), ("ill", "well"), ("ill", "dead"), ("well", "dead")]
    lines = [f"{s},{a},{t}" for s, t in rows for a in ("wait", "drug")]
    (tmp_path / "log.csv").write_text("\n".join(["state,action,next_state", *lines]))
    log = bm.read_transitions(tmp_path / "log.csv")
    found = bm.validate(log)
    assert "never-left-states" in {x.code for x in found}
    labels: dict[str, Any] = {"state_labels": log.state_labels}
    labels["action_labels"] = log.action_labels
    for terminal in (["dead"], []):
        task = bm.Task(3, 2, [1, 0, 0], discount=0.9, terminal=terminal, **labels)
        posterior = bm.fit(log, task, prior=bm.SymmetricPrior())
        table = bm.compare({"a": [0] * 3, "b": [1] * 3}, posterior, n_draws=32)
        data = bm.report(posterior, table, findings=found).data["data"]
        codes = {x["code"] for x in data["findings"]["findings"]}
        assert ("never-left-states" in codes) == (not terminal)


def test_a_policy_chosen_for_its_tail_may_be_behind_in_the_mean() -> None:
    belief = sampled(own=False, sampled=False).with_reward(BENEFIT)
    found = bm.optimise(belief, bm.CVaR(0.1), effort="quick")
    drug = np.eye(2)[TWO["drug"]]  # which has the lower mean
    tail = replace(found, policy=drug)
    made = bm.report(belief, bm.compare(TWO, belief), optimisation=tail)
    summary = made.data["summary"]
    assert summary["recommended"] == "drug"
    (said,) = [x for x in summary["cautions"] if x["topic"] == "Choice"]
    assert said["level"] == "note"
    assert "“usual” by" in said["text"]
    assert "worst tenth" in said["text"]
