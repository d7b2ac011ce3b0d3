"""Clinical studies: their numbers found another way, and verdicts that can turn."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import bayesmdp as bm
from studies import Effort, cohorts, evidence, fig5, uncertainty

pytestmark = pytest.mark.integration

Records = list[dict[str, Any]]
N_LIVE, DEATH = 713, 713
PATIENTS = 300


@pytest.fixture(scope="module")
def dense() -> dict[str, np.ndarray]:
    """Counts and the true model as plain arrays."""
    world = cohorts.sepsis()
    counts = np.zeros((716, 25, 716))
    seen = cohorts.cohort(PATIENTS, 0).counts()
    counts[seen.state, seen.action, seen.next_state] = seen.count
    theta = world.dynamics.to_dense()
    return {"counts": counts, "theta": theta, "start": world.task.start}


def value(theta: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Value of live states by elimination; survival, state 714, pays 1."""
    chain = theta[np.arange(N_LIVE), action[:N_LIVE]]
    system = np.eye(N_LIVE) - 0.999 * chain[:, :N_LIVE]
    return np.asarray(np.linalg.solve(system, chain[:, 714]))


def test_evidence_is_the_formula_of_the_paper_with_its_slip_mended(
    dense: dict[str, np.ndarray],
) -> None:
    (record,) = evidence._work(PATIENTS, 0)
    counts = dense["counts"][:N_LIVE].reshape(-1, 716)
    visits = counts.sum(axis=1)
    kept = counts[visits >= 5]
    # A state without such a pair keeps its most visited one.
    by_state = visits.reshape(N_LIVE, 25)
    rescued = np.flatnonzero((by_state.max(axis=1) < 5) & (by_state.sum(axis=1) > 0))
    kept = np.vstack([kept, counts[rescued * 25 + by_state[rescued].argmax(axis=1)]])
    at = record["grid"].index(0.072)
    a, total = 0.072, kept.sum(axis=1)
    log = gammaln(716 * a) - gammaln(716 * a + total)
    log += (gammaln(a + kept) - gammaln(a)).sum(axis=1)
    assert record["loss"][at] == pytest.approx(-log.sum(), rel=1e-9)
    low, high = record["interval"]
    assert low < record["best"] < high
    assert record["best_loss"] <= min(record["loss"])


@pytest.fixture(scope="module")
def sparse() -> Records:
    return fig5._work(PATIENTS, 0, "sparse", 64, False)


def test_truth_and_what_was_seen_are_solved_exactly(
    sparse: Records, dense: dict[str, np.ndarray]
) -> None:
    world = cohorts.sepsis()
    prior = bm.SparsePrior(1.0, fallback="death")
    belief = bm.fit(cohorts.cohort(PATIENTS, 0), world.task, prior=prior, min_count=5)
    action = bm.policies.nominal(belief).argmax(axis=1)
    record = next(x for x in sparse if x["policy"] == "nominal")
    truth = value(dense["theta"], action)
    np.testing.assert_allclose(record["truth"], truth, atol=1e-7)
    start = dense["start"][:N_LIVE] @ truth
    assert record["start_truth"] == pytest.approx(start, abs=1e-9)
    counts = dense["counts"]
    frequent = counts.copy()
    frequent[counts.sum(axis=2) == 0, DEATH] = 1.0  # where nothing was observed
    frequent /= frequent.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(record["seen"], value(frequent, action), atol=1e-6)
    pair = np.arange(N_LIVE), action[:N_LIVE]
    assert record["visits"] == counts.sum(axis=2)[pair].tolist()
    assert record["deaths"] == counts[:, :, DEATH][pair].tolist()


def test_posterior_values_agree_with_draws_solved_one_by_one(sparse: Records) -> None:
    """Four standard errors of 24 draws: fails by chance in less than 1 of 1,000."""
    world = cohorts.sepsis()
    prior = bm.SparsePrior(1.0, fallback="death")
    data = cohorts.cohort(PATIENTS, 0)
    belief = bm.fit(data, world.task, prior=prior, min_count=5)
    policy = bm.policies.mle(belief)
    draws = belief.draws(24, seed=99)
    values = [
        world.task.start @ bm.MDP(draws.dynamics(i), world.task).value(policy)
        for i in range(24)
    ]
    error = np.std(values, ddof=1) / np.sqrt(24)
    record = next(x for x in sparse if x["policy"] == "mle")
    assert abs(record["start_value"] - np.mean(values)) < 4 * error
    assert record["start_gain"] == 0.0


def both_priors(sparse: Records) -> Records:
    """Records as if the evidence prior predicted too high, above all in five states."""
    evidence = deepcopy(sparse)
    for x in evidence:
        x["prior"] = "evidence"
        x["value"] = (np.array(x["truth"]) + 0.1).tolist()
        for state in np.flatnonzero(x["visits"])[:5]:
            x["value"][state] = x["seen"][state] + 2.0
    return evidence + deepcopy(sparse)


def set_gain(
    records: Records, what: str, points: float | np.ndarray, policy: str = "ours"
) -> None:
    """Spoil what a policy gains over MLE-optimal under the sparse prior."""
    of = {x["policy"]: x for x in records if x["prior"] == "sparse"}
    mle = of["mle"]
    of[policy][what] = (np.array(mle[what]) + points / 100).tolist()


def last(summary: str) -> str:
    line = summary.splitlines()[-1]
    assert line.startswith("**Verdict:**")
    return line


def test_the_verdict_on_figure_5_follows_the_records(sparse: Records) -> None:
    records = both_priors(sparse)
    as_printed = np.full(N_LIVE, 2.1)
    as_printed[7] = 17.8
    set_gain(records, "value", as_printed)
    set_gain(records, "truth", 1.0)
    said = last(fig5._tell(records))
    assert "gains 2.1 points on average and 17.8 at most" in said
    assert "1.0 on average in truth" in said
    assert "no climb was made" in said
    assert "Of the 5 states" in said
    assert "100 % are predicted higher than the truth" in said
    assert said.endswith(" Confirmed.")
    for spoil, why in (
        (lambda x: set_gain(x, "value", 3.0), "size within 2 times."),
        (lambda x: set_gain(x, "truth", -1.0), "gain is true."),
        (lambda x: set_gain(x, "value", -1.0), "the belief sees no gain."),
        (spoil_outliers, "not predicted higher than others."),
    ):
        spoiled = deepcopy(records)
        spoil(spoiled)
        assert last(fig5._tell(spoiled)).endswith(why)


def spoil_outliers(records: Records) -> None:
    """Let the states raised most be those predicted too little."""
    for x in records:
        if x["prior"] == "evidence":
            for state in np.flatnonzero(x["visits"])[:5]:
                x["truth"][state] = x["value"][state] + 0.1


def test_promises_are_set_against_those_of_all_states_with_visits() -> None:
    n = 10
    record = {"visits": [1] * (n - 1) + [0], "seen": [0.1] * n, "truth": [0.5] * n}
    record["value"] = [0.9, 0.8, 0.7, 0.65, 0.6, 0.4, 0.4, 0.4, 0.3, 1.0]
    found = fig5._excess([record, record])
    assert (found.n_raised, found.above_raised) == (10, 1.0)
    assert found.mean_raised == pytest.approx(np.mean([0.4, 0.3, 0.2, 0.15, 0.1]))
    assert found.above == pytest.approx(5 / 9)  # the last was never visited
    assert found.mean == pytest.approx((1.15 - 0.5) / 9)
    assert found.inflated


def test_the_climb_is_credited_only_with_what_it_adds(sparse: Records) -> None:
    records = both_priors(sparse)
    for x in records:
        x["climbed"] = True
    set_gain(records, "value", 10.0)
    set_gain(records, "value", 10.0, "nominal")
    assert "not the climb" in last(fig5._tell(records))
    set_gain(records, "value", 30.0)
    assert "the climb the rest" in last(fig5._tell(records))


def test_outliers_are_states_with_visits_that_the_prior_raises(sparse: Records) -> None:
    record = deepcopy(next(x for x in sparse if x["policy"] == "ours"))
    for state, visits in ((5, 3), (7, 0)):
        record["visits"][state] = visits
        record["value"][state] = record["seen"][state] + 0.9
    assert fig5._raised(record)[0] == 5


def test_the_verdict_on_evidence_follows_the_records() -> None:
    grid = np.geomspace(0.001, 10, 41)
    paper = [
        {
            "size": 100,
            "cohort": i,
            "grid": grid.tolist(),
            "loss": (np.log(grid / 0.072) ** 2).tolist(),
            "best": 0.072 * shift,
            "interval": [0.07, 0.074],
            "best_loss": 0.0,
            "n_pairs": 3,
            "n_transitions": 10,
        }
        for i, shift in enumerate((0.99, 1.01))
    ]
    assert last(evidence._tell(paper)).endswith(": confirmed.")
    assert "one minimum" in last(evidence._tell(paper))
    other = [x | {"best": 0.02 + 0.0001 * i} for i, x in enumerate(paper)]
    assert ": confirmed with a caveat, it is not the paper's" in last(
        evidence._tell(other)
    )
    waves = (np.log(grid / 0.072) ** 2 + np.sin(9 * np.log(grid))).tolist()
    several = last(evidence._tell([x | {"loss": waves} for x in paper]))
    assert several.endswith("confirmed with a caveat, it is not the only one.")
    high = [x | {"interval": [0.5, 1.5]} for x in paper]
    assert last(evidence._tell(high)).endswith("not confirmed.")
    none = [x | {"best": None, "interval": None, "best_loss": None} for x in paper]
    assert last(evidence._tell(none)).endswith("not confirmed.")
    nearest = np.log(grid[np.argmin(np.abs(grid - 1))] / 0.072) ** 2 / 10
    assert evidence._lost(paper, 1.0) == f"{nearest:.3f} ± 0.000"


def test_variances_part_as_the_law_of_total_variance_says() -> None:
    """At discount 1 a return is 0 or 1, and nothing is left for discounting."""
    (record,) = uncertainty._work(PATIENTS, 0, 64)
    measures = uncertainty._measures(record)
    assert 0 < measures["of_discount"] < 0.02
    parts = measures["of_doubt"] + measures["of_discount"]
    assert measures["short"] == pytest.approx(parts)
    world = cohorts.sepsis(1.0)
    prior = bm.SparsePrior(1.0, fallback="death")
    belief = bm.fit(cohorts.cohort(PATIENTS, 0), world.task, prior=prior, min_count=5)
    policy, draws = bm.policies.nominal(belief), belief.draws(64, seed=0)
    with pytest.warns(bm.BayesmdpWarning, match="occupancy"):
        found = bm.evaluate(policy, draws, control=False)
    whole = {
        key: getattr(found, key)[:N_LIVE].tolist()
        for key in ("value", "epistemic_sd", "aleatoric_sd")
    }
    rest = uncertainty._measures(whole | {"truth": whole["value"]})["of_discount"]
    # The sample variance divides by n - 1.
    assert rest == pytest.approx(-np.mean(found.epistemic_sd[:N_LIVE] ** 2) / 64)


def binomial() -> dict[str, Any]:
    """Return a record in which chance is nearly that of a coin."""
    value = np.linspace(0.1, 0.95, 50)
    sd = np.sqrt(value * (1 - value))
    return {
        "size": 100,
        "visits": [7] * 49 + [0],
        "value": value.tolist(),
        "truth": value.tolist(),
        "epistemic_sd": [0.01] * 50,
        "aleatoric_sd": (0.98 * sd).tolist(),
    }


def test_the_verdict_on_uncertainty_follows_the_records() -> None:
    record = binomial()
    sd = np.array(record["aleatoric_sd"]) / 0.98
    assert last(uncertainty._tell([record])).endswith(": confirmed.")
    less = record | {"aleatoric_sd": (0.7 * sd).tolist()}
    assert last(uncertainty._tell([less])).endswith("with a caveat.")
    flat = record | {"aleatoric_sd": np.linspace(0.1, 0.5, 50).tolist()}
    assert last(uncertainty._tell([flat])).endswith("not confirmed.")


def test_the_picture_of_doubts_has_a_dot_a_state_coloured_by_its_value() -> None:
    pytest.importorskip("matplotlib")
    record = binomial()
    figure = uncertainty._plot([record])["uncertainty"]
    kinds, chance = (axis.collections[0] for axis in figure.axes[:2])
    assert kinds.get_offsets()[:, 1].tolist() == record["aleatoric_sd"]
    assert kinds.get_array().tolist() == record["value"]
    said = figure.axes[0].get_title()
    assert said.startswith("50 states, 49 visited by 100 simulated")
    value, sd = np.array(record["value"]), np.array(record["aleatoric_sd"])
    wanted = np.stack([value * (1 - value), sd**2], axis=1)
    np.testing.assert_allclose(chance.get_offsets(), wanted)


def test_cohorts_are_of_the_papers_size_and_full_climbs_everywhere() -> None:
    def climbs(effort: Effort) -> dict[str, bool]:
        jobs = fig5.STUDY.jobs(effort)
        return {job.params["prior"]: job.params["climb"] for job in jobs}

    jobs = fig5.STUDY.jobs(Effort())
    assert len(jobs) == len({job.key for job in jobs}) == 6
    assert {job.params["size"] for job in jobs} == {18_000}
    assert climbs(Effort()) == {"evidence": False, "sparse": True}
    assert climbs(Effort(full=True)) == {"evidence": True, "sparse": True}
    assert climbs(Effort(quick=True)) == {"evidence": False, "sparse": False}
    assert [job.params["size"] for job in uncertainty._jobs(Effort())] == [18_000] * 3


def test_pictures_are_made_of_records(sparse: Records) -> None:
    pytest.importorskip("matplotlib")
    figure = fig5._plot(both_priors(sparse))["fig5"]
    assert len(figure.axes) == 4
    points = figure.axes[1].lines[1].get_ydata()
    ours = next(x for x in sparse if x["policy"] == "ours")
    assert points.tolist() == ours["value"]


def test_the_picture_of_clinical_states_says_where_nothing_was_searched() -> None:
    some = [
        {"prior": prior, "policy": "ours", "climbed": prior == "sparse"}
        for prior in ("evidence", "sparse")
    ]
    said = "ours (evidence prior: the nominal policy, no search)"
    assert fig5._stand_in(some) == said
    assert fig5._stand_in([x | {"climbed": True} for x in some]) == "our policy"
