"""Values of information against brute force, and how well their errors hold."""

import numpy as np
import pytest
from nested_oracle import agree, deterministic, nested, reweighted, shared

import bayesmdp as bm

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::bayesmdp.errors.PriorWarning"),
]


def scores(
    posterior: bm.Posterior, policies: np.ndarray, seed: int, n_outer: int
) -> list[float]:
    """Differences to nested draws over errors, at the pair that is worth most."""
    info = bm.value_of_information(posterior, list(policies), n_visits=(20,), seed=seed)
    s, a = divmod(int(info.evppi.argmax()), info.task.n_actions)
    found = []
    for n in (None, 20):
        value = info.evppi[s, a] if n is None else info.evsi[0, s, a]
        error = info.evppi_mcse[s, a] if n is None else info.evsi_mcse[0, s, a]
        other, noise = nested(posterior, policies, (s, a), n, n_outer, 400, seed)
        if value > 0 or other > 0:
            found.append(float((value - other) / np.hypot(error, noise)))
    return found


@pytest.mark.parametrize("size", [100, 1000, 5000])
def test_the_gridworld_agrees_with_nested_draws(size: int) -> None:
    world = bm.worlds.gridworld()
    prior = bm.SymmetricPrior(support=world.support)
    posterior = bm.fit(world.sample(size, seed=1), world.task, prior=prior)
    made = [bm.policies.nominal(posterior), bm.policies.mle(posterior)]
    draws = posterior.draws(4, seed=5)
    made += [
        bm.policies.nominal(bm.Ensemble([draws.dynamics(i)], world.task))
        for i in range(4)
    ]
    for z in scores(posterior, np.stack(made), size, 150):
        assert abs(z) < 4


def test_twenty_synthetic_problems_agree_and_errors_hold() -> None:
    bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
    policies, found = np.eye(2)[bits], []
    for number in range(20):
        world = bm.worlds.synthetic(number, 3, 2)
        posterior = bm.fit(
            world.sample(40 + 20 * number, seed=number),
            world.task,
            prior=bm.SymmetricPrior(),
        )
        found += scores(posterior, policies, number, 200)
    z = np.array(found)
    assert z.size >= 20
    # most pairs tie with themselves in both; an sd of 1.6 of 20 has p below 0.1 %
    assert np.sqrt((z**2).mean()) < 1.6
    assert np.abs(z).max() < 4.5


def test_errors_hold_over_seeds_where_actions_share() -> None:
    """One posterior, the oracle once with many draws, and 16 seeds of the estimate."""
    bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
    policies, pairs = np.eye(2)[bits], ((1, 0), (1, 1), (2, 0))
    world = bm.worlds.synthetic(3, 3, 2)
    posterior = bm.fit(world.sample(100, seed=0), world.task)
    assert isinstance(posterior, bm.posterior.HierarchicalPosterior)
    oracle = [shared(posterior, policies, at, 1500, 8000, seed=2) for at in pairs]
    found = []
    for seed in range(16):
        info = bm.value_of_information(
            posterior, list(policies), n_visits=(30,), seed=seed
        )
        found.append(
            [
                (info.evppi[at] - value) / np.hypot(info.evppi_mcse[at], noise)
                for at, (value, noise) in zip(pairs, oracle, strict=True)
            ]
        )
    z = np.array(found)
    # 48 of sd 1, a third as many if pairs were one: beyond 0.6 and 1.6 p is below 0.3 %
    assert 0.6 < np.sqrt((z**2).mean()) < 1.6
    assert np.abs(z.mean(axis=0)).max() < 1.0


@pytest.mark.parametrize("pair", [(1, 0), (1, 1), (2, 0)])
def test_visits_agree_with_reweighted_draws_where_actions_share(
    pair: tuple[int, int],
) -> None:
    world = bm.worlds.synthetic(3, 3, 2)
    posterior = bm.fit(world.sample(100, seed=0), world.task)  # hierarchical
    policies = deterministic(3)
    info = bm.value_of_information(posterior, list(policies), n_visits=(30,))
    oracle = reweighted(posterior, policies, pair, 30, 400, 4000, seed=1)
    s, a = pair
    assert agree((info.evsi[0, s, a], info.evsi_mcse[0, s, a]), oracle)


@pytest.mark.parametrize("number", [1, 3])
def test_rows_agree_with_nested_draws_where_actions_share(number: int) -> None:
    """Where actions are as likely the same as not, and where they surely differ."""
    world = bm.worlds.synthetic(number, 3, 2)
    posterior = bm.fit(world.sample(100, seed=0), world.task)  # hierarchical
    assert isinstance(posterior, bm.posterior.HierarchicalPosterior)
    policies = deterministic(3)
    info = bm.value_of_information(posterior, list(policies), n_visits=(30,))
    for s, a in ((0, 1), (1, 1)):
        oracle = shared(posterior, policies, (s, a), 150, 2000, seed=1)
        found = info.evppi[s, a], info.evppi_mcse[s, a]
        assert agree(found, oracle), ((s, a), found, oracle)
