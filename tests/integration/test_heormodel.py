"""heormodel, a package for health economics, gives the same answers.

Its curves and tables on the same joint draws; its cohort models on the same inputs; and
the time that 1,000 draws of a model with rows that change take in both.
"""

import itertools
import sys
import time
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from tests.load_example import load_example

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


def test_sick_sicker_is_a_cohort_of_theirs() -> None:
    """Twenty draws of all inputs, three strategies, Simpson-like weights."""
    from heormodel.models.markov import CohortSpec, MarkovModel

    script = load_example("sick_sicker")
    actions = {"A": 1, "B": 2, "AB": 3}
    n = 20
    rngs = [np.random.default_rng(np.random.SeedSequence((5, i))) for i in range(n)]
    models = [script.draw(rng) for rng in rngs]

    def spec(params: Any, intervention: str) -> Any:
        rows, rewards = models[int(params["number"])]
        action = actions[intervention]
        return CohortSpec(
            rows[:, action], rewards["cost"][:, action], rewards["qaly"][:, action]
        )

    engine = MarkovModel(
        states=("H", "S1", "S2", "D"),
        interventions=tuple(actions),
        transitions_and_rewards=spec,
        n_cycles=75,
        discount_rate=0.03,
        cycle_correction="simpson",
    )
    index = pd.RangeIndex(n, name="iteration")
    theirs = engine.evaluate(pd.DataFrame({"number": range(n)}, index=index))
    belief = bm.Ensemble.from_function(script.draw, n, 5, task=script.TASK)
    strategies = {name: script.STRATEGIES[name] for name in actions}
    ours = bm.cost_effectiveness(strategies, belief)
    for name in actions:
        cost, effect = ours.plane[name]
        assert cost == pytest.approx(theirs.costs_wide()[name].to_numpy())
        assert effect == pytest.approx(theirs.effects_wide()[name].to_numpy())


def their_hiv(hiv: ModuleType, drawn: list[tuple[np.ndarray, float]]) -> Any:
    """Run heormodel on rows that change after two years; discounts are in rewards."""
    from heormodel.models.markov import CohortSpec, MarkovModel

    year = np.arange(hiv.YEARS + 1)
    counted = (year > 0).astype(float)  # at the ends of years

    def spec(params: Any, intervention: str) -> Any:
        yearly, ratio = drawn[int(params["number"])]
        action = list(hiv.THERAPIES).index(intervention)
        rows = np.empty((hiv.YEARS, 4, 4))
        rows[: hiv.TREATED_YEARS] = hiv.dynamics(yearly, ratio)[:, action]
        rows[hiv.TREATED_YEARS :] = hiv.dynamics(yearly, 1.0)[:, action]
        early, late = (hiv.rewards(x) for x in (hiv.LAMIVUDINE, 0.0))
        treated = year[:, None] <= hiv.TREATED_YEARS
        cost = np.where(treated, early["cost"][:, action], late["cost"][:, action])
        life = counted[:, None] * late["life years"][:, action]
        return CohortSpec(rows, cost * (counted * 1.06**-year)[:, None], life)

    engine = MarkovModel(
        states=hiv.HEALTH,
        interventions=tuple(hiv.THERAPIES),
        transitions_and_rewards=spec,
        n_cycles=hiv.YEARS,
        discount_rate=0.0,
        cycle_correction="none",
    )
    index = pd.RangeIndex(len(drawn), name="iteration")
    return engine.evaluate(pd.DataFrame({"number": range(len(drawn))}, index=index))


@pytest.mark.timed
def test_hiv_with_1000_draws_agrees_in_about_the_same_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rows that change with time: the same costs and life years, in one run.

    Drawing parameters is part of neither. Ours checks and keeps every model, then has
    variances of returns, acceptability and losses besides.
    """
    hiv = load_example("hiv_therapy")
    n = 1000
    seeds = [np.random.SeedSequence((0, i)) for i in range(n)]
    drawn = [hiv.parameters(np.random.default_rng(x)) for x in seeds]
    known = iter(())

    def again(rng: np.random.Generator) -> tuple[np.ndarray, float]:
        return next(known)

    hiv.parameters = again
    seconds: dict[str, list[float]] = {"models": [], "analysis": [], "heormodel": []}
    for _ in range(4):  # the first one compiles
        known = itertools.chain(drawn, drawn)
        at = [time.perf_counter()]
        belief = hiv.uncertain(n)
        at.append(time.perf_counter())
        ours = bm.cost_effectiveness(hiv.THERAPIES, belief, effect="life years")
        at.append(time.perf_counter())
        theirs = their_hiv(hiv, drawn)
        at.append(time.perf_counter())
        for kept, took in zip(seconds.values(), np.diff(at), strict=True):
            kept.append(took)
    for name in hiv.THERAPIES:
        cost, effect = ours.plane[name]
        assert cost == pytest.approx(theirs.costs_wide()[name].to_numpy())
        assert effect == pytest.approx(theirs.effects_wide()[name].to_numpy())
    best = {name: min(x[1:]) for name, x in seconds.items()}
    said = ", ".join(f"{name} {x:.3f} s" for name, x in best.items())
    with capsys.disabled():
        sys.stdout.write(f"\n1,000 draws of HIV therapy: {said}\n")
    assert best["models"] + best["analysis"] < 1.5 * best["heormodel"]
    assert best["analysis"] < 0.5 * best["heormodel"]
