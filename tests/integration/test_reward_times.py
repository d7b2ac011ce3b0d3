"""What a second reward costs, and averages of a maintenance problem by QuantEcon."""

import time

import numpy as np
import pytest

import bayesmdp as bm

pytestmark = pytest.mark.integration


YEARS = {"horizon": 75, "cycle": "half"}
#: States, actions, draws, share of next states, task, most that two may cost of one:
#: what was measured (docs/rewards.md), and some room for programs beside it.
SIZES = {
    "4": (4, 4, 4000, 1.0, {}, 1.65),
    "25": (25, 4, 2000, 1.0, {}, 1.4),
    "716": (716, 3, 256, 0.06, {}, 1.35),
    "4, T": (4, 4, 4000, 1.0, YEARS, 1.35),
    "25, T": (25, 4, 1000, 1.0, YEARS, 1.25),
    "716, T": (716, 3, 64, 0.06, YEARS, 1.25),
}


@pytest.mark.parametrize("size", SIZES.values(), ids=list(SIZES))
def test_a_second_reward_costs_about_a_fifth(size: tuple) -> None:
    """Ratio of processor time in one run, alternating; the least of each of fifteen.

    Covariances are among what the second reward adds. Programs beside it cost both
    rewards cache, so that it is measured again, at most twice, where it is too much.
    """
    n, n_actions, n_draws, share, more, most = size
    rng = np.random.default_rng(0)
    table = rng.poisson(2.0, size=(n, n_actions, n))
    table *= rng.random(table.shape) < share
    counts = bm.Counts.from_dense(table)
    paid = {name: rng.normal(size=(n, n_actions)) for name in ("cost", "qaly")}
    policy = rng.integers(0, n_actions, size=n)
    prior = bm.SymmetricPrior() if share == 1 else bm.SparsePrior()
    both = [
        bm.fit(counts, bm.Task(n, n_actions, one, discount=0.97, **more), prior=prior)
        for one in (paid["cost"], paid)
    ]
    for _ in range(3):
        seconds = [], []
        for _ in range(16):
            for taken, posterior in zip(seconds, both, strict=True):
                began = time.process_time()
                bm.evaluate(policy, posterior, n_draws=n_draws, threads=1)
                taken.append(time.process_time() - began)
        one, two = (min(taken[1:]) for taken in seconds)
        print(f"{n} states: {two / one:.2f} of {1e6 * one / n_draws:.1f} us per draw")  # noqa: T201
        if two / one < most:
            return
    pytest.fail(f"a second reward costs {two / one - 1:.0%} of one; {most} at most")


def test_averages_are_those_of_quantecon() -> None:
    """A machine of 12 conditions wears out at random; it runs, or is replaced."""
    quantecon = pytest.importorskip("quantecon")
    rng = np.random.default_rng(5)
    n = 12
    model = np.zeros((n, 2, n))
    for s in range(n):
        model[s, 0, s:] = rng.dirichlet(np.linspace(4, 1, n - s))
    model[:, 1] = model[0, 0]
    cost = -np.stack([np.linspace(0, 12, n) ** 1.3, np.full(n, 9.0)], axis=1)
    belief = bm.Ensemble([model], bm.Task(n, 2, cost, criterion="average"))
    found = {}
    for limit in range(1, n):  # replace from this condition on
        policy = (np.arange(n) >= limit).astype(np.int64)
        chain = quantecon.MarkovChain(model[np.arange(n), policy])
        (share,) = chain.stationary_distributions
        found[limit] = float(share @ cost[np.arange(n), policy])
        ours = bm.evaluate(policy, belief)
        assert ours.start_value == pytest.approx(found[limit])
        np.testing.assert_allclose(ours.occupancy, share, atol=1e-12)
    best = bm.evaluate(bm.policies.nominal(belief), belief).start_value
    assert best >= max(found.values()) - 1e-12
    ddp = quantecon.markov.DiscreteDP(cost, model, 0.9999)
    sigma = ddp.solve(method="policy_iteration").sigma
    assert best == pytest.approx(bm.evaluate(sigma, belief).start_value, abs=1e-6)
