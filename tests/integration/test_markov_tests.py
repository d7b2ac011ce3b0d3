"""Tests of the Markov assumption keep their level, and find what matters.

A small, fixed version of the study `markov_tests`: 300 logs of a design.
"""

import numpy as np
import pytest
from scipy import stats

from studies import markov_tests
from studies.history_logs import NULL, Design

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("design", [NULL[0], NULL[4]], ids=lambda x: x.name)
def test_p_values_are_uniform_on_markov_logs(design: Design) -> None:
    """Alarms at 5 % within the binomial's limits; error rate 1e-3 for each test."""
    found = markov_tests._work({"design": design.name}, [0, 300])
    for test in markov_tests.TESTS:
        p = np.array([x["p"][test] for x in found if test in x["p"]])
        alarms = int((p <= 0.05).sum())
        assert alarms <= stats.binom.isf(1e-3, p.size, 0.05), test
        assert stats.kstest(p, "uniform").pvalue > 1e-4, test
    holm = sum(x["holm"] <= 0.05 for x in found)
    assert holm <= stats.binom.isf(1e-3, 300, 0.05)


def test_a_frailty_worth_0_02_is_found_in_5000_patients() -> None:
    """Seven of eight logs, where the study finds nearly all."""
    found = markov_tests._work({"shift": 0.02, "patients": 5000}, [0, 8])
    assert sum(x["holm"] <= 0.05 for x in found) >= 7
    assert np.mean([x["effect"]["past actions"] for x in found]) > 0.005
