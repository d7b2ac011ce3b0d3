"""A task read off a log: what the world says, and uncertainties with their figures."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesmdp as bm
from bayesmdp.errors import ArgumentError, CountsError, TaskError

UNIFORM = np.full((25, 4), 0.25)


def log(rows: list[tuple[Any, ...]], columns: str = "s a t", **more: Any) -> Any:
    """Transitions from rows; one letter a column, ``d`` for flags."""
    names = {
        "s": "state",
        "a": "action",
        "t": "next_state",
        "r": "reward",
        "d": "terminated",
        "e": "episode",
        "n": "step",
    }
    values = list(zip(*rows, strict=True))
    found = {
        names[x]: np.array(v) for x, v in zip(columns.split(), values, strict=True)
    }
    return bm.Transitions.from_arrays(**found, **more)


def quiet(data: Any, **options: Any) -> bm.Task:
    """Read a task and turn warnings into failures (pytest does)."""
    return bm.Task.from_data(data, **{"discount": 0.9, **options})


def uncertainty(data: Any, **options: Any) -> tuple[bm.Task, str]:
    """Read a task that raises exactly one uncertainty."""
    with pytest.warns(bm.BayesmdpWarning) as caught:
        task = quiet(data, **options)
    (only,) = caught
    assert only.filename == __file__  # the caller's line, not ours
    return task, str(only.message)


def random_world(seed: int) -> bm.MDP:
    """Twelve states, three of them terminal, rewards for being in a state."""
    rng = np.random.default_rng(seed)
    dynamics = bm.Dynamics.from_dense(rng.dirichlet(np.full(12, 0.5), size=(12, 2)))
    reward = rng.normal(size=12).round(2)
    task = bm.Task(12, 2, reward=reward, discount=0.9, terminal=[3, 7, 11])
    return bm.MDP(dynamics, task)


WORLDS = {
    "grid": (bm.worlds.gridworld(), UNIFORM),
    "random": (random_world(0), np.full((12, 2), 0.5)),
    "another": (random_world(1), np.full((12, 2), 0.5)),
}


@pytest.mark.parametrize(("world", "policy"), WORLDS.values(), ids=WORLDS)
def test_simulated_worlds_are_recovered(world: bm.MDP, policy: Any) -> None:
    data = world.simulate(policy, 400, seed=1)
    task = quiet(data, discount=world.task.discount)
    counts = data.counts()
    visited = np.intersect1d(world.task.terminal, counts.next_state)
    assert visited.size
    assert task.terminal.tolist() == visited.tolist()
    assert (task.n_states, task.n_actions) == (world.task.n_states, counts.n_actions)
    seen = (counts.state, counts.action, counts.next_state)
    truth = world.task.transition_reward(*seen)
    assert task.transition_reward(*seen) == pytest.approx(truth, abs=1e-12)


def test_the_value_of_a_policy_is_that_of_the_true_task() -> None:
    """Every possible transition was observed, so nothing is lost."""
    world = bm.worlds.gridworld()
    data = world.sample(20_000, seed=0)
    ends = world.task.terminal.size * world.task.n_actions  # never left
    assert data.counts().count.size == world.dynamics.probability.size - ends
    task = quiet(data, terminal=world.task.terminal, discount=0.999)
    found = bm.MDP(world.dynamics, task).value(UNIFORM)
    assert found == pytest.approx(world.value(UNIFORM), rel=1e-12)


def test_rewards_are_means_and_zero_where_nothing_was_seen() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 3, (60, 3)), columns=["s", "a", "t"])
    table["r"] = rng.normal(size=60)
    data = log(list(table.itertuples(index=False)), "s a t r", n_actions=4)
    task, _ = uncertainty(data, terminal=())
    means = table.groupby(["s", "a", "t"])["r"].mean()
    every = np.array(np.meshgrid(range(3), range(4), range(3))).reshape(3, -1)
    expected = [means.get(tuple(x), 0.0) for x in every.T.tolist()]
    assert 0.0 in expected
    assert task.transition_reward(*every) == pytest.approx(expected)


def test_an_end_pays_all_who_reach_it_where_it_paid_all_who_did() -> None:
    """2 pays 5 from two pairs, 3 pays 1 or 2, 4 was reached once: only 2 is told."""
    log = bm.Transitions.from_arrays(
        [0, 1, 0, 1, 0],
        [0, 1, 0, 0, 1],
        [2, 2, 3, 3, 4],
        reward=[5, 5, 1, 2, 7],
        terminated=[True] * 5,
    )
    task = bm.Task.from_data(log, discount=0.9)
    pair = np.array([[0, 0, 1, 1], [0, 1, 0, 1]])
    for end, wanted in ((2, [5, 5, 5, 5]), (3, [1, 0, 2, 0]), (4, [0, 7, 0, 0])):
        assert task.transition_reward(*pair, np.full(4, end)).tolist() == wanted


def triplets(log: bm.Transitions) -> tuple[list[int], ...]:
    counts = log.counts()
    return tuple(x.tolist() for x in (counts.state, counts.action, counts.next_state))


def test_exchanged_actions_do_not_lose_the_reward_of_an_end() -> None:
    """Claims are those of a task that pays for arriving, whatever the log holds."""
    theta = np.zeros((4, 2, 4))
    theta[:2, :, 2:] = [0.1, 0.9]
    theta[[2, 3], :, [2, 3]] = 1.0
    task = bm.Task(
        4, 2, np.eye(4)[2] / 0.9, discount=0.9, start=[0.5, 0.5, 0, 0], terminal=[2, 3]
    )
    world = bm.MDP(bm.Dynamics.from_dense(theta), task)
    log = world.simulate(np.full((4, 2), 0.5), 30, seed=7)
    arrivals = {(s, a) for s, a, t in zip(*triplets(log), strict=True) if t == 2}
    assert len(arrivals) == 3  # of four pairs
    known = bm.Task.from_data(log, discount=0.9, start=task.start, terminal=[2, 3])
    prior = bm.SymmetricPrior(0.5)
    how: dict[str, Any] = {"permute": "state", "n_permutations": 5}
    found, wanted = (bm.negative_control(log, x, prior, **how) for x in (known, task))
    assert found.null_gains == pytest.approx(wanted.null_gains)
    assert found.claimed_gain == pytest.approx(wanted.claimed_gain)


def test_four_states_and_as_many_rewards_as_actions() -> None:
    """Four columns of two could be taken for the rows of a table [4, 2]."""
    log = bm.Transitions.from_arrays(
        [0, 1], [0, 1], [1, 3], reward=[0.5, 7], terminated=[False, True]
    )
    task = bm.Task.from_data(log, discount=0.9)
    paid = task.transition_reward(*np.array([[0, 1, 1], [0, 1, 0], [1, 3, 3]]))
    assert paid.tolist() == [0.5, 7, 0]


def test_rewards_that_vary_are_warned_of_with_figures() -> None:
    rows = [(0, 0, 1, 1.0)] * 4 + [(1, 1, 0, 2.0), (1, 1, 0, 5.0), (0, 1, 1, 0.25)]
    rows += [(0, 0, 0, 7.0), (0, 0, 0, 7.5), (0, 0, 0, 7.0)]
    task, said = uncertainty(log(rows, "s a t r"), terminal=())
    assert "varies in 2 of 4 distinct transitions (50.0% of rows)" in said
    assert "state 1, action 1, next state 0 (mean 3.5, sd 1.5, 2 rows)" in said
    paid = task.transition_reward(np.array([1, 0]), np.array([1, 0]), np.array([0, 0]))
    assert paid == pytest.approx([3.5, 21.5 / 3])


def test_rounding_is_no_variation() -> None:
    rows = [(0, 0, 1, 0.1)] * 1001 + [(1, 0, 0, 1e6 / 3)] * 999
    data = log(rows, "s a t r")
    quiet(data, terminal=())
    assert data.reward_statistics().mean.tolist() == [0.1, 1e6 / 3]
    assert data.reward_statistics().sd.tolist() == [0, 0]


def test_rewards_after_the_end_do_not_count() -> None:
    rows = [(0, 0, 1, 5.0, True), (1, 0, 1, 0.0, True), (1, 0, 1, 3.0, True)]
    task = quiet(log(rows, "s a t r d"))
    assert task.terminal.tolist() == [1]


def test_a_reward_that_is_given_needs_no_column() -> None:
    data = log([(0, 0, 1), (1, 0, 0)])
    assert quiet(data, reward=[1, 2]).reward.tolist() == [1, 2]
    with pytest.raises(TaskError, match="no `reward` column: give `reward`"):
        quiet(data)


# Rows (state, action, next state, terminated); terminal states expected.
ENDS = {
    "every arrival flagged": ([(0, 0, 1, 0), (1, 0, 2, 1), (0, 0, 2, 1)], [2]),
    "two ends": ([(0, 0, 1, 1), (0, 0, 2, 1)], [1, 2]),
    "padded without flags": ([(0, 0, 1, 1), (1, 0, 1, 0), (1, 0, 1, 0)], [1]),
    "padded with flags": ([(0, 0, 1, 1), (1, 0, 1, 1)], [1]),
    "no flag set": ([(0, 0, 1, 0), (1, 0, 0, 0)], []),
}


@pytest.mark.parametrize(("rows", "expected"), ENDS.values(), ids=ENDS)
def test_ends_are_found_from_flags(rows: Any, expected: list[int]) -> None:
    task = quiet(log(rows, "s a t d"), reward=np.zeros((3, 1)), n_states=3)
    assert task.terminal.tolist() == expected


DOUBTS = {
    "some arrivals flagged": (
        [(0, 0, 1, 1), (0, 0, 1, 0), (0, 0, 1, 1), (0, 0, 2, 1)],
        [2],
        "1 state was flagged `terminated` on some rows and not taken as terminal: "
        "state 1 is flagged on 2 of 3 rows into it, and was left 0 times.",
    ),
    "left afterwards": (
        [(0, 0, 1, 1), (1, 0, 2, 0), (2, 0, 1, 1), (0, 0, 2, 0)],
        [],
        "state 1 is flagged on 2 of 2 rows into it, and was left 1 time.",
    ),
    "ended where it stayed": (
        [(0, 0, 0, 1), (0, 0, 1, 0), (1, 0, 0, 0)],
        [],
        "0 is flagged on 1 of 2 rows into it",
    ),
    "several": (
        [(0, 0, 1, 1), (1, 0, 0, 1), (0, 0, 1, 1)],
        [],
        "2 states were flagged `terminated` on some rows and not taken as terminal: "
        "state 1 is flagged on 2 of 2 rows into it, and was left 1 time (others: 0). "
        "If episodes end there, give terminal=[1, 0]; if the flag says that only the "
        "log ended, it is `truncated`.",
    ),
}


@pytest.mark.parametrize(("rows", "expected", "text"), DOUBTS.values(), ids=DOUBTS)
def test_flags_that_contradict_are_warned_of_and_not_followed(
    rows: Any, expected: list[int], text: str
) -> None:
    data = log(rows, "s a t d")
    task, said = uncertainty(data, reward=np.zeros((3, 1)), n_states=3)
    assert task.terminal.tolist() == expected
    assert text in said


def test_without_flags_states_never_left_are_named() -> None:
    rows = [(0, 0, 1), (1, 0, 2), (0, 0, 3), (0, 0, 3)]
    task, said = uncertainty(log(rows), reward=np.zeros(4))
    assert task.terminal.size == 0
    assert "2 states were entered and never left (3: 2 times, 2: 1 time)" in said
    assert "terminal=[3, 2]" in said
    named = replace(log(rows), state_labels=("a", "b", "home", "death"))
    task, said = uncertainty(named, reward=np.zeros(4))
    assert "(death: 2 times, home: 1 time)" in said
    assert "give terminal=['death', 'home'];" in said
    assert quiet(named, reward=np.zeros(4), terminal=["death", "home"]).terminal.size


@pytest.mark.parametrize("kind", ["s a t", "s a t d"])
def test_averages_have_no_ends_and_are_told_what_that_means(kind: str) -> None:
    rows = [(0, 0, 1, False), (1, 0, 2, True), (0, 0, 2, True)]
    data = log([row[: len(kind.split())] for row in rows], kind)
    how: Any = {"discount": None, "criterion": "average", "reward": np.zeros(3)}
    task, said = uncertainty(data, **how)
    assert task.terminal.size == 0
    assert "1 state was entered and never left (2), and an average per step" in said
    assert "terminal=" not in said
    assert quiet(log([(0, 0, 1), (1, 0, 0)]), **{**how, "reward": [0, 1]}).n_states == 2


def test_many_doubtful_states_are_cut_short() -> None:
    rows = [(0, 0, t) for t in range(1, 9)]
    _, said = uncertainty(log(rows), reward=np.zeros(9))
    assert "5: 1 time and 3 more" in said
    assert "terminal=[1, 2, 3, 4, 5, ...]" in said


def test_discount_one_without_an_end_is_warned_of() -> None:
    data = log([(0, 0, 1), (1, 0, 0)])
    _, said = uncertainty(data, reward=[0, 1], discount=1)
    assert "discount 1" in said
    quiet(data, reward=[0, 1], discount=0.999)


def test_names_become_text() -> None:
    data = log([(0, 0, 1, 1.0), (1, 1, 0, 2.0)], "s a t r")
    data = replace(data, state_labels=(10, 200), action_labels=("treat", "wait"))
    task = quiet(data)
    assert task.state_labels == ("10", "200")
    assert task.action_labels == ("treat", "wait")
    assert quiet(data, start="200").start.tolist() == [0, 1]
    assert quiet(data, terminal=iter(["200"])).terminal.tolist() == [1]
    for options in (
        {"terminal": [200]},
        {"terminal": 200},
        {"terminal": np.array(200)},
        {"terminal": np.array([10])},
        {"start": 10},
        {"start": {"10": 0.5, 1: 0.5}},
    ):
        with pytest.raises(TaskError, match="could be a name or an index: write '"):
            quiet(data, **options)


def test_sizes_are_the_data_s_or_those_given() -> None:
    data = log([(0, 0, 4)])
    options: dict[str, Any] = {"reward": ([], [], [], []), "terminal": ()}
    assert quiet(data, **options).n_states == 5
    task = quiet(data, n_states=7, n_actions=3, **options)
    assert (task.n_states, task.n_actions) == (7, 3)
    with pytest.raises(TaskError, match="`n_states` is 4, but `data` has 5 states"):
        quiet(data, n_states=4, **options)
    sized = log([(0, 0, 4)], n_actions=2)
    with pytest.raises(TaskError, match="`n_actions` is 3, but `data` has 2 actions"):
        quiet(sized, n_actions=3, **options)
    named = replace(data, state_labels=tuple("abcde"))
    with pytest.raises(TaskError, match="names 5 states, but `n_states` is 7"):
        quiet(named, n_states=7, **options)


def test_a_logged_start_is_the_share_of_first_steps() -> None:
    world = bm.worlds.gridworld()
    data = world.simulate(UNIFORM, 500, seed=2)
    task = quiet(data, start="logged")
    columns = pd.DataFrame(dict(data.table.columns))  # type: ignore[attr-defined]
    first = columns[columns["step"] == 0]["state"]
    expected = np.bincount(first, minlength=25) / 500
    assert task.start == pytest.approx(expected)
    assert quiet(data).start.tolist() == world.task.start.tolist()
    with pytest.raises(CountsError, match="have no `episode` and no `step`"):
        quiet(world.sample(1000), start="logged", terminal=[20, 21, 22, 23, 24])


def test_what_is_no_log_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`data` must be of type Transitions"):
        quiet(bm.Counts.from_arrays([0], [0], [1]))
    empty = bm.Transitions.from_arrays([], [], [])
    with pytest.raises(CountsError, match="no transitions"):
        quiet(empty)


def test_the_summary_says_what_was_found() -> None:
    rows = [(0, 0, 1, 0.5, 0, 7, 0), (1, 1, 2, -2, 1, 7, 1), (1, 0, 2, -2, 1, 8, 0)]
    data = log([*rows, (1, 0, 2, -2, 1, 9, 0)], "s a t r d e n")
    data = replace(data, state_labels=("ward", "icu", "home"))
    said = quiet(data, start="logged").summary().splitlines()
    assert said == [
        "Task of 3 states and 2 actions, discount 0.9",
        "  terminal: home",
        "  reward: 5 transitions, from -2 to 0.5; 0 for others",  # all into home
        "  start: in 2 states, most often icu (0.667)",
    ]
    other = quiet(data, terminal=(), reward=[1, 2, 4], start="icu").summary()
    assert "terminal: none" in other
    assert "reward: of states, from 1 to 4" in other
    assert "start: in state icu" in other


def test_fit_takes_what_was_read() -> None:
    """A log with names, from a frame to numbers in its own words."""
    frame = pd.DataFrame(
        {
            "s": ["ward", "icu", "ward", "icu"],
            "a": ["wait", "treat", "treat", "treat"],
            "sp": ["icu", "home", "icu", "death"],
            "r": [0.0, 1.0, 0.0, 0.0],
        }
    )
    data = bm.read_transitions(frame)
    task = quiet(data, terminal=["home", "death"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", bm.errors.PriorWarning)  # four rows
        posterior = bm.fit(data, task, prior=bm.SparsePrior(fallback="death"))
    wait = np.zeros(4, dtype=int)
    evaluation = bm.evaluate(wait, posterior.draws(50))
    assert "state icu" in evaluation.summary()
    # From the icu: home and death once each, and death once more from the prior (1).
    p = posterior.mean().row(task.state("icu"), task.action("treat"))[1]
    assert p.sum() == pytest.approx(1)


FLAGGED_ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(FLAGGED_ROWS, st.permutations(range(4)))
def test_any_log_gives_a_task_that_fits_it(
    rows: list[tuple[int, int, int, bool]], order: list[int]
) -> None:
    """Ends never contradict the log, and do not depend on how states are numbered."""
    data = log(rows, "s a t d", n_states=4, n_actions=2)
    renumbered = log(
        [(order[s], a, order[t], d) for s, a, t, d in rows],
        "s a t d",
        n_states=4,
        n_actions=2,
    )
    reward = np.zeros((4, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.BayesmdpWarning)
        task = quiet(data, reward=reward)
        other = quiet(renumbered, reward=reward)
    assert sorted(order[s] for s in task.terminal) == other.terminal.tolist()
    into = {t: [d for s, _, t2, d in rows if t2 == t != s] for t in range(4)}
    for state in task.terminal:
        assert into[state]
        assert all(into[state])
    assert bm.fit(data, task, prior=bm.SymmetricPrior()).counts.total == len(rows)
