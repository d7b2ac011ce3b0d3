"""Calibration at full size: 2,000 datasets for every prior that generates data."""

from typing import Any

import pytest

import bayesmdp as bm

pytestmark = pytest.mark.integration

TASK = bm.worlds.synthetic(0, 5, 3, discount=0.9).task
SMALL = bm.worlds.synthetic(0, 3, 2, discount=0.9).task
SETS = bm.RandomSupportPrior(1.0, 0.9)
FLAT = bm.SymmetricPrior(1.0)
#: Every kind that generates data, with few visits where sets are uncertain.
PRIORS: dict[str, tuple[Any, bm.Task, int]] = {
    "symmetric": (FLAT, TASK, 10),
    "scaled": (bm.ScaledPrior(1.0), TASK, 10),
    "hierarchical": (SETS, SMALL, 3),
    "fallback over symmetric": (
        bm.FallbackPrior(bm.SymmetricPrior(0.5), 0, 1.0),
        TASK,
        10,
    ),
    "fallback over hierarchical": (bm.FallbackPrior(SETS, 0, 1.5), SMALL, 2),
    "mixture": (
        bm.MixturePrior(
            [SETS, bm.FallbackPrior(bm.ScaledPrior(2.0), 0), bm.FallbackPrior(SETS, 0)]
        ),
        SMALL,
        2,
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_ninety_percent_intervals_of_a_fixed_policy_cover_ninety(name: str) -> None:
    """Error rates: 1 % for the ranks, 0.3 % for 88 to 92 %; fixed seed."""
    prior, task, n_visits = PRIORS[name]
    found = bm.check_calibration(task, prior, n_visits=n_visits, n_datasets=2000)
    assert found.ranks.shape == (2000, 4)
    assert found.passed, found.summary()
    at = found.levels.tolist().index(0.9)
    assert 0.88 < found.covered[at, 0] < 0.92
    assert 0.88 < found.covered[at, 2] < 0.92  # the chosen policy too


def test_a_prior_that_is_too_sure_curses_the_optimiser() -> None:
    found = bm.check_calibration(
        TASK, bm.SymmetricPrior(0.1), truth=bm.SymmetricPrior(1.0), n_visits=3
    )
    at = found.levels.tolist().index(0.9)
    assert not found.passed
    assert found.covered[at, 2] < 0.7
    assert found.covered[at, 0] > 0.8


def test_a_wrong_idea_of_how_many_next_states_are_possible_fails() -> None:
    few = bm.RandomSupportPrior(1.0, 0.05)  # one next state, or hardly more
    found = bm.check_calibration(SMALL, few, truth=SETS, n_visits=2, n_datasets=500)
    assert not found.passed
    assert found.covered[found.levels.tolist().index(0.9), 0] < 0.8
