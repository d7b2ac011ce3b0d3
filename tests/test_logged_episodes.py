"""Logged episodes in the task's terms, against loops over the rows."""

from dataclasses import replace

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.model import logged_episodes


def test_returns_are_sums_of_the_tasks_rewards() -> None:
    """Against a loop over the rows of each episode, for a reward of transitions."""
    world = bm.worlds.synthetic(n_states=12, seed=3)
    policy = np.full((world.task.n_states, world.task.n_actions), 1.0)
    policy /= world.task.n_actions
    log = world.simulate(policy, 30, seed=1, max_steps=20)
    found = logged_episodes(log, world.task)
    (batch,) = log.episodes()
    for e in range(batch.n_episodes):
        total = 0.0
        for t, row in enumerate(range(batch.start[e], batch.start[e + 1])):
            s, a, n = (
                x[row : row + 1] for x in (batch.state, batch.action, batch.next_state)
            )
            total += world.task.discount**t * world.task.transition_reward(s, a, n)[0]
        assert found.returns[e] == pytest.approx(total, rel=1e-12)
    assert found.counts() == log.counts()


def test_names_are_found_and_rows_after_the_end_are_left_out() -> None:
    """State 1 of the log is the task's 0; a row from the terminal state goes."""
    log = bm.Transitions.from_arrays(
        [0, 1, 2, 0], [0, 0, 0, 0], [1, 2, 2, 1], episode=[5, 5, 5, 9]
    )
    log = replace(log, state_labels=("icu", "ward", "home"))
    task = bm.Task(
        3,
        1,
        reward=[0, 0, 1],
        discount=1,
        terminal="home",
        state_labels=["ward", "icu", "home"],
    )
    found = logged_episodes(log, task)
    assert found.state.tolist() == [1, 0, 1]
    assert found.next_state.tolist() == [0, 2, 0]
    assert found.ended.tolist() == [True, False]
    assert found.returns.tolist() == [1.0, 0.0]
    assert found.first_state.tolist() == [1, 1]


def test_episodes_taken_again_keep_their_rows() -> None:
    """A bootstrap resample repeats whole episodes."""
    world = bm.worlds.gridworld()
    log = world.simulate(np.full((25, 4), 0.25), 10, seed=0)
    found = logged_episodes(log, world.task)
    again = found.take(np.array([3, 3, 0]))
    for k, e in enumerate((3, 3, 0)):
        own = slice(again.start[k], again.start[k + 1])
        of = slice(found.start[e], found.start[e + 1])
        for name in ("state", "action", "next_state", "step", "follows"):
            assert (getattr(again, name)[own] == getattr(found, name)[of]).all()
    assert again.returns.tolist() == found.returns[[3, 3, 0]].tolist()


def test_without_episodes_the_remedy_is_named() -> None:
    """Rows that belong to no episode are refused."""
    log = bm.Transitions.from_arrays([0], [0], [1])
    task = bm.Task(2, 1, reward=[0, 1], discount=0.9)
    with pytest.raises(bm.BayesmdpError, match="no `episode` column"):
        logged_episodes(log, task)
