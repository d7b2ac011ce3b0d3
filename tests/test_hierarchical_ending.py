"""Draws on random sets of next states at discount 1: which may have no end."""

from typing import Any

import numpy as np
import pytest
from test_hierarchical_draws import sets

import bayesmdp as bm
from bayesmdp.errors import EndlessError


def looped(
    prior: Any, counts: list[list[int]], reward: Any = ((1.0,), (1.0,), (0.0,))
) -> bm.Posterior:
    """States 0 and 1 before the end 2."""
    task = bm.Task(3, 1, reward, discount=1.0, start=0, terminal=[2])
    data = np.zeros((3, 1, 3), dtype=np.int64)
    data[:2, 0] = counts
    return bm.fit(bm.Counts.from_dense(data), task, prior=prior)


ENDING = ([0], [0], [2], [1.0])


@pytest.mark.parametrize(
    "reward", [((1.0,), (1.0,), (0.0,)), ENDING], ids=["steps", "end"]
)
@pytest.mark.parametrize(
    ("prior", "counts", "named"),
    [
        (sets(), [[5, 0, 0], [0, 0, 9]], "0"),
        (sets(), [[0, 0, 9], [0, 0, 0]], "1"),
        (sets(), [[0, 4, 0], [3, 0, 0]], "0, 1"),
        (sets(fallback=2), [[5, 0, 0], [0, 0, 9]], "0"),
        (bm.FallbackPrior(sets(), 0, 3.0), [[5, 0, 0], [0, 0, 9]], "0"),
    ],
    ids=["only itself seen", "never visited", "a circle", "lumped", "a live fallback"],
)
def test_draws_without_an_end_are_refused_whatever_is_paid(
    prior: Any, counts: list[list[int]], named: str, reward: Any
) -> None:
    posterior = looped(prior, counts, reward)
    with pytest.raises(EndlessError, match=rf"none does from state\(s\) {named}:"):
        bm.evaluate([0, 0, 0], posterior.draws(20))
    mixture = looped(
        bm.MixturePrior([bm.SymmetricPrior(9.0), prior], posterior_weights=[0.5, 0.5]),
        counts,
        reward,
    )
    with pytest.raises(EndlessError, match="none does"):
        bm.evaluate([0, 0, 0], mixture.draws(20))


@pytest.mark.parametrize("control", [True, False])
def test_a_seen_end_or_a_fallback_makes_episodes_end(control: bool) -> None:
    for prior in (sets(2.5), bm.FallbackPrior(sets(fallback=2), 2, 3.0)):
        posterior = looped(prior, [[2, 0, 3], [0, 1, 4]])
        draws = posterior.draws(200, seed=1)
        found = bm.evaluate([0, 0, 0], draws, control=control)
        assert np.isfinite(found.start_values).all()
        for i in range(20):
            theta = draws.dynamics(i).to_dense()[:2, 0, :2]
            value = np.linalg.solve(np.eye(2) - theta, [1.0, 1.0])
            assert found.start_values[i] == pytest.approx(value[0], rel=1e-10)


def test_sure_exits_are_judged_by_their_concentration_alone() -> None:
    """Unseen exits weigh nothing; the fallback has 0.3 + 0.5, and its visits."""
    prior = bm.FallbackPrior(sets(0.3), 2, 0.5)
    with pytest.raises(EndlessError, match=r"exits of concentration 0\.8"):
        bm.evaluate([0, 0, 0], looped(prior, [[5, 0, 0], [0, 0, 9]]).draws(20))
    more = looped(prior, [[5, 0, 1], [0, 0, 9]])
    with pytest.warns(bm.BayesmdpWarning, match=r"exits of concentration 1\.8"):
        bm.evaluate([0, 0, 0], more.draws(20))
    exact = looped(prior, [[5, 0, 1], [0, 0, 9]], ENDING)
    assert bm.evaluate([0, 0, 0], exact.draws(20)).start_value <= 1.0
