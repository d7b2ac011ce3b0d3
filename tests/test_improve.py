"""Safe improvement: what is kept, what is gained, and when nothing is changed."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.optimisation import _improve

WORLD = bm.worlds.synthetic(3, 6, 3, discount=0.9)
UNIFORM = np.full((6, 3), 1 / 3)
TIMED = bm.Task(6, 3, WORLD.task.reward, discount=0.9, horizon=20)


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


def test_its_tail_is_better_than_that_of_the_best_mean() -> None:
    """Where half of the draws had a bad visit; of 0.058 on these draws 0.03 is asked.

    Every pair was observed, so that none is held.
    """
    log = WORLD.sample(60, seed=5)
    posterior = bm.fit(log, WORLD.task, prior=bm.SymmetricPrior(0.1))
    draws = with_bad_visits(posterior, UNIFORM).draws(4000, seed=12)
    base = bm.evaluate(UNIFORM, draws).start_values
    found = [bm.improve(posterior, UNIFORM).policy, bm.optimise(posterior).policy]
    tails = [
        np.sort(bm.evaluate(policy, draws).start_values - base)[:1000].mean()
        for policy in found
    ]
    assert tails[0] > tails[1] + 0.03


def with_bad_visits(posterior: Any, base: Any) -> Any:
    return _improve._with_bad_visits(posterior, base, 0, {})


TREATED = bm.Task(3, 2, [0, 1, 0], discount=0.9, start=[1, 0, 0], terminal=[1, 2])


def treated(good: int, bad: int) -> bm.Counts:
    """Half of 100 patients do well under the first treatment; few had the second."""
    number = np.array([50, 50, good, bad])
    kept = np.flatnonzero(number)
    action, outcome = np.array([0, 0, 1, 1])[kept], np.array([1, 2, 1, 2])[kept]
    return bm.Counts.from_arrays(0 * kept, action, outcome, number[kept])


@pytest.mark.parametrize(
    ("good", "bad", "second"),
    [(1, 0, 0.5), (2, 0, 1.0), (3, 1, 0.5), (1, 1, 0.5), (0, 1, 0.0), (0, 3, 0.0)],
)
def test_one_decision_is_that_of_enumeration(
    good: int, bad: int, second: float
) -> None:
    """Both treatments in equal parts, or one alone: what is best in the worst quarter.

    Draws by NumPy; half with the prior's pseudo-counts of 0.1, half with one of each
    outcome that was observed, and of the bad one.
    """
    rng = np.random.default_rng(0)
    n = 200_000
    sparse = rng.beta(good + (good > 0), bad + 1, n) if good else np.zeros(n)
    first = np.append(rng.beta(50.1, 50.1, n), rng.beta(51, 51, n))
    gain = np.append(rng.beta(good + 0.1, bad + 0.1, n), sparse) - first
    tails = {0.5: 0.0}
    for share in (0.0, 1.0):
        tails[share] = np.sort((share - 0.5) * gain)[: n // 2].mean()
    order = sorted(tails, key=lambda share: -tails[share])
    assert tails[order[0]] > tails[order[1]] + 0.005  # far above the noise of draws
    assert order[0] == second
    belief = bm.fit(treated(good, bad), TREATED, prior=bm.SymmetricPrior(0.1))
    base = np.full((3, 2), 0.5)
    found = bm.improve(belief, base, seed=0)
    assert found.policy[0, 1] == pytest.approx(second, abs=0.02)
    if (good, bad) == (1, 0):  # without bad visits one lucky patient is enough
        objective = bm.CVaR(0.25, of="improvement", baseline=base)
        assert bm.optimise(belief, objective, seed=0).policy[0, 1] > 0.98


def test_what_is_told_is_what_the_posterior_says() -> None:
    """The search has draws with bad visits, of which what is told knows nothing."""
    belief = bm.fit(treated(2, 0), TREATED, prior=bm.SymmetricPrior(0.1))
    found = bm.improve(belief, np.full((3, 2), 0.5), seed=0)
    gain = 0.5 * 0.9 * (2.1 / 2.2 - 0.5)
    assert found.improvement == pytest.approx(gain, abs=4 * found.improvement_mcse)
    assert found.tail_improvement > 0.05


def test_nothing_is_for_the_worse_in_the_posterior_s_own_tail() -> None:
    """The data and a bad visit hope for more than a posterior with a strong prior.

    Chances of the second treatment and of the first are then Beta(22, 15) and Beta(65,
    65): by normal quantiles the second gains 0.02 over the worst half of the
    posterior's draws, and loses 0.02 over the worst quarter.
    """
    support = np.zeros((3, 2, 3), dtype=bool)
    support[0, :, 1:] = True
    prior = bm.SymmetricPrior(15.0, support=support)
    belief, base = bm.fit(treated(7, 0), TREATED, prior=prior), np.full((3, 2), 0.5)
    objective = bm.CVaR(0.25, of="improvement", baseline=base)
    free = bm.optimise(with_bad_visits(belief, base), objective, seed=0)
    assert free.policy[0, 1] > 0.98
    found = bm.improve(belief, base, seed=0)
    assert found.policy[0].tolist() == [0.5, 0.5]
    assert found.changes == ()


@pytest.mark.parametrize("min_count", [0, 2])
@pytest.mark.parametrize("mixed", [False, True])
def test_half_of_the_draws_are_the_posterior_s(mixed: bool, min_count: int) -> None:
    """To the bit, also where pairs were left out and where it is itself a mixture."""
    prior: Any = bm.HierarchicalPrior()
    if mixed:
        priors = [prior, bm.SymmetricPrior(0.1)]
        prior = bm.MixturePrior(priors, posterior_weights=[0.25, 0.75])
    log = WORLD.sample(60, seed=1)
    posterior = bm.fit(log, WORLD.task, prior=prior, min_count=min_count)
    both = with_bad_visits(posterior, bm.policies.behaviour(posterior))
    weights = [0.125, 0.375, 0.5] if mixed else [0.5, 0.5]
    assert both.weights == pytest.approx(weights)
    assert np.array_equal(both.available, posterior.available)
    policy = bm.policies.nominal(posterior)
    for old, new in zip(posterior.components, both.components, strict=False):
        expected = bm.evaluate(policy, old.draws(64, seed=3)).start_values
        assert np.array_equal(
            bm.evaluate(policy, new.draws(64, seed=3)).start_values, expected
        )


def test_the_worst_state_is_one_that_is_known() -> None:
    """State 3 looks worst after one visit, state 2 is bad for sure."""
    counts = bm.Counts.from_arrays(
        [0, 0, 0, 1, 2, 3], [0] * 6, [1, 2, 3, 0, 0, 0], [50, 50, 1, 50, 50, 1]
    )
    task = bm.Task(4, 1, reward=[1.0, 2, -1, -3], discount=0.9)
    belief = bm.fit(counts, task, prior=bm.SymmetricPrior(0.01))
    base = np.ones((4, 1))
    assert bm.evaluate(base, belief.draws(500)).value.argmin() == 3
    assert _improve._worst_state(belief, base, 0, {}) == 2


@pytest.mark.parametrize("form", ["states", "transitions", "triplets"])
@pytest.mark.parametrize("paid", [(1.0, 0.0), (0.0, -1.0), (3.0, 1.0)])
def test_the_worst_end_is_the_worst_however_rewards_are_written(
    paid: tuple[float, float], form: str
) -> None:
    """Most patients recover; with rewards of transitions both ends have the value 0."""
    per_state = np.array([0.0, *paid])
    reward: Any = per_state
    if form != "states":
        reward = np.zeros((3, 2, 3))
        reward[0] = 0.9 * per_state
    if form == "triplets":
        state, action, outcome = np.nonzero(reward)
        reward = (state, action, outcome, reward[state, action, outcome])
    task = bm.Task(3, 2, reward, discount=0.9, start=[1, 0, 0], terminal=[1, 2])
    counts = bm.Counts.from_arrays([0, 0, 0], [0, 0, 1], [1, 2, 1], [70, 30, 1])
    belief, base = (
        bm.fit(counts, task, prior=bm.SymmetricPrior(0.1)),
        np.eye(2)[[0] * 3],
    )
    assert _improve._worst_state(belief, base, 0, {}) == 2
    found = bm.improve(belief, base, seed=0)
    assert found.policy[0].tolist() == [1, 0]  # one recovery says little


@pytest.mark.parametrize("form", ["states", "transitions"])
def test_the_worst_end_of_a_sum_of_rewards(form: str) -> None:
    """Of two discounts, so that the sum has none: cost counts against recovery."""
    paid = {"cost": np.array([0.0, 5, 4]), "qaly": np.array([0.0, 1, 0])}
    discount, reward = {"cost": 0.8, "qaly": 0.9}, dict(paid)
    if form == "transitions":
        for name, of_states in paid.items():
            reward[name] = np.zeros((3, 2, 3))
            reward[name][0] = discount[name] * of_states
    task = bm.Task(3, 2, reward, discount=discount, horizon=4, terminal=[1, 2], start=0)
    counts = bm.Counts.from_arrays([0, 0, 0], [0, 0, 1], [1, 2, 1], [70, 30, 1])
    several, base = bm.fit(counts, task, prior=bm.SymmetricPrior(0.1)), [0, 0, 0]
    for weight, worst in ((2.0, 2), (0.5, 1)):
        belief = several.with_reward({"qaly": weight, "cost": -1.0})
        assert _improve._worst_state(belief, np.eye(2)[base], 0, {}) == worst


def test_where_bad_visits_never_end_the_posterior_is_searched() -> None:
    """At discount 1, where nobody has seen the baseline leave the worst state."""
    counts = bm.Counts.from_arrays([0, 0, 1], [0, 1, 0], [1, 1, 2], [9, 1, 9])
    task = bm.Task(3, 2, [-1.0, -9, 0], discount=1.0, terminal=[2], start=[1, 0, 0])
    belief = bm.fit(counts, task, prior=bm.SymmetricPrior(2.0))
    assert with_bad_visits(belief, np.eye(2)[[0, 1, 0]]) is belief
    assert with_bad_visits(belief, np.eye(2)[[0, 0, 0]]) is not belief


def test_a_baseline_that_does_not_end_is_refused_by_name() -> None:
    counts = bm.Counts.from_arrays([0, 0, 1], [0, 1, 0], [1, 2, 0], [9, 5, 9])
    task = bm.Task(3, 2, [-1.0, -2, 0], discount=1.0, terminal=[2], start=[1, 0, 0])
    belief = bm.fit(counts, task, prior=bm.SparsePrior(), min_count=1)
    with pytest.raises(bm.errors.ArgumentError, match="`baseline` need not end, or"):
        bm.improve(belief, [0, 0, 0])


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
        assert x.visits is not None
        assert x.visits[1] == visits[x.state, up]
        assert x.why.startswith(f"{x.visits[1]} visits; better in ")
    ranked = [x.share * x.gain for x in better.changes]
    assert ranked == sorted(ranked, reverse=True)
    said = better.summary(2)
    assert said.startswith("Improvement over the baseline")
    assert "mean over the worst quarter of draws" in said
    assert "more states changed" in said
    assert len(better.to_pandas()) == len(better.changes)
    assert better.to_dict()["changes"][0]["why"] == better.changes[0].why
    assert "<table" in better._repr_html_()
    head = re.split(r"\s{2,}", said.splitlines()[2])
    known = ["state", "less of", "more of", "its probability", "its visits"]
    assert head == [*known, "gain ± sd", "better"]
    first = better.changes[0]
    told = "{:.2f} -> {:.2f}".format(*first.to_probability)
    row = [first.state_name, first.from_action, first.to_action, told]
    assert re.split(r"\s{2,}", said.splitlines()[3])[:4] == row
    ensemble = bm.Ensemble([posterior.draws(2).dynamics(i) for i in (0, 1)], TIMED)
    said = bm.improve(ensemble, UNIFORM, 1.0, effort="quick").summary()
    assert re.split(r"\s{2,}", said.splitlines()[2]) == known[:-1]  # and no visits


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
    with pytest.raises(bm.BayesmdpError, match="`baseline` must be given"):
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


def test_a_policy_of_another_tail_stands_where_it_is_better() -> None:
    """The search for the worst tenth of this log ends 0.7 below that for a half."""
    world, baseline = bm.worlds.wet_chicken(), bm.worlds.wet_chicken_baseline(0.1)
    log = world.simulate(baseline, 1, seed=60_001, max_steps=1000)
    belief = bm.fit(log, world.task)
    front = bm.risk_frontier(belief, effort="quick", seed=0)
    own = front.results[1].objective_value
    assert front.tail_mean[1] > own + 3 * front.tail_mean_mcse[1]
    assert (np.diff(front.tail_mean) > 0).all()
    np.testing.assert_allclose(np.diag(front.tail_means)[:-1], front.tail_mean[:-1])


def test_no_change_by_a_search_that_had_no_time_says_so() -> None:
    world = bm.worlds.synthetic(0, 3, 2)
    belief = bm.fit(world.sample(300, seed=0), world.task)
    better = bm.improve(belief, max_seconds=0)
    assert not better.changes
    assert not better.optimisation.converged
    assert "ended before it converged: its time was up" in better.summary()


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("steps", "all its steps were taken; effort thorough takes the most."),
        ("interrupted", "converged: it was interrupted."),
    ],
)
def test_why_a_search_ended_early_is_said(
    better: bm.optimisation.Improvement, outcome: str, said: str
) -> None:
    ended = replace(better.optimisation, outcome=bm.optimisation.Outcome(outcome))
    assert said in replace(better, optimisation=ended).summary()
    assert "before it converged" not in better.summary()


def test_a_regret_is_zero_at_most() -> None:
    world = bm.worlds.synthetic(0, 3, 2)
    belief = bm.fit(world.sample(50, seed=0), world.task)
    found = bm.optimise(belief, bm.CVaR(0.1, of="regret"), effort="quick")
    assert found.objective_value < 0
    assert (found.upper_bound, found.upper_bound_mcse) == (0, 0)
    assert found.gap == -found.objective_value
    assert "perfect" not in found.summary()
