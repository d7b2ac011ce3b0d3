"""Numbers of a report in words, and reports of horizons, averages and sums."""

from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.reporting._inputs import interval, quantile, share
from bayesmdp.reporting._summary import chance, percent


def test_quantiles_and_their_errors() -> None:
    """The error of a quantile against its spread over 400 samples, within 25 %."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000)
    even = np.full(1000, 1e-3)
    for level in (0.05, 0.5, 0.95):
        wanted = np.quantile(values, level, method="inverted_cdf")
        assert quantile(values, even, level) == wanted
    samples = rng.normal(size=(400, 1000))
    found = [interval(x, even, exact=False)["low"] for x in samples]
    spread = np.std([x["value"] for x in found])
    assert np.mean([x["mcse"] for x in found]) == pytest.approx(spread, rel=0.25)
    assert interval(values, even, exact=True)["low"]["mcse"] == 0


@pytest.mark.parametrize(
    ("hits", "n", "said"),
    [
        (0.5, 400, "50 ± 2 %"),
        (1.0, 2000, "above 99.85 %"),
        (0.0, 2000, "below 0.15 %"),
        (0.5, np.inf, "50 %"),
        (0.0, 2, "below 100 %"),
    ],
)
def test_chances_are_never_certain_for_want_of_draws(
    hits: float, n: float, said: str
) -> None:
    assert chance(share(hits, n)) == said


def test_shares_in_words() -> None:
    said = [percent({"value": x, "mcse": 0.0}) for x in (0.714, 0.00016, 0.0, 1.0)]
    assert said == ["71 %", "0.016 %", "0 %", "100 %"]


TIMED: dict[str, dict[str, Any]] = {
    "horizon": {"discount": 0.97, "horizon": 12, "cycle": "half"},
    "average": {"criterion": "average"},
}


@pytest.mark.parametrize("more", TIMED.values(), ids=list(TIMED))
def test_horizons_and_averages_leave_out_what_is_not_known(
    more: dict[str, Any],
) -> None:
    rng = np.random.default_rng(1)
    counts = bm.Counts.from_dense(rng.poisson(4.0, size=(5, 2, 5)))
    task = bm.Task(5, 2, rng.normal(size=(5, 2)), **more)
    belief = bm.fit(counts, task, prior=bm.SymmetricPrior())
    policies = {
        "logged": bm.policies.behaviour(belief),
        "nominal": bm.policies.nominal(belief),
    }
    table = bm.compare(policies, belief.draws(100))
    made = bm.report(belief, table)
    assert made.data["summary"]["recommended"] == "nominal"
    assert made.data["summary"]["value"]["value"] == pytest.approx(
        table.evaluations["nominal"].start_value, rel=1e-4
    )
    explorer = made.data["explorer"]
    assert explorer["value"] is explorer["gain"] is None
    assert task.said_time in explorer["how"]
    assert "not known for" in made.data["attribution"]["left_out"]
    checks = {x["name"]: x for x in made.data["summary"]["checks"]}
    assert checks["check"]["command"] is None
    of = {"horizon": "tasks with a horizon", "average": "averages per step"}
    unknown = of["horizon" if task.horizon else "average"]
    assert checks["check"]["text"] == f"Not known for {unknown}."
    assert checks["states"]["text"].endswith(f"not known for {unknown}.")
    assert any(task.said_time in x for x in made.data["methods"]["paragraphs"])
    assert "<!DOCTYPE html>" in made.html()


def test_a_sum_of_two_discounts_has_a_report() -> None:
    rng = np.random.default_rng(1)
    counts = bm.Counts.from_dense(rng.poisson(4.0, size=(4, 2, 4)))
    both = {"cost": rng.gamma(2.0, 3.0, (4, 2)), "qaly": rng.random((4, 2))}
    task = bm.Task(4, 2, both, discount={"cost": 0.94, "qaly": 1.0}, horizon=9)
    belief = bm.fit(counts, task, prior=bm.SymmetricPrior())
    benefit = {"qaly": 10, "cost": -1}
    policies = {"first": [0] * 4, "second": [1] * 4}
    table = bm.compare(policies, belief.draws(64), reward=benefit)
    made = bm.report(belief.with_reward(benefit), table)
    assert made.data["summary"]["recommended"] == table.rows[0].name
    with pytest.raises(bm.BayesmdpError, match="looks at one reward"):
        bm.report(belief, table)
