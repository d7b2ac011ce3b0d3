"""Calibration: exact tests of uniformity, known posteriors, and what must fail."""

import dataclasses
import itertools
import json
import sys
from collections import Counter
from concurrent.futures import Executor, Future
from typing import Any

import bad_input
import numpy as np
import pytest
from scipy import stats

import bayesmdp as bm
from bayesmdp.diagnostics import Calibration, Episodes, plot_calibration
from bayesmdp.diagnostics import _simulated_data as study_of
from bayesmdp.diagnostics import _simulated_data as truths
from bayesmdp.errors import ArgumentError

pytestmark = pytest.mark.integration

TASK = bm.worlds.synthetic(0, 3, 2, discount=0.8).task
ENDING = bm.Task(  # 0 stays or ends, and pays 1 at the end
    2, 1, reward=([0], [0], [1], [1.0]), discount=0.5, start=0, terminal=[1]
)
ROW = bm.Task(  # one row of five entries: its value is the mean of known rewards
    5,
    1,
    reward=([0] * 4, [0] * 4, [1, 2, 3, 4], [1.0, -1.0, 2.0, 0.5]),
    discount=0.5,
    start=0,
    terminal=[1, 2, 3, 4],
)
FLAT = bm.SymmetricPrior(1.0)
SURE = bm.SymmetricPrior(0.02)  # believes what it saw
SETS = bm.RandomSupportPrior(1.0, 0.9)
NO_ZERO = bm.RandomSupportPrior(0.5, 0.7, support=np.arange(3) > np.zeros((3, 1)))
FEW: dict[str, Any] = {"n_draws": 99, "levels": (0.5, 0.8, 0.9)}
BRIEF: dict[str, Any] = {**FEW, "n_datasets": 20}


def same(a: Calibration, b: Calibration) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True)
        for name in ("ranks", "truths", "predicted", "covered", "bias")
    ) and np.array_equal(a.p_values, b.p_values, equal_nan=True)


# ---------------------------------------------------------------- true models


def test_a_hierarchical_truth_has_the_evidence_of_its_prior() -> None:
    """Frequencies of counts of one row, against the exact model; error rate 1e-4."""
    task = bm.Task(3, 1, reward=[0, 0, 1], discount=0.9, terminal=[1, 2])
    prior = bm.RandomSupportPrior(0.5, 0.6)
    source = truths.source_of(prior, task, "truth")
    rng = np.random.default_rng(0)
    seen = Counter(
        tuple(rng.multinomial(2, source.draw(rng).probability).tolist())
        for _ in range(4_000)
    )
    wanted = {}
    for counts in itertools.product(range(3), repeat=3):
        if sum(counts) == 2:
            data = bm.Counts.from_arrays([0] * 3, [0] * 3, [0, 1, 2], counts)
            log = bm.fit(data, task, prior=prior).log_evidence()
            wanted[counts] = (2 if max(counts) == 1 else 1) * np.exp(log)
    assert sum(wanted.values()) == pytest.approx(1)
    expected = np.array([4_000 * p for p in wanted.values()])
    found = np.array([seen[counts] for counts in wanted])
    assert stats.chisquare(found, expected).pvalue > 1e-4


@pytest.mark.parametrize("base", [SETS, NO_ZERO], ids=["inside", "outside"])
def test_imagined_visits_multiply_the_density_of_a_hierarchical_truth(
    base: bm.RandomSupportPrior,
) -> None:
    """Against rejection: ``theta`` is kept with chance ``theta[0]^w``; error 1e-4.

    Outside the support the set is drawn as without the fallback.
    """
    task = bm.Task(3, 1, reward=[0, 0, 1], discount=0.9, terminal=[1, 2])
    weight, rng = 1.5, np.random.default_rng(1)
    source = truths.source_of(bm.FallbackPrior(base, 0, weight), task, "truth")
    theta = np.stack([source.draw(rng).probability for _ in range(2000)])
    plain = truths.source_of(base, task, "truth")
    draws = [plain.draw(rng).probability for _ in range(6000)]
    if base is SETS:
        kept = np.array([x for x in draws if rng.random() < x[0] ** weight])
    else:
        sets = [np.append([weight], np.where(x > 0, 0.5, 0.0)) for x in draws[:2000]]
        kept = np.zeros((2000, 3))
        for row, alpha in zip(kept, sets, strict=True):
            row[alpha > 0] = rng.dirichlet(alpha[alpha > 0])
    assert len(kept) > 1000
    patterns = [Counter(map(tuple, (x > 0).tolist())) for x in (theta, kept)]
    every = sorted(set(patterns[0]) | set(patterns[1]))
    counted = [[count[pattern] for pattern in every] for count in patterns]
    assert stats.chi2_contingency(counted).pvalue > 1e-4
    for t in range(3):
        assert stats.ks_2samp(theta[:, t], kept[:, t]).pvalue > 1e-4


@pytest.mark.parametrize("concentration", [0.05, 0.3, 4.0])
def test_entries_of_a_dirichlet_truth_are_beta_variates(concentration: float) -> None:
    """Kolmogorov's test of six entries; error rate 1e-3 a case."""
    prior = bm.FallbackPrior(bm.SymmetricPrior(concentration), 1, 2.0)
    source = truths.source_of(prior, TASK, "truth")
    rng = np.random.default_rng(2)
    theta = np.stack([source.draw(rng).probability for _ in range(500)])[:, :6]
    alpha = np.tile([concentration, concentration + 2, concentration], 2)
    total = 3 * concentration + 2
    for entry, a in zip(theta.T, alpha, strict=True):
        marginal = stats.beta(a, total - a)
        assert stats.kstest(entry, marginal.cdf).pvalue > 1e-3 / 6


def test_true_quantities_are_those_of_a_sure_belief() -> None:
    tasks = [TASK, bm.worlds.gridworld().task, bad_input.task(start=[0.5, 0.2, 0.3])]
    for task in tasks:
        source = truths.source_of(FLAT, task, "truth")
        theta = source.draw(np.random.default_rng(3))
        rng = np.random.default_rng(4)
        shape = (2, task.n_states)
        policies = rng.dirichlet(np.ones(task.n_actions), shape)
        found = study_of._of_truth(policies, theta, task).reshape(2, 2)
        sure = bm.Ensemble([theta], task)
        for policy, (value, variance) in zip(policies, found, strict=True):
            wanted = bm.evaluate(policy, sure.draws())
            assert value == pytest.approx(wanted.start_value, rel=1e-12)
            assert variance == pytest.approx(wanted.start_aleatoric_sd**2, rel=1e-10)


# ---------------------------------------------------------------- a known posterior


def beta_positions(n: int, n_visits: int) -> np.ndarray:
    """Exact posterior probability of a smaller value, in each dataset ``[n]``.

    The value is ``q / (1 - g (1 - q))`` for a chance ``q`` of ending, which rises with
    ``q``; ``q`` is Beta(1 + ends, 1 + stays) after the data.
    """
    source = truths.source_of(FLAT, ENDING, "truth")
    visits = np.array([n_visits])
    study = study_of.Study(
        ENDING, FLAT, source, visits, np.ones((2, 1)), None, 0, 99, 0
    )
    out = []
    for dataset in range(n):
        rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(dataset,)))
        theta = source.draw(rng)
        ends = study_of._simulate(study, theta, rng).to_dense()[0, 0, 1]
        belief = stats.beta(1 + ends, 1 + n_visits - ends)
        out.append(belief.cdf(theta.probability[1]))
    return np.array(out)


def test_ranks_and_coverage_are_those_of_the_beta_posterior() -> None:
    """Given its position u, a rank is Binomial(n_draws, u); error rate 1e-4 a line."""
    found = bm.check_calibration(
        ENDING, FLAT, n_visits=5, n_datasets=200, n_draws=999, choose=None
    )
    u = beta_positions(200, 5)
    score = (found.ranks[:, 0] - 999 * u) / np.sqrt(999 * u * (1 - u))
    assert abs(score.mean()) < 3.9 / np.sqrt(200)
    inside = np.abs(u - 0.5) < found.levels[:, None] / 2
    # draws move an end of an interval by 0.01 or so: few datasets change sides
    changed = np.abs(inside.mean(axis=1) - found.covered[:, 0])
    assert (changed < 0.03).all()
    assert stats.kstest(u, "uniform").pvalue > 1e-4


# ---------------------------------------------------------------- what must pass

GENERATING = {
    "symmetric": (FLAT, 4),
    "sparse symmetric": (bm.SymmetricPrior(0.1), 4),
    "scaled": (bm.ScaledPrior(1.0), 4),
    "fallback": (bm.FallbackPrior(bm.ScaledPrior(2.0), 0, 1.0), 4),
    "sets": (SETS, 1),
    "sets, fallback": (bm.FallbackPrior(SETS, 0, 1.5), 2),
    "mixture": (
        bm.MixturePrior([SETS, FLAT, bm.FallbackPrior(NO_ZERO, 0, 0.7)]),
        2,
    ),
    "episodes": (FLAT, Episodes(np.full((3, 2), 0.5), 3, max_steps=6)),
    "some pairs never": (FLAT, [[5, 0], [0, 3], [1, 1]]),
}


@pytest.mark.parametrize("name", GENERATING)
def test_priors_that_generate_data_are_calibrated(name: str) -> None:
    """Fixed seed; error rate 1 % for each."""
    prior, n_visits = GENERATING[name]
    found = bm.check_calibration(TASK, prior, n_visits=n_visits, n_datasets=200, **FEW)
    assert found.passed, found.summary()
    assert found.verdict.startswith("Calibrated: in 200 datasets")
    assert (np.abs(found.bias) < 4 * found.bias_mcse).all()
    assert (np.abs(found.covered - found.levels[:, None]) < 0.13).all()


def test_what_does_not_depend_on_the_model_is_always_covered() -> None:
    task = bm.Task(3, 2, reward=[1, 1, 1], discount=0.9)  # 10, whatever happens
    found = bm.check_calibration(task, FLAT, n_datasets=200, **FEW)
    assert (found.covered == 1).all()
    assert np.abs(found.bias).max() < 1e-12
    assert found.passed  # ties are broken at random
    assert found.ranks.min() < 10
    assert found.ranks.max() > 90


# ---------------------------------------------------------------- what must fail


def test_one_dirichlet_a_row_in_place_of_random_sets_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows with the exact mean that leave out the sets' uncertainty are too narrow."""

    def narrow(*data: Any, **more: Any) -> bm.Posterior:
        return dataclasses.replace(bm.fit(*data, **more), sets=None)

    monkeypatch.setattr(study_of, "fit", narrow)
    found = bm.check_calibration(
        ROW, SETS, n_visits=3, n_datasets=150, choose=None, **FEW
    )
    assert not found.passed
    assert found.covered[2, 0] < 0.9 - 2.5 * np.sqrt(0.09 / 150)
    assert abs(found.bias[0]) < 4 * found.bias_mcse[0]  # the mean is right
    monkeypatch.undo()
    right = bm.check_calibration(
        ROW, SETS, n_visits=3, n_datasets=150, choose=None, **FEW
    )
    assert right.passed, right.summary()


def test_a_wrong_prior_fails_and_the_optimiser_is_cursed() -> None:
    """Three visits, and a prior that believes them: the choice is what goes wrong."""
    found = bm.check_calibration(
        TASK, SURE, truth=FLAT, n_visits=3, n_datasets=200, **FEW
    )
    assert not found.passed
    assert found.p_values[2] < 1e-9
    assert "optimised value" in found.verdict
    assert "more than the true one" in found.verdict
    fixed, chosen = found.covered[2, 0], found.covered[2, 2]
    assert chosen < 0.9 - 5 * np.sqrt(0.09 / 200)
    assert chosen < fixed
    assert found.bias[2] > 5 * found.bias_mcse[2]
    assert "optimised value" in found.short


def test_a_prior_with_too_much_weight_covers_too_much_or_promises_too_little() -> None:
    heavy = bm.SymmetricPrior(50.0)
    found = bm.check_calibration(
        TASK, heavy, truth=FLAT, n_visits=3, n_datasets=200, **FEW
    )
    assert not found.passed
    assert found.covered[2, 0] < 0.5  # sure of the mean, whatever is seen


def test_a_known_world_is_judged_by_coverage_alone() -> None:
    world = bm.worlds.synthetic(5, 3, 2, discount=0.8)
    sparse = bm.SparsePrior(0.01, fallback=0)
    found = bm.check_calibration(
        world.task, sparse, truth=world, n_visits=2, n_datasets=150, **FEW
    )
    assert np.isnan(found.p_values).all()
    assert np.ptp(found.truths[:, 0]) == 0
    policy = np.full((3, 2), 0.5)
    wanted = world.task.start @ world.value(policy)
    assert found.truths[0, 0] == pytest.approx(wanted, rel=1e-12)
    assert not found.passed
    assert "cover too little" in found.verdict
    assert found.to_dict()["quantities"][0]["p_value"] is None
    wide = bm.check_calibration(
        world.task, FLAT, truth=world, n_visits=50, n_datasets=100, **FEW
    )
    assert wide.passed, wide.summary()
    assert wide.verdict.startswith("No shortfall")


# ---------------------------------------------------------------- one run, any way


class Backwards(Executor):
    """Runs what waits, the last first, once a result is asked for."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        executor = self

        class Asked(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                while executor.waiting:
                    future, work = executor.waiting.pop()
                    future.set_result(work())
                return super().result(timeout)

        future = Asked()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future


def test_neither_threads_nor_order_nor_company_matter() -> None:
    wanted = bm.check_calibration(TASK, FLAT, **FEW, n_datasets=40, threads=1)
    assert same(
        bm.check_calibration(TASK, FLAT, **FEW, n_datasets=40, threads=3), wanted
    )
    other = bm.check_calibration(TASK, FLAT, **FEW, n_datasets=40, executor=Backwards())
    assert same(other, wanted)
    fewer = bm.check_calibration(TASK, FLAT, **BRIEF)
    assert np.array_equal(fewer.ranks, wanted.ranks[:20])
    assert not same(
        bm.check_calibration(TASK, FLAT, **FEW, n_datasets=40, seed=1), wanted
    )


# ---------------------------------------------------------------- records


def test_the_record_counts_and_tells() -> None:
    found = bm.check_calibration(
        TASK, FLAT, **FEW, n_datasets=60, n_visits=[[3, 3]] * 3
    )
    assert found.ranks.shape == (60, 4)
    low, high = found.ranks.min(axis=0), found.ranks.max(axis=0)
    assert (low >= 0).all()
    assert (high <= 99).all()
    inside = (found.ranks >= 5) & (found.ranks <= 94)
    assert np.array_equal(found.covered[2], inside.mean(axis=0))
    gap = found.predicted - found.truths
    assert np.allclose(found.bias, gap.mean(axis=0))
    json.dumps(found.to_dict(), allow_nan=False)
    text = found.summary()
    assert all(f"\n{name}  " in text for name in found.quantities)
    assert text.endswith(found.verdict)
    assert repr(found) == "Calibration(60 datasets, passed)"
    share = found.curves["share"]
    assert share[19].tolist() == (found.ranks < 50).mean(axis=0).tolist()
    for array in (found.ranks, found.covered, share):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_without_a_choice_there_is_one_policy() -> None:
    found = bm.check_calibration(TASK, FLAT, **BRIEF, choose=None)
    assert found.quantities == ("value", "aleatoric variance")
    both = bm.check_calibration(TASK, FLAT, **BRIEF)
    assert np.allclose(found.truths, both.truths[:, :2], rtol=1e-12)


def test_a_picture_has_two_axes_a_quantity() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    found = bm.check_calibration(TASK, FLAT, **BRIEF)
    figure = plot_calibration(found)
    assert [ax.get_title() for ax in figure.axes[:4]] == list(found.quantities)
    (curve, _) = figure.axes[0].lines
    share = found.curves["share"][:, 0] - found.curves["point"]
    assert np.allclose(curve.get_ydata()[1:-1], share)
    mine = figures.Figure()
    assert plot_calibration(found, mine.subplots(2, 4)) is mine
    with pytest.raises(ArgumentError, match="`axes` must have shape"):
        plot_calibration(found, mine.subplots(1, 2))


def test_a_picture_without_matplotlib_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = bm.check_calibration(TASK, FLAT, **BRIEF)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ArgumentError, match=r'pip install "bayesmdp\[plots\]"'):
        plot_calibration(found)
