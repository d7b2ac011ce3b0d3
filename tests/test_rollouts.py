"""Roll-outs against exact moments on the same draws, and closed forms."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from bad_input import case, check
from reference import setting, solve

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, PolicyError
from bayesmdp.evaluation import _rollouts, rollout_evaluate, truncation_bound

REWARD = np.array([1.0, -0.5, 0.3, 2.0])
TASK = bm.Task(4, 3, REWARD, discount=0.9, start=[0.5, 0.2, 0.2, 0.1], terminal=[3])
POLICY = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.0, 0.4, 0.6], [0, 0, 0]])
QUANTITIES = ("value", "epistemic_sd", "aleatoric_sd", "total_sd")
LONG = 300  # 0.9^300 is 2e-14
bound_of: Any = truncation_bound


def posterior(task: bm.Task = TASK) -> bm.Posterior:
    counts = np.random.default_rng(0).integers(0, 3, size=(4, 3, 4))
    counts[3] = 0
    return bm.fit(bm.Counts.from_dense(counts), task, prior=bm.SymmetricPrior())


def known(theta: Any, task: bm.Task) -> bm.Ensemble:
    """No uncertainty at all: one model."""
    return bm.Ensemble([bm.Dynamics.from_dense(theta)], task)


def test_a_deterministic_chain_is_exact() -> None:
    world = bm.worlds.gridworld(p_rand=0.0)
    policy = np.where(np.arange(25) % 5 == 4, 2, 1)  # right, then down
    belief = bm.Ensemble([world.dynamics], world.task)
    found = rollout_evaluate(policy, belief.draws(5, seed=0), 2, 100)
    assert found.value == pytest.approx(world.value(policy), abs=1e-14)
    exact = bm.evaluate(policy, belief.draws())
    assert found.occupancy == pytest.approx(exact.occupancy, abs=1e-14)
    for name in ("value_mcse", "epistemic_sd", "aleatoric_sd", "occupancy_mcse"):
        assert getattr(found, name) == pytest.approx(0.0, abs=1e-14)
    # a random start is chance, and known exactly
    assert found.start_aleatoric_sd == pytest.approx(exact.start_aleatoric_sd)


def test_errors_of_a_draw_fall_with_the_root_of_the_number_of_rollouts() -> None:
    draws = posterior().draws(600, seed=1)
    exact = bm.evaluate(POLICY, draws, control=False).start_values
    numbers = np.array([2, 8, 32, 128])
    misses = [
        rollout_evaluate(POLICY, draws, int(n), LONG, seed=3).start_values - exact
        for n in numbers
    ]
    rms = np.sqrt(np.mean(np.square(misses), axis=1))
    slope = np.polyfit(np.log(numbers), np.log(rms), 1)[0]
    # Each root mean square of 600 is within 3 % (one sd), so the slope within 0.01.
    assert slope == pytest.approx(-0.5, abs=0.04)
    # and their size is what the return variances of the draws say
    at = setting(TASK, REWARD)
    solved = [solve(draws.dynamics(i).to_dense(), POLICY, at) for i in range(600)]
    variance = np.mean([at.rho**2 @ one.variance for one in solved])
    assert rms**2 * numbers == pytest.approx(variance, rel=0.25)


def test_estimates_are_unbiased_and_errors_honest() -> None:
    """Deviations from the truth, in units of the error, over 150 independent runs.

    Their mean has sd 0.08 and their root mean square 0.06, if estimates are normal and
    errors known; few draws leave room for the rest. Two roll-outs a draw: a tenth of
    the spread between means would be uncertainty, were it not corrected for.
    """
    belief = posterior()
    truth = bm.evaluate(POLICY, belief.draws(40_000, seed=99))
    scores: dict[str, list[Any]] = {}
    for seed in range(150):
        draws = belief.draws(300, seed=seed)
        found = rollout_evaluate(POLICY, draws, 2, LONG, seed=seed)
        for name in [*QUANTITIES, *(f"start_{q}" for q in QUANTITIES), "occupancy"]:
            off = np.atleast_1d(getattr(found, name) - getattr(truth, name))[:3]
            error = np.atleast_1d(getattr(found, f"{name}_mcse"))[:3]
            scores.setdefault(name, []).append(off / error)
    for name, values in scores.items():
        z = np.array(values)
        assert np.abs(z.mean(axis=0)).max() < 0.4, name
        rms = np.sqrt(np.mean(z**2, axis=0))
        assert rms.max() < 1.35, name
        assert rms.min() > 0.7, name


def test_total_variance_is_the_sum_of_both() -> None:
    found = rollout_evaluate(POLICY, posterior().draws(50, seed=0), 5, LONG)
    both = found.epistemic_sd**2 + found.aleatoric_sd**2
    assert found.total_sd**2 == pytest.approx(both)
    start = found.start_epistemic_sd**2 + found.start_aleatoric_sd**2
    assert found.start_total_sd**2 == pytest.approx(start)
    assert found.start_value == pytest.approx(TASK.start @ found.value)
    assert found.start_values.mean() == pytest.approx(found.start_value)


def test_where_nothing_is_doubtful_chance_is_not_taken_for_doubt() -> None:
    theta = np.full((4, 3, 4), 0.25)
    draws = known(theta, TASK).draws(200, seed=0)
    found = rollout_evaluate(POLICY, draws, 3, LONG, seed=2)
    assert "below the noise of roll-outs" in found.notes[-1]
    spread = found.start_values.std(ddof=1)
    assert found.start_epistemic_sd < 0.5 * spread
    uncertainty, error = found.epistemic_sd[:3], found.epistemic_sd_mcse[:3]
    assert (uncertainty**2 <= 3 * error * np.maximum(2 * uncertainty, error)).all()
    assert (error > 0).all()
    assert found.total_sd**2 == pytest.approx(
        found.epistemic_sd**2 + found.aleatoric_sd**2
    )


@pytest.mark.parametrize("horizon", [1, 3, 10])
def test_truncation_hides_what_it_must_and_no_more_than_the_bound(horizon: int) -> None:
    reward = np.array([1.0, 0.5, 0.3, 2.0])
    task = bm.Task(4, 3, reward, discount=0.9, start=0, terminal=[3])
    theta = np.random.default_rng(5).dirichlet(np.ones(4), size=(4, 3))
    at = setting(task, reward)
    T = np.einsum("sa,sat->st", POLICY, theta)[:3, :3]
    value = solve(theta, POLICY, at).value
    hidden = 0.9**horizon * np.linalg.matrix_power(T, horizon) @ value[:3]
    bound = truncation_bound(task, horizon)
    assert bound == pytest.approx(0.9**horizon * 2.0 / 0.1)
    with pytest.warns(bm.BayesmdpWarning, match=f"after {horizon} steps"):
        found = rollout_evaluate(
            POLICY, known(theta, task).draws(2000, seed=0), 10, horizon
        )
    missed = value[:3] - found.value[:3]
    # 9 comparisons at 4.5 sd: one in 15,000 sets of draws would fail.
    assert missed == pytest.approx(hidden, abs=4.5 * found.value_mcse[:3].max())
    assert (missed <= bound).all()
    assert f"{bound:.3g}" in found.notes[0]


def test_the_bound_is_that_of_the_paper() -> None:
    grid = bm.worlds.gridworld().task
    assert truncation_bound(grid, 13_808) > 0.001 > truncation_bound(grid, 13_809)
    assert bm.evaluation.draws_needed(0.001, discount=0.999, horizon=13_809) > 0
    endless = bm.Task(2, 1, [1, 0], discount=1.0, terminal=[1])
    assert truncation_bound(endless, 10) == np.inf
    free = bm.Task(2, 1, [0, 0], discount=1.0, terminal=[1])
    assert truncation_bound(free, 10) == 0.0


def test_what_the_horizon_may_hide_is_noted_but_warned_of_only_where_it_matters() -> (
    None
):
    draws = posterior().draws(20, seed=0)
    quiet = rollout_evaluate(POLICY, draws, 2, LONG)  # a warning would be an error here
    assert "at most" in quiet.notes[0]
    with pytest.warns(bm.BayesmdpWarning, match="had not ended"):
        rollout_evaluate(POLICY, draws, 2, 2)


def test_results_depend_neither_on_threads_nor_on_who_computes_them() -> None:
    draws = posterior().draws(75, seed=0)
    one = rollout_evaluate(POLICY, draws, 4, 50, threads=1)
    three = rollout_evaluate(POLICY, draws, 4, 50, threads=3)
    with ThreadPoolExecutor(2) as pool:
        elsewhere = rollout_evaluate(POLICY, draws, 4, 50, executor=pool, threads=5)
    for other in (three, elsewhere):
        assert np.array_equal(one.start_values, other.start_values)
        assert np.array_equal(one.total_sd_mcse, other.total_sd_mcse)
        assert np.array_equal(one.occupancy, other.occupancy)
        assert one.notes == other.notes
    again = rollout_evaluate(POLICY, draws, 4, 50, seed=1)
    assert not np.array_equal(one.start_values, again.start_values)
    fewer = rollout_evaluate(POLICY, posterior().draws(30, seed=0), 4, 50)
    assert np.array_equal(one.start_values[:30], fewer.start_values)


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_is_shown_while_walks_go_on(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Each report comes when few draws but those it counts have been walked."""
    walked, reports = 0, []

    def walk(problem: Any, ground: Any, first: int, n: int) -> Any:
        nonlocal walked
        walked += n
        return walk_range(problem, ground, first, n)

    @contextmanager
    def bar(what: str, total: int, wanted: bool | None) -> Iterator[Any]:
        yield lambda done: reports.append((done, walked))

    walk_range = _rollouts._walk_range
    monkeypatch.setattr(_rollouts, "_walk_range", walk)
    monkeypatch.setattr(_rollouts, "progress_bar", bar)
    rollout_evaluate(POLICY, posterior().draws(64, seed=0), 2, 50, threads=threads)
    shown = [done for done, _ in reports]
    assert shown == list(range(4 // threads, 65, 4 // threads))
    assert all(there - done <= 8 for done, there in reports)


def test_models_with_rewards_of_their_own() -> None:
    theta = np.random.default_rng(1).dirichlet(np.ones(4), size=(2, 4, 3))
    rewards = [REWARD, 10 * REWARD]
    models = [bm.Dynamics.from_dense(x) for x in theta]
    belief = bm.Ensemble(models, TASK, rewards=rewards, weights=[0.3, 0.7])
    draws = belief.draws(1500, seed=0)
    found = rollout_evaluate(POLICY, draws, 4, LONG)
    exact = bm.evaluate(POLICY, draws, control=False)
    for name in QUANTITIES:
        off = np.abs(getattr(found, name) - getattr(exact, name))
        assert (off <= 4 * getattr(found, f"{name}_mcse") + 1e-12).all()
    assert found.value[3] == exact.value[3]  # terminal: what it pays on arrival
    assert f"{0.9**LONG * 10 * (1 + 0.9 * 2) / 0.1:.3g}" in found.notes[0]


def test_rollouts_follow_the_components_of_a_mixture() -> None:
    prior = bm.MixturePrior([bm.SymmetricPrior(0.1), bm.SymmetricPrior(5.0)])
    counts = bm.Counts.from_arrays([0, 1, 2], [0, 0, 1], [1, 3, 3], n_states=4)
    draws = bm.fit(counts, TASK, prior=prior).draws(400, seed=0)
    found = rollout_evaluate(POLICY, draws, 50, LONG)
    exact = bm.evaluate(POLICY, draws, control=False)
    scores = found.start_values - exact.start_values
    assert np.corrcoef(found.start_values, exact.start_values)[0, 1] > 0.9
    assert abs(scores.mean()) < 4 * scores.std() / 20


def test_the_record_says_where_it_comes_from() -> None:
    belief = posterior()
    found = rollout_evaluate(POLICY, belief.draws(40, seed=7), 3, LONG)
    exact = bm.evaluate(POLICY, belief.draws(40, seed=7))
    assert (found.solver, found.seed, found.n_draws) == ("roll-outs", 7, 40)
    assert not found.exact
    assert found.prior_share == pytest.approx(exact.prior_share, abs=0.1)
    assert found.summary().startswith("Value of a policy over 40 draws (seed 7)")
    with pytest.raises(ValueError, match="read-only"):
        found.value[0] = 1.0


def test_without_a_discount_episodes_must_end() -> None:
    task = bm.Task(4, 3, [0, 0, 0, 1.0], discount=1.0, terminal=[3])
    counts, prior = bm.Counts.from_arrays([0], [1], [3]), bm.SymmetricPrior(0.3)
    draws = bm.fit(counts, task, prior=prior).draws(50, seed=0)
    with pytest.warns(bm.BayesmdpWarning, match="occupancy"):
        found = rollout_evaluate([0, 0, 0, 0], draws, 2, 10**5)
    assert np.isnan(found.occupancy).tolist() == [True, True, True, False]
    # Almost all end, and the end pays 1; what does not is lost without a bound.
    assert found.value == pytest.approx(1.0, abs=0.05)
    assert "without a bound" in found.notes[-1]
    stuck = np.zeros((4, 3, 4))
    stuck[:, :, 0] = 1.0
    with pytest.raises(bm.BayesmdpError, match="reaches no terminal state"):
        rollout_evaluate(POLICY, known(stuck, task).draws(5, seed=0), 2, 10)


def call(**changes: Any) -> Any:
    arguments: dict[str, Any] = {
        "policy": POLICY,
        "draws": posterior().draws(10, seed=0),
        "n_rollouts": 2,
        "horizon": 10,
    }
    return lambda: rollout_evaluate(**(arguments | changes))


EXACT = bm.worlds.casino().draws()
BAD = [
    case("draws", ArgumentError, call(draws=3), "`draws`", "posterior.draws", "int"),
    case("exact", ArgumentError, call(draws=EXACT), "`draws`", "ensemble.draws(n, s"),
    case("one", ArgumentError, call(n_rollouts=1), "`n_rollouts`", "at least 2", "1"),
    case("half", ArgumentError, call(n_rollouts=2.5), "`n_rollouts`", "2.5"),
    case("no step", ArgumentError, call(horizon=0), "`horizon`", "at least 1", "0"),
    case("None", ArgumentError, call(horizon=None), "`horizon`", "None"),
    case("so many", ArgumentError, call(n_rollouts=10**19), "`n_rollouts`", "at most"),
    case("so far", ArgumentError, call(horizon=10**400), "`horizon`", "at most"),
    case("seed", ArgumentError, call(seed=-1), "`seed`", "-1"),
    case("threads", ArgumentError, call(threads=0), "`threads`", "0"),
    case("executor", ArgumentError, call(executor=3), "`executor`", "int"),
    case("policy", PolicyError, call(policy=[0, 1]), "`policy`", "4"),
    case("task", ArgumentError, lambda: bound_of(3, 10), "`task`", "int"),
    case("bound", ArgumentError, lambda: bound_of(TASK, 0), "`horizon`", "0"),
]


@pytest.mark.parametrize(("error", "call", "said"), BAD)
def test_bad_input_is_named(
    error: type[bm.BayesmdpError], call: Any, said: tuple[str, ...]
) -> None:
    check(error, call, said)


def test_what_cannot_be_held_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESMDP_MEMORY", "1MB")
    with pytest.raises(bm.BayesmdpError, match="take 3906 draws"):
        rollout_evaluate(POLICY, posterior().draws(10_000, seed=0), 2, 10)
