"""The report as data: every section against an answer found another way."""

import json
from pathlib import Path

import numpy as np
import pytest

import bayesmdp as bm


@pytest.fixture(scope="module")
def posterior() -> bm.Posterior:
    world = bm.worlds.gridworld()
    prior = bm.SymmetricPrior(support=world.support)
    return bm.fit(world.sample(500, seed=0), world.task, prior=prior)


@pytest.fixture(scope="module")
def table(posterior: bm.Posterior) -> bm.Comparison:
    policies = {
        "logged": bm.policies.behaviour(posterior),
        "mle": bm.policies.mle(posterior),
        "nominal": bm.policies.nominal(posterior),
    }
    return bm.compare(policies, posterior.draws(500, seed=3), reference="logged")


def test_what_is_saved_is_the_data(
    posterior: bm.Posterior, table: bm.Comparison, tmp_path: Path
) -> None:
    made = bm.report(posterior, table)
    path = made.save(tmp_path / "grid.json")
    assert json.loads(path.read_text(encoding="utf-8")) == made.data
    assert made.save(str(tmp_path / "grid.html")) == tmp_path / "grid.html"
    assert sorted(x.name for x in tmp_path.iterdir()) == ["grid.html", "grid.json"]


def test_the_first_screen_says_what_the_evaluation_says(
    posterior: bm.Posterior, table: bm.Comparison
) -> None:
    summary = bm.report(posterior, table).data["summary"]
    best = table.evaluations[summary["recommended"]]
    assert summary["recommended"] == table.rows[0].name
    assert summary["value"]["value"] == pytest.approx(best.start_value)
    share = best.start_epistemic_sd**2 / best.start_total_sd**2
    assert summary["epistemic_share"]["value"] == pytest.approx(share)
    gap = best.start_values - table.evaluations["logged"].start_values
    assert summary["probability_better"]["value"] == pytest.approx(np.mean(gap > 0))
