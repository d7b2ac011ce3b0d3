"""The report as data: every section against an answer found another way."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.optimisation import Outcome


@pytest.fixture(scope="module")
def log() -> bm.Transitions:
    return bm.worlds.gridworld().sample(500, seed=0)


@pytest.fixture(scope="module")
def posterior(log: bm.Transitions) -> bm.Posterior:
    world = bm.worlds.gridworld()
    prior = bm.SymmetricPrior(support=world.support)
    return bm.fit(log, world.task, prior=prior)


@pytest.fixture(scope="module")
def table(posterior: bm.Posterior) -> bm.Comparison:
    policies = {
        "logged": bm.policies.behaviour(posterior),
        "mle": bm.policies.mle(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    return bm.compare(policies, posterior.draws(500, seed=3), reference="logged")


@pytest.fixture(scope="module")
def data(posterior: bm.Posterior, table: bm.Comparison) -> dict[str, Any]:
    return bm.report(posterior, table).data


def levels(made: bm.Report) -> dict[str, str]:
    return {x["topic"]: x["level"] for x in made.data["summary"]["cautions"][::-1]}


def test_what_is_saved_is_the_data(
    posterior: bm.Posterior, table: bm.Comparison, tmp_path: Path
) -> None:
    made = bm.report(posterior, table)
    path = made.save(tmp_path / "grid.json")
    assert json.loads(path.read_text(encoding="utf-8")) == made.data
    assert made.save(str(tmp_path / "grid.html")) == tmp_path / "grid.html"
    made.save(path)  # replaces
    assert sorted(x.name for x in tmp_path.iterdir()) == ["grid.html", "grid.json"]


def test_the_schema_is_known(data: dict[str, Any]) -> None:
    assert data["schema_version"] == 1
    assert list(data) == [
        "schema_version",
        *("summary", "policies", "economics", "states", "attribution", "support"),
        *("prior", "information", "data", "explorer", "methods"),
    ]


def test_the_first_screen_says_what_the_evaluation_says(
    data: dict[str, Any], table: bm.Comparison
) -> None:
    summary = data["summary"]
    best = table.evaluations[summary["recommended"]]
    assert summary["recommended"] == table.rows[0].name
    assert summary["value"]["value"] == pytest.approx(best.start_value)
    part = best.start_epistemic_sd**2 / best.start_total_sd**2
    assert summary["epistemic_share"]["value"] == pytest.approx(part)
    gap = best.start_values - table.evaluations["logged"].start_values
    assert summary["probability_better"]["value"] == pytest.approx(np.mean(gap > 0))
    low, high = np.quantile(gap, [0.025, 0.975], method="inverted_cdf")
    found = summary["difference_interval"]
    assert found["low"]["value"] == pytest.approx(low)
    assert found["high"]["value"] == pytest.approx(high)
    assert (
        f"{100 * part:.2g} % of its variance is epistemic"
        in summary["sentences"]["uncertainty"]
    )


def test_acceptability_is_the_share_of_draws(
    data: dict[str, Any], table: bm.Comparison
) -> None:
    curve = data["policies"]["acceptability"]
    values = {n: e.start_values for n, e in table.evaluations.items()}
    for name in ("mle", "nominal"):
        gap = values[name] - values["logged"]
        wanted = [np.mean(gap > x) for x in curve["x"]]
        assert curve["probability"][name] == pytest.approx(wanted, abs=0.003)
        assert curve["probability"][name][0] == 1
        assert curve["probability"][name][-1] == 0
    rows = data["policies"]["rows"]
    assert sum(row["probability_best"]["value"] for row in rows) == pytest.approx(1)
    top = np.argmax([values[row["name"]] for row in rows], axis=0)
    wanted = [np.mean(top == p) for p in range(3)]
    ties = 0.02  # equal policies share a draw
    assert [r["probability_best"]["value"] for r in rows] == pytest.approx(
        wanted, abs=ties
    )


def test_columns_of_states_are_those_of_evaluations(
    data: dict[str, Any], table: bm.Comparison, posterior: bm.Posterior
) -> None:
    states = data["states"]
    assert states["state"] == list(range(25))
    assert sum(states["visits"]) == posterior.counts.total
    for name, evaluation in table.evaluations.items():
        for q in ("value", "epistemic_sd", "aleatoric_sd", "occupancy"):
            found = np.array(states["policies"][name][q], dtype=float)
            assert found == pytest.approx(getattr(evaluation, q), rel=1e-3)


def test_attribution_is_that_of_the_instant_answer(
    data: dict[str, Any], table: bm.Comparison, posterior: bm.Posterior
) -> None:
    found = data["attribution"]
    quick = bm.evaluate_analytic(table.evaluations[found["policy"]].policy, posterior)
    top = found["pairs"][0]
    assert top["share"] == pytest.approx(quick.variance_share.max(), rel=1e-3)
    assert (
        quick.variance_share[top["state"], top["action"]] == quick.variance_share.max()
    )
    ordered = np.sort(quick.variance_share, axis=None)[::-1]
    n = found["n_for_half"]
    assert ordered[:n].sum() >= 0.5 > ordered[: n - 1].sum()


def test_support_counts_what_was_seen(
    data: dict[str, Any], table: bm.Comparison, posterior: bm.Posterior
) -> None:
    support = data["support"]
    visits = posterior.counts.pair_totals(25, 4)[:20]
    assert support["n_seen"] == (visits > 0).sum()
    assert np.sum(support["map"]) == visits.sum()
    for row in table.rows:
        bands = support["policies"][row.name]["by_visits"]
        assert sum(bands) == pytest.approx(1, abs=1e-3)
        assert sum(bands[:2]) == pytest.approx(row.low_support, abs=1e-3)


def test_the_explorer_lists_pairs_and_next_states(
    data: dict[str, Any], table: bm.Comparison, posterior: bm.Posterior
) -> None:
    explorer = data["explorer"]
    first, following = explorer["first"], explorer["next"]
    assert first[-1] == len(explorer["action"]) == 80
    pair = first[7] + 2  # state 7, down
    assert explorer["action"][pair] == 2
    visits = posterior.counts.pair_totals(25, 4)
    assert explorer["seen"][pair] == visits[7, 2]
    part = slice(following["first"][pair], following["first"][pair + 1])
    state, probability = posterior.mean().row(7, 2)
    order = np.argsort(-probability, kind="stable")
    assert following["state"][part] == state[order].tolist()
    scaled = np.array(following["probability"][part]) / following["scale"]
    assert scaled == pytest.approx(probability[order], abs=1e-4)
    assert sum(following["count"][part]) == visits[7, 2]
    for name, evaluation in table.evaluations.items():
        plays = explorer["plays"][name]
        at = dict(zip(plays["pair"], plays["probability"], strict=True))
        for action in range(4):
            wanted = evaluation.policy[7, action]
            assert at.get(first[7] + action, 0) == pytest.approx(wanted, abs=1e-3)


def test_the_rule_is_the_one_stated(data: dict[str, Any], table: bm.Comparison) -> None:
    explorer, few = data["explorer"], table.min_count
    best = table.evaluations[explorer["policy"]].policy
    other = table.evaluations["logged"].policy
    seen = {}
    for i in range(25):
        kind = explorer["verdict"][i]
        seen[kind] = True
        if i >= 20:
            assert kind == "end"
            continue
        chosen = best[i].argmax()
        visits = explorer["seen"][explorer["first"][i] + chosen]
        if chosen == other[i].argmax():
            assert kind == "same"
        elif visits < few:
            assert kind == "thin"
        else:
            sure = explorer["gain_chance"][i] >= 0.95
            assert kind == ("recommend" if sure else "unclear")
    assert {"end", "same", "unclear"} <= set(seen)


def test_the_optimised_policy_is_recommended() -> None:
    casino = bm.worlds.casino()
    result = bm.optimise(casino, seed=7)
    policies: dict[str, Any] = {"leave": [1, 0, 0], "play": [0, 0, 0]}
    table = bm.compare(policies, casino.draws())
    made = bm.report(casino, table, optimisation=result)
    assert "The optimised policy is not among" in str(made.data["summary"]["cautions"])
    assert made.data["summary"]["recommended"] == "leave"
    table = bm.compare({**policies, "ours": result.policy}, casino.draws())
    made = bm.report(casino, table, optimisation=result)
    summary = made.data["summary"]
    assert (summary["recommended"], summary["chosen_by"]) == ("ours", "optimisation")
    assert summary["upper_bound"]["value"] == pytest.approx(result.upper_bound)
    assert made.data["methods"]["seeds"] == {"comparison": 0, "optimisation": 7}
    assert levels(made)["Convergence"] == "ok"
    assert "over the same models, exactly" in summary["sentences"]["choice"]
    for outcome in (Outcome.INTERRUPTED, Outcome.TIME, Outcome.STEPS):
        cut = replace(result, outcome=outcome)
        made = bm.report(casino, table, optimisation=cut)
        assert levels(made)["Convergence"] == "warning"


def test_a_policy_ahead_of_the_optimised_one_is_a_warning() -> None:
    casino = bm.worlds.casino()
    result = bm.optimise(casino, seed=0)
    worse = replace(result, policy=table_row(casino, [0, 0, 0]))
    policies: dict[str, Any] = {"leave": [1, 0, 0], "play": [0, 0, 0]}
    made = bm.report(casino, bm.compare(policies, casino.draws()), optimisation=worse)
    assert made.data["summary"]["recommended"] == "play"
    assert levels(made)["Choice"] == "warning"


def table_row(belief: bm.Ensemble, actions: list[int]) -> Any:
    return bm.evaluate(actions, belief.draws()).policy


def test_everything_given_is_shown(
    log: bm.Transitions, posterior: bm.Posterior, table: bm.Comparison
) -> None:
    task = posterior.task
    curve = bm.priors.evidence_curve(log, task, grid=[0.01, 0.1, 1])
    priors = {"flat": bm.SymmetricPrior(), "near": posterior.prior}
    moved = bm.prior_sensitivity(
        table.evaluations["nominal"].policy, log, task, priors, n_draws=50
    )
    made = bm.report(
        posterior,
        table,
        findings=bm.validate(log, task),
        evidence=curve,
        prior_sensitivity=moved,
    )
    prior = made.data["prior"]
    assert prior["evidence"]["log_evidence"] == pytest.approx(curve.log_evidence)
    assert [x["name"] for x in prior["sensitivity"]["rows"]] == ["flat", "near"]
    assert prior["sensitivity"]["n_fragile"] == moved.fragile.size
    assert made.data["data"]["findings"]["n_rows"] == 500
    found = levels(made)
    uncertainty = moved.start_epistemic_sd.max()
    fragile = np.ptp(moved.start_value) > uncertainty or moved.flip_share > 0.05
    assert found["Prior"] == ("warning" if fragile else "ok")
    page = made.html()
    assert "plot-evidence" in page
    assert "The policy nominal under other priors" in page
    assert prior["sensitivity"]["policy"] == "nominal"


def test_sensitivity_of_another_policy_is_a_warning(
    log: bm.Transitions, posterior: bm.Posterior, table: bm.Comparison
) -> None:
    for policy, name in ((table.evaluations["mle"].policy, "mle"), ([0] * 25, None)):
        moved = bm.prior_sensitivity(
            policy, log, posterior.task, {"near": posterior.prior}, n_draws=20
        )
        made = bm.report(posterior, table, prior_sensitivity=moved)
        assert made.data["prior"]["sensitivity"]["policy"] == name
        assert levels(made)["Prior"] == "warning"
        assert "other than the recommended" in str(made.data["summary"]["cautions"])


def test_poor_support_is_a_warning() -> None:
    world = bm.worlds.gridworld()
    posterior = bm.fit(world.sample(30, seed=0), world.task, prior=bm.SymmetricPrior())
    policies = {"a": np.zeros(25, dtype=int), "b": bm.policies.nominal(posterior)}
    made = bm.report(posterior, bm.compare(policies, posterior.draws(100)))
    assert levels(made)["Support"] == "warning"
    first = made.data["summary"]["cautions"][0]
    assert first["level"] == "warning"
    assert "100 % of the visits" in str(made.data["summary"]["cautions"])
    assert 'role="alert"' in made.html()


def test_a_mixture_leaves_out_what_it_cannot_say() -> None:
    world = bm.worlds.gridworld()
    prior = bm.MixturePrior([bm.ScaledPrior(1.0), bm.ScaledPrior(3.0)])
    posterior = bm.fit(world.sample(300, seed=0), world.task, prior=prior)
    policies = {
        "a": bm.policies.behaviour(posterior),
        "b": bm.policies.nominal(posterior),
    }
    data = bm.report(posterior, bm.compare(policies, posterior.draws(100))).data
    assert "independent Dirichlet rows" in data["attribution"]["left_out"]
    explorer = data["explorer"]
    assert min(explorer["epistemic_sd"]) > 0  # values of actions are those of draws
    assert "unknown" not in explorer["verdict"]
    assert "over 100 draws of every row" in explorer["how"]


def test_random_supports_leave_out_what_needs_dirichlet_rows() -> None:
    world = bm.worlds.gridworld(width=3, height=3)
    prior = bm.RandomSupportPrior()
    posterior = bm.fit(world.sample(200, seed=0), world.task, prior=prior)
    policies = {
        "a": bm.policies.behaviour(posterior),
        "b": bm.policies.nominal(posterior),
    }
    made = bm.report(posterior, bm.compare(policies, posterior.draws(50)))
    said = made.data["attribution"]["left_out"]
    assert said.count(". ") == 0
    assert said.endswith("that needs independent Dirichlet rows.")
    assert said.replace("'", "&#39;") in made.html()
    explorer = made.data["explorer"]
    assert min(explorer["epistemic_sd"]) > 0
    assert max(explorer["gain_sd"]) > 0
    assert "which is a mixture" in explorer["next"]["how"]
    assert "unknown" not in explorer["verdict"]
    methods = " ".join(made.data["methods"]["paragraphs"])
    assert "mixtures of Dirichlet distributions over sets of possible" in methods
    assert "where it is shown" in methods  # what is to first order


def test_an_ensemble_leaves_out_what_it_cannot_say() -> None:
    casino = bm.worlds.casino()
    table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]}, casino.draws())
    made = bm.report(casino, table)
    data = made.data
    assert "no counts" in data["support"]["left_out"]
    assert data["states"]["visits"] is None
    assert data["explorer"]["seen"] is None
    assert data["summary"]["value"]["mcse"] == 0
    row = data["policies"]["rows"][0]
    assert row["probability_better"]["value"] == 0.5
    assert row["probability_best"]["value"] == 0.5
    assert "<h1>" in made.html()


def test_many_states_are_cut_to_the_most_met(
    posterior: bm.Posterior, table: bm.Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bayesmdp.reporting import _inputs

    monkeypatch.setattr(_inputs, "MAX_SHOWN", 6)
    data = bm.report(posterior, table).data
    met = table.rows[0].name
    occupancy = table.evaluations[met].occupancy
    assert data["states"]["state"] == sorted(np.argsort(-occupancy)[:6].tolist())
    assert "has the 6" in data["states"]["left_out"]
    assert len(data["explorer"]["verdict"]) == 6
    assert len(data["explorer"]["first"]) == 7


def test_a_grid_is_recognised() -> None:
    from bayesmdp.reporting._explorer import find_grid

    world = bm.worlds.gridworld(width=3, height=4)
    grid = find_grid(world.task, world.dynamics)
    assert grid is not None
    assert grid["row"] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert grid["column"] == [0, 1, 2] * 4
    assert grid["arrow"] == ["↑", "→", "↓", "←"]
    names = [f"({r}, {c})" for c in range(1, 4) for r in range(4)]
    named = world.task.with_labels(state_labels=names)
    grid = find_grid(named, world.dynamics)
    assert grid is not None
    assert grid["row"] == [0, 1, 2, 3] * 3
    names[-1] = "(999, 999)"  # a map that is mostly holes
    grid = find_grid(world.task.with_labels(state_labels=names), world.dynamics)
    assert grid is not None
    assert max(grid["row"]) == 3
    other = world.task.with_labels(action_labels=["a", "b", "c", "d"])
    assert find_grid(other, world.dynamics) is None
    moved = bm.worlds.synthetic(0, n_actions=4)
    named = moved.task.with_labels(action_labels=["up", "right", "down", "left"])
    assert find_grid(named, moved.dynamics) is None


def test_few_draws_cannot_make_sure(posterior: bm.Posterior) -> None:
    """With 20 draws, all in favour, 95 % is not shown; with 500 it is."""
    policies = {
        "logged": bm.policies.behaviour(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    for n, sure in ((20, False), (500, True)):
        made = bm.report(posterior, bm.compare(policies, posterior.draws(n)))
        assert made.data["summary"]["probability_better"]["value"] == 1
        assert ("Certainty" not in levels(made)) == sure


def test_one_model_and_one_action() -> None:
    task = bm.Task(2, 1, reward=[1, 0], discount=1.0, terminal=[1])
    model = bm.Dynamics.from_dense([[[0.5, 0.5]], [[0, 1]]])
    ensemble = bm.Ensemble([model], task)
    table = bm.compare({"a": [0, 0], "b": [0, 0]}, ensemble.draws())
    made = bm.report(ensemble, table)
    assert made.data["summary"]["value"] == {"value": 2, "mcse": 0}
    assert made.data["summary"]["epistemic_share"]["value"] == 0
    assert "1 model, exactly." in str(made.data["summary"]["cautions"])
    assert "Stay with" in made.html()


def test_rows_without_doubt_have_none_to_divide() -> None:
    task = bm.Task(2, 1, reward=[1, 0], discount=0.9, terminal=[1])
    prior = bm.SymmetricPrior(support=([0], [0], [1]))
    posterior = bm.fit(bm.Counts.from_arrays([0], [0], [1]), task, prior=prior)
    table = bm.compare({"a": [0, 0], "b": [0, 0]}, posterior.draws(20))
    made = bm.report(posterior, table)
    assert "no variance" in made.data["attribution"]["left_out"]
    assert "<h1>" in made.html()
