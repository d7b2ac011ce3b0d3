"""Safe improvement: what is kept, what is gained, and when nothing is changed."""

from typing import Any

import numpy as np
import pytest

import bayesmdp as bm

WORLD = bm.worlds.synthetic(3, 6, 3, discount=0.9)
UNIFORM = np.full((6, 3), 1 / 3)


@pytest.fixture(scope="module")
def posterior() -> Any:
    return bm.fit(WORLD.sample(300, seed=1), WORLD.task)


@pytest.fixture(scope="module")
def better(posterior: Any) -> bm.optimisation.Improvement:
    return bm.improve(posterior, UNIFORM, seed=2)


def test_what_is_said_is_what_draws_of_its_own_give(
    posterior: Any, better: bm.optimisation.Improvement
) -> None:
    """Error rate: four Monte Carlo errors on each of two numbers."""
    draws = posterior.draws(4000, seed=11)
    ours, base = (
        bm.evaluate(policy, draws).start_values for policy in (better.policy, UNIFORM)
    )
    gap = np.sort(ours - base)
    tail = gap[: gap.size // 4]
    error = np.hypot(better.improvement_mcse, gap.std() / np.sqrt(gap.size))
    assert abs(better.improvement - gap.mean()) < 4 * error
    error = np.hypot(better.tail_improvement_mcse, tail.std() / np.sqrt(tail.size))
    assert abs(better.tail_improvement - tail.mean()) < 5 * error
    assert better.probability_better == pytest.approx((gap > 0).mean(), abs=0.03)
    assert 0 < better.tail_improvement < better.improvement
    low, high = better.improvement_interval
    assert low < better.improvement < high


def test_its_tail_is_better_than_that_of_the_best_mean(
    posterior: Any, better: bm.optimisation.Improvement
) -> None:
    draws = posterior.draws(4000, seed=12)
    base = bm.evaluate(UNIFORM, draws).start_values
    best = bm.optimise(posterior, seed=0).policy
    tails = [
        np.sort(bm.evaluate(policy, draws).start_values - base)[:1000].mean()
        for policy in (better.policy, best)
    ]
    assert tails[0] > tails[1] - 0.01


def test_pairs_never_observed_keep_the_baseline_s_probability() -> None:
    log = WORLD.sample(60, seed=1)
    belief = bm.fit(log, WORLD.task, prior=bm.SymmetricPrior(0.1))
    never = belief.counts.pair_totals(6, 3) == 0
    assert never.any()
    base = np.tile([0.5, 0.3, 0.2], (6, 1))
    found = bm.improve(belief, base, seed=0)
    assert found.policy[never] == pytest.approx(base[never])
    assert np.abs(found.policy - base).max() > 0.1  # elsewhere it moved
    assert found.policy.sum(axis=1) == pytest.approx(np.ones(6))
    free = bm.optimise(belief, bm.CVaR(0.25, of="improvement", baseline=base), seed=0)
    assert np.abs(free.policy - base)[never].max() > 0.01  # which is why they are held


def test_changes_say_where_and_why(
    posterior: Any, better: bm.optimisation.Improvement
) -> None:
    moved = np.flatnonzero(np.abs(better.policy - UNIFORM).max(axis=1) > 1e-6)
    assert sorted(x.state for x in better.changes) == moved.tolist()
    visits = posterior.counts.pair_totals(6, 3)
    for x in better.changes:
        up = int(x.to_action)
        assert x.to_probability == pytest.approx((1 / 3, better.policy[x.state, up]))
        assert x.visits == visits[x.state, up]
        assert x.why.startswith(f"{x.visits} visits; better in ")
    ranked = [x.share * x.gain for x in better.changes]
    assert ranked == sorted(ranked, reverse=True)
    said = better.summary(2)
    assert said.startswith("Improvement over the baseline")
    assert "mean over the worst quarter of draws" in said
    assert "more states are changed" in said
    assert len(better.to_pandas()) == len(better.changes)
    assert better.to_dict()["changes"][0]["why"] == better.changes[0].why
    assert "<table" in better._repr_html_()


def test_without_evidence_nothing_is_changed() -> None:
    """Actions are alike by the counts: the default belief finds nothing to gain."""
    counts = bm.Counts.from_arrays(
        np.repeat(np.arange(3), 6),
        np.tile(np.repeat([0, 1], 3), 3),
        np.tile([0, 1, 2], 6),
        np.full(18, 20),
    )
    task = bm.Task(3, 2, reward=[0.0, 1, 2], discount=0.9)
    found = bm.improve(bm.fit(counts, task), seed=0)
    assert found.changes == ()
    assert found.improvement == found.tail_improvement == 0
    assert "No change" in found.summary()
    assert np.array_equal(found.policy, found.baseline)


def test_by_default_the_baseline_is_what_was_done(posterior: Any) -> None:
    found = bm.improve(posterior, effort="quick", seed=0)
    assert found.baseline == pytest.approx(bm.policies.behaviour(posterior))


def test_bad_input_is_refused(posterior: Any) -> None:
    with pytest.raises(bm.BayesmdpError, match=r"`tail` must be in \(0, 1\]"):
        bm.improve(posterior, tail=0)
    with pytest.raises(bm.BayesmdpError, match="`baseline`"):
        bm.improve(posterior, [0, 1])
    with pytest.raises(bm.BayesmdpError, match="behaviour"):
        bm.improve(bm.worlds.casino())


def test_the_frontier_trades_the_mean_for_the_tail() -> None:
    belief = bm.fit(WORLD.sample(100, seed=1), WORLD.task, prior=bm.SymmetricPrior(0.2))
    front = bm.risk_frontier(belief, (1.0, 0.1, 0.5), effort="quick", seed=0)
    assert front.tails.tolist() == [0.1, 0.5, 1.0]
    assert front.policies.shape == (3, 6, 3)
    assert front.mean[-1] >= front.mean[0] - 2 * front.mean_mcse[0]
    assert front.tail_means[0, 0] >= front.tail_means[-1, 0]
    assert np.diag(front.tail_means)[:2] == pytest.approx(front.tail_mean[:2])
    assert "the worst tenth" in front.summary()
    assert len(front.to_dict()["tail_means"]) == 3
    for tails in ([], [0.0], "all"):
        with pytest.raises(bm.BayesmdpError, match="`tails"):
            bm.risk_frontier(belief, tails)  # type: ignore[arg-type]
