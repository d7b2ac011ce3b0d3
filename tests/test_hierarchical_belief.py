"""The hierarchical belief against answers found another way."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln

import bayesmdp as bm

Array = NDArray[np.float64]

ENDS = bm.Task(3, 2, [0, 1, 0], discount=0.9, terminal=[1, 2], start=[1, 0, 0])
SUPPORT = np.array([[0, 1, 1], [0, 1, 0], [0, 0, 1]], dtype=bool)
PRIOR = bm.HierarchicalPrior("uniform", support=SUPPORT)


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

    On grids of mu, log k and log c; location and scale of log c, and w, by sums.
    """
    mu = 1 / (1 + np.exp(-np.linspace(-12, 12, 801)))[:, None]
    jacobian = (mu * (1 - mu))[:, 0]
    log_k = np.linspace(np.log(0.1), np.log(1e4), 120)
    a = np.exp(log_k)[None] / 2
    log_mu = gammaln(2 * a) - 2 * gammaln(a) + (a - 1) * np.log(mu * (1 - mu))
    prior = np.exp(log_mu).mean(axis=1) * jacobian  # of mu, k integrated out
    log_c = np.linspace(0.0, np.log(100 * n.sum(axis=1).max()), 30)
    slab = np.zeros(30)
    for location in np.linspace(0, log_c[-1], 200):
        for log_scale in np.linspace(np.log(0.3), np.log(6.0), 60):
            shape = np.exp(-0.5 * ((log_c - location) / np.exp(log_scale)) ** 2)
            slab += (shape + 1e-100) / (shape + 1e-100).sum()
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
    theta = np.array(
        [posterior.draws(4000).dynamics(i).to_dense()[0, :, 1] for i in range(4000)]
    )
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
    world = bm.worlds.gridworld()
    posterior = bm.fit(
        world.sample(300, seed=0), world.task, prior=bm.HierarchicalPrior()
    )
    again = bm.fit(world.sample(300, seed=0), world.task, prior=bm.HierarchicalPrior())
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
    draws = posterior.draws(2000)
    mean = [draws.dynamics(i).to_dense()[0, :, 1].mean() for i in range(2000)]
    assert np.std(mean) == pytest.approx(np.sqrt(0.7 * 0.3 / 800), rel=0.08)
