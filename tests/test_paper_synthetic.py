"""The synthetic problems of the paper, and what the studies make of them."""

import json
from pathlib import Path

import numpy as np
import pytest

from bayesmdp.paper import _synthetic

GOLDEN = json.loads(
    (Path(__file__).parent / "golden" / "synthetic_run0.json").read_text()
)["problems"]


def test_problems_are_made_as_the_published_ones() -> None:
    ours = _synthetic.datasets(0)
    assert list(ours) == [problem["visits"] for problem in GOLDEN]
    dense = {k: counts.to_dense() for k, counts in ours.items()}
    for problem in GOLDEN:
        k = problem["visits"]
        assert problem["reward"] == list(_synthetic.REWARD)
        assert (np.sum(problem["counts"], axis=2) == k).all()
        assert (dense[k].sum(axis=2) == k).all()
    for k in _synthetic.SIZES[1:]:
        # Both are nested, so that a larger data set is never less informative.
        assert (dense[k] >= dense[k - 1]).all()
        assert (np.array(GOLDEN[k - 1]["counts"]) >= GOLDEN[k - 2]["counts"]).all()


def test_outcomes_follow_the_dynamics() -> None:
    """100 worlds, 10 visits: 125 cells, each a sum of binomials of known probability.

    Error rate: 125 comparisons at 5 standard errors, below 1e-4 by the union bound.
    """
    seen, wanted, variance = (np.zeros((5, 5, 5)) for _ in range(3))
    for number in range(100):
        truth = _synthetic.world(number).dynamics.to_dense()
        seen += _synthetic.datasets(number)[10].to_dense()
        wanted += 10 * truth
        variance += 10 * truth * (1 - truth)
    assert np.abs((seen - wanted) / np.sqrt(variance)).max() < 5


def test_the_belief_is_the_papers() -> None:
    world, counts = _synthetic.world(3), _synthetic.datasets(3)[2]
    mean = _synthetic.believe(counts, world.task).mean().to_dense()
    assert mean == pytest.approx((counts.to_dense() + 1) / 7)
    assert world.task.discount == 0.999
