"""Worlds: their dynamics by hand, and data that follow them.

Statistical tests state their error rate; seeds are fixed.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import bayesmdp as bm

UP, RIGHT, DOWN, LEFT = range(4)


def columns(log: bm.Transitions) -> dict[str, NDArray[np.generic]]:
    return dict(log.table.columns)  # type: ignore[attr-defined]


def row(world: bm.MDP, state: int, action: int) -> dict[int, float]:
    next_state, probability = world.dynamics.row(state, action)
    return dict(zip(next_state.tolist(), probability.tolist(), strict=True))


def small_world(form: int = 3, *, discount: float = 0.9) -> bm.MDP:
    """Four states, the last terminal, three actions, rewards with ``form`` axes."""
    rng = np.random.default_rng(form)
    dense = rng.dirichlet(np.ones(4), size=(4, 3))
    dense[1, 2] = 0.0  # one pair is not available
    reward = rng.normal(size=(4, 3, 4)[:form])
    start = [0.5, 0.2, 0.2, 0.1]
    task = bm.Task(4, 3, reward, discount=discount, start=start, terminal=[3])
    return bm.MDP(bm.Dynamics.from_dense(dense), task)


SMALL_POLICY = np.array(
    [[0.2, 0.3, 0.5], [0.6, 0.4, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]
)


# The gridworld


def test_gridworld_moves_by_hand() -> None:
    world = bm.worlds.gridworld(0.25)
    assert row(world, 0, UP) == {0: 0.75, 5: 0.25}  # corner: stays
    assert row(world, 0, RIGHT) == {1: 0.75, 5: 0.25}
    assert row(world, 0, DOWN) == {5: 1.0}
    assert row(world, 0, LEFT) == {0: 0.75, 5: 0.25}
    assert row(world, 9, RIGHT) == {9: 0.75, 14: 0.25}  # right edge
    assert row(world, 9, UP) == {4: 0.75, 14: 0.25}
    assert row(world, 12, LEFT) == {11: 0.75, 17: 0.25}  # the middle
    assert row(world, 17, UP) == {12: 0.75, 22: 0.25}  # above the cliff
    assert row(world, 19, DOWN) == {24: 1.0}


def test_gridworld_without_wind_obeys_and_in_full_wind_always_falls() -> None:
    calm, storm = bm.worlds.gridworld(0.0), bm.worlds.gridworld(1.0)
    assert row(calm, 7, UP) == {2: 1.0}
    assert row(calm, 4, RIGHT) == {4: 1.0}
    for state in range(20):
        for action in range(4):
            assert row(storm, state, action) == {state + 5: 1.0}


def test_gridworld_task_is_that_of_the_golden_file() -> None:
    task = bm.worlds.gridworld().task
    assert (task.n_states, task.n_actions, task.discount) == (25, 4, 0.999)
    assert task.terminal.tolist() == [20, 21, 22, 23, 24]
    assert task.start.tolist() == [1 / 20] * 20 + [0.0] * 5
    assert task.action_labels == ("up", "right", "down", "left")


def test_gridworld_pays_one_on_entering_the_goal_and_nothing_else() -> None:
    world = bm.worlds.gridworld(0.25)
    state, action, next_state = np.nonzero(world.dynamics.to_dense())
    reward = world.task.transition_reward(state, action, next_state)
    entering = (next_state == 24) & (state < 20)
    assert entering.sum() == 4
    assert reward.tolist() == entering.astype(float).tolist()


def test_gridworld_support_is_the_neighbours() -> None:
    support = bm.worlds.gridworld(0.25).support
    assert np.flatnonzero(support[0]).tolist() == [0, 1, 5]
    assert np.flatnonzero(support[2]).tolist() == [1, 2, 3, 7]
    assert np.flatnonzero(support[12]).tolist() == [7, 11, 13, 17]
    assert np.flatnonzero(support[19]).tolist() == [14, 18, 19, 24]
    assert np.flatnonzero(support[22]).tolist() == [22]
    for p_rand in (0.0, 1.0):  # what may be known in advance is not what the wind does
        assert (bm.worlds.gridworld(p_rand).support == support).all()


def test_gridworld_of_another_size_keeps_its_shape() -> None:
    world = bm.worlds.gridworld(0.5, width=2, height=3)
    assert world.task.terminal.tolist() == [4, 5]
    assert row(world, 0, RIGHT) == {1: 0.5, 2: 0.5}
    assert row(world, 3, LEFT) == {2: 0.5, 5: 0.5}


# Synthetic worlds


def test_synthetic_reward_stays_while_dynamics_change_with_the_seed() -> None:
    one, two = bm.worlds.synthetic(1), bm.worlds.synthetic(2)
    again, other = bm.worlds.synthetic(1), bm.worlds.synthetic(1, reward_seed=1)
    assert np.array_equal(one.task.reward, two.task.reward)
    assert not np.array_equal(one.dynamics.probability, two.dynamics.probability)
    assert np.array_equal(one.dynamics.probability, again.dynamics.probability)
    assert np.array_equal(one.dynamics.probability, other.dynamics.probability)
    assert not np.array_equal(one.task.reward, other.task.reward)
    assert one.support.all()


def test_synthetic_has_the_sizes_asked_for() -> None:
    world = bm.worlds.synthetic(0, n_states=7, n_actions=2, discount=0.5)
    assert world.dynamics.to_dense().shape == (7, 2, 7)
    assert world.task.discount == 0.5


# Sampled pairs


@pytest.mark.parametrize(
    "world", [bm.worlds.gridworld(0.25), small_world()], ids=["grid", "small"]
)
def test_sampled_transitions_follow_the_dynamics(world: bm.MDP) -> None:
    """Chi-square over all transitions; p below 1e-4 is the error rate of each case."""
    n = 40_000
    seen = world.sample(n, seed=3).counts().to_dense()
    theta = world.dynamics.to_dense() * ~world.task.is_terminal[:, None, None]
    assert (seen[theta == 0] == 0).all()
    n_pairs = (theta.sum(axis=2) > 0).sum()
    possible = theta > 0
    expected = n * theta[possible] / n_pairs
    assert stats.chisquare(seen[possible], expected).pvalue > 1e-4
    tilted = expected * np.where(np.arange(expected.size) % 2, 1.1, 0.9)
    tilted *= n / tilted.sum()
    assert stats.chisquare(seen[possible], tilted).pvalue < 1e-4  # it can fail


def test_a_smaller_sample_begins_a_larger_one() -> None:
    world = small_world()
    few, many = columns(world.sample(50, seed=4)), columns(world.sample(500, seed=4))
    other = columns(world.sample(50, seed=5))
    for name, column in few.items():
        assert np.array_equal(column, many[name][:50])
    assert not np.array_equal(few["state"], other["state"])


@pytest.mark.parametrize("form", [1, 2, 3])
def test_sampled_rewards_are_those_of_the_task(form: int) -> None:
    world = small_world(form)
    log = columns(world.sample(200, seed=0))
    reward = np.asarray(world.task.reward)
    s, a, t = log["state"], log["action"], log["next_state"]
    if form == 1:
        expected = reward[s] + 0.9 * np.where(t == 3, reward[3], 0.0)
    else:
        expected = reward[(s, a, t)[:form]]
    np.testing.assert_allclose(log["reward"], expected, rtol=1e-15)


# Simulated episodes


def test_simulated_episodes_are_numbered_connected_and_marked() -> None:
    world = small_world()
    log = columns(world.simulate(SMALL_POLICY, 300, seed=1, max_steps=6))
    episode, step, state = log["episode"], log["step"], log["state"]
    first = step == 0
    goes_on = ~first[1:]
    assert (np.diff(episode)[goes_on] == 0).all()
    assert (np.diff(episode)[~goes_on] > 0).all()
    assert (np.diff(step)[goes_on] == 1).all()
    assert (state[1:][goes_on] == log["next_state"][:-1][goes_on]).all()
    last = np.append(~goes_on, True)
    assert np.array_equal(log["terminated"], log["next_state"] == 3)
    assert np.array_equal(log["truncated"], last & ~log["terminated"])
    assert (step[log["truncated"]] == 5).all()
    assert log["truncated"].any()
    assert step.max() == 5
    assert (state != 3).all()
    # about a tenth start where it is over at once: no rows (binomial, 5 sigma: 6e-7)
    missing = 300 - np.unique(episode).size
    assert abs(missing - 30) < 5 * np.sqrt(300 * 0.1 * 0.9)


def test_simulation_never_uses_an_action_of_probability_zero() -> None:
    log = columns(small_world().simulate(SMALL_POLICY, 2000, seed=2))
    used = np.zeros((4, 3), dtype=bool)
    used[log["state"], log["action"]] = True
    assert np.array_equal(used[:3], SMALL_POLICY[:3] > 0)


def test_fewer_episodes_begin_more() -> None:
    world = small_world()
    few = columns(world.simulate(SMALL_POLICY, 20, seed=4))
    many = columns(world.simulate(SMALL_POLICY, 100, seed=4))
    n = few["state"].size
    for name, column in few.items():
        assert np.array_equal(column, many[name][:n])
    assert many["episode"][n] >= 20


def test_a_longer_limit_only_continues_truncated_episodes() -> None:
    world = small_world()
    short = columns(world.simulate(SMALL_POLICY, 50, seed=4, max_steps=3))
    long = columns(world.simulate(SMALL_POLICY, 50, seed=4))
    early = long["step"] < 3
    for name in ("state", "action", "next_state", "episode", "step", "terminated"):
        assert np.array_equal(short[name], long[name][early])
    assert not long["truncated"].any()


def test_one_step_episodes_are_truncated_unless_they_end() -> None:
    log = columns(small_world().simulate(SMALL_POLICY, 100, seed=0, max_steps=1))
    assert (log["step"] == 0).all()
    assert np.array_equal(log["truncated"], ~log["terminated"].astype(bool))


@pytest.mark.parametrize("form", [1, 2, 3])
def test_simulated_returns_have_the_exact_value_as_their_mean(form: int) -> None:
    """4 standard errors: an error rate of 6.3e-5 a case."""
    world, n = small_world(form), 20_000
    log = columns(world.simulate(SMALL_POLICY, n, seed=6))
    paid = 0.9 ** log["step"].astype(float) * log["reward"]
    returns = np.bincount(log["episode"], paid, minlength=n)
    value = world.value(SMALL_POLICY)
    live = value - world.task.terminal_value  # an episode over at once logs nothing
    error = returns.std(ddof=1) / np.sqrt(n)
    assert abs(returns.mean() - world.task.start @ live) < 4 * error
    assert error < 0.02


def test_simulated_starts_and_actions_follow_their_distributions() -> None:
    """Chi-square; an error rate of 1e-4 for each of the four comparisons."""
    log = columns(small_world().simulate(SMALL_POLICY, 20_000, seed=7))
    starts = np.bincount(log["state"][log["step"] == 0], minlength=4)[:3]
    share = np.array([0.5, 0.2, 0.2]) / 0.9
    assert stats.chisquare(starts, starts.sum() * share).pvalue > 1e-4
    for state in range(3):
        actions = np.bincount(log["action"][log["state"] == state], minlength=3)
        p = SMALL_POLICY[state]
        expected = actions.sum() * p[p > 0]
        assert stats.chisquare(actions[p > 0], expected).pvalue > 1e-4


# Worlds in general


def test_support_of_a_world_is_what_some_action_can_lead_to() -> None:
    world = small_world()
    possible = (world.dynamics.to_dense() > 0).any(axis=1)
    assert np.array_equal(world.support, possible)
    assert world.available.tolist()[1] == [True, True, False]


def test_entering_the_goal_pays_from_wherever() -> None:
    """A wide prior believes in jumps; they too must pay."""
    task = bm.worlds.gridworld().task
    state, action = np.array([0, 5, 19]), np.array([0, 3, 2])
    paid = task.transition_reward(state, action, np.full(3, 24))
    assert paid.tolist() == [1.0, 1.0, 1.0]
