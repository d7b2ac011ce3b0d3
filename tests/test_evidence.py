"""Evidence against integrals, fine grids, differences and known concentrations."""

import time
from collections.abc import Callable
from itertools import combinations
from math import cos, fsum, lgamma, log, pi, sin
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

import bayesmdp as bm

THREE = bm.Task(3, 1, [0, 0, 1], discount=0.9, terminal=[1, 2])
N = [4, 0, 3]


def log_integral(alpha: list[float], n: list[int]) -> float:
    """Integrate ``prod p^n`` against a Dirichlet over two angles.

    ``p = (x, (1 - x) y, (1 - x) (1 - y))`` with ``x = sin^2``, ``y = sin^2``: exponents
    down to -1/2 are then smooth.
    """
    e = [a - 1 + k for a, k in zip(alpha, n, strict=True)]

    def density(v: float, u: float) -> float:
        x, rest, y, z = sin(u) ** 2, cos(u) ** 2, sin(v) ** 2, cos(v) ** 2
        p = x ** e[0] * (rest * y) ** e[1] * (rest * z) ** e[2]
        jacobian = rest * 4 * sin(u) * cos(u) * sin(v) * cos(v)
        return float(p * jacobian)

    found, _ = integrate.dblquad(density, 0, pi / 2, 0, pi / 2, epsabs=0, epsrel=1e-11)
    return log(found) + lgamma(sum(alpha)) - sum(lgamma(a) for a in alpha)


def log_hierarchical(a: float, decay: float) -> float:
    """Sum the integrals over all sets of possible next states that hold the data."""
    total = 0.0
    for k in (2, 3):
        for chosen in combinations(range(3), k):
            if {0, 2} <= set(chosen):
                if k == 3:
                    inner = log_integral([a] * 3, N)
                else:
                    whole, _ = integrate.quad(
                        lambda x: x ** (a - 1 + 4) * (1 - x) ** (a - 1 + 3), 0, 1
                    )
                    inner = log(whole) + lgamma(2 * a) - 2 * lgamma(a)
                sets = {2: 3, 3: 1}[k]
                total += decay**k / sets * np.exp(inner)
    return log(total / (decay + decay**2 + decay**3))


INTEGRALS: dict[str, tuple[bm.priors.Prior, Callable[[], float]]] = {
    "symmetric, 0.5": (bm.SymmetricPrior(0.5), lambda: log_integral([0.5] * 3, N)),
    "symmetric, 1": (bm.SymmetricPrior(1.0), lambda: log_integral([1.0] * 3, N)),
    "symmetric, 2.7": (bm.SymmetricPrior(2.7), lambda: log_integral([2.7] * 3, N)),
    "scaled": (bm.ScaledPrior(2.0), lambda: log_integral([2 / 3] * 3, N)),
    "fallback": (
        bm.FallbackPrior(bm.SymmetricPrior(0.6), 1, 1.5),
        lambda: log_integral([0.6, 2.1, 0.6], N),
    ),
    "hierarchical": (
        bm.RandomSupportPrior(0.8, 0.6),
        lambda: log_hierarchical(0.8, 0.6),
    ),
}


@pytest.mark.parametrize("name", INTEGRALS)
def test_evidence_is_an_integral_over_the_dynamics(name: str) -> None:
    prior, expected = INTEGRALS[name]
    posterior = bm.fit(
        bm.Counts.from_arrays([0] * 3, [0] * 3, range(3), N),
        THREE,
        prior=bm.SymmetricPrior(),
    )
    posterior = bm.fit(posterior.counts, THREE, prior=prior)
    assert posterior.log_evidence() == pytest.approx(expected(), abs=1e-8)


# --- the maximum ---------------------------------------------------------------


def drawn(
    concentration: float, seed: int, n_states: int = 12, n_visits: Any = 15
) -> tuple[bm.Counts, bm.Task]:
    """Count visits of every pair to dynamics drawn from a symmetric prior."""
    rng = np.random.default_rng(seed)
    theta = rng.dirichlet(np.full(n_states, concentration), size=(n_states, 4))
    counts = rng.multinomial(n_visits, theta)
    task = bm.Task(n_states, 4, np.zeros(n_states), discount=0.9)
    return bm.Counts.from_dense(counts), task


@pytest.mark.parametrize("concentration", [0.05, 0.4, 3.0])
@pytest.mark.parametrize("min_count", [0, 15])
def test_the_best_concentration_is_that_of_a_fine_grid(
    concentration: float, min_count: int
) -> None:
    visits = np.random.default_rng(4).integers(5, 26, size=(12, 4))
    counts, task = drawn(concentration, seed=3, n_visits=visits)
    curve = bm.priors.evidence_curve(counts, task, min_count=min_count)
    assert curve.best is not None
    grid = curve.best * np.exp(np.linspace(-0.01, 0.01, 2001))
    evidence = [
        bm.fit(
            counts, task, prior=bm.SymmetricPrior(c), min_count=min_count
        ).log_evidence()
        for c in grid[::100]
    ]
    fine = bm.priors.evidence_curve(counts, task, grid, min_count=min_count)
    assert fine.log_evidence[::100] == pytest.approx(evidence, rel=1e-12)
    assert curve.best_log_evidence == pytest.approx(fine.log_evidence.max(), rel=1e-13)
    assert curve.best == pytest.approx(grid[np.argmax(fine.log_evidence)], rel=2e-5)
    prior = bm.EvidencePrior()
    posterior = bm.fit(counts, task, prior=prior, min_count=min_count)
    assert posterior.alpha.min() == pytest.approx(curve.best, rel=1e-5)
    assert posterior.log_evidence() == pytest.approx(curve.best_log_evidence, abs=1e-6)


def test_a_wide_grid_has_no_better_point() -> None:
    counts, task = drawn(0.2, seed=5)
    grid = np.geomspace(1e-6, 1e6, 2000)
    curve = bm.priors.evidence_curve(counts, task, grid)
    assert curve.best_log_evidence is not None
    assert curve.best_log_evidence >= curve.log_evidence.max()


def test_the_interval_follows_from_second_differences() -> None:
    counts, task = drawn(0.3, seed=2)
    best = bm.priors.evidence_curve(counts, task).best
    assert best is not None
    h = 1e-3
    at = bm.priors.evidence_curve(counts, task, best * np.exp([-h, 0, h]))
    second = (at.log_evidence[0] - 2 * at.log_evidence[1] + at.log_evidence[2]) / h**2
    assert at.interval is not None
    spread = np.exp(1.959964 / np.sqrt(-second))
    assert at.interval == pytest.approx((best / spread, best * spread), rel=1e-4)


def test_the_interval_holds_the_concentration_that_made_the_data() -> None:
    # 95 % of 200: fewer than 175 or none missed has a probability below 2e-4.
    held = 0
    for seed in range(200):
        counts, task = drawn(0.3, seed=seed, n_states=8, n_visits=10)
        interval = bm.priors.evidence_curve(counts, task, [1.0]).interval
        assert interval is not None
        held += interval[0] < 0.3 < interval[1]
    assert 175 <= held < 200


def test_the_support_changes_the_number_of_next_states() -> None:
    """A support of the first 12 of 20 states is the problem of 12 states."""
    counts, task = drawn(0.3, seed=2)
    wide = bm.Task(20, 4, np.zeros(20), discount=0.9, terminal=range(12, 20))
    mask = np.zeros((20, 20), dtype=bool)
    mask[:, :12] = True
    more = bm.Counts.from_arrays(
        counts.state, counts.action, counts.next_state, counts.count
    )
    one = bm.priors.evidence_curve(counts, task)
    two = bm.priors.evidence_curve(more, wide, support=mask)
    assert one.log_evidence == pytest.approx(two.log_evidence, rel=1e-13)
    assert one.best == pytest.approx(two.best, rel=1e-6)


def test_the_curve_says_what_it_found() -> None:
    counts, task = drawn(0.3, seed=2)
    curve = bm.priors.evidence_curve(counts, task, [0.1, 1.0])
    said = curve.summary()
    assert "from 720 transitions of 48 pairs" in said
    assert f"best concentration {curve.best:.4g} (95 % interval" in said
    assert f"0.1: {curve.log_evidence[0]:.4f}" in said
    assert repr(curve) == f"EvidenceCurve(2 concentrations, best={curve.best:.4g})"
    assert not curve.grid.flags.writeable
    assert not curve.log_evidence.flags.writeable


# --- no maximum ----------------------------------------------------------------

ENDS = {
    "low": ([9, 0, 0], "rises towards 0"),
    "high": ([50, 50, 50], "rises without end"),
    "flat": ([1, 0, 0], "say nothing"),
}


@pytest.mark.parametrize("place", ENDS)
def test_data_that_cannot_choose_are_told_so(place: str) -> None:
    n, said = ENDS[place]
    counts = bm.Counts.from_arrays([0] * 3, [0] * 3, range(3), n)
    curve = bm.priors.evidence_curve(counts, THREE)
    assert (curve.place, curve.best, curve.interval) == (place, None, None)
    assert said in curve.summary()
    assert np.isfinite(curve.log_evidence).all()
    with pytest.raises(bm.errors.PriorError, match=r"no best concentration.*number"):
        bm.fit(counts, THREE, prior=bm.EvidencePrior())


# --- arithmetic and speed ------------------------------------------------------


@given(
    st.sampled_from([1e-300, 1e-12, 1e-3, 0.7, 5.0, 99.9, 100.0, 101.5, 1e5, 1e9]),
    st.sampled_from([0, 1, 2, 7, 300]),
)
def test_a_rising_factorial_is_a_sum_of_logarithms(x: float, n: int) -> None:
    expected = fsum(log(x + i) for i in range(n))
    found = float(bm.priors.log_rising(x, n))
    assert found == pytest.approx(expected, rel=1e-13, abs=1e-12)


def test_a_thousand_states_take_less_than_two_seconds() -> None:
    rng = np.random.default_rng(0)
    n, entries = 1000, 64_000
    state = rng.integers(n, size=entries)
    action, next_state = rng.integers(25, size=entries), rng.integers(n, size=entries)
    count = rng.geometric(0.3, size=entries)
    counts = bm.Counts.from_arrays(
        state, action, next_state, count, n_states=n, n_actions=25
    )
    task = bm.Task(n, 25, np.zeros(n), discount=0.9)
    began = time.perf_counter()
    curve = bm.priors.evidence_curve(counts, task)
    assert time.perf_counter() - began < 2
    assert curve.grid.size == 100
    assert curve.best is not None
