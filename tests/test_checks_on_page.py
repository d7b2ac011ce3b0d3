"""The first screen: checks with answers, and no large gain that one contradicts."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.evaluation import between
from bayesmdp.reporting import Report

N, A = 5, 3


def world(effect: float) -> bm.MDP:
    """Five states, three actions; a step ends with 0.3, well with 0.5 and an effect."""
    rng = np.random.default_rng(1)
    theta = np.zeros((N + 2, A, N + 2))
    theta[:N, :, :N] = 0.7 * rng.dirichlet(np.ones(N), size=N)[:, None]
    good = 0.5 + effect * np.array([-1.0, 0.0, 1.0])
    theta[:N, :, N] = 0.3 * good
    theta[:N, :, N + 1] = 0.3 * (1 - good)
    theta[[N, N + 1], :, [N, N + 1]] = 1.0
    reward = np.zeros(N + 2)
    reward[N] = 1.0
    start = np.r_[np.full(N, 1 / N), 0.0, 0.0]
    terminal = [N, N + 1]
    task = bm.Task(N + 2, A, reward, discount=0.95, start=start, terminal=terminal)
    return bm.MDP(bm.Dynamics.from_dense(theta), task)


@cache
def analysis(
    effect: float,
) -> tuple[bm.Transitions, bm.Task, bm.Posterior, dict[str, object]]:
    """A log, a belief with independent rows, and everything a report takes."""
    model = world(effect)
    policy = np.full((N + 2, A), 1 / A)
    log = model.simulate(policy, 300, seed=3)
    prior = bm.SymmetricPrior(0.5)
    posterior = bm.fit(log, model.task, prior=prior)
    policies = {
        "logged": bm.policies.behaviour(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    made: dict[str, object] = {
        "comparison": bm.compare(policies, posterior.draws(500)),
        "check": bm.check(posterior, log, n_draws=50),
        "negative_control": bm.negative_control(
            log, model.task, prior, n_permutations=39
        ),
        "cross_fit": bm.cross_fit(log, model.task, prior),
        "off_policy": bm.off_policy(
            policies["nominal"], log, model.task, name="nominal"
        ),
    }
    return log, model.task, posterior, made


@pytest.fixture(scope="module")
def null() -> Report:
    """Actions do nothing, and independent rows claim that one is better."""
    _, _, posterior, made = analysis(0.0)
    return bm.report(posterior, **made)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def real() -> Report:
    """An action that ends episodes much better than the others."""
    _, _, posterior, made = analysis(0.4)
    return bm.report(posterior, **made)  # type: ignore[arg-type]


def entries(report: Report) -> dict[str, dict[str, object]]:
    """Checks by name."""
    return {x["name"]: x for x in report.data["summary"]["checks"]}


def test_a_claim_that_no_effect_explains_is_not_printed_large(null: Report) -> None:
    """The negative control speaks against a probability above 95 %."""
    summary = null.data["summary"]
    assert summary["probability_better"]["value"] >= 0.95
    assert entries(null)["negative_control"]["contradicts"]
    assert summary["contradicted"]
    page = null.html()
    assert "No recommendation." in page
    assert "Do not act on this gain" in page
    card = page.split("<h2>Against logged</h2>")[1].split("</section>")[0]
    assert 'class="plainly"' in card
    assert 'class="big"' not in page.split("<h2>Uncertainty of one outcome</h2>")[0]


def test_an_interval_that_misses_the_predicted_value_is_told(null: Report) -> None:
    """WDR's holds it, WIS's does not: the episodes chose the policy they judge."""
    _, _, _, made = analysis(0.0)
    found = made["off_policy"]
    assert isinstance(found, bm.evaluation.OffPolicy)
    predicted = null.data["summary"]["value"]["value"]
    wis, wdr = found.intervals["WIS"], found.intervals["WDR"]
    assert wis is not None and wdr is not None  # noqa: PT018
    assert wdr[0] < predicted < wis[0]
    told = entries(null)["off_policy"]
    assert told["level"] == "note"
    assert "outside the interval of WIS. The policy was judged" in str(told["text"])


def test_weights_of_an_optimised_policy_may_be_of_an_earlier_one() -> None:
    """Estimates keep the name of a policy, by which the page cannot know it."""
    _, _, posterior, made = analysis(0.4)
    table, found = made["comparison"], made["off_policy"]
    assert isinstance(table, bm.Comparison)
    assert isinstance(found, bm.evaluation.OffPolicy)
    best = bm.optimise(posterior, effort="quick")
    best = replace(best, policy=table.evaluations["nominal"].policy)
    for folds in (0, 2):
        again = replace(found, n_folds=folds)
        page = bm.report(posterior, table, optimisation=best, off_policy=again)
        said = str(entries(page)["off_policy"]["text"])
        assert ("weighted for “nominal” as it was at that time" in said) == (not folds)


def test_a_gain_that_states_tell_together_is_not_contradicted_by_each() -> None:
    """No state is certain alone; whether exchanged actions claim as much decides."""
    _, _, posterior, made = analysis(0.15)
    null = made["negative_control"]
    assert isinstance(null, bm.diagnostics.NegativeControl)
    for claimed, contradicts in ((0.0, True), (10.0, False)):
        given = made | {"negative_control": replace(null, claimed_gain=claimed)}
        told = entries(bm.report(posterior, **given))["states"]  # type: ignore[arg-type]
        assert "In 0 of 5 states" in str(told["text"])
        assert told["contradicts"] is contradicts


def test_gains_say_what_they_are_over(real: Report) -> None:
    """The reference of the comparison need not be the behaviour of the controls."""
    labels = [x["label"] for x in real.data["summary"]["gains"]["rows"]]
    assert labels == [
        "Predicted for “nominal” over “logged”",
        "Claimed for the nominal policy over the behaviour policy",
        "Claimed without effect",
        "Cross-fitted over the behaviour policy",
    ]


def test_a_real_effect_stands(real: Report) -> None:
    """No check contradicts it, and the recommendation is printed."""
    found = entries(real)
    assert {x["level"] for x in found.values()} <= {"ok", "note"}
    for name in ("check", "negative_control", "cross_fit", "off_policy", "states"):
        assert found[name]["level"] == "ok", found[name]["text"]
    assert not real.data["summary"]["contradicted"]
    page = real.html()
    assert "The recommendation is" in page
    card = page.split("<h2>Against logged</h2>")[1].split("</section>")[0]
    assert 'class="big"' in card


def test_what_was_not_run_says_how_to_run_it() -> None:
    """Each check is listed with its command."""
    _, _, posterior, made = analysis(0.4)
    report = bm.report(posterior, made["comparison"])  # type: ignore[arg-type]
    page = report.html()
    for command in ("check", "negative-control", "cross-fit", "off-policy"):
        assert f"bayesmdp {command} RUN LOG" in page
    assert "Passed" not in page


def test_another_record_is_refused() -> None:
    """A cross-fit in place of a check is named."""
    _, _, posterior, made = analysis(0.4)
    with pytest.raises(bm.BayesmdpError, match="`check`"):
        bm.report(posterior, made["comparison"], check=made["cross_fit"])  # type: ignore[arg-type]


def one_state(effect: float, cost: float) -> bm.MDP:
    """One decision between two actions; the first may cost something."""
    good = np.array([0.6 + effect, 0.6])
    theta = np.zeros((3, 2, 3))
    theta[0, :, 1], theta[0, :, 2] = good, 1 - good
    theta[[1, 2], :, [1, 2]] = 1.0
    reward = np.zeros((3, 2, 3))
    reward[0, :, 1] = 1.0
    reward[0, 0] -= cost
    task = bm.Task(3, 2, reward, discount=0.95, start=0, terminal=[1, 2])
    return bm.MDP(bm.Dynamics.from_dense(theta), task)


def decided(model: bm.MDP, share: float) -> Report:
    """A report on 1,000 patients, of whom a share gets the first action."""
    policy = np.tile([share, 1 - share], (3, 1))
    log = model.simulate(policy, 1000, seed=0)
    prior = bm.SymmetricPrior(0.5)
    posterior = bm.fit(log, model.task, prior=prior)
    policies = {
        "logged": bm.policies.behaviour(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    control = bm.negative_control(
        log, model.task, prior, permute="state", n_permutations=39
    )
    table = bm.compare(policies, posterior.draws(500))
    return bm.report(posterior, table, negative_control=control)


def test_a_gain_above_the_cross_fitted_one_is_told() -> None:
    """Both are above 0, and the larger one is not said to be without problem."""
    _, _, posterior, made = analysis(0.4)
    fair = made["cross_fit"]
    assert isinstance(fair, bm.diagnostics.CrossFit)
    low = replace(fair, gain=0.02, interval=(0.01, 0.03))
    report = bm.report(posterior, **made | {"cross_fit": low})  # type: ignore[arg-type]
    found = entries(report)["cross_fit"]
    assert found["level"] == "note"
    assert "The predicted gain, +0.286, is above that" in str(found["text"])
    policies = {
        "worst": np.zeros(N + 2, int),
        "nominal": bm.policies.nominal(posterior),
    }
    other = bm.compare(policies, posterior.draws(200), reference="worst")
    made |= {"cross_fit": low, "comparison": other}
    found = entries(bm.report(posterior, **made))["cross_fit"]
    assert "is above that" not in str(found["text"])  # that gain is over another


def test_more_of_a_good_action_is_no_contradiction() -> None:
    """Both policies mostly take it, so no state is left to recommend."""
    report = decided(one_state(0.3, 0.0), 0.6)
    assert report.data["summary"]["recommended"] == "nominal"
    assert not report.data["summary"]["contradicted"]


def test_a_gain_in_rewards_is_not_called_noise() -> None:
    """Exchanged actions keep their costs, so that exchanges gain as much."""
    report = decided(one_state(0.0, 0.2), 0.5)
    found = entries(report)["negative_control"]
    assert found["level"] == "note"
    assert "next states alone" in str(found["text"])
    assert not report.data["summary"]["contradicted"]


def test_less_than_certain_gains_are_contradicted_too() -> None:
    """A gain that no effect explains is noise, whatever its probability."""
    report = decided(one_state(0.0, 0.0), 0.5)
    summary = report.data["summary"]
    assert summary["probability_better"]["value"] < 0.95
    assert entries(report)["negative_control"]["contradicts"]
    assert "No recommendation." in report.html()


def test_one_action_leaves_nothing_to_choose() -> None:
    """Folds refuse it; a check says so, and what the prior recommends is not shown."""
    model = one_state(-0.4, 0.0)
    log = model.simulate(np.tile([1.0, 0.0], (3, 1)), 60, seed=0)
    with pytest.raises(bm.BayesmdpError, match="one action only"):
        bm.cross_fit(log, model.task)
    posterior = bm.fit(log, model.task, prior=bm.SymmetricPrior())
    policies = {"logged": [0, 0, 0], "other": [1, 0, 0]}
    table = bm.compare(policies, posterior.draws(200), reference="logged")
    check = bm.check(posterior, log, n_draws=150, n_permutations=9)
    report = bm.report(posterior, table, check=check)
    assert report.data["summary"]["recommended"] == "other"
    entry = entries(report)["check"]
    assert entry["contradicts"]
    assert "one action only" in str(entry["text"])
    assert "No recommendation." in report.html()


def test_gains_under_other_priors_have_both_limits() -> None:
    _, _, posterior, made = analysis(0.4)
    table = made["comparison"]
    assert isinstance(table, bm.Comparison)
    priors = {"flat": bm.SymmetricPrior(), "sparse": bm.SparsePrior()}
    tried = bm.prior_sensitivity(
        table.evaluations["nominal"].policy,
        posterior,
        posterior.task,
        priors,
        n_draws=200,
    )
    report = bm.report(posterior, table, prior_sensitivity=tried)
    said = str(entries(report)["other_priors"]["text"])
    for low, high in tried.gain_interval:
        assert f"(95 % {between(low, high)})" in said
    (caution,) = (
        x for x in report.data["summary"]["cautions"] if x["topic"] == "Prior"
    )
    far = np.ptp(tried.gain) > tried.gain_epistemic_sd.max()
    flips = tried.flip_share > 0.05
    assert (caution["level"] == "warning") == (far or flips)
    by = 2 * tried.gain_epistemic_sd.max() * np.array([0.0, 1.0])
    moved = bm.report(posterior, table, prior_sensitivity=replace(tried, gain=by))
    (caution,) = (x for x in moved.data["summary"]["cautions"] if x["topic"] == "Prior")
    assert caution["level"] == "warning"
    assert "2 times its largest epistemic sd" in caution["text"]
    rows = report.data["prior"]["sensitivity"]["rows"]
    for row, ends in zip(rows, tried.gain_interval, strict=True):
        assert row["gain_interval"] == pytest.approx(ends.tolist(), rel=1e-5)


def test_what_was_made_with_another_reward_is_refused() -> None:
    _, _, posterior, made = analysis(0.4)
    for name in ("check", "negative_control", "cross_fit", "off_policy"):
        other = {**made, name: replace(made[name], reward="cost")}  # type: ignore[type-var]
        with pytest.raises(bm.BayesmdpError, match=f"`{name}` was made with another"):
            bm.report(posterior, **other)  # type: ignore[arg-type]


def test_a_p_value_among_visits_does_not_hold_where_the_past_matters() -> None:
    """A test of history that failed takes "no problem detected" off the control."""
    _, _, posterior, made = analysis(0.4)
    check = made["check"]
    assert isinstance(check, bm.diagnostics.Check)
    first = replace(check.tests[0], p_holm=0.001, effect=0.0)
    past = replace(check, tests=(first, *check.tests[1:]))
    report = bm.report(posterior, **made | {"check": past})  # type: ignore[arg-type]
    found = entries(report)["negative_control"]
    assert found["level"] == "note"
    assert "the past matters" in str(found["text"])


def test_gains_stand_on_one_axis(null: Report) -> None:
    """Predicted, claimed without effect, cross-fitted: each as it was found."""
    _, _, _, made = analysis(0.0)
    control, fair = made["negative_control"], made["cross_fit"]
    assert isinstance(control, bm.diagnostics.NegativeControl)
    assert isinstance(fair, bm.diagnostics.CrossFit)
    picture = null.data["summary"]["gains"]
    predicted, claimed, without, folded = picture["rows"]
    assert predicted["value"] == null.data["summary"]["difference"]["value"]
    assert claimed["value"] == pytest.approx(control.claimed_gain, rel=1e-3)
    assert without["dots"] == pytest.approx(np.sort(control.null_gains), rel=5e-3)
    assert folded["interval"] == pytest.approx(fair.interval, rel=1e-3)
    every = [0.0, predicted["value"], *predicted["interval"], *without["dots"]]
    assert picture["low"] < min(every)
    assert max(every) < picture["high"]
    assert null.html().count('<i class="null"') == control.null_gains.size
    _, _, posterior, _ = analysis(0.0)
    plain = bm.report(posterior, made["comparison"])  # type: ignore[arg-type]
    assert plain.data["summary"]["gains"] is None
