"""Corners of large problems: sparse ascent, planners that fail, solvers that reach."""

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine import Problem, _choose, planning
from bayesmdp.engine.planning import plan
from bayesmdp.evaluation.paired import start_values
from bayesmdp.optimisation import _oracle
from bayesmdp.optimisation._oracle import Oracle

pytestmark = pytest.mark.integration  # for its time


def wide_posterior(discount: float) -> bm.Posterior:
    """100 states and an end, 25 actions of 12 next states; one exit from state 0."""
    n, actions, rng = 100, 25, np.random.default_rng(0)
    state, action, target = [], [], []
    for s in range(n):
        for a in range(actions):
            others = rng.choice(np.arange(1, n), 12, replace=False)
            nexts = [0] if s == 0 and a != 1 else [n] if s == 0 else [*others, n]
            state += [s] * len(nexts)
            action += [a] * len(nexts)
            target += list(nexts)
    counts = bm.Counts.from_arrays(
        state, action, target, np.full(len(state), 50), n_states=n + 1
    )
    task = bm.Task(
        n + 1,
        actions,
        np.where(np.arange(n + 1) < n, -1.0, 0.0),
        discount=discount,
        terminal=[n],
        start=np.eye(n + 1)[0],
    )
    return bm.fit(counts, task, prior=bm.SparsePrior())


def test_without_discount_the_only_way_out_is_never_thinned_away() -> None:
    posterior = wide_posterior(1.0)
    assert posterior.alpha.size > 20_000
    start = np.zeros((101, 25))
    start[:100, :2] = 0.995, 0.005
    with engine.workers(1, None) as pool:
        oracle = Oracle(posterior, bm.PosteriorMean(), 0, pool)
        rows = oracle.rows(start)
        assert np.array_equal(oracle.sparse(rows), rows)
    result = bm.optimise(
        posterior, method=bm.MirrorAscent(n_steps=40), starts={"logged": start}
    )
    assert result.start_value == pytest.approx(-1.0, abs=1e-6)


def test_with_a_discount_rows_of_little_use_are_left_out_and_come_back() -> None:
    posterior = wide_posterior(0.99)
    start = np.zeros((101, 25))
    start[:100, :2] = 0.995, 0.005
    with engine.workers(1, None) as pool:
        oracle = Oracle(posterior, bm.PosteriorMean(), 0, pool)
        thin = oracle.policy(oracle.sparse(oracle.rows(start)))
    assert thin[0, 0] == 1.0
    result = bm.optimise(
        posterior, method=bm.MirrorAscent(n_steps=40), starts={"logged": start}
    )
    assert result.policy[0, 1] == 1.0  # the row that had been left out
    assert result.start_value == pytest.approx(-1.0, abs=1e-6)


def test_the_published_method_is_not_thinned() -> None:
    posterior = wide_posterior(0.99)
    start = np.zeros((101, 25))
    start[:100] = 1 / 25
    start[:100, :2] += 0.95, -0.036
    start[:100] /= start[:100].sum(axis=1, keepdims=True)
    method = bm.StochasticGradient(1e-9, 16, 1)
    result = bm.optimise(posterior, method=method, starts={"logged": start})
    assert (result.policy[:100] > 0).all()


def ring(n: int, discount: float) -> bm.MDP:
    """A shuffled cycle that hardly ever stays: iterations cannot solve it."""
    order = np.random.default_rng(1).permutation(n)
    state = np.concatenate([order, order])
    after = np.concatenate([np.roll(order, -1), order])
    dynamics = bm.Dynamics.from_arrays(
        state,
        np.zeros(2 * n, dtype=int),
        after,
        np.repeat([0.999, 0.001], n),
        n_states=n,
        n_actions=1,
    )
    reward = np.random.default_rng(2).random(n)
    return bm.MDP(dynamics, bm.Task(n, 1, reward, discount=discount))


def test_a_planner_that_fails_says_so_and_hands_over_no_wrong_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ring(600, 0.99999)
    found = plan(Problem.of_dynamics(world.dynamics, world.task))
    assert found.converged
    assert found.value == pytest.approx(world.value(np.zeros(600, dtype=int)), rel=1e-8)
    monkeypatch.setattr(planning, "_LARGE", 100)  # elimination is out of reach
    failed = plan(Problem.of_dynamics(world.dynamics, world.task))
    assert not failed.converged
    assert "converges too slowly" in failed.status
    assert np.isnan(failed.value).all()


def ring_posterior() -> bm.Posterior:
    world = ring(600, 0.99999)
    rows = world.dynamics.rows
    counts = bm.Counts.from_arrays(
        rows.state[rows.row_of_entry],
        rows.action[rows.row_of_entry],
        rows.next_state,
        np.round(1e5 * world.dynamics.probability).astype(int),
        n_states=600,
        n_actions=1,
    )
    return bm.fit(counts, world.task, prior=bm.SparsePrior())


def test_msbi_and_the_bound_do_not_claim_what_was_not_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posterior = ring_posterior()
    monkeypatch.setattr(planning, "_LARGE", 100)
    from bayesmdp.engine import Problem
    from bayesmdp.engine.multisample import multi_sample_induction

    stream = posterior.draws(4).stream
    problem = Problem.of_belief(posterior).with_stream(stream)
    choice = np.arange(600)
    found = multi_sample_induction(problem, choice, 4, 3, 1)
    assert not found.converged
    with engine.workers(1, None) as pool:
        oracle = Oracle(posterior, bm.PosteriorMean(), 0, pool)
        gap, _ = _oracle.hindsight_bound(oracle, np.ones((600, 1)), 16)
    assert np.isnan(gap)


def test_a_bound_that_was_not_found_is_said_in_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        _oracle, "hindsight_values", lambda _, n, *__: np.full(n, np.nan)
    )
    world = bm.worlds.synthetic(0)
    posterior = bm.fit(world.sample(100, seed=0), world.task, prior=bm.SymmetricPrior())
    result = bm.optimise(posterior, method=bm.MirrorAscent(n_steps=1))
    assert np.isnan(result.upper_bound)
    assert "no upper bound" in result.status


def test_draws_that_were_not_solved_have_no_start_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = [ring(600, 0.99999).dynamics, _mixed(600)]
    task = ring(600, 0.99999).task
    draws = bm.Ensemble(models, task).draws()
    policy = np.ones((600, 1))
    with engine.workers(1, None) as pool:
        exact = start_values(policy, draws, pool=pool, solver="dense")
        monkeypatch.setattr(_choose, "_MOST_OPERATIONS", 0.0)
        found = start_values(policy, draws, pool=pool, solver="iterative")
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(exact[1], rel=1e-8)


def _mixed(n: int) -> bm.Dynamics:
    """A chain that forgets at once where it was, on the support of all states."""
    rng = np.random.default_rng(3)
    return bm.Dynamics.from_arrays(
        np.repeat(np.arange(n), 4),
        np.zeros(4 * n, dtype=int),
        np.concatenate([rng.choice(n, 4, replace=False) for _ in range(n)]),
        np.full(4 * n, 0.25),
        n_states=n,
        n_actions=1,
    )


def test_the_solver_of_optimise_reaches_every_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    real = _choose.choose

    def choose(problem: object, wanted: str = "auto", **options: object) -> object:
        asked.append(wanted)
        return real(problem, wanted, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("bayesmdp.engine._cpu.choose", choose)
    world = bm.worlds.synthetic(0)
    posterior = bm.fit(world.sample(100, seed=0), world.task, prior=bm.SymmetricPrior())
    bm.optimise(posterior, method=bm.MirrorAscent(n_steps=3), solver="iterative")
    assert set(asked) == {"iterative"}


def test_a_bad_solver_is_refused_before_any_work() -> None:
    world = bm.worlds.gridworld(width=12, height=12)
    posterior = bm.fit(
        world.sample(2000, seed=0), world.task, prior=bm.SymmetricPrior()
    )
    with pytest.raises(bm.BayesmdpError, match="`solver` must be one of"):
        bm.optimise(posterior, starts={"none": "not looked at"}, solver="fast")


def test_draws_count_in_the_memory_of_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    world = bm.worlds.synthetic(0)
    posterior = bm.fit(world.sample(100, seed=0), world.task, prior=bm.SymmetricPrior())
    monkeypatch.setenv("BAYESMDP_MEMORY", "10MB")
    with pytest.raises(bm.BayesmdpError, match=r"about \d+ draws would fit"):
        bm.evaluate(np.zeros(5, dtype=int), posterior.draws(10**6))
    bm.evaluate(np.zeros(5, dtype=int), posterior.draws(1000))


def test_a_concentration_that_cannot_be_sampled_is_refused() -> None:
    with pytest.raises(bm.BayesmdpError, match="`concentration` must be at least"):
        bm.SymmetricPrior(1e-309)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_rewards_of_transitions_broadcast(shape: tuple[int, ...]) -> None:
    task = bm.worlds.gridworld().task
    found = task.transition_reward(np.full(shape, 19), np.array(2), np.full(shape, 24))
    assert found.shape == shape
    assert (found == 1.0).all()
