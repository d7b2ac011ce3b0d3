"""Rivals of safe improvement: against enumeration, linear programmes and pencil."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

import bayesmdp as bm
from studies import safe_rivals as rivals

Array = NDArray[np.float64]
WORLD = bm.worlds.synthetic(4, 4, 3, discount=0.8)
BASE = np.tile([0.6, 0.3, 0.1], (4, 1))


def log_of(n_steps: int, seed: int = 0) -> rivals.Log:
    log = WORLD.simulate(BASE, 1, seed=seed, max_steps=n_steps)
    return rivals.Log(log, WORLD.task, BASE)


def value(log: rivals.Log, policy: Array, reward: Array | None = None) -> Array:
    """Values of states in the model of frequencies."""
    reward = log.reward if reward is None else reward
    return np.asarray((policy * log.q(policy, reward)).sum(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_spibb_is_the_best_of_all_that_keep_rare_pairs(seed: int) -> None:
    log = log_of(60, seed)
    free = log.visits >= 5
    assert 0 < free.sum() < free.size
    choices = [np.flatnonzero(row) if row.any() else [-1] for row in free]
    best = np.full(4, -np.inf)
    for choice in product(*choices):
        policy = np.where(free, 0.0, BASE)
        for s, a in enumerate(choice):
            if a >= 0:
                policy[s, a] += 1 - policy[s].sum()
        best = np.maximum(best, value(log, policy))
    found = rivals.spibb(log, 5)
    assert found[~free] == pytest.approx(BASE[~free])
    assert value(log, found) == pytest.approx(best)


def row_programme(base: Array, q: Array, error: Array, budget: float) -> float:
    """Best q . pi with sum e (pi - b)+ <= budget; variables pi, excess."""
    n = base.size
    above = np.hstack([np.eye(n), -np.eye(n)])
    most = np.concatenate([np.zeros(n), error])[None]
    solved = linprog(
        np.concatenate([-q, np.zeros(n)]),
        np.vstack([above, most]),
        np.append(base, budget),
        np.concatenate([np.ones(n), np.zeros(n)])[None],
        [1.0],
    )
    return float(-solved.fun)


@pytest.mark.parametrize("seed", range(20))
def test_soft_rows_keep_the_budget_and_are_near_the_programme_s(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base, q = rng.dirichlet(np.ones(4)), rng.normal(size=4)
    for error, exact in ((np.full(4, 0.7), True), (rng.uniform(0.3, 2, 4), False)):
        row = rivals.greedy(base, q, error, 0.3)
        assert row.sum() == pytest.approx(1)
        assert row.min() >= 0
        assert error @ np.maximum(row - base, 0) <= 0.3 + 1e-12
        best = row_programme(base, q, error, 0.3)
        assert row @ q <= best + 1e-9
        assert row @ q >= best - (1e-9 if exact else 0.3 * (best - base @ q))


def test_a_pair_without_visits_gains_nothing_by_soft_rows() -> None:
    row = rivals.greedy(
        np.full(3, 1 / 3), np.array([0.0, 1, 9]), np.array([1, 1, np.inf]), 5.0
    )
    assert row[2] == pytest.approx(1 / 3)


def test_rewards_less_an_error_are_planned_for() -> None:
    """By value iteration; without the error it is the plan for frequencies."""
    log = log_of(400)
    assert (log.visits > 0).all()
    for weight in (0.0, 0.7):
        reward = log.reward - weight / np.sqrt(log.visits)
        v = np.zeros(4)
        for _ in range(300):
            q = reward + 0.8 * log.theta @ v
            v = q.max(axis=1)
        found = rivals.ramdp(log, weight)
        assert np.array_equal(found.argmax(axis=1), q.argmax(axis=1))
    belief = bm.fit(log.transitions, WORLD.task, prior=bm.SymmetricPrior(1.0))
    assert np.array_equal(rivals.ramdp(log, 0.0), bm.policies.mle(belief))


def test_with_many_data_all_reach_the_best_policy() -> None:
    log = log_of(100_000)
    best = bm.policies.nominal(bm.Ensemble([WORLD.dynamics], WORLD.task))
    for policy in (
        rivals.spibb(log, 20),
        rivals.soft_spibb(log, 1.0),
        rivals.ramdp(log, 1.0),
    ):
        assert WORLD.value(policy) == pytest.approx(WORLD.value(best), abs=0.02)


def two_ways() -> rivals.Log:
    """State 0: action 0 pays 1 and ends; action 1 leads to state 1, which pays 4.

    Three episodes each; in state 1 both actions were taken once or twice, one of them
    to a state 2 from where nothing was paid.
    """
    task = bm.Task(
        4,
        2,
        ([0, 1, 1], [0, 0, 1], [3, 3, 3], [1.0, 4.0, 2.0]),
        discount=0.5,
        start=0,
        terminal=[3],
    )
    steps = [(e, 0, 0, 3) for e in range(3)]
    for episode, second in ((3, [(1, 0, 3)]), (4, [(1, 0, 3)])):
        steps += [(episode, 0, 1, 1), *((episode, *x) for x in second)]
    steps += [(5, 0, 1, 1), (5, 1, 1, 2), (5, 2, 0, 3)]
    episode, state, action, to = np.array(steps).T
    log = bm.Transitions.from_arrays(
        state, action, to, episode=episode, n_states=4, n_actions=2
    )
    return rivals.Log(log, task, np.tile([0.7, 0.3], (4, 1)))


def test_decision_points_by_pencil() -> None:
    """Observed returns: 1 by action 0 in state 0; 2, 2 and 0 by action 1, mean 4/3.

    With 3 visits asked for, only state 0 is a decision point, and action 1 is taken.
    With 2, state 1 is one, too: action 0, for 4; there action 1 of state 0 is worth 2.
    """
    log = two_ways()
    found = rivals.dprl(log, 3)
    assert found[0].tolist() == [0, 1]
    assert found[1].tolist() == [0.7, 0.3]
    found = rivals.dprl(log, 2)
    assert found[0].tolist() == [0, 1]
    assert found[1].tolist() == [1, 0]
    assert np.array_equal(rivals.dprl(log, 4), log.baseline)


def test_what_happens_until_the_next_decision_point() -> None:
    """Two episodes: 0 1 2 and broken off in 1; 0 1 and the end. State 2 is a point."""
    task = bm.Task(4, 1, [8.0, 4.0, 2.0, 0.0], discount=0.5, start=0, terminal=[3])
    log = bm.Transitions.from_arrays(
        *([0, 1, 2, 0, 1], [0] * 5, [1, 2, 1, 1, 3]),
        episode=[0, 0, 0, 1, 1],
        n_states=4,
        n_actions=1,
    )
    steps = rivals._Steps.of(rivals.Log(log, task, np.ones((4, 1))))
    paid, factor, to = steps.until(np.array([False, False, True, False]), 0.5)
    assert paid.tolist() == [8 + 4 / 2, 4, 2, 8 + 4 / 2, 4]
    assert factor.tolist() == [0.25, 0.5, 0, 0, 0]
    assert to.tolist() == [2, 2, -1, 3, 3]
