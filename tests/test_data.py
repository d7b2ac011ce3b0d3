"""What was observed: counts and transitions."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import bayesmdp as bm

TRIPLETS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)), max_size=30
)
DENSE = arrays(np.int64, (3, 2, 3), elements=st.integers(0, 4))


def columns(rows: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, 3).T


def as_dict(counts: bm.Counts) -> dict[tuple[int, int, int], int]:
    keys = zip(counts.state, counts.action, counts.next_state, strict=True)
    return {
        (int(s), int(a), int(t)): int(n)
        for (s, a, t), n in zip(keys, counts.count, strict=True)
    }


def episodes(rng: np.random.Generator, n_rows: int, n_episodes: int) -> bm.Transitions:
    """Make up a log whose state column says which episode a row belongs to."""
    episode = rng.integers(0, n_episodes, n_rows)
    return bm.Transitions.from_arrays(
        episode,
        rng.integers(0, 2, n_rows),
        rng.integers(0, n_episodes, n_rows),
        episode=10 * episode + 3,  # ids need not start at 0 nor be next to each other
    )


@given(TRIPLETS)
def test_counting_triplets_is_counting_them_one_by_one(
    rows: list[tuple[int, int, int]],
) -> None:
    counts = bm.Counts.from_arrays(*columns(rows))
    assert as_dict(counts) == dict(Counter(rows))
    assert counts.total == len(rows)


def test_triplets_come_back_sorted() -> None:
    counts = bm.Counts.from_arrays([1, 0, 0], [0, 1, 0], [0, 0, 2])
    assert counts.state.tolist() == [0, 0, 1]
    assert counts.action.tolist() == [0, 1, 0]
    assert counts.next_state.tolist() == [2, 0, 0]


def test_equal_triplets_add_up() -> None:
    counts = bm.Counts.from_arrays([0, 1, 0], [1, 0, 1], [2, 0, 2], [3, 1, 4])
    assert as_dict(counts) == {(0, 1, 2): 7, (1, 0, 0): 1}


def test_zero_counts_are_dropped() -> None:
    counts = bm.Counts.from_arrays([0, 1], [0, 0], [1, 1], [0, 2])
    assert as_dict(counts) == {(1, 0, 1): 2}
    assert bm.Counts.from_dense(np.zeros((2, 1, 2))).count.size == 0


def test_sizes_are_the_largest_ids_where_not_given() -> None:
    counts = bm.Counts.from_arrays([0], [2], [4])
    assert (counts.n_states, counts.n_actions, counts.sized) == (5, 3, (False, False))


def test_sizes_that_are_given_stay() -> None:
    counts = bm.Counts.from_arrays([0], [0], [1], n_states=7, n_actions=3)
    assert (counts.n_states, counts.n_actions, counts.sized) == (7, 3, (True, True))


def test_whole_numbers_may_be_stored_as_floats() -> None:
    counts = bm.Counts.from_arrays([0.0], [1.0], [2.0], [3.0])
    assert as_dict(counts) == {(0, 1, 2): 3}
    assert counts.count.dtype == np.int64


@given(DENSE)
def test_a_dense_array_makes_the_round_trip(array: np.ndarray) -> None:
    back = bm.Counts.from_dense(array).to_dense()
    assert np.array_equal(back, array)
    assert back.dtype == np.int64


@given(DENSE, DENSE)
def test_adding_counts_is_adding_arrays(one: np.ndarray, two: np.ndarray) -> None:
    joint = bm.Counts.from_dense(one) + bm.Counts.from_dense(two)
    assert np.array_equal(joint.to_dense(), one + two)


@given(TRIPLETS, TRIPLETS)
def test_adding_counts_is_counting_both_logs(
    one: list[tuple[int, int, int]], two: list[tuple[int, int, int]]
) -> None:
    apart = bm.Counts.from_arrays(*columns(one)) + bm.Counts.from_arrays(*columns(two))
    together = bm.Counts.from_arrays(*columns(one + two))
    assert apart == together
    assert (apart.n_states, apart.n_actions) == (together.n_states, together.n_actions)


def test_a_sum_takes_the_sizes_that_were_stated() -> None:
    stated = bm.Counts.from_arrays([0], [0], [0], n_states=5, n_actions=3)
    inferred = bm.Counts.from_arrays([1], [1], [2])
    for joint in (stated + inferred, inferred + stated):
        assert (joint.n_states, joint.n_actions, joint.sized) == (5, 3, (True, True))
        assert joint.total == 2


def test_a_sum_of_inferred_sizes_grows() -> None:
    joint = bm.Counts.from_arrays([0], [4], [0]) + bm.Counts.from_arrays([6], [0], [0])
    assert (joint.n_states, joint.n_actions, joint.sized) == (7, 5, (False, False))


def test_an_id_beyond_the_stated_size_cannot_be_added() -> None:
    stated = bm.Counts.from_arrays([0], [0], [0], n_states=2, n_actions=1)
    with pytest.raises(bm.errors.CountsError, match="`n_actions` cannot be added"):
        stated + bm.Counts.from_arrays([0], [1], [1])


def test_counts_do_not_add_to_numbers() -> None:
    with pytest.raises(TypeError):
        bm.Counts.from_arrays([0], [0], [0]) + 1


def test_counts_are_equal_when_the_same_was_seen() -> None:
    rows = [[0, 1, 0], [0, 0, 0], [1, 0, 1]]
    merged = bm.Counts.from_arrays([0, 1], [0, 0], [1, 0], [2, 1])
    assert bm.Counts.from_arrays(*rows) == merged
    assert bm.Counts.from_arrays(*rows) != merged + merged
    assert merged != "counts"


def test_the_arrays_of_counts_are_read_only() -> None:
    counts = bm.Counts.from_arrays([0, 1], [0, 0], [1, 0])
    for array in (counts.state, counts.action, counts.next_state, counts.count):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def test_counts_do_not_follow_the_array_they_came_from() -> None:
    dense = np.ones((2, 1, 2), dtype=np.int64)
    counts = bm.Counts.from_dense(dense)
    dense[:] = 9
    assert counts.total == 4


def test_visits_of_pairs_sum_over_next_states() -> None:
    dense = np.arange(18).reshape(3, 2, 3)
    counts = bm.Counts.from_dense(dense)
    assert np.array_equal(counts.pair_totals(3, 2), dense.sum(axis=2))
    assert counts.pair_totals(4, 3).shape == (4, 3)


def test_large_counts_add_up_without_wrapping_or_are_refused() -> None:
    try:
        counts = bm.Counts.from_arrays([0, 0], [0, 0], [0, 0], [2**62, 2**62])
    except bm.BayesmdpError:
        return
    assert counts.total == 2**63


@given(TRIPLETS)
def test_transitions_count_as_their_triplets(rows: list[tuple[int, int, int]]) -> None:
    log = bm.Transitions.from_arrays(*columns(rows))
    assert log.n_rows == len(rows)
    assert log.counts() == bm.Counts.from_arrays(*columns(rows))


def test_a_truncated_step_is_counted() -> None:
    log = bm.Transitions.from_arrays(
        [0, 1, 0], [0, 0, 0], [1, 2, 1], truncated=[False, False, True]
    )
    assert as_dict(log.counts()) == {(0, 0, 1): 2, (1, 0, 2): 1}


def test_a_terminated_step_is_counted() -> None:
    log = bm.Transitions.from_arrays([0], [0], [2], terminated=[True])
    assert as_dict(log.counts()) == {(0, 0, 2): 1}


def test_transitions_hand_their_sizes_to_their_counts() -> None:
    log = bm.Transitions.from_arrays([0], [0], [0], n_states=4, n_actions=2)
    counts = log.counts()
    assert (counts.n_states, counts.n_actions, counts.sized) == (4, 2, (True, True))


def test_transitions_do_not_follow_the_arrays_they_came_from() -> None:
    state = np.array([0, 1])
    log = bm.Transitions.from_arrays(state, [0, 0], [1, 0])
    state[:] = 1
    assert as_dict(log.counts()) == {(0, 0, 1): 1, (1, 0, 0): 1}


@given(TRIPLETS, st.integers(0, 2**32))
def test_reward_statistics_are_means_and_spreads_of_groups(
    rows: list[tuple[int, int, int]], seed: int
) -> None:
    reward = np.random.default_rng(seed).normal(5.0, 2.0, len(rows))
    paid = defaultdict(list)
    for triplet, value in zip(rows, reward, strict=True):
        paid[triplet].append(value)
    log = bm.Transitions.from_arrays(*columns(rows), reward=reward)
    found = log.reward_statistics()
    triplets = list(
        zip(
            found.state.tolist(),
            found.action.tolist(),
            found.next_state.tolist(),
            strict=True,
        )
    )
    assert triplets == sorted(paid)
    assert found.count.tolist() == [len(paid[x]) for x in triplets]
    assert found.mean == pytest.approx([np.mean(paid[x]) for x in triplets])
    assert found.sd == pytest.approx([np.std(paid[x]) for x in triplets], abs=1e-12)


def test_a_reward_fixed_by_the_transition_has_no_spread() -> None:
    log = bm.Transitions.from_arrays(
        [0, 0, 0], [0, 0, 1], [1, 1, 1], reward=[0.1, 0.1, 7.0]
    )
    found = log.reward_statistics()
    assert found.mean.tolist() == [0.1, 7.0]
    assert found.sd.tolist() == [0.0, 0.0]


def test_the_arrays_of_reward_statistics_are_read_only() -> None:
    found = bm.Transitions.from_arrays([0], [0], [0], reward=[1.0]).reward_statistics()
    for array in vars(found).values():
        assert not array.flags.writeable


@pytest.mark.parametrize("n_folds", [2, 3, 7])
def test_folds_sum_to_all_counts(n_folds: int) -> None:
    log = episodes(np.random.default_rng(0), 200, 20)
    folds = log.counts_by_fold(n_folds, seed=1)
    assert len(folds) == n_folds
    assert sum(folds[1:], start=folds[0]) == log.counts()


def test_an_episode_stays_in_one_fold() -> None:
    log = episodes(np.random.default_rng(0), 200, 20)
    seen = [set(fold.state.tolist()) for fold in log.counts_by_fold(4, seed=1)]
    for i, one in enumerate(seen):
        assert all(one.isdisjoint(other) for other in seen[i + 1 :])
    assert set.union(*seen) == set(range(20))
    assert {len(one) for one in seen} == {5}  # equal shares of the episodes


def test_folds_depend_on_the_seed_alone() -> None:
    log = episodes(np.random.default_rng(0), 200, 20)
    first, again, other = (log.counts_by_fold(4, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_transitions_can_be_compared() -> None:
    one, two = (bm.Transitions.from_arrays([0, 1], [0, 0], [1, 0]) for _ in range(2))
    assert one == one
    assert isinstance(one == two, bool)


def test_records_say_what_they_hold() -> None:
    log = bm.Transitions.from_arrays([0, 0], [0, 0], [1, 1])
    assert repr(log) == "Transitions(2 rows)"
    assert repr(log.counts()) == "Counts(2 transitions, 1 distinct, 2 states, 1 action)"
