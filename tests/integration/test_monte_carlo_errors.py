"""Monte Carlo errors hold: ten problems, 300 seeds, of few draws and of more.

The whole study, up to 10,000 draws, is ``python -m benchmarks calibration``.
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import calibration

pytestmark = pytest.mark.integration

DRAWS, AFTER = (32, 100), (300,)
N_PROBLEMS = 10


@cache
def rates(problem: int) -> dict[str, list[float]]:
    """Per cent beyond 1.96 errors, of every kind and number of draws."""
    judged = calibration.problems()[problem]
    found = calibration.beyond(judged, DRAWS, 300)
    return found | {"tolerance": calibration.stopped(judged, AFTER, 300)}


@pytest.mark.parametrize("problem", range(N_PROBLEMS))
def test_no_problem_is_far_off(problem: int) -> None:
    """A rate of 5 % passes 12 % with probability 2e-6, one of 8 % with 1 %.

    With 32 draws it is not reached: in one problem, of concentration 0.05, 13 % are
    off, because what makes the difference is in no draw.
    """
    for kind, found in rates(problem).items():
        few, *more = found if len(found) == len(DRAWS) else [0.0, *found]
        assert max(more) <= calibration.WORST, kind
        assert few <= 16.0, kind


def test_taken_together_one_run_in_twenty_is_beyond() -> None:
    """3,000 runs at 5 % leave 4 to 6.5 % with probability 0.7 %, for each number."""
    assert len(calibration.problems()) == N_PROBLEMS
    for kind in calibration.KINDS:
        pooled = np.mean([rates(i)[kind] for i in range(N_PROBLEMS)], axis=0)
        assert pooled.min() >= calibration.LOW, kind
        assert pooled.max() <= calibration.HIGH, kind
