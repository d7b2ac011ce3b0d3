"""What information is worth, against closed forms, enumeration and brute force."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from nested_oracle import agree, deterministic, nested
from scipy.stats import norm

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from bayesmdp.engine import workers
from bayesmdp.errors import ArgumentError, BeliefError
from bayesmdp.evaluation.paired import paired, sweep_paired
from bayesmdp.posterior import Draws

pytestmark = pytest.mark.filterwarnings("ignore::bayesmdp.errors.PriorWarning")

# Normal toy of the R package voi: net benefits 0 and p1 - p2, p1 ~ N(1, 1), p2 ~ N(0,
# sd 2); exact answers by the formula of two lines, with n0 = 1 for p1.
TOY = {"evpi": 0.4798107, "p1": 0.0833155, "p2": 0.3955931}
TOY_EVSI = {10: 0.0723251, 100: 0.0821176, 1000: 0.0831946}


@pytest.fixture(scope="module")
def toy() -> tuple[FloatArray, FloatArray]:
    p = np.random.default_rng(5).normal([1, 0], [1, 2], (60_000, 2))
    return np.stack([np.zeros(len(p)), p[:, 0] - p[:, 1]], axis=1), p


def lines(a: list[float], b: list[float]) -> float:
    from bayesmdp.information._moments import line_gains

    gain, share = np.empty(1), np.empty((1, len(a)))
    line_gains(np.array([a]), np.array([b]), gain, share)
    assert share.sum() == pytest.approx(1.0)
    return float(gain[0])


@pytest.mark.parametrize("n", [10, 100, 1000, 1e12])
def test_two_lines_give_the_toy_s_exact_answers(n: float) -> None:
    slope = float(np.sqrt(n / (n + 1)))
    u = 1 / slope
    assert lines([0, 1], [0, slope]) == pytest.approx(
        slope * (norm.pdf(u) - u * norm.cdf(-u)), rel=1e-12
    )
    exact = TOY_EVSI.get(int(n), TOY["p1"])
    assert lines([0, 1], [0, slope]) == pytest.approx(exact, abs=1e-7)
    assert lines([0, 1], [0, 5**0.5]) == pytest.approx(TOY["evpi"], abs=1e-7)


def test_many_lines_agree_with_numerical_integration() -> None:
    rng = np.random.default_rng(0)
    z = norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    for _ in range(20):
        a, b = rng.normal(size=(2, 9))
        b[3], a[4], b[5] = b[1], a[2], 0.0
        expected = (a + b * z[:, None]).max(axis=1).mean() - a.max()
        assert lines(a.tolist(), b.tolist()) == pytest.approx(expected, abs=3e-5)


def test_draws_alone_give_the_toy_s_answers(toy: tuple[FloatArray, FloatArray]) -> None:
    y, p = toy
    found = {
        "evpi": bm.information.evpi(y),
        "p1": bm.information.evppi(y, p[:, 0]),
        "p2": bm.information.evppi(y, p[:, 1]),
    }
    for name, estimate in found.items():
        assert 0 < estimate.mcse < 0.006
        assert abs(estimate.value - TOY[name]) < 3.5 * estimate.mcse
    both = bm.information.evppi(y, p)
    assert abs(both.value - TOY["evpi"]) < 3.5 * both.mcse
    for n, exact in TOY_EVSI.items():
        found_n = bm.information.evsi(y, p[:, 0], n, 1)
        assert abs(found_n.value - exact) < 3.5 * found_n.mcse


def test_errors_of_regression_are_calibrated() -> None:
    z = []
    for seed in range(60):
        p = np.random.default_rng(seed).normal([1, 0], [1, 2], (1500, 2))
        y = np.stack([np.zeros(len(p)), p[:, 0] - p[:, 1]], axis=1)
        found = bm.information.evppi(y, p[:, 0])
        z.append((found.value - TOY["p1"]) / found.mcse)
    # 60 of sd 1: an sd beyond 0.7 and 1.4 has a probability below 0.1 %
    assert 0.7 < np.std(z) < 1.4
    assert abs(np.mean(z)) < 0.6  # the split costs a little


def test_the_casino_is_told_apart_by_one_game() -> None:
    casino = bm.worlds.casino()
    both = {"play": [0, 0, 0], "leave": [1, 0, 0]}
    info = bm.value_of_information(casino, both, n_visits=(1, 5))
    # models: win at once 10 * 0.99 - 1, or lose for ever -100; leaving is worth -1
    gain = 0.5 * (10 * 0.99 - 1 + 1)
    assert info.evpi == pytest.approx(gain)
    assert info.evpi_bound == pytest.approx(gain)
    assert info.evppi[0].tolist() == pytest.approx([gain, 0.0])
    assert info.evsi[:, 0, 0] == pytest.approx([gain, gain])
    assert info.switch_evppi[0, 0] == pytest.approx(gain)
    assert info.evppi_mcse.max() == 0


def test_switches_that_were_not_evaluated_are_not_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bayesmdp.information._value._SWITCHES", 0)
    info = bm.value_of_information(bm.worlds.casino(), [[0, 0, 0], [1, 0, 0]])
    assert not info.confirmed.any()
    assert np.isnan(info.switch_evppi_mcse[0]).all()


def test_visits_to_a_row_of_an_ensemble_follow_bayes_rule() -> None:
    task = bm.Task(3, 2, [0, 1, 0], discount=1.0, start=0, terminal=[1, 2])
    models = []
    for p in (0.3, 0.7):
        dense = np.zeros((3, 2, 3))
        dense[0, 0, 1:], dense[0, 1, 1:] = (p, 1 - p), (0.6, 0.4)
        dense[1, :, 1] = dense[2, :, 2] = 1.0
        models.append(dense)
    ensemble = bm.Ensemble(models, task)
    info = bm.value_of_information(ensemble, [[0, 0, 0], [1, 0, 0]], n_visits=(3,))
    wins = np.arange(4)
    like = np.array(
        [[1, 3, 3, 1] * p**wins * (1 - p) ** (3 - wins) for p in (0.3, 0.7)]
    )
    after = like / like.sum(axis=0)
    best = np.maximum(np.array([0.3, 0.7]) @ after, 0.6)
    exact = float(best @ like.mean(axis=0)) - 0.6
    found, error = info.evsi[0, 0, 0], info.evsi_mcse[0, 0, 0]
    assert abs(found - exact) < 3.5 * error < 0.03
    assert info.evppi[0].tolist() == pytest.approx([0.05, 0.0])


def test_many_models_are_taken_for_draws() -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(2)
    task = bm.Task(3, 2, [0, 1, 0], discount=1.0, start=0, terminal=[1, 2])
    p = np.stack([rng.beta(6, 4, 3000), rng.beta(12, 8, 3000)], axis=1)
    models = np.zeros((3000, 3, 2, 3))
    models[:, 0, :, 1], models[:, 0, :, 2] = p, 1 - p
    models[:, 1, :, 1] = models[:, 2, :, 2] = 1.0
    ensemble = bm.Ensemble(models[:1500], task)
    info = bm.value_of_information(ensemble, [[0, 0, 0], [1, 0, 0]], n_visits=(10,))
    many = rng.beta(6, 4, 1_000_000)
    exact = np.maximum(many, 0.6).mean() - 0.6
    assert abs(info.evppi[0, 0] - exact) < 3.5 * info.evppi_mcse[0, 0]
    seen = rng.binomial(10, many)
    exact = np.maximum((6 + seen) / 20, 0.6).mean() - 0.6  # n0 = 10
    assert abs(info.evsi[0, 0, 0] - exact) < 3.5 * info.evsi_mcse[0, 0, 0] + 0.002


def two_rows(rng: np.random.Generator) -> tuple[FloatArray, None]:
    dense = np.zeros((3, 2, 3))
    p = rng.beta([6, 12], [4, 8])
    dense[0, :, 1], dense[0, :, 2] = p, 1 - p
    dense[1, :, 1] = dense[2, :, 2] = 1.0
    return dense, None


def test_a_sample_of_few_models_is_taken_for_draws_too() -> None:
    pytest.importorskip("sklearn")
    task = bm.Task(3, 2, [0, 1, 0], discount=1.0, start=0, terminal=[1, 2])
    ensemble = bm.Ensemble.from_function(two_rows, 100, task=task)
    info = bm.value_of_information(ensemble, [[0, 0, 0], [1, 0, 0]], n_visits=(10,))
    # a row of a sample is its own, and would give the whole model away
    assert (info.evppi[0] < info.evpi).all()
    assert info.evppi_mcse[0].min() > 0
    p = np.random.default_rng(0).beta([6, 12], [4, 8], (100_000, 2))
    exact = p.max(axis=1).mean() - 0.6
    assert abs(info.evpi - exact) < 3.5 * info.evpi_mcse
    assert 0 < info.evpi_mcse < info.evpi
    assert info.values_mcse.max() > 0


def test_copies_of_a_model_do_not_value_what_they_decide() -> None:
    """A row that says nothing is worth nothing, also where weights differ."""
    pytest.importorskip("sklearn")
    from bayesmdp.information._samples import ModelStudy

    rng = np.random.default_rng(3)
    task = bm.Task(3, 2, [0, 1, 0], discount=1.0, start=0, terminal=[1, 2])
    models = [two_rows(rng)[0] for _ in range(120)]
    found = []
    for _ in range(60):
        weights = rng.dirichlet(np.ones(120))
        ensemble = bm.Ensemble(models, task, weights=weights)
        h = np.arange(ensemble.layout.next_state.size) % 2.0
        gaps = np.stack([np.zeros(120), rng.normal(size=120)])
        value, error = ModelStudy(ensemble, h, 0).gain([0], gaps, None)
        found.append(value)
        assert error > 0
    # beyond 3 errors of a mean that is 0: 0.3 %; with copies on both sides it is 0.07
    assert abs(np.mean(found)) < 3 * np.std(found) / 60**0.5 < 0.05


def test_errors_of_regression_hold_the_draws_of_the_rest() -> None:
    """Gains ``c x`` of one option, ``c`` by draw of the rest, ``x`` by draw of rows."""
    from bayesmdp.information._nested import Options, _cubic, _regressed

    rng, z = np.random.default_rng(0), []
    options = Options(
        np.arange(2), np.ones((2, 1)), np.zeros(2), lambda share: np.zeros(())
    )
    for _ in range(60):
        x, c = rng.normal(size=400), rng.normal(1, 0.8, 12)
        values = np.stack([np.zeros((400, 12)), np.outer(x, c)])
        value, error = _regressed(values, _cubic(x), options)
        z.append((value - norm.pdf(0)) / error)  # E max(x, 0)
    # 60 of sd 1: an sd beyond 0.7 and 1.4 has a probability below 0.1 %
    assert 0.7 < np.std(z) < 1.4


@pytest.mark.parametrize("pair", [(1, 0), (2, 1)])
def test_rows_and_visits_agree_with_nested_draws(pair: tuple[int, int]) -> None:
    world = bm.worlds.synthetic(1, 3, 2)
    prior = bm.SymmetricPrior()
    posterior = bm.fit(world.sample(60, seed=0), world.task, prior=prior)
    policies = deterministic(3)
    info = bm.value_of_information(posterior, list(policies), n_visits=(10, 100))
    s, a = pair
    for i, n in enumerate((None, 10, 100)):
        oracle = nested(posterior, policies, pair, n, 200, 300, seed=3)
        value = info.evppi[s, a] if n is None else info.evsi[i - 1, s, a]
        error = info.evppi_mcse[s, a] if n is None else info.evsi_mcse[i - 1, s, a]
        assert agree((value, error), oracle), (n, value, error, oracle)


def test_first_order_is_exact_where_values_are_linear() -> None:
    """One decision, then the end: lines are exact, and nested draws agree."""
    task = bm.Task(4, 2, [0, 1, 0.4, 0], discount=1.0, start=0, terminal=[1, 2, 3])
    counts = bm.Counts.from_arrays(
        [0] * 6, [0, 0, 0, 1, 1, 1], [1, 2, 3] * 2, [60, 30, 90, 50, 80, 40]
    )
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
    both = [[0, 0, 0, 0], [1, 0, 0, 0]]
    quick = bm.value_of_information(posterior, both, n_confirmed=0, n_draws=5000)
    slow = bm.value_of_information(posterior, both, n_draws=5000)
    assert not quick.confirmed.any()
    assert np.isnan(quick.switch_evppi_mcse[0]).all()  # not exact
    assert np.isfinite(slow.switch_evppi_mcse).all()
    assert "first-order" in quick.summary()
    assert "first-order" not in slow.summary()
    assert quick.to_dict()["states"][0]["switch_evsi_mcse"] is None
    assert slow.confirmed.tolist() == [True, False, False, False]
    total = posterior.layout.row_sums(posterior.alpha)
    assert quick.prior_visits[0] == pytest.approx(total)
    for name in ("evppi", "evsi", "state_evppi", "state_evsi", "switch_evsi"):
        fast, sure = getattr(quick, name), getattr(slow, name)
        approximate = np.nan_to_num(getattr(quick, f"{name}_mcse"))
        error = getattr(slow, f"{name}_mcse") + approximate
        assert (np.abs(fast - sure) <= 3.5 * error + 0.03 * sure + 1e-12).all(), name
    # the switch is the same decision as the choice among the two policies
    assert slow.switch_evppi == pytest.approx(slow.evppi, abs=2e-4)


def test_more_is_worth_more_and_never_more_than_everything() -> None:
    world = bm.worlds.gridworld()
    prior = bm.SymmetricPrior(support=world.support)
    posterior = bm.fit(world.sample(500, seed=0), world.task, prior=prior)
    info = bm.value_of_information(posterior, n_confirmed=0, seed=1)
    assert (np.diff(info.evsi, axis=0) >= -1e-12).all()
    assert (info.evsi <= info.evppi + 1e-12).all()
    assert (info.evppi <= info.state_evppi[:, None] + 1e-3).all()
    assert info.evppi.max() <= info.evpi <= info.evpi_bound
    assert (info.evppi[~info.available] == 0).all()
    assert info.patients_visits[world.task.terminal].max() == 0
    assert len(info.to_pandas()) == 4 * info.available.sum()
    again = bm.value_of_information(posterior, n_confirmed=0, seed=1, threads=1)
    assert np.array_equal(again.evppi, info.evppi)


def test_covariances_of_a_shared_state_agree_with_draws() -> None:
    world = bm.worlds.synthetic(2, 4, 3)
    posterior = bm.fit(world.sample(150, seed=0), world.task)
    layout, rng = posterior.rows().layout, np.random.default_rng(0)
    h = rng.normal(size=layout.next_state.size)
    found = posterior.state_covariance(h)
    theta = np.empty((20_000, h.size))
    used = np.ones(layout.pair.size, dtype=np.bool_)
    posterior.stream(20_000, 0, "test").fill(np.arange(20_000), used, theta)
    x = np.add.reduceat(theta * h, layout.indptr[:-1], axis=1)
    for s in range(4):
        row = np.flatnonzero(layout.state == s)
        assert found[s] == pytest.approx(np.cov(x[:, row].T), rel=0.15, abs=0.003)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"policies": 3}, "`policies` must be a dict"),
        ({"policies": {}}, "`policies` holds none"),
        ({"n_visits": ()}, "`n_visits` must be whole numbers"),
        ({"n_visits": (0,)}, "`n_visits` must be at least 1"),
        ({"n_patients": -1}, "`n_patients` must be at least 0"),
    ],
)
def test_bad_arguments_are_named(given: dict[str, object], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        bm.value_of_information(bm.worlds.casino(), **given)  # type: ignore[arg-type]


def test_samples_that_do_not_fit_are_named() -> None:
    with pytest.raises(ArgumentError, match="a row for each of 2 draws"):
        bm.information.evppi([[0, 1], [1, 0]], [1, 2, 3])
    with pytest.raises(ArgumentError, match="`n0` must be"):
        bm.information.evsi([[0, 1], [1, 0]], [1, 2], 3, -1)
    with pytest.raises(ArgumentError, match="2 draws"):
        bm.information.evpi([[1, 2]])


@pytest.mark.parametrize(("n_parameters", "coefficients"), [(1, 8), (2, 36), (4, 21)])
def test_a_regression_needs_draws(n_parameters: int, coefficients: int) -> None:
    x = np.random.default_rng(0).normal(size=(50 * coefficients, n_parameters))
    y = np.stack([np.zeros(len(x)), x[:, 0]], axis=1)
    bm.information.evppi(y, x)  # without a warning
    ask = {
        "evppi": bm.information.evppi,
        "evsi": partial(bm.information.evsi, n=1, n0=1),
    }
    for found in ask.values():
        with pytest.warns(bm.BayesmdpWarning, match=f"are few .* {coefficients} coeff"):
            found(y[:-1], x[:-1])
        few = 10 * coefficients
        with pytest.raises(ArgumentError, match=f"must have {few} draws .* {few - 1}:"):
            found(y[: few - 1], x[: few - 1])


@pytest.fixture(scope="module")
def walks() -> bm.Posterior:
    world = bm.worlds.gridworld()
    log = world.simulate(np.full((25, 4), 0.25), 15, seed=0)
    prior = bm.SymmetricPrior(support=world.support)
    return bm.fit(log, world.task, prior=prior)


def test_a_trial_is_safe_and_says_what_it_brings(walks: bm.Posterior) -> None:
    plan = bm.next_trial(walks, 30, sizes=(10,), n_truths=6, seed=2)
    assert plan.policy.sum(axis=1)[walks.task.live] == pytest.approx(1.0)
    assert (plan.policy[~walks.available] == 0).all()
    assert plan.probability_no_worse >= 0.95
    draws = Draws(walks, 1000, 2, "trial report")  # that chose nothing
    with workers(1, None) as pool:
        swept = sweep_paired(np.stack([plan.baseline, plan.policy]), draws, pool=pool)
    sure = (paired(swept, 0)[0][1] >= 0).mean()
    assert plan.probability_no_worse == pytest.approx(sure, abs=1e-9)
    both = {"baseline": plan.baseline, "trial": plan.policy}
    table = bm.compare(both, walks.draws(3000, seed=9), reference="baseline")
    row = next(x for x in table.rows if x.name == "trial")
    sure = (row.probability_better or 0) + (row.probability_tied or 0)
    assert abs(sure - plan.probability_no_worse) < 4 * plan.probability_no_worse_mcse
    assert abs(row.difference - plan.difference) < 4 * np.hypot(
        row.difference_mcse, plan.difference_mcse
    )
    assert len(plan.outcomes) == 6  # three designs, two sizes
    own = next(x for x in plan.outcomes if (x.design, x.n_patients) == ("trial", 30))
    assert plan.expected_value == own.expected_value
    assert own.expected_value == pytest.approx(plan.value_now + own.gain)
    assert "A trial of 30 patients" in plan.summary()
    only = replace(plan, explored=1.0, anchor="exploring only")
    assert "\n  exploring only\n" in only.summary()
    assert len(plan.to_pandas()) == 6


def test_nothing_is_safe_but_the_baseline_when_all_must_be_sure() -> None:
    world = bm.worlds.synthetic(0, 3, 2)
    posterior = bm.fit(world.simulate([0, 1, 0], 2, seed=0, max_steps=20), world.task)
    plan = bm.next_trial(
        posterior, 5, safe=1.0, sizes=(), n_truths=2, max_steps=10, seed=0
    )
    assert plan.probability_no_worse == 1.0


def test_means_after_visits_are_those_of_an_update(walks: bm.Posterior) -> None:
    visits = np.random.default_rng(0).poisson(0.4, walks.alpha.size).astype(float)
    layout = walks.layout
    row, seen = layout.row_of_entry, np.flatnonzero(visits)
    more = bm.Counts.from_arrays(
        layout.state[row][seen],
        layout.action[row][seen],
        layout.next_state[seen],
        visits[seen].astype(int),
        n_states=25,
        n_actions=4,
    )
    exact = walks.update(more).mean().probability
    assert walks.mean_after(visits) == pytest.approx(exact)


def test_means_after_visits_follow_a_new_fit_where_actions_share() -> None:
    world = bm.worlds.synthetic(2, 4, 3)
    before = bm.fit(world.sample(150, seed=0), world.task)
    more = world.sample(300, seed=1).counts()
    layout = before.rows().layout
    _, entry = layout.find(more.state, more.action, more.next_state)
    visits = np.zeros(layout.next_state.size)
    visits[entry] = more.count
    fresh = before.update(more).mean().probability
    found = before.mean_after(visits)
    assert np.add.reduceat(found, layout.indptr[:-1]) == pytest.approx(1.0)
    assert (
        np.abs(found - fresh).mean() < 0.25 * np.abs(before.rows().mean - fresh).mean()
    )


def test_beliefs_that_visits_cannot_update_are_refused() -> None:
    with pytest.raises(BeliefError, match="cannot be updated by visits alone"):
        bm.next_trial(bm.worlds.casino(), baseline=[0, 0, 0])
