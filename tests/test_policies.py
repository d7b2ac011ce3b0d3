"""Policies as arrays: what is accepted, and what `restrict` makes of the rest."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesmdp as bm
from bayesmdp.errors import PolicyError, TaskError
from bayesmdp.model import as_policy

TASK = bm.Task(4, 3, np.zeros(4), discount=0.9, terminal=[3])


@dataclass(frozen=True)
class Allowed:
    """The least that a policy is checked against."""

    available: np.ndarray
    task: bm.Task = TASK


ALL = Allowed(np.repeat([[True], [True], [True], [False]], 3, axis=1))
SOME = Allowed(
    np.array(
        [
            [True, True, False],
            [False, True, False],
            [True, True, True],
            [False, False, False],
        ]
    )
)


def quiet_restrict(policy: object, belief: Allowed) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.BayesmdpWarning)
        return bm.restrict(policy, belief)


def random_policy(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(3), size=4)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_actions_become_certain(dtype: type) -> None:
    found = as_policy(np.array([2, 0, 1, 0], dtype=dtype), ALL)
    expected = [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert found.tolist() == expected


def test_a_list_of_actions_will_do() -> None:
    assert as_policy([0, 0, 0, 0], ALL)[:, 0].tolist() == [1, 1, 1, 0]


def test_probabilities_pass_through() -> None:
    policy = random_policy(0)
    found = as_policy(policy, ALL)
    assert found[:3] == pytest.approx(policy[:3], abs=1e-15)


def test_rows_off_by_rounding_are_renormalised() -> None:
    policy = np.full((4, 3), np.float32(1 / 3), dtype=np.float32)
    assert as_policy(policy, ALL)[:3].sum(axis=1) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("row", [[0, 0, 0], [7, -1, 0], [np.nan] * 3])
def test_the_row_of_a_terminal_state_is_ignored(row: list[float]) -> None:
    policy = random_policy(0)
    policy[3] = row
    assert as_policy(policy, ALL)[3].tolist() == [0, 0, 0]
    assert quiet_restrict(policy, SOME)[3].tolist() == [0, 0, 0]


def test_the_action_of_a_terminal_state_is_ignored() -> None:
    assert as_policy([0, 0, 0, -1], ALL)[3].tolist() == [0, 0, 0]


def test_a_checked_policy_is_read_only_and_not_the_callers() -> None:
    policy = random_policy(0)
    found = as_policy(policy, ALL)
    assert not found.flags.writeable
    assert policy.flags.writeable
    assert not np.shares_memory(found, policy)


def test_checking_twice_changes_nothing() -> None:
    once = as_policy(random_policy(0), ALL)
    assert as_policy(once, ALL) == pytest.approx(once, abs=1e-15)


def test_a_square_task_tells_actions_from_probabilities() -> None:
    square = Allowed(np.ones((2, 2), bool), bm.Task(2, 2, [0, 1], discount=0.5))
    assert as_policy([0, 1], square).tolist() == [[1, 0], [0, 1]]
    assert as_policy([[0, 1], [0, 1]], square).tolist() == [[0, 1], [0, 1]]


def test_restrict_returns_an_allowed_policy_unchanged_without_a_warning() -> None:
    policy = random_policy(0)
    assert np.array_equal(bm.restrict(policy, ALL), as_policy(policy, ALL))


def test_restrict_drops_what_is_unavailable_and_renormalises() -> None:
    policy = np.tile([0.2, 0.3, 0.5], (4, 1))
    found = quiet_restrict(policy, SOME)
    expected = [[0.4, 0.6, 0], [0, 1, 0], [0.2, 0.3, 0.5], [0, 0, 0]]
    assert found == pytest.approx(np.array(expected))


def test_restrict_says_how_much_it_dropped_and_where() -> None:
    policy = np.tile([0.2, 0.3, 0.5], (4, 1))
    said = (
        r"`restrict` dropped probability in 2 of 3 states "
        r"\(mean 0\.4, most in state 1: 0\.7\); 0 had nothing left"
    )
    with pytest.warns(bm.BayesmdpWarning, match=said):
        bm.restrict(policy, SOME)


def test_restrict_names_the_state_by_its_label() -> None:
    labels = ["ward", "icu", "theatre", "home"]
    task = bm.Task(4, 3, np.zeros(4), discount=0.9, terminal=3, state_labels=labels)
    with pytest.warns(bm.BayesmdpWarning, match=r"most in state icu: 0\.7"):
        bm.restrict(np.tile([0.2, 0.3, 0.5], (4, 1)), Allowed(SOME.available, task))


def test_a_state_that_loses_all_chooses_evenly() -> None:
    with pytest.warns(bm.BayesmdpWarning, match=r"state 0: 1\); 1 had nothing left"):
        found = bm.restrict([2, 1, 0, 0], SOME)
    assert found[0].tolist() == [0.5, 0.5, 0]
    assert found[1].tolist() == [0, 1, 0]
    assert found[2].tolist() == [1, 0, 0]


def test_mass_in_terminal_rows_is_not_said_to_be_dropped() -> None:
    policy = random_policy(0)
    policy[3] = [0, 0, 1]
    bm.restrict(policy, ALL)  # a warning would be an error


@given(st.integers(0, 2**32), st.integers(0, 2**9 - 1))
def test_restrict_always_makes_a_policy_that_is_accepted(seed: int, bits: int) -> None:
    mask = np.array([bits >> i & 1 for i in range(9)], dtype=bool).reshape(3, 3)
    mask[~mask.any(axis=1), 0] = True
    belief = Allowed(np.vstack([mask, np.zeros((1, 3), bool)]))
    policy = random_policy(seed)
    found = quiet_restrict(policy, belief)
    assert np.array_equal(found > 0, belief.available)
    assert found[:3].sum(axis=1) == pytest.approx(1.0)
    assert as_policy(found, belief) == pytest.approx(found)
    kept = np.where(mask, policy[:3], 0.0)
    assert found[:3] == pytest.approx(kept / kept.sum(axis=1, keepdims=True))


def test_restrict_and_evaluate_work_together() -> None:
    counts = bm.Counts.from_arrays([0, 1, 2], [0, 1, 2], [1, 2, 3], [5, 5, 5])
    posterior = bm.fit(counts, TASK, min_count=5, prior=bm.SymmetricPrior())
    even = np.full((4, 3), 1 / 3)
    with pytest.raises(PolicyError, match=r"bm\.restrict"):
        bm.evaluate(even, posterior.draws(2))
    left = quiet_restrict(even, posterior)
    assert np.array_equal(left, as_policy([0, 1, 2, 0], posterior))
    assert bm.evaluate(left, posterior.draws(2)).n_draws == 2


def test_a_constant_policy_is_one_action_everywhere() -> None:
    """Its value is that of the chain of the action alone: here 1 / (1 - 0.9 * 0.5)."""
    task = bm.Task(2, 2, reward="alive", discount=0.9, terminal=[1], start=0)
    half = [[[1, 0], [0.5, 0.5]], [[0, 1], [0, 1]]]
    belief = bm.Ensemble([bm.Dynamics.from_dense(half)], task)
    for action, value in ((0, 10.0), (1, 1 / 0.55)):
        policy = bm.policies.constant(belief, action)
        assert np.array_equal(
            policy, bm.policies.named_policy(f"always:{action}", belief)
        )
        for said in (policy, bm.policies.constant(action), f"always:{action}"):
            found = bm.evaluate(said, belief.draws())
            assert found.start_value == pytest.approx(value)
            assert np.array_equal(found.policy, policy)
    with pytest.raises(TaskError, match=r"`action` must be in 0..1; got 2"):
        bm.policies.constant(belief, 2)


def test_a_constant_policy_may_be_called_by_its_action() -> None:
    task = bm.Task(
        2, 2, "alive", discount=0.9, terminal=[1], action_labels=["placebo", "DPCA"]
    )
    counts = bm.Counts.from_arrays([0, 0, 0], [0, 1, 1], [1, 1, 0])
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
    arms = {x: bm.policies.constant(x) for x in ("placebo", "DPCA")}
    found = bm.compare(arms, posterior.draws(100))
    for x in arms:
        wanted = bm.policies.constant(posterior, x)
        assert np.array_equal(found.evaluations[x].policy, wanted)
        assert np.array_equal(bm.restrict(arms[x], posterior), wanted)
    for bad, said in (
        (
            bm.policies.constant("DPAC"),
            r"`policy`: `action` 'DPAC' is not .*did you mean 'DPCA'",
        ),
        ("DPCA", r"as text must be 'always:' and an action; got 'DPCA'"),
    ):
        with pytest.raises(PolicyError, match=said):
            bm.evaluate(bad, posterior.draws(2))
