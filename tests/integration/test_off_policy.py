"""Intervals of off-policy estimates hold the truth as often as they say."""

import numpy as np
import pytest

import bayesmdp as bm
from studies import off_policy_problems as problems

pytestmark = pytest.mark.integration

NAMES = ("IS", "WIS", "PDIS", "PDWIS", "DR", "WDR")


@pytest.mark.filterwarnings("ignore:The effective sample size")
@pytest.mark.parametrize(
    "problem",
    [problems.model_fail, problems.graph, problems.gridworld],
    ids=lambda x: x.__name__,
)
def test_intervals_cover(problem: problems.Maker) -> None:
    """120 logs; at 92 % true coverage below 84 % with probability 0.003."""
    made = problem()
    true = made.value
    held = []
    for seed in range(1000, 1120):
        found = bm.off_policy(made.judged, made.log(seed), made.task, n_groups=40)
        ends = [found.intervals[name] for name in NAMES]
        held.append([x is not None and x[0] <= true <= x[1] for x in ends])
    assert np.mean(held, axis=0).min() >= 0.84
    assert np.mean(held) < 0.995  # not by width alone


def test_at_clinical_size_intervals_stay_near_the_estimate() -> None:
    """18,000 patients: a bootstrap is off by hundreds of standard errors."""
    made = problems.sepsis(18_000)
    found = bm.off_policy(made.judged, made.log(7), made.task, n_groups=20)
    for name in ("WIS", "WDR"):
        low, high = found.intervals[name]
        assert low < made.value < high
        assert high - low < 0.3
