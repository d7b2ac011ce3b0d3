"""The examples run, and show what was published."""

from types import ModuleType

import numpy as np
import pytest
from load_example import load_example


@pytest.fixture(scope="module")
def hiv() -> ModuleType:
    return load_example("hiv_therapy")


def cohort(hiv: ModuleType, yearly: np.ndarray, *, two: bool) -> np.ndarray:
    """Who is alive and how at the end of each year, ``[20, 3]``, step by step."""
    full = np.vstack([yearly, [0, 0, 0, 1]])
    there, path = np.array([1.0, 0, 0, 0]), []
    for year in range(20):
        now = full.copy()
        if two and year < 2:
            for i in range(3):
                now[i, i + 1 :] *= hiv.RELATIVE_RISK
                now[i, i] = 1 - now[i, i + 1 :].sum()
        there = there @ now
        path.append(there[:3])
    return np.array(path)


def cohort_costs(hiv: ModuleType, alive: np.ndarray, *, two: bool) -> float:
    drugs = np.full(20, 2278.0)
    drugs[:2] += 2086.5 * two
    yearly = alive @ np.array([2756, 3052, 9007]) + alive.sum(axis=1) * drugs
    return float((yearly / 1.06 ** np.arange(1, 21)).sum())


def test_the_published_figures_come_out_to_every_printed_digit(hiv: ModuleType) -> None:
    """Briggs et al. (2006): costs, life years, and the price of a year gained."""
    found = hiv.published()
    costs, life = found["costs"], found["life years"]
    assert round(costs["one drug"], 2) == 44663.45
    assert round(costs["two drugs"], 2) == 50601.65
    assert round(life["one drug"], 4) == 7.9912
    assert round(life["two drugs"], 4) == 8.9374
    gained = life["two drugs"] - life["one drug"]
    assert round((costs["two drugs"] - costs["one drug"]) / gained, 2) == 6275.96


@pytest.fixture(scope="module")
def yearly_and_models(hiv: ModuleType) -> tuple[list[np.ndarray], list]:
    models = hiv.posterior_models(50, seed=4)
    rows = np.array([[m.to_dense()[h, 0] for h in range(3)] for m in models])
    ends = [3, 4, 5, hiv.N_STATES - 1]  # year 1, and death
    return list(rows[:, :, ends]), models


def test_means_and_epistemic_sds_are_those_of_a_cohort_under_every_draw(
    hiv: ModuleType, yearly_and_models: tuple[list[np.ndarray], list]
) -> None:
    tables, models = yearly_and_models
    judged = hiv.evaluations(models)
    for name, two in (("one drug", False), ("two drugs", True)):
        paths = [cohort(hiv, x, two=two) for x in tables]
        expected = {
            "costs": np.array([cohort_costs(hiv, x, two=two) for x in paths]),
            "life years": np.array([x.sum() for x in paths]),
        }
        for what, values in expected.items():
            found = judged[what][name]
            assert found.start_value == pytest.approx(values.mean(), rel=1e-10)
            assert found.start_epistemic_sd == pytest.approx(values.std(), rel=1e-6)


def test_aleatoric_sd_is_the_spread_of_the_length_of_life(
    hiv: ModuleType, yearly_and_models: tuple[list[np.ndarray], list]
) -> None:
    """With S(k) = P(alive at the end of year k), E L^2 = sum (2 k - 1) S(k)."""
    tables, models = yearly_and_models
    years = np.arange(1, 21)
    variances = []
    for table in tables:
        alive = cohort(hiv, table, two=True).sum(axis=1)
        variances.append(((2 * years - 1) * alive).sum() - alive.sum() ** 2)
    found = hiv.evaluations(models)["life years"]["two drugs"]
    assert found.start_aleatoric_sd == pytest.approx(np.sqrt(np.mean(variances)))


def test_draws_share_their_rows_over_the_years(
    hiv: ModuleType, yearly_and_models: tuple[list[np.ndarray], list]
) -> None:
    dense = yearly_and_models[1][7].to_dense()
    for year in range(1, 20):
        now, then = 3 * year, 3 * (year + 1)
        block = dense[now : now + 3, 0, then : then + 3]
        assert np.array_equal(block, dense[:3, 0, 3:6])


def test_the_probability_of_being_worth_it_counts_draws(
    hiv: ModuleType, yearly_and_models: tuple[list[np.ndarray], list]
) -> None:
    tables, models = yearly_and_models
    gain = []
    for table in tables:
        one, two = (cohort(hiv, table, two=x) for x in (False, True))
        costs = cohort_costs(hiv, two, two=True) - cohort_costs(hiv, one, two=False)
        gain.append((two.sum() - one.sum(), costs))
    life, costs = np.array(gain).T
    for threshold in (6200, 6275, 6400):
        expected = np.mean(threshold * life > costs)
        assert hiv.probability_worth_it(models, threshold) == pytest.approx(expected)


def test_the_example_prints_its_tables(
    hiv: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    yearly_and_models: tuple[list[np.ndarray], list],
) -> None:
    monkeypatch.setattr(hiv, "posterior_models", lambda: yearly_and_models[1])
    hiv.main()
    said = capsys.readouterr().out
    for figure in ("44663.45", "50601.65", "7.9912", "8.9374", "6275.96"):
        assert figure in said
    assert "epistemic sd" in said
    assert "worth it at 6300 a life year" in said


def test_psrl_stops_losing() -> None:
    psrl = load_example("psrl")
    curves = psrl.main(n_seeds=1, n_episodes=40)
    assert set(curves) == {"RiverSwim", "DeepSea"}
    for ways in curves.values():
        steps = np.diff(ways["PSRL"], prepend=0.0)
        assert (steps > -1e-9).all()  # nothing is better than the optimum
        assert steps[-10:].mean() < 0.5 * steps[:10].mean()
