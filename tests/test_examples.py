"""The examples run, and show what was published."""

from types import ModuleType

import numpy as np
import pytest
from load_example import load_example

import bayesmdp as bm


@pytest.fixture(scope="module")
def hiv() -> ModuleType:
    return load_example("hiv_therapy")


def cohort(yearly: np.ndarray, ratio: float, *, two: bool) -> np.ndarray:
    """Who is alive and how at the end of each year, ``[20, 3]``, step by step."""
    full = np.vstack([yearly, [0, 0, 0, 1]])
    there, path = np.array([1.0, 0, 0, 0]), []
    for year in range(20):
        now = full.copy()
        if two and year < 2:
            for i in range(3):
                now[i, i + 1 :] *= ratio
                now[i, i] = 1 - now[i, i + 1 :].sum()
        there = there @ now
        path.append(there[:3])
    return np.array(path)


def cohort_costs(alive: np.ndarray, *, two: bool) -> float:
    drugs = np.full(20, 2278.0)
    drugs[:2] += 2086.5 * two
    yearly = alive @ np.array([2756, 3052, 9007]) + alive.sum(axis=1) * drugs
    return float((yearly / 1.06 ** np.arange(1, 21)).sum())


def test_the_published_figures_come_out_to_every_printed_digit(hiv: ModuleType) -> None:
    """Briggs et al. (2006): costs, life years, and the price of a year gained."""
    found = bm.cost_effectiveness(
        hiv.THERAPIES, hiv.published(), effect="life years", thresholds=[6000, 6500]
    )
    one, two = found.table
    assert (one.name, two.name) == ("one drug", "two drugs")
    assert (round(one.cost, 2), round(two.cost, 2)) == (44663.45, 50601.65)
    assert (round(one.effect, 4), round(two.effect, 4)) == (7.9912, 8.9374)
    assert two.icer is not None
    assert round(two.icer, 2) == 6275.96
    assert (two.icer_mcse, found.evpi.tolist()) == (0, [0, 0])
    assert found.best == ("one drug", "two drugs")


N = 40


@pytest.fixture(scope="module")
def drawn(hiv: ModuleType) -> list[tuple[np.ndarray, float]]:
    """Parameters of every draw, as the function that makes them draws them."""
    seeds = [np.random.SeedSequence((4, i)) for i in range(N)]
    return [hiv.parameters(np.random.default_rng(x)) for x in seeds]


@pytest.fixture(scope="module")
def belief(hiv: ModuleType) -> bm.posterior.BeliefsByCycle:
    found: bm.posterior.BeliefsByCycle = hiv.uncertain(N, seed=4)
    return found


def paths(
    hiv: ModuleType, drawn: list[tuple[np.ndarray, float]], *, two: bool
) -> np.ndarray:
    """Who is alive and how at the end of each year, in every draw, ``[D, 20, 3]``."""
    return np.array([cohort(yearly, ratio, two=two) for yearly, ratio in drawn])


def test_every_draw_is_a_cohort_of_its_own(
    hiv: ModuleType,
    drawn: list[tuple[np.ndarray, float]],
    belief: bm.posterior.BeliefsByCycle,
) -> None:
    found = bm.cost_effectiveness(
        hiv.THERAPIES, belief, effect="life years", thresholds=[6000]
    )
    gained = []
    for name, two in (("one drug", False), ("two drugs", True)):
        alive = paths(hiv, drawn, two=two)
        costs = np.array([cohort_costs(x, two=two) for x in alive])
        assert found.plane[name][0] == pytest.approx(costs, rel=1e-10)
        assert found.plane[name][1] == pytest.approx(alive.sum(axis=(1, 2)), rel=1e-10)
        gained.append(6000 * alive.sum(axis=(1, 2)) - costs)
    worth = gained[1] > gained[0]
    assert found.ceac["two drugs"][0] == pytest.approx(worth.mean())
    regret = np.maximum(*gained).mean() - max(x.mean() for x in gained)
    assert found.evpi[0] == pytest.approx(regret)
    error = found.plane["one drug"][0].std() / np.sqrt(N)
    assert found.table[0].cost_mcse == pytest.approx(error)


def test_aleatoric_sd_is_the_spread_of_the_length_of_life(
    hiv: ModuleType,
    drawn: list[tuple[np.ndarray, float]],
    belief: bm.posterior.BeliefsByCycle,
) -> None:
    """With S(k) = P(alive at the end of year k), E L^2 = sum (2 k - 1) S(k)."""
    alive = paths(hiv, drawn, two=True).sum(axis=2)  # [D, 20]
    square = alive @ (2 * np.arange(1, 21) - 1)
    variance = square - alive.sum(axis=1) ** 2
    found = bm.evaluate(hiv.THERAPIES["two drugs"], belief).rewards
    assert found is not None
    expected = np.sqrt(variance.mean())
    assert found["life years"].start_aleatoric_sd == pytest.approx(expected)


def test_the_example_prints_its_tables(
    hiv: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    belief: bm.posterior.BeliefsByCycle,
) -> None:
    monkeypatch.setattr(hiv, "uncertain", lambda: belief)
    hiv.main()
    said = capsys.readouterr().out
    for figure in ("44663.45", "50601.65", "7.9912", "8.9374", "6275.96"):
        assert figure in said
    assert "epistemic sd" in said
    assert "EVPI" in said


def test_psrl_stops_losing() -> None:
    psrl = load_example("psrl")
    curves = psrl.main(n_seeds=1, n_episodes=40)
    assert set(curves) == {"RiverSwim", "DeepSea"}
    for ways in curves.values():
        steps = np.diff(ways["PSRL"], prepend=0.0)
        assert (steps > -1e-9).all()  # nothing is better than the optimum
        assert steps[-10:].mean() < 0.5 * steps[:10].mean()
