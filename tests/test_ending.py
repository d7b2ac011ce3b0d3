"""Discount 1: what is refused, what is warned about, and what is left out.

A self-loop with probability ``theta ~ Beta(a, b)`` and reward 1 a step is worth
``1 / (1 - theta)``. For ``b > 2``::

    E = (a + b - 1) / (b - 1)
    E[square] = (a + b - 1) (a + b - 2) / ((b - 1) (b - 2))

Statistical checks are within 5 standard errors, known ones where there is a formula:
less than 1e-5 for all of them, as far as sums of that many draws are normal.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import bayesmdp as bm
from bayesmdp.errors import EndlessError

Edges = list[tuple[int, int, int]]  # (state, next_state, count)


def chain(
    edges: Edges,
    concentration: float,
    reward: ArrayLike | tuple[ArrayLike, ...],
    n_live: int,
    *,
    n_ends: int = 1,
    labels: list[str] | None = None,
    discount: float = 1.0,
) -> bm.Posterior:
    """Posterior of a one-action task with given edges and counts on them.

    Live states come first, then the terminal ones.
    """
    n_states = n_live + n_ends
    task = bm.Task(
        n_states,
        1,
        reward,  # type: ignore[arg-type]
        discount=discount,
        start=0,
        terminal=list(range(n_live, n_states)),
        state_labels=labels,
    )
    state, next_state, count = np.array(edges).T
    seen = count > 0
    action = np.zeros_like(state)
    counts = bm.Counts.from_arrays(
        state[seen],
        action[seen],
        next_state[seen],
        count[seen],
        n_states=n_states,
        n_actions=1,
    )
    support = (state, action, next_state)
    prior = bm.SymmetricPrior(concentration, support=support)
    return bm.fit(counts, task, prior=prior)


def each_step(n_states: int) -> NDArray[np.float64]:
    """Reward 1 for every transition."""
    return np.ones((n_states, 1))


def self_loop(concentration: float, stays: int, leaves: int) -> bm.Posterior:
    """Beta(concentration + stays, concentration + leaves), reward 1 a step."""
    edges = [(0, 0, stays), (0, 1, leaves)]
    return chain(edges, concentration, each_step(2), n_live=1)


def evaluated(
    posterior: bm.Posterior, n_draws: int = 1000, *, control: bool = True
) -> bm.Evaluation:
    policy = np.zeros(posterior.task.n_states, dtype=np.int64)
    return bm.evaluate(policy, posterior.draws(n_draws, seed=2), control=control)


@contextmanager
def noted() -> Iterator[list[warnings.WarningMessage]]:
    """Collect the package's own warnings; there must be at least one."""
    with pytest.warns(bm.BayesmdpWarning) as record:
        yield record.list


# ------------------------------------------------------------ policies that do not end


@pytest.mark.parametrize(
    ("labels", "name"), [(None, "1"), (["ward", "corridor", "home"], "corridor")]
)
def test_a_policy_that_cannot_end_is_refused_by_the_name_of_a_state(
    labels: list[str] | None, name: str
) -> None:
    edges = [(0, 1, 1), (0, 2, 4), (1, 1, 1)]
    posterior = chain(edges, 1.0, [0.0, 0.0, 1.0], n_live=2, labels=labels)
    with pytest.raises(EndlessError, match=rf"from state {name} .*no terminal state"):
        evaluated(posterior)


def test_only_the_actions_a_policy_uses_must_end() -> None:
    stays_or_goes = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
    task = bm.Task(2, 2, [[-1, -2], [0, 0]], discount=1.0, terminal=[1])
    world = bm.MDP(bm.Dynamics.from_dense(stays_or_goes), task)
    assert world.value([1, 0]).tolist() == [-2.0, 0.0]
    np.testing.assert_allclose(world.value([[0.5, 0.5], [1, 0]])[0], -3.0)
    with pytest.raises(EndlessError, match="from state 0"):
        world.value([0, 0])


def test_a_task_without_terminal_states_is_refused() -> None:
    task = bm.Task(2, 1, [1.0, 0.0], discount=1.0)
    posterior = bm.fit(
        bm.Counts.from_arrays([0], [0], [1]), task, prior=bm.SymmetricPrior()
    )
    with pytest.raises(EndlessError, match="from state 0"):
        evaluated(posterior)


# ------------------------------------------------------------ means and variances


@pytest.mark.parametrize(("concentration", "leaves"), [(1.0, 0), (0.5, 0), (0.01, 0)])
def test_a_self_loop_without_a_mean_is_refused_by_its_cycle(
    concentration: float, leaves: int
) -> None:
    posterior = self_loop(concentration, 3, leaves)
    with pytest.raises(EndlessError, match=r"mean is infinite.*cycle.* 0 .*above 1"):
        evaluated(posterior)


@pytest.mark.parametrize(("concentration", "leaves"), [(1.0, 1), (0.25, 1), (1.5, 0)])
def test_a_self_loop_without_a_variance_is_warned_about(
    concentration: float, leaves: int
) -> None:
    posterior = self_loop(concentration, 3, leaves)
    with noted() as record:
        evaluation = evaluated(posterior)
    assert [str(w.message) for w in record] == list(evaluation.notes)
    assert "variance over the posterior is infinite" in evaluation.notes[0]
    assert np.isfinite(evaluation.start_value)


@pytest.mark.parametrize(("concentration", "leaves"), [(1.0, 2), (0.25, 2), (2.01, 0)])
def test_a_self_loop_with_a_variance_passes_in_silence(
    concentration: float, leaves: int
) -> None:
    assert evaluated(self_loop(concentration, 3, leaves)).notes == ()


@pytest.mark.parametrize(("n_ends", "concentration"), [(10, 0.2), (20, 0.1)])
@pytest.mark.parametrize("stays", [1, 2, 3, 33, 102])
def test_exits_of_exactly_two_are_warned_about_whatever_the_rounding(
    n_ends: int, concentration: float, stays: int
) -> None:
    edges = [(0, 0, stays), *((0, 1 + i, 0) for i in range(n_ends))]
    reward = each_step(1 + n_ends)
    posterior = chain(edges, concentration, reward, n_live=1, n_ends=n_ends)
    with noted():
        assert "must be above 2" in evaluated(posterior, 16).notes[0]


def test_a_discount_below_one_needs_no_exit() -> None:
    edges = [(0, 0, 3), (0, 1, 0)]
    posterior = chain(edges, 0.5, each_step(2), n_live=1, discount=0.99)
    assert evaluated(posterior).notes == ()


# States 0 and 1 in a circle; both may leave, each with the prior's concentration.
TWO_CYCLE: Edges = [(0, 1, 5), (0, 2, 0), (1, 0, 5), (1, 2, 0)]


@pytest.mark.parametrize(
    ("concentration", "outcome"),
    [(0.4, "refused"), (0.5, "refused"), (0.6, "warned"), (1.0, "warned")],
)
def test_a_cycle_is_judged_by_all_its_exits_together(
    concentration: float, outcome: str
) -> None:
    # Each state alone leaves with more than 5; the two together with 2 c.
    posterior = chain(TWO_CYCLE, concentration, each_step(3), n_live=2)
    if outcome == "refused":
        with pytest.raises(EndlessError, match=r"cycle through state\(s\) 0, 1 "):
            evaluated(posterior)
    else:
        with noted():
            notes = evaluated(posterior).notes
        assert f"concentration {2 * concentration:g}, which must be above 2" in notes[0]


def test_a_cycle_with_exits_above_two_passes_in_silence() -> None:
    posterior = chain(TWO_CYCLE, 1.1, each_step(3), n_live=2)
    assert evaluated(posterior).notes == ()


def test_a_cycle_is_found_behind_states_that_end_easily() -> None:
    # 0 leaves at once; 1 and 2, reached from it, circle with exits 0.6 in all.
    edges = [(0, 3, 9), (0, 1, 1), (1, 2, 5), (1, 3, 0), (2, 1, 5), (2, 3, 0)]
    posterior = chain(edges, 0.3, each_step(4), n_live=3)
    with pytest.raises(EndlessError, match=r"state\(s\) 1, 2 .*concentration 0.6"):
        evaluated(posterior)


def test_a_cycle_is_found_behind_a_smaller_set_that_is_none() -> None:
    # 0 -> 1 -> 2 -> 0 is left by 1 -> 6 (the end) and by 2 -> 3, the beginning of a
    # longer way there. The set {0, 1} has exits as small but holds no cycle.
    edges = [(0, 1, 5), (1, 2, 0), (1, 6, 0), (2, 0, 5), (2, 3, 0)]
    far = [(3, 4, 5), (4, 5, 5), (5, 6, 5)]
    reward = ([0], [0], [1], [1.0])
    posterior = chain([*edges, *far], 0.3, reward, n_live=6)
    with pytest.raises(EndlessError, match=r"state\(s\) 0, 1, 2 .*concentration 0.6"):
        evaluated(posterior)


def test_a_small_exit_without_a_cycle_does_no_harm() -> None:
    edges = [(0, 1, 0), (0, 2, 0), (1, 2, 1)]  # straight on, whatever happens
    evaluation = evaluated(chain(edges, 0.1, each_step(3), n_live=2))
    assert evaluation.notes == ()
    assert abs(evaluation.start_value - 1.5) < 1e-12  # the control variate is exact


def on_arrival(n_live: int, n_ends: int, pays: list[float]) -> tuple[ArrayLike, ...]:
    """Reward triplets that pay on entering a terminal state only."""
    state, end = np.divmod(np.arange(n_live * n_ends), n_ends)
    return state, np.zeros_like(state), n_live + end, np.array(pays)[end]


@pytest.mark.parametrize("concentration", [0.3, 0.5, 1.0])
def test_rewards_on_termination_alone_are_never_refused(concentration: float) -> None:
    edges = [(0, 0, 3), (0, 1, 0), (0, 2, 0)]
    reward = on_arrival(1, 2, [1.0, 0.0])
    posterior = chain(edges, concentration, reward, n_live=1, n_ends=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.BayesmdpWarning)  # visits may have no mean
        evaluation = evaluated(posterior, 4000, control=False)
    # The exits are Beta(c, c) however long the stay: mean 1/2, sd 1/2 / sqrt(2 c + 1).
    sd = 0.5 / np.sqrt(2 * concentration + 1)
    assert abs(evaluation.start_value - 0.5) < 5 * sd / np.sqrt(4000)
    assert abs(evaluation.start_epistemic_sd / sd - 1) < 0.1
    live = evaluation.start_values[np.isfinite(evaluation.start_values)]
    assert ((live >= 0) & (live <= 1)).all()


def test_visits_without_a_mean_are_not_reported_as_numbers() -> None:
    edges = [(0, 0, 3), (0, 1, 0)]
    posterior = chain(edges, 0.9, on_arrival(1, 1, [1.0]), n_live=1)
    with noted():
        evaluation = evaluated(posterior)
    assert np.isnan(evaluation.occupancy[0])
    assert any("occupancy" in note for note in evaluation.notes)
    assert abs(evaluation.start_value - 1.0) < 1e-6


@pytest.mark.parametrize("control", [False, True])
@pytest.mark.parametrize("stays", [1, 6])
def test_the_value_of_a_self_loop_agrees_with_its_closed_form(
    control: bool, stays: int
) -> None:
    n_draws = 200_000
    a, b = 1.0 + stays, 3.0
    posterior = self_loop(1.0, stays, 2)
    assert posterior.alpha.tolist() == [a, b]
    evaluation = evaluated(posterior, n_draws, control=control)
    mean = (a + b - 1) / (b - 1)
    sd = np.sqrt((a + b - 1) * (a + b - 2) / ((b - 1) * (b - 2)) - mean**2)
    assert abs(evaluation.start_value - mean) < 5 * sd / np.sqrt(n_draws)
    assert evaluation.start_value == pytest.approx(evaluation.value[0], rel=1e-12)


# ------------------------------------------------------------ endless within rounding


def test_numerically_endless_draws_are_counted_and_left_out() -> None:
    # 1 - theta ~ Beta(0.014, 1.007): below the kernel's 1e-70 one time in ten.
    edges = [(0, 0, 1), (0, 1, 0), (0, 2, 0)]
    reward = on_arrival(1, 2, [1.0, 0.0])
    posterior = chain(edges, 0.007, reward, n_live=1, n_ends=2)
    with noted() as record:
        evaluation = evaluated(posterior, 2000)
    assert 50 < evaluation.n_endless < 500
    endless = np.isnan(evaluation.start_values)
    assert endless.sum() == evaluation.n_endless
    assert evaluation.n_draws == evaluation.start_values.size == 2000
    kept = evaluation.start_values[~endless]
    assert evaluation.start_value == pytest.approx(kept.mean(), abs=1e-12)
    assert evaluation.start_epistemic_sd == pytest.approx(kept.std(ddof=1), abs=1e-12)
    assert evaluation.value[0] == pytest.approx(kept.mean(), abs=1e-12)
    assert evaluation.variance_reduction == 1.0  # controls would be biased
    said = f"{evaluation.n_endless} of 2000 draws"
    assert sum(said in note for note in evaluation.notes) == 1
    assert [str(w.message) for w in record] == list(evaluation.notes)
    assert said in evaluation.summary()


def test_endless_draws_are_the_same_on_any_number_of_threads() -> None:
    edges = [(0, 0, 1), (0, 1, 0)]
    posterior = chain(edges, 0.014, on_arrival(1, 1, [1.0]), n_live=1)
    with noted():
        one, two = (
            bm.evaluate([0, 0], posterior.draws(500), threads=n) for n in (1, 2)
        )
    assert one.n_endless == two.n_endless > 0
    assert np.array_equal(one.start_values, two.start_values, equal_nan=True)
    ended = one.start_values[np.isfinite(one.start_values)]
    np.testing.assert_allclose(ended, 1.0, atol=1e-5)


def test_a_belief_whose_draws_nearly_all_are_endless_is_refused() -> None:
    edges = [(0, 0, 1), (0, 1, 0)]
    posterior = chain(edges, 1e-4, on_arrival(1, 1, [1.0]), n_live=1)
    with pytest.raises(EndlessError, match="draws have episodes that can be resolved"):
        bm.evaluate([0, 0], posterior.draws(2, seed=0))


# ------------------------------------------------------------ discount 0


def test_with_discount_zero_only_the_first_reward_counts() -> None:
    reward = np.array([[[0.0, 1.0, 3.0]], [[5.0, 5.0, 5.0]], [[0.0, 0.0, 0.0]]])
    edges = [(0, 0, 2), (0, 1, 1), (0, 2, 4), (1, 1, 1)]  # state 1 never ends
    posterior = chain(edges, 1.0, reward, n_live=2, discount=0.0)
    n_draws = 4000
    plain = evaluated(posterior, n_draws, control=False)
    alpha, r = np.array([3.0, 2.0, 5.0]), reward[0, 0]
    mean = alpha @ r / alpha.sum()
    spread = alpha @ r**2 / alpha.sum() - mean**2
    epistemic = np.sqrt(spread / (alpha.sum() + 1))
    aleatoric = np.sqrt(spread * alpha.sum() / (alpha.sum() + 1))
    assert abs(plain.start_value - mean) < 5 * epistemic / np.sqrt(n_draws)
    assert plain.start_epistemic_sd == pytest.approx(epistemic, rel=0.1)
    assert plain.start_aleatoric_sd == pytest.approx(aleatoric, rel=0.05)
    assert plain.value[1] == 5.0
    assert plain.occupancy.tolist() == [1.0, 0.0, 0.0]
    controlled = evaluated(posterior, n_draws)
    assert controlled.start_value == pytest.approx(mean, abs=1e-12)  # linear in theta


# ------------------------------------------------------------ long episodes, kept exact


def test_rare_ends_are_solved_to_every_digit() -> None:
    """Always up in the goal's column: only the wind ends it, on the goal."""
    world = bm.worlds.gridworld(p_rand=1e-6, discount=1.0)
    np.testing.assert_allclose(world.value([0] * 25)[4:20:5], 1.0, rtol=1e-12)


def test_a_known_world_with_very_long_episodes_keeps_its_value() -> None:
    dynamics = bm.Dynamics.from_dense([[[1 - 1e-11, 1e-11]], [[0.0, 1.0]]])
    task = bm.Task(2, 1, [1.0, 0.0], discount=1.0, terminal=[1])
    assert bm.MDP(dynamics, task).value([0, 0])[0] == pytest.approx(1e11, rel=1e-9)


def test_an_action_that_always_leaves_makes_the_mean_finite() -> None:
    """Half the time the second action ends it, whatever the first one does."""
    task = bm.Task(2, 2, [1.0, 0.0], discount=1.0, terminal=[1])
    support = ([0, 0, 0], [0, 0, 1], [0, 1, 1])
    prior = bm.SymmetricPrior(0.4, support=support)
    counts = bm.Counts.from_arrays([0], [0], [0], n_states=2, n_actions=2)
    posterior = bm.fit(counts, task, prior=prior)
    evaluation = bm.evaluate([[0.5, 0.5], [1, 0]], posterior.draws(1000))
    assert evaluation.start_values.min() >= 1.0
    assert evaluation.start_values.max() <= 2.0 + 1e-12
