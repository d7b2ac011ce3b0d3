"""The hierarchical belief against a plain sampler, its chains against each other."""

import numpy as np
import pytest
from plain_gibbs import sample

import bayesmdp as bm
from bayesmdp.posterior import _chains
from bayesmdp.posterior._chains import ess

pytestmark = pytest.mark.integration


def test_rows_equal_those_of_a_plain_sampler() -> None:
    """Means, covariances between actions and P(no effect) of 3 states, by errors.

    Errors are by effective sample sizes of both samplers; 30 comparisons at 4.5 errors:
    2e-4 for a false alarm.
    """
    n = np.array(
        [
            [[9, 3, 1], [4, 7, 2]],
            [[0, 12, 6], [1, 10, 9]],
            [[5, 0, 0], [1, 2, 2]],
        ],
        dtype=np.float64,
    )
    task = bm.Task(3, 2, [0, 1, 2], discount=0.9)
    posterior = bm.fit(
        bm.Counts.from_dense(n), task, prior=bm.HierarchicalPrior("uniform")
    )
    rng = np.random.default_rng(0)
    plain, none = sample(n, np.full(3, 1 / 3), 4000, rng)
    draws = posterior.draws(4000)
    ours = np.empty((4000, 18))
    draws.stream.fill(np.arange(4000), np.ones(6, dtype=bool), ours)
    ours = ours.reshape(-1, 3, 2, 3)
    apart = plain - plain.mean(axis=0), ours - ours.mean(axis=0)
    quantities = [*zip(plain.reshape(-1, 18).T, ours.reshape(-1, 18).T, strict=True)]
    quantities += [
        (apart[0][:, s, :, t].prod(axis=1), apart[1][:, s, :, t].prod(axis=1))
        for s in range(3)
        for t in (0, 1)
    ]
    far = np.isinf(posterior.chains.strength)
    quantities += [*zip(none.T, far.T.astype(float), strict=True)]
    for theirs, own in quantities:
        size = ess(theirs.reshape(4, -1)), min(own.size, 300)
        error = np.sqrt(theirs.var() / size[0] + own.var() / size[1])
        assert abs(theirs.mean() - own.mean()) < 4.5 * error


def test_errors_hold_the_finite_chain() -> None:
    """Values of refits with other chains spread as the error of endless draws says.

    A chain's part alone, over 12 seeds of the chains: at most 1.5 of what is said,
    which is the larger of two quantities' noise, and at least a quarter.
    """
    world = bm.worlds.synthetic(1)
    log, values, said = world.sample(60, seed=1), [], []
    kept = _chains._SEED
    try:
        for seed in range(12):
            _chains._SEED = seed
            posterior = bm.fit(log, world.task)
            policy = bm.policies.behaviour(posterior)
            found = bm.evaluate(policy, posterior.draws(20_000))
            values.append(found.start_value)
            said.append(found.start_epistemic_sd * np.sqrt(posterior.chain_noise))
    finally:
        _chains._SEED = kept
    assert 0.25 < np.std(values) / np.mean(said) < 1.5
