"""What is decided in advance: rewards in every form, starts, ends and labels."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm

S, A, G = 4, 2, 0.9
LABELS = ["ward", "icu", "home", "grave"]
GRID = np.indices((S, A, S)).reshape(3, -1)  # every transition


def task(reward: Any, **changes: Any) -> bm.Task:
    return bm.Task(S, A, reward, **({"discount": G, "terminal": [2, 3]} | changes))


def all_rewards(made: bm.Task) -> np.ndarray:
    return made.transition_reward(*GRID).reshape(S, A, S)


def random_reward(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def test_a_state_reward_is_paid_on_leaving_and_on_arrival_at_the_end() -> None:
    reward = np.array([1.0, 2.0, 10.0, -10.0])
    expected = np.empty((S, A, S))
    for s, a, t in GRID.T:
        expected[s, a, t] = reward[s] + (G * reward[t] if t >= 2 else 0.0)
    assert all_rewards(task(reward)) == pytest.approx(expected, abs=1e-15)


def test_a_state_reward_gives_terminal_states_their_value() -> None:
    made = task([1.0, 2.0, 10.0, -10.0])
    assert made.terminal_value.tolist() == [0.0, 0.0, 10.0, -10.0]


@pytest.mark.parametrize("shape", [(S, A), (S, A, S)])
def test_a_transition_reward_leaves_terminal_states_worth_nothing(
    shape: tuple[int, ...],
) -> None:
    assert not task(random_reward(*shape)).terminal_value.any()


def test_a_pair_reward_is_the_same_for_all_next_states() -> None:
    reward = random_reward(S, A)
    expected = np.broadcast_to(reward[:, :, None], (S, A, S))
    assert np.array_equal(all_rewards(task(reward)), expected)


def test_a_transition_reward_is_looked_up() -> None:
    reward = random_reward(S, A, S)
    assert np.array_equal(all_rewards(task(reward)), reward)


def test_triplets_and_the_dense_array_are_the_same_reward() -> None:
    reward = np.where(random_reward(S, A, S) > 0.3, random_reward(S, A, S), 0.0)
    state, action, next_state = np.nonzero(reward)
    order = np.random.default_rng(1).permutation(state.size)
    columns = [
        column[order]
        for column in (state, action, next_state, reward[state, action, next_state])
    ]
    assert np.array_equal(all_rewards(task(tuple(columns))), reward)


def test_a_task_takes_the_reward_of_another() -> None:
    """Also of four states, whose four columns of two could be [S, A]."""
    rng = np.random.default_rng(0)
    reward = np.zeros((S, A, S))
    reward[[0, 3], [1, 0], [2, 2]] = rng.standard_normal(2)
    at = np.nonzero(reward)
    known = bm.model.reward_triplets(*at, reward[at], n_states=S, n_actions=A)
    made = task(known)
    assert np.array_equal(all_rewards(made), reward)
    assert np.array_equal(all_rewards(task(made.reward)), reward)


def test_no_triplets_are_no_reward() -> None:
    assert not all_rewards(task(([], [], [], []))).any()


def test_four_numbers_are_rewards_of_four_states() -> None:
    made = task((1.0, 2.0, 3.0, 4.0))
    assert made.terminal_value.tolist() == [0.0, 0.0, 3.0, 4.0]


def test_state_and_transition_rewards_differ_by_one_discount() -> None:
    """Paid on arrival as a transition, or for being in the terminal state."""
    chain = bm.Dynamics.from_arrays(
        [0, 1], [0, 0], [1, 2], [1, 1], n_states=3, n_actions=1
    )
    being = bm.Task(3, 1, [0, 0, 1], discount=G, terminal=2)
    arriving = bm.Task(3, 1, ([1], [0], [2], [1]), discount=G, terminal=2)
    policy = [0, 0, 0]
    assert bm.MDP(chain, being).value(policy) == pytest.approx([G**2, G, 1.0])
    assert bm.MDP(chain, arriving).value(policy) == pytest.approx([G, 1.0, 0.0])


def test_the_uniform_start_is_over_live_states() -> None:
    assert task(np.zeros(S)).start.tolist() == [0.5, 0.5, 0.0, 0.0]


def test_a_state_named_twice_in_a_start_has_both_shares() -> None:
    shares = {"a": 0.25, 0: 0.25, "b": 0.5}
    task = bm.Task(2, 1, [0, 0], discount=0.9, start=shares, state_labels=["a", "b"])
    assert task.start.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "start",
    [1, np.int64(1), "icu", np.str_("icu"), [0, 1, 0, 0], np.eye(S)[1], {"icu": 1}],
    ids=repr,
)
def test_a_start_state_may_be_given_in_many_ways(start: Any) -> None:
    made = task(np.zeros(S), start=start, state_labels=LABELS)
    assert made.start.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_a_start_distribution_is_kept() -> None:
    start = [0.2, 0.3, 0.5, 0.0]
    assert task(np.zeros(S), start=start).start.tolist() == start


@pytest.mark.parametrize(
    "terminal",
    [
        [2, 3],
        (3, 2, 3),
        {2, 3},
        range(2, 4),
        np.array([2, 3]),
        ["home", "grave"],
        np.array(["grave", "home"]),
        ["home", 3],
    ],
    ids=repr,
)
def test_terminal_states_may_be_given_in_many_ways(terminal: Any) -> None:
    made = task(np.zeros(S), terminal=terminal, state_labels=LABELS)
    assert made.terminal.tolist() == [2, 3]
    assert made.is_terminal.tolist() == [False, False, True, True]
    assert made.live.tolist() == [0, 1]


@pytest.mark.parametrize("terminal", [3, np.int64(3), "grave"])
def test_one_terminal_state_needs_no_list(terminal: Any) -> None:
    made = task(np.zeros(S), terminal=terminal, state_labels=LABELS)
    assert made.terminal.tolist() == [3]


def test_no_state_is_terminal_by_default() -> None:
    made = bm.Task(2, 1, [0, 1], discount=0.5)
    assert made.terminal.size == 0
    assert made.live.tolist() == [0, 1]


def test_a_fallback_may_be_given_by_its_label() -> None:
    made = task(np.zeros(S), state_labels=LABELS)
    counts = bm.Counts.from_arrays([0], [0], [1])
    by_label, by_index = (
        bm.fit(counts, made, prior=bm.SparsePrior(fallback=fallback))
        for fallback in ("grave", 3)
    )
    assert np.array_equal(by_label.layout.next_state, by_index.layout.next_state)
    assert np.array_equal(by_label.alpha, by_index.alpha)


def test_labels_and_indices_name_the_same() -> None:
    made = task(np.zeros(S), state_labels=LABELS, action_labels=("wait", "treat"))
    for index, label in enumerate(LABELS):
        assert made.state(label) == made.state(index) == index
        assert made.state_name(index) == label
    assert made.action("treat") == made.action(np.int64(1)) == 1
    assert made.pair_name(1, 0) == "state icu, action wait"


def test_names_are_numbers_without_labels() -> None:
    assert task(np.zeros(S)).pair_name(1, 0) == "state 1, action 0"


def test_the_arrays_of_a_task_are_read_only_and_its_own() -> None:
    reward, start = np.zeros(S), np.array([1.0, 0.0, 0.0, 0.0])
    made = task(reward, start=start)
    reward[0], start[0] = 5.0, 0.5
    assert not all_rewards(made).any()
    assert made.start[0] == 1.0
    arrays = [made.reward, made.start, made.terminal, made.live, made.is_terminal]
    assert not any(array.flags.writeable for array in arrays)


@pytest.mark.parametrize("discount", [0, 0.5, 1, np.float32(0.5)])
def test_every_discount_from_0_to_1_is_taken(discount: float) -> None:
    made = task(np.zeros(S), discount=discount)
    assert made.discount == discount
    assert type(made.discount) is float


def test_alive_pays_one_in_every_state_that_is_not_terminal() -> None:
    made = bm.Task(3, 1, "alive", discount=0.9, terminal=[1])
    assert np.array_equal(made.reward, [1, 0, 1])
    with pytest.raises(bm.errors.TaskError, match="`reward`"):
        bm.Task(3, 1, "dead", discount=0.9)


def test_a_logged_start_needs_the_log() -> None:
    task = bm.Task(3, 1, "alive", discount=0.9, start="logged", terminal=[2])
    assert "start: as episodes of the log begin" in task.summary()
    for alone in (
        lambda: bm.MDP(np.full((3, 1, 3), 1 / 3), task),
        lambda: bm.Ensemble([bm.Dynamics.from_dense(np.full((3, 1, 3), 1 / 3))], task),
        lambda: bm.fit(bm.Counts.from_arrays([0], [0], [1]), task),
    ):
        with pytest.raises(bm.errors.TaskError, match="`start` is 'logged', and there"):
            alone()
    log = bm.Transitions.from_arrays(
        [0, 1], [0, 0], [1, 2], episode=[0, 0], step=[0, 1]
    )
    found = bm.Task.from_data(
        log, discount=0.9, start="logged", reward="alive", terminal=[2]
    )
    assert found.start.tolist() == [1, 0, 0]
    assert np.array_equal(found.reward, [1, 1, 0])
    fitted = bm.fit(log, task)
    assert fitted.task.start.tolist() == [1, 0, 0]
    assert fitted.task.reward.tolist() == [1, 1, 0]
    assert "unreachable-states" not in {x.code for x in bm.validate(log, task)}
    no_episodes = bm.Transitions.from_arrays([0, 1], [0, 0], [1, 2])
    with pytest.raises(bm.errors.CountsError, match="Where episodes begin needs"):
        bm.fit(no_episodes, task)
    other = replace(log, state_labels=("a", "b", "c"))
    turned = bm.Task(
        3,
        1,
        "alive",
        discount=0.9,
        start="logged",
        terminal="c",
        state_labels=["c", "b", "a"],
    )
    assert bm.fit(other, turned).task.start.tolist() == [0, 0, 1]
    named = bm.Task(
        2, 1, [0, 1], discount=0.9, start="logged", state_labels=["logged", "x"]
    )
    assert named.start.tolist() == [1, 0]
