"""Mixtures of priors that generate data are calibrated for them."""

import numpy as np
import pytest
from test_diagnostics_mixture import FEW, ROUND, TWO, UNEVEN

import bayesmdp as bm

pytestmark = pytest.mark.integration

GENERATING = {
    "two": (TWO, 4),
    "uneven": (UNEVEN, 2),
    "fallback": (
        bm.MixturePrior([bm.FallbackPrior(bm.ScaledPrior(2.0), 0, 1.0), TWO.priors[1]]),
        3,
    ),
}


@pytest.mark.parametrize("name", GENERATING)
def test_mixtures_that_generate_data_are_calibrated(name: str) -> None:
    """Fixed seed; error rate 1 % for each."""
    prior, n_visits = GENERATING[name]
    found = bm.check_calibration(ROUND, prior, n_visits=n_visits, n_datasets=300, **FEW)
    assert found.passed, found.summary()
    assert (np.abs(found.bias) < 4 * found.bias_mcse).all()
    error = np.sqrt(found.levels * (1 - found.levels) / 300)[:, None]
    assert (np.abs(found.covered - found.levels[:, None]) < 4 * error).all()
