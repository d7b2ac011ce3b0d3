"""Examples of health economics reach published figures."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from load_example import load_example

import bayesmdp as bm


@pytest.fixture(scope="module")
def sick_sicker() -> ModuleType:
    return load_example("sick_sicker")


def test_sick_sicker_is_the_published_table(sick_sicker: ModuleType) -> None:
    """Alarid-Escudero et al. (2023), to the dollar and the third digit of a QALY."""
    strategies = sick_sicker.STRATEGIES
    found = bm.cost_effectiveness(strategies, sick_sicker.base(), thresholds=[1e5])
    table = [
        (row.name, round(row.cost), round(row.effect, 3), row.icer and round(row.icer))
        for row in found.table
    ]
    assert table == [
        ("standard of care", 151_580, 20.711, None),
        ("B", 259_100, 22.184, 72_988),
        ("A", 284_805, 21.499, None),
        ("AB", 378_875, 23.137, 125_764),
    ]
    assert [row.dominated for row in found.table] == [False, False, True, False]
    assert not any(row.extendedly_dominated for row in found.table)
    assert found.evpi.tolist() == [0]


def test_optimise_finds_the_policy_that_tells_states_apart(
    sick_sicker: ModuleType,
) -> None:
    """All 16 policies that act in Sick and in Sicker, by brute force."""
    base, best = sick_sicker.base(), sick_sicker.NET_BENEFIT
    found = bm.optimise(base, reward=best)
    assert found.policy[1:3].argmax(axis=1).tolist() == [3, 0]  # both; neither
    every = [
        bm.evaluate([0, sick, sicker, 0], base, reward=best).start_value
        for sick in range(4)
        for sicker in range(4)
    ]
    assert found.start_value == pytest.approx(max(every), rel=1e-9)
    published = max(every[5 * a] for a in range(4))
    assert round(found.start_value - published) == 105_947


def test_draws_of_sick_sicker_are_those_of_a_cohort(sick_sicker: ModuleType) -> None:
    """Cost and effect of each draw, step by step with the weights of the tutorial."""
    belief = bm.Ensemble.from_function(sick_sicker.draw, 5, 2, task=sick_sicker.TASK)
    policy = [0, 3, 1, 0]
    ce = bm.cost_effectiveness({"x": policy, "y": [0] * 4}, belief, thresholds=[0])
    weights = np.tile([4 / 3, 2 / 3], 38)
    weights[0] = weights[-1] = 1 / 3
    for i in range(5):
        rng = np.random.default_rng(np.random.SeedSequence((2, i)))
        rows, rewards = sick_sicker.draw(rng)
        step = rows[np.arange(4), policy]
        at, paid = np.eye(4)[0], {"cost": 0.0, "qaly": 0.0}
        for t in range(76):
            for name in paid:
                pay = rewards[name][np.arange(4), policy]
                paid[name] += weights[t] * 1.03**-t * (at @ pay)
            at = at @ step
        assert ce.plane["x"][:, i] == pytest.approx([paid["cost"], paid["qaly"]])


def test_chemotherapy_reads_what_r_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    """Its data belong to voi: here with draws of our own, and closed forms."""
    script = load_example("chemotherapy")
    rng = np.random.default_rng(0)
    e = np.column_stack([np.full(4000, 10.0), 10 + rng.normal(0.1, 0.02, 4000)])
    c = np.column_stack([np.full(4000, 1400.0), np.full(4000, 3400.0)])
    found = script.analyse({"c": c, "e": e, "k": np.array([20e3, 30e3])})
    assert found.names == ("SoC", "Novel")
    assert found.ceac["Novel"] == pytest.approx([0.5, 0.95], abs=0.04)
    # E[max(0, y)] of y ~ N(0, 400), 400 / sqrt(2 pi); blocks of draws agree
    benefit = 20e3 * e - c
    known = bm.information.evppi(benefit, e[:, 1])
    assert abs(script.blocks(benefit, e[:, 1], 20) - known.value) < 3 * known.mcse
    assert known.value == pytest.approx(400 / np.sqrt(2 * np.pi), rel=0.06)
    script.SOURCES = ("file:///nowhere/voi.tar.gz",)
    with pytest.raises(SystemExit, match="CRAN cannot be reached"):
        script.main()
    with pytest.raises(SystemExit, match=r"There is no chemo_cea.rda in nowhere"):
        script.main(Path("nowhere"))
    assert capsys.readouterr().out == ""
