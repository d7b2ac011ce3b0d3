"""Exact tests that ranks are uniform, against enumeration."""

import itertools

import numpy as np
import pytest

from bayesmdp.diagnostics import _calibration as uniformity

pytestmark = pytest.mark.integration


def every_outcome(n: int, n_ranks: int) -> np.ndarray:
    return np.array(list(itertools.product(range(n_ranks), repeat=n)))


@pytest.mark.parametrize(("n", "n_ranks"), [(1, 4), (4, 5), (5, 4), (6, 3)])
def test_the_chance_to_stay_inside_equals_enumeration(n: int, n_ranks: int) -> None:
    at = uniformity.points(n_ranks)
    assert at.tolist() == list(range(1, n_ranks))
    every = every_outcome(n, n_ranks)
    counts = np.stack([uniformity.counts_below(x, at) for x in every])
    rng = np.random.default_rng(0)
    for _ in range(20):
        low, high = np.sort(rng.integers(0, n + 1, (2, at.size)), axis=0)
        wanted = ((counts >= low) & (counts <= high)).all(axis=1).mean()
        found = uniformity.chance_inside(low, high, n, at / n_ranks)
        assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(("n", "n_ranks"), [(4, 5), (6, 3)])
def test_p_values_are_exact(n: int, n_ranks: int) -> None:
    """A p-value of x or less comes with probability x, for every x it can take."""
    every = every_outcome(n, n_ranks)
    found = np.array([uniformity.p_value(x, n_ranks) for x in every])
    assert np.unique(found.round(9)).size > 3
    for p in np.unique(found.round(9)):
        assert (found <= p + 1e-9).mean() == pytest.approx(p, abs=1e-8)


@pytest.mark.parametrize("error_rate", [0.3, 0.05])
def test_the_band_holds_whole_curves_and_is_no_wider_than_needed(
    error_rate: float,
) -> None:
    rng = np.random.default_rng(1)
    n, n_ranks = 150, 100
    low, high = uniformity.band(n, n_ranks, error_rate)
    ranks = rng.integers(0, n_ranks, (2000, n))
    counts = np.stack(
        [uniformity.counts_below(x, uniformity.points(n_ranks)) for x in ranks]
    )
    left = 1 - ((counts >= low) & (counts <= high)).all(axis=1).mean()
    error = np.sqrt(error_rate / 2000)
    # counts are whole numbers, so the band is a little wider than it could be
    assert 0.7 * error_rate - 4 * error < left < error_rate + 4 * error
