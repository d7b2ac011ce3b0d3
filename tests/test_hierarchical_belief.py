"""The hierarchical belief against answers found another way."""

import gc
from functools import cache
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln

import bayesmdp as bm
from bayesmdp.posterior import _hierarchical

Array = NDArray[np.float64]

ENDS = bm.Task(3, 2, [0, 1, 0], discount=0.9, terminal=[1, 2], start=[1, 0, 0])
SUPPORT = np.array([[0, 1, 1], [0, 1, 0], [0, 0, 1]], dtype=bool)
PRIOR = bm.HierarchicalPrior("uniform", support=SUPPORT)
GRID = bm.worlds.gridworld()


@cache
def fitted(n: int) -> bm.posterior.HierarchicalPosterior:
    """Return what ``n`` transitions of the gridworld say."""
    return bm.fit(GRID.sample(n, seed=0), GRID.task)


def two_arms(first: tuple[int, int], second: tuple[int, int]) -> bm.Counts:
    count = [*first, *second]
    return bm.Counts.from_arrays(
        np.repeat([0] * 4, count),
        np.repeat([0, 0, 1, 1], count),
        np.repeat([1, 2, 1, 2], count),
        n_states=3,
        n_actions=2,
    )


def by_quadrature(n: Array) -> tuple[Array, Array, float]:
    """Mean [2] and covariance [2, 2] of the arms' chance, and P(no effect).

    On grids of mu, log k and log c; locations and scales, and w, by sums.
    """
    mu = 1 / (1 + np.exp(-np.linspace(-12, 12, 801)))[:, None]
    jacobian = (mu * (1 - mu))[:, 0]
    log_k = np.linspace(np.log(0.1) - 8, np.log(1e4) + 8, 300)
    of_k = np.zeros(log_k.size)
    for location in np.linspace(np.log(0.1), np.log(1e4), 200):
        for log_scale in np.linspace(np.log(0.3), np.log(3.0), 60):
            z = (log_k - location) / np.exp(log_scale)
            of_k += np.exp(-0.5 * z**2 - log_scale)
    a = np.exp(log_k)[None] / 2
    log_mu = gammaln(2 * a) - 2 * gammaln(a) + (a - 1) * np.log(mu * (1 - mu))
    each = np.exp(log_mu) * jacobian[:, None]
    sharp = log_k > np.log(100)  # where the grid of mu holds it all, if coarsely
    each[:, sharp] /= each[:, sharp].sum(axis=0) * 0.03
    prior = each @ of_k  # of mu, k integrated out
    log_c = np.linspace(0.0, np.log(100 * n.sum(axis=1).max()), 30)
    slab = np.zeros(30)
    for location in np.linspace(0, log_c[-1], 200):
        for log_scale in np.linspace(np.log(0.3), np.log(6.0), 60):
            shape = np.exp(-0.5 * ((log_c - location) / np.exp(log_scale)) ** 2)
            slab += (shape + 0.03) / (shape + 0.03).sum()
    slab *= 0.5 / slab.sum()
    c = np.exp(log_c)[None]
    fit = np.zeros((mu.size, 31))
    for x, y in n:
        up, down = c * mu, c * (1 - mu)
        fit[:, :30] += gammaln(c) - gammaln(c + x + y) + gammaln(up + x) - gammaln(up)
        fit[:, :30] += gammaln(down + y) - gammaln(down)
        fit[:, 30] += (x * np.log(mu) + y * np.log(1 - mu))[:, 0]
    weight = prior[:, None] * np.r_[slab, 0.5] * np.exp(fit - fit.max())
    weight /= weight.sum()
    strength = np.r_[c[0], np.inf]
    mean = np.empty((2, mu.size, 31))
    spread = np.zeros_like(mean)
    for i, (x, y) in enumerate(n):
        with np.errstate(invalid="ignore"):
            one = (strength * mu + x) / (strength + x + y)
        one[:, 30] = mu[:, 0]
        mean[i] = one
        spread[i] = one * (1 - one) / (strength + x + y + 1)
    average = (mean * weight).sum(axis=(1, 2))
    off = mean - average[:, None, None]
    covariance = np.einsum("imc,jmc,mc->ij", off, off, weight)
    covariance += np.diag((spread * weight).sum(axis=(1, 2)))
    return average, covariance, float(weight[:, 30].sum())


@pytest.mark.parametrize(
    ("first", "second"), [((14, 6), (8, 12)), ((3, 1), (0, 2)), ((160, 40), (100, 100))]
)
def test_two_arms_equal_quadrature(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    """Chains of 1,000 states, some hundred effective: four errors are below these."""
    posterior = bm.fit(two_arms(first, second), ENDS, prior=PRIOR)
    mean, covariance, none = by_quadrature(np.array([first, second], float))
    sd = np.sqrt(np.diag(covariance))
    found = posterior.mean().to_dense()[0, :, 1]
    assert np.abs(found - mean).max() < 0.15 * sd.max()
    draws = posterior.draws(4000)
    theta = np.array([draws.dynamics(i).to_dense()[0, :, 1] for i in range(4000)])
    assert np.abs(theta.mean(axis=0) - found).max() < 4 * sd.max() / np.sqrt(1000)
    again = np.cov(theta.T)
    assert np.sqrt(np.diag(again)) == pytest.approx(sd, rel=0.12)
    apart, wanted = again[0, 1] / sd.prod(), covariance[0, 1] / sd.prod()
    assert apart == pytest.approx(wanted, abs=0.1)
    share = np.isinf(posterior.chains.strength[:, 0]).mean()
    assert share == pytest.approx(none, abs=0.1)


def test_means_and_squares_are_those_of_the_draws() -> None:
    """500 comparisons at 5 errors of 3,000 draws: 3e-4 for a false alarm."""
    world = bm.worlds.synthetic(1)
    posterior = bm.fit(
        world.sample(200, seed=1), world.task, prior=bm.HierarchicalPrior()
    )
    draws = posterior.draws(3000, seed=2)
    layout = posterior.rows().layout
    theta = np.empty((3000, layout.next_state.size))
    every = np.ones(layout.pair.size, dtype=bool)
    draws.stream.fill(np.arange(3000), every, theta)
    assert theta.sum(axis=1) == pytest.approx(layout.pair.size)
    for found, wanted in (
        (theta, posterior.rows().mean),
        (theta**2, posterior.mean_squares()),
    ):
        error = found.std(axis=0) / np.sqrt(1000)  # states of the chains
        assert (np.abs(found.mean(axis=0) - wanted) < 5 * error + 1e-6).all()


def test_rows_are_pure_functions_of_their_address() -> None:
    posterior = fitted(300)
    again = bm.fit(GRID.sample(300, seed=0), GRID.task, prior=bm.HierarchicalPrior())
    one, two = posterior.draws(50, seed=3), again.draws(50, seed=3)
    assert np.array_equal(one.dynamics(17).probability, two.dynamics(17).probability)
    rows = np.arange(0, posterior.layout.pair.size, 3)
    few = one.stream.of_rows(rows)
    part = np.empty((1, posterior.layout.take(rows).next_state.size))
    few.fill(np.array([17]), np.ones(rows.size, dtype=bool), part)
    entries = posterior.layout.entries_of(rows)
    assert np.array_equal(part[0], one.dynamics(17).probability[entries])


@pytest.mark.parametrize("n_arms", [1, 2, 4, 8])
def test_identical_arms_tell_no_more_than_one(n_arms: int) -> None:
    """800 patients, 70 % of whom survive, split into arms: the sd of the arms' mean."""
    size = 800 // n_arms
    task = bm.Task(3, n_arms, [0, 1, 0], discount=0.9, terminal=[1, 2])
    alive = [7 * size // 10, size - 7 * size // 10]
    counts = bm.Counts.from_arrays(
        np.zeros(800, int),
        np.repeat(np.arange(n_arms), size),
        np.tile(np.repeat([1, 2], alive), n_arms),
        n_states=3,
        n_actions=n_arms,
    )
    posterior = bm.fit(counts, task, prior=PRIOR)
    draws = posterior.draws(6000)
    mean = [draws.dynamics(i).to_dense()[0, :, 1].mean() for i in range(6000)]
    assert np.std(mean) == pytest.approx(np.sqrt(0.7 * 0.3 / 800), rel=0.05)


def test_value_and_spread_to_first_order_are_those_of_the_draws() -> None:
    """What the chains' noise is measured on; 4 errors of 2,000 draws, and 10 %."""
    world = bm.worlds.gridworld()
    posterior = bm.fit(world.sample(20_000, seed=1), world.task)
    found = bm.evaluate(bm.policies.behaviour(posterior), posterior.draws(2000))
    mean, variance = posterior._linear
    between, within = mean[:, 0].var(), variance[:, 0].mean()
    assert np.sqrt(between + within) == pytest.approx(found.start_epistemic_sd, rel=0.1)
    assert 0 < posterior.chain_noise < 0.01


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_effective_sample_size_of_autoregressions(rho: float) -> None:
    """(1 - rho) / (1 + rho) of the states; 30 repeats, mean within 10 %."""
    from bayesmdp.posterior._chains import ess, rhat

    rng = np.random.default_rng(0)
    found, ratios = [], []
    for _ in range(30):
        noise = rng.normal(size=(4, 1000))
        x = np.empty_like(noise)
        x[:, 0] = noise[:, 0] / np.sqrt(1 - rho**2)
        for t in range(1, 1000):
            x[:, t] = rho * x[:, t - 1] + noise[:, t]
        found.append(ess(x))
        ratios.append(rhat(x))
    assert np.mean(found) == pytest.approx(4000 * (1 - rho) / (1 + rho), rel=0.1)
    assert np.mean(ratios) < 1.02
    assert rhat(x + 3 * np.arange(4)[:, None]) > 1.2


def test_chains_that_disagree_are_warned_of() -> None:
    from bayesmdp.posterior._chains import diagnose

    rng = np.random.default_rng(1)
    far = rng.normal(size=(4, 100)) + 5 * np.arange(4)[:, None]
    slow = np.cumsum(rng.normal(size=(4, 100)), axis=1)
    slow -= slow.mean(axis=1, keepdims=True)
    said = diagnose({"far": far, "good": rng.normal(size=(4, 100))}).problems
    assert len(said) == 1
    assert "disagree about far" in said[0]
    assert "slow" in " ".join(diagnose({"slow": slow}).problems)


def test_a_run_keeps_the_chains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = bm.worlds.gridworld()
    posterior = bm.fit(world.sample(300, seed=0), world.task, min_count=3)
    path = bm.storage.save(posterior, tmp_path / "run")
    with monkeypatch.context() as patch:  # nothing is sampled again

        def sample(*_: object, **__: object) -> None:
            raise AssertionError

        patch.setattr(_hierarchical, "run_chains", sample)
        again = bm.storage.load(path).posterior
    assert isinstance(again, bm.posterior.HierarchicalPosterior)
    assert np.array_equal(again.chains.tables, posterior.chains.tables)
    one, two = (x.draws(5).dynamics(3).probability for x in (posterior, again))
    assert np.array_equal(one, two)
    assert again.available.sum() == posterior.available.sum()


def test_chains_of_other_data_are_refused(tmp_path: Path) -> None:
    from bayesmdp.posterior import refit

    other = GRID.sample(300, seed=1)
    kept = fitted(300).kept()
    with pytest.raises(bm.errors.BeliefError, match="fit them again"):
        refit(other.counts(), GRID.task, bm.HierarchicalPrior(), 0, kept)


def test_a_mixture_with_other_rows(tmp_path: Path) -> None:
    """Draws are the components' own; weights were given, so the mean is known."""
    world = bm.worlds.gridworld()
    log = world.sample(300, seed=0)
    parts = [bm.HierarchicalPrior(), bm.SymmetricPrior(0.1)]
    prior = bm.MixturePrior(parts, posterior_weights=[0.25, 0.75])
    posterior = bm.fit(log, world.task, prior=prior, min_count=2)
    alone = [bm.fit(log, world.task, prior=x, min_count=2).mean() for x in parts]
    wanted = 0.25 * alone[0].to_dense() + 0.75 * alone[1].to_dense()
    used = posterior.available
    assert np.allclose(posterior.mean().to_dense()[used], wanted[used])
    again = bm.storage.load(bm.storage.save(posterior, tmp_path / "run")).posterior
    one, two = (x.draws(9).dynamics(7).probability for x in (posterior, again))
    assert np.array_equal(one, two)
    with pytest.raises(bm.errors.PriorError, match="posterior_weights"):
        bm.fit(log, world.task, prior=bm.MixturePrior(parts))


def test_more_data_are_as_one_fit_of_all() -> None:
    world = bm.worlds.gridworld()
    first, more = world.sample(100, seed=0), world.sample(50, seed=1)
    one = fitted(100).update(more)
    counts = first.counts() + more.counts()
    two = bm.fit(counts, world.task)
    assert np.array_equal(one.chains.strength, two.chains.strength)


def test_what_needs_dirichlet_rows_is_refused_by_name() -> None:
    posterior = fitted(300)
    policy = bm.policies.behaviour(posterior)
    with pytest.raises(bm.errors.BeliefError, match="evaluate_analytic"):
        bm.evaluate_analytic(policy, posterior)
    with pytest.raises(bm.errors.BeliefError, match="second_order"):
        bm.policies.second_order(posterior)
    with pytest.raises(bm.errors.PriorError, match="held-out"):
        posterior.log_evidence()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("hyper", lambda x: x[0, 0]),
        ("hyper", lambda x: np.where(x == x[0, 0], np.nan, x)),
        ("hyper", lambda x: x + 1e4),
        ("strength", lambda x: -x),
        ("strength", lambda x: x.astype(np.complex128)),
        ("tables", lambda x: x.astype(np.float64)),
        ("tables", lambda x: x * 0),
        ("tables", lambda x: x[:, 1:]),
    ],
    ids=["scalar", "nan", "huge", "negative", "complex", "floats", "zero", "short"],
)
def test_damaged_chains_are_refused(name: str, change: Any) -> None:
    from bayesmdp.posterior import refit

    posterior = fitted(100)
    kept = dict(posterior.kept())
    kept[name] = change(kept[name])
    with pytest.raises(bm.errors.BeliefError, match="fit them again"):
        refit(posterior.counts, GRID.task, bm.HierarchicalPrior(), 0, kept)


def test_few_transitions_do_not_tilt_the_base_away() -> None:
    """Base measures of 100 states from 10 transitions stay within a factor of 10."""
    rng = np.random.default_rng(0)
    state, to = rng.integers(0, 97, 10), rng.integers(0, 100, 10)
    counts = bm.Counts.from_arrays(
        state, np.zeros(10, int), to, n_states=100, n_actions=2
    )
    reward = np.r_[np.zeros(98), 1.0, -1.0]
    task = bm.Task(100, 2, reward, discount=0.9, terminal=[97, 98, 99])
    local, marginal = (
        bm.HierarchicalPrior(base).cells(counts, task) for base in ("local", "marginal")
    )
    for end in (98, 99):
        ours, plain = (x.base[x.next_state == end] for x in (local, marginal))
        assert 0.1 < ours.mean() / plain.mean() < 10


def test_a_fallback_is_part_of_a_support() -> None:
    prior = bm.HierarchicalPrior("uniform", support=np.eye(3, dtype=bool), fallback=2)
    task = bm.Task(3, 1, [0, 1, 2], discount=0.9)
    counts = bm.Counts.from_arrays([0], [0], [0], n_states=3, n_actions=1)
    cells = prior.cells(counts, task)
    assert cells.next_state[cells.state == 0].tolist() == [0, 2]


def test_chains_of_the_same_data_are_shared_while_they_are_in_use() -> None:
    world = bm.worlds.gridworld()
    log, more = (world.sample(n, seed=0).counts() for n in (37, 38))
    first = bm.fit(log, world.task)
    assert bm.fit(log, world.task).chains is first.chains
    assert bm.fit(more, world.task).chains is not first.chains
    other = bm.HierarchicalPrior(base="uniform")
    assert bm.fit(log, world.task, prior=other).chains is not first.chains
    held, values = ref(first.chains), first.chains.hyper.copy()
    del first
    gc.collect()
    assert held() is None
    np.testing.assert_array_equal(bm.fit(log, world.task).chains.hyper, values)
