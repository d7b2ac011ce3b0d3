"""The planner against enumeration, value iteration and textbooks.

Enumeration solves every deterministic policy in dense NumPy; the best of them is best
in every state at once. Nothing here is random beyond fixed seeds, so nothing has an
error rate; tolerances are rounding, 1e-9 of the largest value.
"""

import time
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp.engine import Problem, workers
from bayesmdp.engine.planning import Plan, hindsight_values, plan

Array = NDArray[np.float64]

AXES = {"state": 1, "pair": 2, "transition": 3}


def planned(dense: Any, task: bm.Task) -> Plan:
    return plan(Problem.of_dynamics(bm.Dynamics.from_dense(dense), task))


def enumerated(dense: Array, task: bm.Task, reward: Array) -> Array:
    """Best value of each state over all deterministic policies that end."""
    at = reference.setting(task, reward)
    available = dense.sum(axis=2) > 0
    options = [
        np.flatnonzero(available[s]) if not at.ends[s] else [0]
        for s in range(task.n_states)
    ]
    best = np.full(task.n_states, -np.inf)
    for choice in product(*options):
        policy = np.eye(task.n_actions)[list(choice)]
        if ends(dense, policy, at) or task.discount < 1:
            best = np.maximum(best, reference.solve(dense, policy, at).value)
    return best


def ends(dense: Array, policy: Array, at: reference.Setting) -> bool:
    """Whether every live state leads to a terminal one under a policy."""
    inner = np.einsum("sa,sat->st", policy, dense)[np.ix_(at.live, at.live)]
    rest = np.linalg.matrix_power(inner, 10 * at.live.size)
    return bool((rest.sum(axis=1) < 1 - 1e-9).all())


def sparse_model(
    rng: np.random.Generator, n_states: int, n_actions: int, terminal: list[int]
) -> Array:
    """Random rows with impossible next states, some of them certain, some missing."""
    dense = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    dense[rng.random(dense.shape) < 0.5] = 0.0
    empty = dense.sum(axis=2) == 0
    dense[empty, 0] = 1.0
    dense /= dense.sum(axis=2, keepdims=True)
    missing = rng.random((n_states, n_actions)) < 0.2
    missing[np.arange(n_states), rng.integers(n_actions, size=n_states)] = False
    dense[missing] = 0.0
    dense[terminal] = 0.0
    return dense


def assert_best(found: Plan, dense: Array, task: bm.Task, reward: Array) -> None:
    """Assert that the plan's value is the best, and its policy's own."""
    best = enumerated(dense, task, reward)
    scale = max(1.0, float(np.abs(best).max()))
    assert found.converged
    np.testing.assert_allclose(found.value, best, rtol=0, atol=1e-9 * scale)
    own = reference.solve(dense, found.policy, reference.setting(task, reward)).value
    np.testing.assert_allclose(own, best, rtol=0, atol=1e-9 * scale)
    live = reference.setting(task, reward).live
    assert (found.policy[live].max(axis=1) == 1).all()
    assert (found.policy.sum(axis=1) == ~task.is_terminal).all()


@given(
    seed=st.integers(0, 2**32),
    form=st.sampled_from(sorted(AXES)),
    discount=st.sampled_from([0.0, 0.3, 0.9, 0.999]),
    terminal=st.sampled_from([[], [4], [0, 2]]),
)
@settings(max_examples=60)
def test_no_deterministic_policy_is_better(
    seed: int, form: str, discount: float, terminal: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    n_states, n_actions = 5, 3
    dense = sparse_model(rng, n_states, n_actions, terminal)
    shape = (n_states, n_actions, n_states)[: AXES[form]]
    reward = rng.normal(size=shape)
    task = bm.Task(
        n_states, n_actions, reward, discount=discount, terminal=list(terminal)
    )
    assert_best(planned(dense, task), dense, task, reward)


@given(seed=st.integers(0, 2**32), form=st.sampled_from(sorted(AXES)))
@settings(max_examples=40)
def test_without_discount_no_policy_that_ends_is_better(seed: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    terminal = [1, 4]
    dense = sparse_model(rng, 5, 3, terminal)
    dense[:, 0] = rng.dirichlet(np.ones(5), size=5)  # an action that always ends
    dense[terminal] = 0.0
    reward = -rng.exponential(size=(5, 3, 5)[: AXES[form]])
    task = bm.Task(5, 3, reward, discount=1.0, terminal=terminal)
    found = planned(dense, task)
    assert_best(found, dense, task, reward)
    assert ends(dense, found.policy, reference.setting(task, reward))


@pytest.mark.parametrize("form", sorted(AXES))
def test_value_iteration_agrees_on_larger_models(form: str) -> None:
    rng = np.random.default_rng(3)
    n_states, n_actions, g = 60, 6, 0.95
    terminal = [7, 41]
    dense = sparse_model(rng, n_states, n_actions, terminal)
    reward = rng.normal(size=(n_states, n_actions, n_states)[: AXES[form]])
    task = bm.Task(n_states, n_actions, reward, discount=g, terminal=terminal)
    at = reference.setting(task, reward)
    barred = np.where(dense.sum(axis=2) > 0, 0.0, -np.inf)
    value = np.zeros(n_states)
    paid = np.einsum("sat,sat->sa", dense, at.r)
    for _ in range(800):  # 0.95^800 is 1.5e-18
        best = (paid + g * dense @ value + barred)[at.live].max(axis=1)
        value[at.live] = best
    found = planned(dense, task)
    assert found.converged
    np.testing.assert_allclose(
        found.value, value + at.terminal_value, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("discount", [0.5, 0.99, 0.9999])
def test_duplicate_actions_do_not_keep_it_from_ending(discount: float) -> None:
    rng = np.random.default_rng(4)
    once = rng.dirichlet(np.ones(30), size=(30, 3))
    reward = rng.normal(size=(30, 3))
    dense, paid = np.tile(once, (1, 4, 1)), np.tile(reward, (1, 4))
    found = planned(dense, bm.Task(30, 12, paid, discount=discount))
    single = planned(once, bm.Task(30, 3, reward, discount=discount))
    assert found.converged
    assert found.iterations <= 10
    np.testing.assert_allclose(found.value, single.value, rtol=1e-10)
    np.testing.assert_array_equal(found.policy[:, :3], single.policy)  # the first twin


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_where_nothing_is_paid_every_action_is_tied(discount: float) -> None:
    rng = np.random.default_rng(5)
    dense = rng.dirichlet(np.ones(12), size=(12, 4))
    task = bm.Task(12, 4, np.zeros(12), discount=discount, terminal=[11])
    found = planned(dense, task)
    assert found.converged
    assert found.iterations == 1
    assert (found.value == 0).all()


def test_a_clinical_model_with_tied_actions_is_planned_quickly() -> None:
    """716 states, 25 actions; actions 10 to 24 of each state are one and the same."""
    rng = np.random.default_rng(6)
    n_states, n_actions, width = 716, 25, 20
    target = rng.integers(n_states, size=(n_states, n_actions, width))
    share = rng.dirichlet(np.ones(width), size=(n_states, n_actions))
    target[:, 10:], share[:, 10:] = target[:, 9:10], share[:, 9:10]
    dynamics = bm.Dynamics.from_arrays(
        np.repeat(np.arange(n_states), n_actions * width),
        np.tile(np.repeat(np.arange(n_actions), width), n_states),
        target.ravel(),
        share.ravel(),
        n_states=n_states,
        n_actions=n_actions,
    )
    reward = np.zeros(n_states)
    reward[714] = 1.0
    task = bm.Task(
        n_states, n_actions, reward, discount=0.999, terminal=[713, 714, 715]
    )
    problem = Problem.of_dynamics(dynamics, task)
    planned(np.full((2, 1, 2), 0.5), bm.Task(2, 1, [0, 1], discount=0.5))  # compiled
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        found = plan(problem)
        seconds.append(time.perf_counter() - began)
    assert found.converged
    assert min(seconds) < 0.5
    world = bm.MDP(dynamics, task)
    value = world.value(found.policy)
    np.testing.assert_allclose(found.value, value, atol=1e-10)
    dense = dynamics.to_dense()
    ahead = task.discount * dense @ value
    assert (ahead.max(axis=1)[task.live] <= value[task.live] + 1e-9).all()


def grid() -> tuple[Array, bm.Task]:
    """Sutton and Barto's 4x4 grid: -1 a move, until one of two corners."""
    row, column = np.divmod(np.arange(16), 4)
    dense = np.zeros((16, 4, 16))
    for action, (down, right) in enumerate([(-1, 0), (0, 1), (1, 0), (0, -1)]):
        to = 4 * np.clip(row + down, 0, 3) + np.clip(column + right, 0, 3)
        dense[np.arange(16), action, to] = 1.0
    task = bm.Task(16, 4, reward=np.full((16, 4), -1), discount=1, terminal=[0, 15])
    return dense, task


def test_the_way_to_the_nearest_corner_is_as_long_as_it_is() -> None:
    found = planned(*grid())
    row, column = np.divmod(np.arange(16), 4)
    distance = np.minimum(row + column, 6 - row - column)
    assert found.converged
    np.testing.assert_array_equal(found.value, -distance)


@pytest.mark.parametrize(
    ("discount", "published"),
    [(0.9, [26.244, 29.484, 33.484]), (0.96, [74.6496, 78.1056, 82.1056])],
)
def test_forest_management_has_its_published_values(
    discount: float, published: list[float]
) -> None:
    wait = [[0.1, 0.9, 0.0], [0.1, 0.0, 0.9], [0.1, 0.0, 0.9]]
    cut = [[1.0, 0.0, 0.0]] * 3
    task = bm.Task(3, 2, reward=[[0, 0], [0, 1], [4, 2]], discount=discount)
    found = planned(np.stack([wait, cut], axis=1), task)
    np.testing.assert_allclose(found.value, published, rtol=1e-12)
    assert found.policy.argmax(axis=1).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("b", "first"), [(0.5, 1), (0.95, 0), (0.99, 0)])
def test_puterman_example_switches_where_the_book_says(b: float, first: int) -> None:
    """Action 0 is worth more from discount 10/11 on."""
    dense = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]])
    found = planned(dense, bm.Task(2, 2, [[5, 10], [-1, 0]], discount=b))
    values = [(5 - 5.5 * b) / ((1 - 0.5 * b) * (1 - b)), 10 - b / (1 - b)]
    np.testing.assert_allclose(found.value, [max(values), -1 / (1 - b)], rtol=1e-12)
    assert found.policy.tolist() == [np.eye(2)[first].tolist(), [1.0, 0.0]]


def test_discount_nought_takes_the_best_reward() -> None:
    rng = np.random.default_rng(7)
    dense, reward = rng.dirichlet(np.ones(9), size=(9, 4)), rng.normal(size=(9, 4))
    found = planned(dense, bm.Task(9, 4, reward, discount=0))
    np.testing.assert_allclose(found.value, reward.max(axis=1), rtol=1e-14)
    np.testing.assert_array_equal(found.policy.argmax(axis=1), reward.argmax(axis=1))


def test_where_no_action_ends_discount_one_is_refused() -> None:
    dense = np.zeros((3, 2, 3))
    dense[0, :, 1], dense[1, :, 1] = 1.0, 1.0
    task = bm.Task(
        3, 2, np.zeros(3), discount=1, terminal=[2], state_labels=["in", "stuck", "out"]
    )
    with pytest.raises(bm.errors.EndlessError, match="state in no action ever leads"):
        planned(dense, task)


def loop(paid: float, elsewhere: float = 0.0) -> tuple[Array, bm.Task]:
    """State 0 may circle for ``paid`` or end for -10; state 1 has nothing to do so."""
    dense = np.zeros((3, 2, 3))
    dense[0, 0, 0] = dense[0, 1, 2] = 1.0
    dense[1, :, 2] = 1.0
    reward = [[paid, -10.0], [0.0, elsewhere], [0.0, 0.0]]
    return dense, bm.Task(3, 2, reward, discount=1, terminal=[2])


@pytest.mark.parametrize("paid", [-1.0, -1e-6, 0.0])
def test_a_loop_that_pays_nothing_is_left(paid: float) -> None:
    found = planned(*loop(paid))
    assert found.converged
    assert found.policy[0].tolist() == [0.0, 1.0]
    assert found.value[0] == -10.0


def test_a_loop_that_pays_is_not_taken_and_said_aloud() -> None:
    dense, task = loop(1.0)
    found = planned(dense, task)
    assert not found.converged
    assert "never end" in found.status
    assert found.policy[0].tolist() == [0.0, 1.0]
    assert found.value[0] == -10.0
    belief = bm.Ensemble([bm.Dynamics.from_dense(dense)], task)
    with pytest.warns(
        bm.BayesmdpWarning, match="`nominal`: stopped before the optimum"
    ):
        policy = bm.policies.nominal(belief)
    np.testing.assert_array_equal(policy, found.policy)


def test_a_plan_that_converges_warns_of_nothing() -> None:
    dense, task = loop(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bm.policies.nominal(bm.Ensemble([bm.Dynamics.from_dense(dense)], task))


def test_what_a_paid_loop_does_not_touch_is_still_the_best_that_ends() -> None:
    found = planned(*loop(1.0, elsewhere=5.0))
    assert found.policy[1].tolist() == [0.0, 1.0]
    assert found.value[1] == 5.0


def test_rewards_times_a_constant_leave_the_policy_as_it_is() -> None:
    rng = np.random.default_rng(8)
    dense, reward = sparse_model(rng, 20, 5, []), rng.normal(size=(20, 5))
    first = planned(dense, bm.Task(20, 5, reward, discount=0.97))
    for factor in (1e-12, 1e12):
        other = planned(dense, bm.Task(20, 5, factor * reward, discount=0.97))
        np.testing.assert_array_equal(other.policy, first.policy)
        np.testing.assert_allclose(other.value, factor * first.value, rtol=1e-9)


def test_hindsight_plans_every_draw_for_itself() -> None:
    world = bm.worlds.synthetic(1)
    posterior = bm.fit(world.sample(40, seed=0), world.task, prior=bm.SymmetricPrior())
    draws = posterior.draws(70, seed=0)
    problem = Problem.of_belief(posterior).with_stream(draws.stream)
    with workers(2, None) as pool:
        found = hindsight_values(problem, 70, plan(problem).choice, pool)
    each = [
        plan(Problem.of_dynamics(draws.dynamics(i), world.task)).value
        for i in range(70)
    ]
    np.testing.assert_allclose(found, np.array(each) @ world.task.start, rtol=1e-9)


def test_hindsight_plans_every_model_with_its_own_reward() -> None:
    rng = np.random.default_rng(9)
    models = [rng.dirichlet(np.ones(4), size=(4, 3)) for _ in range(5)]
    rewards = [rng.normal(size=4) for _ in range(5)]
    start = [0.4, 0.2, 0.2, 0.2]
    task = bm.Task(4, 3, np.zeros(4), discount=0.9, terminal=[3], start=start)
    ensemble = bm.Ensemble([bm.Dynamics.from_dense(m) for m in models], task, rewards)
    problem = Problem.of_belief(ensemble).with_stream(ensemble.draws().stream)
    with workers(1, None) as pool:
        found = hindsight_values(problem, 5, plan(problem).choice, pool)
    best = [
        task.start @ enumerated(m, task, r)
        for m, r in zip(models, rewards, strict=True)
    ]
    np.testing.assert_allclose(found, best, rtol=1e-10)
