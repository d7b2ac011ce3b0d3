"""Mirror ascent on its own, with gradients from dense NumPy instead of the engine.

An oracle here is a set of dense models: all of them, or a sample that all steps share.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp.engine import Slopes
from bayesmdp.engine.ascent import AscentState, climb, frank_wolfe_gap, soften

Array = NDArray[np.float64]
N_STEPS, TOLERANCE = 400, 1e-9


@dataclass(frozen=True)
class Models:
    """Dense models without terminal states; every pair is available."""

    theta: Array  # [M, S, A, S]
    reward: Array  # [S]
    start: Array  # [S]
    discount: float = 0.95

    @property
    def n_states(self) -> int:
        return int(self.reward.size)

    @property
    def n_actions(self) -> int:
        return int(self.theta.shape[2])

    @property
    def source(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.n_states), self.n_actions)

    def each(self, rows: Array, chosen: slice | Array) -> tuple[Array, Array, Array]:
        """Start value, slope and visits in each of the chosen models."""
        theta = self.theta[chosen]
        pi = rows.reshape(self.n_states, self.n_actions)
        chain = np.einsum("sa,msat->mst", pi, theta)
        system = np.eye(self.n_states) - self.discount * chain
        right = np.broadcast_to(self.reward[:, None], (len(theta), self.n_states, 1))
        value = np.linalg.solve(system, right)[..., 0]
        start = np.broadcast_to(self.start[:, None], right.shape)
        visits = np.linalg.solve(system.transpose(0, 2, 1), start)[..., 0]
        look_ahead = np.einsum("msat,mt->msa", theta, value)
        q = self.reward[:, None] + self.discount * look_ahead
        slope = visits[:, :, None] * (q - value[:, :, None])
        return value @ self.start, slope.reshape(len(theta), -1), visits

    def exact(self, rows: Array) -> Slopes:
        """Mean over all models; no noise."""
        value, slope, visits = self.each(rows, slice(None))
        mean = slope.mean(axis=0)
        best = mean.reshape(self.n_states, self.n_actions).max(axis=1)
        gap = float(np.maximum(best, 0.0).sum())
        return Slopes(value.mean(), mean, visits.mean(axis=0), gap, 0.0)

    def value(self, rows: Array) -> float:
        return float(self.exact(rows).value)

    def sample(self, n_models: int, seed: int) -> "Models":
        """Some of the models, at random."""
        chosen = np.random.default_rng(seed).integers(len(self.theta), size=n_models)
        return replace(self, theta=self.theta[chosen])


def random_models(
    seed: int,
    n_models: int = 20,
    concentration: float = 0.5,
    discount: float = 0.95,
    scale: float = 1.0,
) -> Models:
    rng = np.random.default_rng(seed)
    theta = rng.dirichlet(np.full(4, concentration), size=(n_models, 4, 3))
    return Models(theta, scale * rng.normal(size=4), np.full(4, 0.25), discount)


def even(models: Models) -> AscentState:
    n_rows = models.n_states * models.n_actions
    return AscentState(np.full(n_rows, 1 / models.n_actions))


def climbed(
    models: Models,
    state: AscentState | None = None,
    most: int = N_STEPS,
    tolerance: float = TOLERANCE,
    after_step: Callable[[AscentState, Slopes], bool] | None = None,
) -> tuple[AscentState, bool]:
    """Climb on all models, from the uniform random policy where none is given."""
    state = even(models) if state is None else state
    done = climb(
        state,
        models.exact,
        models.source,
        models.n_states,
        most,
        tolerance,
        after_step,
    )
    return state, done


def path(
    models: Models, most: int = N_STEPS, tolerance: float = TOLERANCE
) -> list[Array]:
    """Policies after each step of an ascent from the uniform random policy."""
    met: list[Array] = []

    def watch(state: AscentState, at: Slopes) -> bool:
        met.append(state.policy.copy())
        return True

    climbed(models, None, most, tolerance, watch)
    return met


@pytest.mark.parametrize("scale", [1e-6, 0.001, 1000.0])
def test_the_scale_of_rewards_does_not_change_the_path(scale: float) -> None:
    small = path(random_models(0), 60, 0.0)
    large = path(random_models(0, scale=scale), 60, 0.0)
    assert min(len(small), len(large)) > 15  # later steps only decide about rounding
    for one, other in zip(small[:15], large[:15], strict=True):
        assert other == pytest.approx(one, abs=1e-8)


def test_rewards_a_thousand_times_as_large_give_the_same_policy() -> None:
    world = bm.worlds.synthetic(0)
    data = world.sample(100, seed=0)
    reward = np.random.default_rng(0).normal(size=5)
    found = []
    for scale in (1.0, 1000.0):
        task = bm.Task(5, 5, scale * reward, discount=0.99)
        found.append(bm.optimise(bm.fit(data, task, prior=bm.SymmetricPrior()), seed=0))
    assert found[1].policy == pytest.approx(found[0].policy, abs=1e-6)
    assert found[1].start_value == pytest.approx(1000 * found[0].start_value)
    assert found[1].steps == found[0].steps


@pytest.mark.parametrize("discount", [0.0, 0.3, 0.9, 0.99, 0.999, 0.9999])
def test_a_known_model_is_solved_whatever_the_discount(discount: float) -> None:
    models = random_models(1, n_models=1, discount=discount)
    state, _ = climbed(models)
    task = bm.Task(4, 3, models.reward, discount=discount)
    known = bm.Ensemble([bm.Dynamics.from_dense(models.theta[0])], task)
    best = bm.policies.nominal(known).ravel()
    assert models.value(state.policy) == pytest.approx(models.value(best), rel=1e-6)
    assert np.isfinite(state.policy).all()


def test_the_casino_is_solved_by_an_exact_oracle() -> None:
    def oracle(rows: Array) -> Slopes:
        """Win or lose with probability 1/2; -1 a step, 10 for winning, no more."""
        play, g = rows[0], 0.99
        values = np.array([-1.0 + g * play * 10.0, -1.0 / (1.0 - g * play)])
        visits = np.array([1.0, 1.0 / (1.0 - g * play)])
        q_play = np.array([-1.0 + g * 10.0, -1.0 + g * values[1]])
        q = np.stack([q_play, np.full(2, -1.0)])
        slope = (visits * (q - values)).mean(axis=1)
        gap = max(float(slope.max()), 0.0)
        return Slopes(values.mean(), slope, np.array([visits.mean()]), gap, 0.0)

    source = np.zeros(2, dtype=np.int64)
    state = AscentState(np.array([0.5, 0.5]))
    assert climb(state, oracle, source, 1, N_STEPS, TOLERANCE)
    # Where the derivative of g p R / 2 - 1 / (2 (1 - g p)) is 0: p = (1 - R^-1/2) / g.
    assert state.policy[0] == pytest.approx((1 - 10**-0.5) / 0.99, abs=1e-8)
    assert oracle(state.policy).gap <= TOLERANCE


def test_every_step_ends_in_probabilities() -> None:
    for policy in path(random_models(2)):
        assert (policy >= 0).all()
        assert policy.reshape(4, 3).sum(axis=1) == pytest.approx(1.0, abs=1e-14)


def test_ascent_gains_and_stops_where_little_is_left_to_gain() -> None:
    models = random_models(3)
    state, done = climbed(models)
    assert done
    assert state.step < N_STEPS
    assert models.value(state.policy) > models.value(even(models).policy)
    assert models.exact(state.policy).gap <= TOLERANCE


def test_an_ascent_on_a_sample_ends_near_the_optimum_of_all_models() -> None:
    # Which basin it ends in is chance; that it ends at the bottom of one is not: what
    # is left to gain there, to first order, is a small share of what was gained.
    models = random_models(5, n_models=500, concentration=5.0)
    base = models.value(even(models).policy)
    exact, _ = climbed(models)
    gain = models.value(exact.policy) - base
    for seed in range(4):
        state, done = climbed(models.sample(8192, seed), most=150, tolerance=1e-3)
        assert done
        assert models.value(state.policy) - base > 0.75 * gain
        assert models.exact(state.policy).gap < 0.2 * gain


@given(seed=st.integers(0, 1000))
def test_no_change_of_a_policy_gains_more_than_the_gap_to_first_order(
    seed: int,
) -> None:
    models, rng = random_models(seed, n_models=3), np.random.default_rng(seed)
    policy = rng.dirichlet(np.ones(3), size=4).ravel()
    slope = models.exact(policy).slope
    bound = frank_wolfe_gap(slope, models.source, 4)
    ahead = 1e-6
    gains = []
    for _ in range(20):
        other = np.eye(3)[rng.integers(3, size=4)].ravel()
        step = policy + ahead * (other - policy)
        behind = policy - ahead * (other - policy)
        gains.append((models.value(step) - models.value(behind)) / (2 * ahead))
    assert max(gains) <= bound * (1 + 1e-6) + 1e-6
    best = slope.reshape(4, 3).argmax(axis=1)
    step = policy + ahead * (np.eye(3)[best].ravel() - policy)
    behind = 2 * policy - step
    gain = (models.value(step) - models.value(behind)) / (2 * ahead)
    assert gain == pytest.approx(bound, rel=1e-5, abs=1e-6)  # and one gains as much


def test_states_without_a_better_action_add_nothing_to_the_gap() -> None:
    slope = np.array([3.0, -3.0, -1.0, -2.0, 0.5, 0.25])
    assert frank_wolfe_gap(slope, np.array([0, 0, 1, 1, 2, 2]), 3) == 3.5


@pytest.mark.parametrize(("error", "stays"), [(0.0, False), (0.4, False), (0.6, True)])
def test_an_ascent_stops_where_the_gap_is_within_noise(
    error: float, stays: bool
) -> None:
    """A gap of 1 whose error is above 1 less the tolerance says nothing."""
    models = random_models(3)

    def oracle(rows: Array) -> Slopes:
        return replace(models.exact(rows), gap=1.0, gap_mcse=error)

    state = even(models)
    assert climb(state, oracle, models.source, 4, 1, 0.5) == stays
    assert state.step == (0 if stays else 1)


def test_states_nobody_reaches_keep_their_rows() -> None:
    models = random_models(6)
    theta = models.theta.copy()
    theta[:, :2, :, 2:] = 0.0  # states 0 and 1 stay among themselves
    theta /= theta.sum(axis=3, keepdims=True)
    start = np.array([1.0, 0.0, 0.0, 0.0])
    models = Models(theta, models.reward, start)
    rows = np.random.default_rng(6).dirichlet(np.ones(3), size=4)
    state, _ = climbed(models, AscentState(rows.ravel()))
    after = state.policy.reshape(4, 3)
    assert after[2:] == pytest.approx(rows[2:], abs=1e-14)
    assert np.abs(after[:2] - rows[:2]).max() > 0.1


def test_ascent_can_be_stopped_and_taken_up_again() -> None:
    models = random_models(7)
    state, done = climbed(models, most=10, tolerance=0.0)
    assert (state.step, done) == (10, False)
    state, _ = climbed(models, state, most=10, tolerance=0.0)
    once, _ = climbed(models, most=20, tolerance=0.0)
    assert np.array_equal(state.policy, once.policy)


def test_whoever_watches_may_stop_the_ascent() -> None:
    models = random_models(7)
    state, done = climbed(models, after_step=lambda state, at: state.step < 3)
    assert (state.step, done) == (3, False)
    same, _ = climbed(models, most=3)
    assert np.array_equal(state.policy, same.policy)


def test_softening_mixes_with_the_uniform_random_policy() -> None:
    source = np.array([0, 0, 0, 0, 1])
    soft = soften(np.array([1.0, 0, 0, 0, 1.0]), source, 2, 0.1)
    assert soft == pytest.approx([0.925, 0.025, 0.025, 0.025, 1.0])
