"""Laws that hold for every problem, on small random ones.

Examples are fixed (``conftest.py``), so a test that passes keeps passing; statistical
laws state the error rate of their fixed set of draws.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp import engine

Array = NDArray[np.float64]
SDS = ("epistemic_sd", "aleatoric_sd", "total_sd")
QUANTITIES = ("value", *SDS)


@dataclass(frozen=True)
class Example:
    """A small problem in plain arrays."""

    counts: NDArray[np.int64]  # [S, A, S]
    theta: Array  # [S, A, S], a model of its own
    policy: Array  # [S, A]
    reward: Array  # [S], [S, A] or [S, A, S]
    start: Array  # [S]
    terminal: NDArray[np.int64]
    discount: float

    @property
    def task(self) -> bm.Task:
        n_states, n_actions = self.policy.shape
        return bm.Task(
            n_states,
            n_actions,
            self.reward,
            discount=self.discount,
            start=self.start,
            terminal=self.terminal,
        )

    @property
    def world(self) -> bm.MDP:
        return bm.MDP(bm.Dynamics.from_dense(self.theta), self.task)

    @property
    def posterior(self) -> bm.Posterior:
        return bm.fit(
            bm.Counts.from_dense(self.counts), self.task, prior=bm.SymmetricPrior()
        )

    def evaluate(
        self, n_draws: int = 64, seed: int = 0, *, control: bool = True
    ) -> bm.Evaluation:
        draws = self.posterior.draws(n_draws, seed)
        return bm.evaluate(self.policy, draws, control=control, threads=1)

    def relabelled(
        self, states: NDArray[np.int64], actions: NDArray[np.int64]
    ) -> "Example":
        """New state i is old state ``states[i]``, and so for actions."""
        axes = (states, actions, states)
        return Example(
            self.counts[np.ix_(*axes)],
            self.theta[np.ix_(*axes)],
            self.policy[np.ix_(states, actions)],
            self.reward[np.ix_(*axes[: self.reward.ndim])],
            self.start[states],
            np.flatnonzero(np.isin(states, self.terminal)),
            self.discount,
        )


def example(
    seed: int,
    n_states: int,
    n_actions: int,
    form: int,
    n_terminal: int,
    discount: float,
) -> Example:
    rng = np.random.default_rng(seed)
    shape = (n_states, n_actions, n_states)
    terminal = np.sort(rng.permutation(n_states)[:n_terminal])
    counts = 1 + rng.poisson(2.0, size=shape)
    counts[terminal] = 0
    return Example(
        counts=counts,
        theta=rng.dirichlet(np.ones(n_states), size=shape[:2]),
        policy=rng.dirichlet(np.ones(n_actions), size=n_states),
        reward=rng.normal(size=shape[:form]),
        start=rng.dirichlet(np.ones(n_states)),
        terminal=terminal,
        discount=discount,
    )


@st.composite
def examples(
    draw: st.DrawFn,
    forms: tuple[int, ...] = (1, 2, 3),
    terminals: tuple[int, ...] = (0, 1),
    discounts: tuple[float, ...] = (0.0, 0.5, 0.9, 0.99),
) -> Example:
    return example(
        seed=draw(st.integers(0, 2**32 - 1)),
        n_states=draw(st.integers(2, 6)),
        n_actions=draw(st.integers(1, 3)),
        form=draw(st.sampled_from(forms)),
        n_terminal=draw(st.sampled_from(terminals)),
        discount=draw(st.sampled_from(discounts)),
    )


def assert_close(
    found: object, expected: object, rtol: float = 1e-10, scale: float = 0.0
) -> None:
    """Compare, relative to the largest number of an array or a scale of the problem."""
    scale = max(scale, float(np.abs(np.asarray(expected)).max()))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


# Labels, scales and shifts


@given(examples(), st.randoms(use_true_random=False))
def test_relabelling_permutes_exact_values(problem: Example, random: object) -> None:
    rng = np.random.default_rng(random.getrandbits(32))  # type: ignore[attr-defined]
    n_states, n_actions = problem.policy.shape
    states, actions = rng.permutation(n_states), rng.permutation(n_actions)
    other = problem.relabelled(states, actions)
    value = problem.world.value(problem.policy)
    assert_close(other.world.value(other.policy), value[states])


@pytest.mark.parametrize("seed", range(4))
def test_relabelling_permutes_evaluations_within_their_errors(seed: int) -> None:
    """Rows move to other streams, so draws are independent: 4 problems, 5 states and 3
    quantities at 5 combined standard errors, 60 comparisons of 5.7e-7 (3.5e-5).
    """
    problem = example(seed, 5, 3, 1 + seed % 3, seed % 2, 0.9)
    states, actions = np.array([3, 1, 4, 0, 2]), np.array([2, 0, 1])
    one = problem.evaluate(4000)
    two = problem.relabelled(states, actions).evaluate(4000)
    for name in QUANTITIES[:3]:
        error = np.hypot(
            getattr(one, f"{name}_mcse")[states], getattr(two, f"{name}_mcse")
        )
        difference = getattr(one, name)[states] - getattr(two, name)
        assert (np.abs(difference) <= 5 * error).all()
    assert not np.array_equal(one.value[states], two.value)


@given(examples(), st.sampled_from([-100.0, -1.0, 0.001, 3.0]))
def test_rewards_times_c_scale_values_by_c_and_sds_by_its_size(
    problem: Example, c: float
) -> None:
    one = problem.evaluate()
    two = replace(problem, reward=c * problem.reward).evaluate()
    assert_close(two.value, c * one.value, 1e-9)
    assert_close(two.start_value, c * one.start_value, 1e-9)
    scale = abs(c) * one.start_total_sd
    for name in (*SDS, *(f"start_{sd}" for sd in SDS)):
        assert_close(getattr(two, name), abs(c) * getattr(one, name), 1e-9, scale)
    # the variance of residuals is a difference, known to eps: its root to 1e-8
    assert_close(two.value_mcse, abs(c) * one.value_mcse, 1e-7, scale)
    assert np.array_equal(two.occupancy, one.occupancy)


@given(examples(forms=(2,), terminals=(0,)), st.floats(-5, 5))
def test_a_constant_reward_shifts_values_alone_where_nothing_ends(
    problem: Example, shift: float
) -> None:
    one = problem.evaluate()
    two = replace(problem, reward=problem.reward + shift).evaluate()
    lift = shift / (1 - problem.discount)
    assert_close(two.value, one.value + lift, 1e-9)
    assert_close(two.start_value, one.start_value + lift, 1e-9)
    for name in (*SDS, "start_epistemic_sd", "start_aleatoric_sd"):
        assert_close(getattr(two, name), getattr(one, name), 1e-8, one.start_total_sd)


# Forms of the reward


@given(examples(forms=(1,)))
def test_state_rewards_equal_transition_rewards_after_conversion(
    problem: Example,
) -> None:
    n_states, n_actions = problem.policy.shape
    ends = np.isin(np.arange(n_states), problem.terminal)
    last = np.where(ends, problem.reward, 0.0)
    converted = np.empty((n_states, n_actions, n_states))
    converted[:] = problem.reward[:, None, None] + problem.discount * last
    one = problem.evaluate()
    two = replace(problem, reward=converted).evaluate()
    assert_close(one.value, two.value + last)
    assert np.array_equal(one.value[ends], problem.reward[ends])
    assert one.start_value == pytest.approx(two.start_value + problem.start @ last)
    scale = float(np.abs(problem.reward).max())
    for name in (*SDS, "start_epistemic_sd"):
        assert_close(getattr(one, name), getattr(two, name), scale=scale)


@given(examples(forms=(2,)))
def test_pair_rewards_equal_transition_rewards_that_ignore_the_next_state(
    problem: Example,
) -> None:
    n_states = problem.start.size
    wide = np.repeat(problem.reward[:, :, None], n_states, axis=2)
    one, two = problem.evaluate(), replace(problem, reward=wide).evaluate()
    for name in (*QUANTITIES, "start_value", "start_total_sd"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@given(examples(forms=(3,)))
def test_triplets_of_rewards_equal_the_dense_array(problem: Example) -> None:
    problem = replace(problem, reward=problem.reward * (problem.reward > 0))
    where = np.nonzero(problem.reward)
    n_states, n_actions = problem.policy.shape
    task = bm.Task(
        n_states,
        n_actions,
        (*where, problem.reward[where]),
        discount=problem.discount,
        start=problem.start,
        terminal=problem.terminal,
    )
    posterior = bm.fit(
        bm.Counts.from_dense(problem.counts), task, prior=bm.SymmetricPrior()
    )
    one, two = problem.evaluate(), bm.evaluate(problem.policy, posterior.draws(64, 0))
    for name in (*QUANTITIES, "start_value", "start_total_sd"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@given(examples(forms=(3,)))
def test_only_the_mean_reward_of_a_pair_matters_to_the_value_of_a_known_model(
    problem: Example,
) -> None:
    mean = np.einsum("sat,sat->sa", problem.theta, problem.reward)
    other = replace(problem, reward=mean)
    assert_close(other.world.value(problem.policy), problem.world.value(problem.policy))


# Ends


@given(examples(terminals=(1,)))
def test_terminal_states_are_certain(problem: Example) -> None:
    found = problem.evaluate()
    expected = 0.0
    if problem.reward.ndim == 1:
        expected = problem.reward[problem.terminal]
    assert (found.value[problem.terminal] == expected).all()
    for name in SDS:
        assert (getattr(found, name)[problem.terminal] == 0).all()
        assert (getattr(found, f"{name}_mcse")[problem.terminal] == 0).all()


@given(examples(forms=(2,), terminals=(1,)))
def test_an_end_equals_staying_for_ever_without_reward(problem: Example) -> None:
    ended = problem.evaluate()
    n_states, n_actions = problem.policy.shape
    support = np.ones((n_states, n_states), dtype=bool)
    support[problem.terminal] = np.eye(n_states, dtype=bool)[problem.terminal]
    quiet = problem.reward.copy()
    quiet[problem.terminal] = 0.0
    task = bm.Task(
        n_states,
        n_actions,
        quiet,
        discount=problem.discount,
        start=problem.start,
    )
    posterior = bm.fit(
        bm.Counts.from_dense(problem.counts),
        task,
        prior=bm.SymmetricPrior(support=support),
    )
    staying = bm.evaluate(problem.policy, posterior.draws(64, 0))
    for name in QUANTITIES:
        assert_close(getattr(staying, name), getattr(ended, name))
    assert_close(staying.start_value, ended.start_value)


@given(st.floats(0, 0.99), st.floats(-10, 10).filter(lambda r: not 0 < abs(r) < 1e-50))
def test_an_absorbing_state_is_worth_its_reward_for_ever(g: float, r: float) -> None:
    support = np.array([[True, True], [False, True]])
    task = bm.Task(2, 1, [0.0, r], discount=g)
    counts = bm.Counts.from_arrays([0, 0], [0, 0], [0, 1], n_states=2, n_actions=1)
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior(support=support))
    found = bm.evaluate([0, 0], posterior.draws(16))
    assert found.value[1] == pytest.approx(r / (1 - g), rel=1e-12)
    assert found.epistemic_sd[1] == pytest.approx(0, abs=1e-12 * abs(found.value[1]))
    assert found.aleatoric_sd[1] == pytest.approx(0, abs=1e-7 * abs(found.value[1]))


# Uncertainty


@given(examples(), st.booleans())
def test_total_variance_is_epistemic_plus_aleatoric(
    problem: Example, control: bool
) -> None:
    found = problem.evaluate(control=control)
    assert_close(found.total_sd**2, found.epistemic_sd**2 + found.aleatoric_sd**2)
    assert found.start_total_sd**2 == pytest.approx(
        found.start_epistemic_sd**2 + found.start_aleatoric_sd**2, rel=1e-12
    )


@given(examples(discounts=(0.5, 0.9)))
@settings(max_examples=30)
def test_epistemic_doubt_goes_to_zero_with_data_and_chance_stays(
    problem: Example,
) -> None:
    """Sds of 400 draws are known to about 5 %; tenfold data divide them by 2 to 3."""
    few, more, most = (
        replace(problem, counts=times * problem.counts).evaluate(400)
        for times in (1, 10, 1000)
    )
    live = np.setdiff1d(np.arange(problem.start.size), problem.terminal)
    assert (more.epistemic_sd[live] < 0.8 * few.epistemic_sd[live]).all()
    assert (most.epistemic_sd[live] < 0.2 * more.epistemic_sd[live]).all()
    assert (most.epistemic_sd[live] > 0).all()
    assert_close(most.aleatoric_sd, more.aleatoric_sd, 0.2)


@given(examples())
@settings(max_examples=30)
def test_with_endless_data_the_value_is_that_of_the_empirical_model(
    problem: Example,
) -> None:
    total = np.maximum(problem.counts.sum(axis=2, keepdims=True), 1)
    model = problem.counts / total
    model[problem.terminal] = problem.theta[problem.terminal]
    truth = replace(problem, theta=model).world.value(problem.policy)
    found = replace(problem, counts=10**9 * problem.counts).evaluate()
    assert_close(found.value, truth, 1e-4)


# The start, and visits


@given(examples(), st.booleans(), st.sampled_from([8, 64]))
def test_value_from_the_start_is_the_mean_over_starting_states(
    problem: Example, control: bool, n_draws: int
) -> None:
    found = problem.evaluate(n_draws, control=control)
    scale = float(np.abs(found.value).max())
    assert found.start_value == pytest.approx(
        problem.start @ found.value, abs=1e-10 * scale
    )
    assert found.start_values.shape == (n_draws,)
    if not control:
        assert found.start_value == pytest.approx(
            found.start_values.mean(), abs=1e-12 * scale
        )


@given(examples(terminals=(0, 1, 1)))
def test_discounted_visits_are_conserved(problem: Example) -> None:
    """Without ends they sum to 1/(1 - g); an end takes all that is left on arrival."""
    g, visits = problem.discount, problem.evaluate().occupancy
    ends = np.isin(np.arange(visits.size), problem.terminal)
    if not ends.any():
        assert visits.sum() == pytest.approx(1 / (1 - g), rel=1e-10)
    balance = (1 - g) * visits[~ends].sum() + visits[ends].sum()
    assert balance == pytest.approx(1, rel=1e-10)
    assert (visits >= problem.start * (1 - 1e-12)).all()


@given(examples())
def test_value_is_visits_times_rewards_in_a_known_model(problem: Example) -> None:
    world = problem.world
    known = engine.Problem.of_dynamics(world.dynamics, world.task, problem.policy[None])
    occupancy = np.empty(problem.start.size)
    solved = engine.solve_known(known, engine.backend_of("cpu"))
    occupancy[known.rows.order] = solved[2][0]
    s, a, t = np.indices(problem.theta.shape)
    paid = world.task.transition_reward(s, a, t)
    live = ~world.task.is_terminal
    pairs = occupancy[:, None] * problem.policy * (problem.theta * paid).sum(axis=2)
    total = pairs[live].sum() + problem.start @ world.task.terminal_value
    assert problem.start @ world.value(problem.policy) == pytest.approx(
        total, rel=1e-10, abs=1e-10
    )


# Control variates and Monte Carlo errors


@given(examples(discounts=(0.5, 0.9, 0.99)))
def test_control_variates_touch_nothing_but_values(problem: Example) -> None:
    plain, controlled = problem.evaluate(control=False), problem.evaluate()
    for name in (*SDS, *(f"{sd}_mcse" for sd in SDS), "occupancy", "start_values"):
        assert np.array_equal(getattr(plain, name), getattr(controlled, name))
    for name in ("start_epistemic_sd", "start_aleatoric_sd", "start_total_sd"):
        assert getattr(plain, name) == getattr(controlled, name)
    assert plain.variance_reduction == 1.0
    assert controlled.start_value_mcse <= 2.000001 * plain.start_value_mcse


@pytest.mark.parametrize("seed", range(6))
def test_values_with_and_without_control_variates_agree(seed: int) -> None:
    """On the same draws: 6 problems, 5 states and the start at 4 standard errors of
    the plain value, 36 correlated comparisons of 6.3e-5 (2.3e-3).
    """
    problem = example(seed, 5, 3, 1 + seed % 3, seed % 2, 0.9)
    plain, controlled = (problem.evaluate(2000, control=on) for on in (False, True))
    live = np.setdiff1d(np.arange(5), problem.terminal)
    assert (controlled.value_mcse[live] < 0.5 * plain.value_mcse[live]).all()
    difference = np.abs(plain.value - controlled.value)
    assert (difference <= 4 * plain.value_mcse).all()
    assert abs(plain.start_value - controlled.start_value) < 4 * plain.start_value_mcse


@pytest.mark.parametrize("control", [False, True])
def test_errors_shrink_with_the_root_of_the_number_of_draws(control: bool) -> None:
    """Estimated errors of 1,000 draws are known to some per cent; 15 % is allowed."""
    problem = example(0, 5, 3, 3, 1, 0.9)
    few = problem.evaluate(1000, control=control)
    many = problem.evaluate(16_000, control=control)
    for name in QUANTITIES:
        ratio = getattr(few, f"start_{name}_mcse") / getattr(many, f"start_{name}_mcse")
        assert ratio == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize("control", [False, True])
def test_errors_are_what_repetition_shows(control: bool) -> None:
    """Over 400 seeds a ratio of sds is known to 3.5 % under normality; at 4 times that
    the error rate is 6.3e-5 a quantity, four quantities.
    """
    problem = example(1, 4, 2, 2, 0, 0.9)
    posterior = problem.posterior
    runs = [
        bm.evaluate(
            problem.policy, posterior.draws(200, seed), control=control, threads=1
        )
        for seed in range(400)
    ]
    for name in QUANTITIES:
        spread = np.std([getattr(run, f"start_{name}") for run in runs], ddof=1)
        stated = np.mean([getattr(run, f"start_{name}_mcse") ** 2 for run in runs])
        assert spread / np.sqrt(stated) == pytest.approx(1, abs=0.14)


# Stopping early


def test_tolerance_stops_early_and_equals_that_many_draws_to_the_bit() -> None:
    problem = example(0, 5, 3, 3, 1, 0.9)
    draws = problem.posterior.draws(50_000, seed=1)
    first = bm.evaluate(problem.policy, problem.posterior.draws(256, seed=1))
    tolerance = first.start_value_mcse / 3
    stopped = bm.evaluate(problem.policy, draws, tolerance=tolerance)
    assert 256 < stopped.n_draws < 50_000
    assert stopped.start_value_mcse <= tolerance
    whole = problem.evaluate(stopped.n_draws, seed=1)
    for name, value in vars(stopped).items():
        if name != "task":
            assert np.array_equal(value, getattr(whole, name)), name


def test_a_loose_tolerance_is_met_by_the_first_draws() -> None:
    problem = example(0, 5, 3, 3, 1, 0.9)
    draws = problem.posterior.draws(50_000, seed=1)
    assert bm.evaluate(problem.policy, draws, tolerance=1e3).n_draws == 256


def test_a_tolerance_out_of_reach_is_said_in_a_warning() -> None:
    problem = example(0, 5, 3, 3, 1, 0.9)
    draws = problem.posterior.draws(300, seed=1)
    with pytest.warns(bm.BayesmdpWarning, match="not reached"):
        found = bm.evaluate(problem.policy, draws, tolerance=1e-12)
    assert found.n_draws == 300
    assert len(found.notes) == 1
