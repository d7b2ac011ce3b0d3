"""The engine against answers found another way.

Loops over draws with `numpy.linalg`, central differences, enumeration of trajectories
and plain simulation. Statistical tests state their error rate; seeds are fixed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import reference
from reference import Array
from sweeps import nominal_of

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.engine import _dense as dense
from bayesmdp.engine import channels


@dataclass(frozen=True)
class Case:
    """A posterior, a policy, and the reward the task was made with."""

    draws: bm.Draws
    policy: Array  # [S, A]
    reward: Array


def one_hot(actions: np.ndarray, n_actions: int) -> Array:
    return np.eye(n_actions)[actions]


def stochastic(rng: np.random.Generator, n_states: int, n_actions: int) -> Array:
    return rng.dirichlet(np.ones(n_actions), size=n_states)


def grid_case() -> Case:
    world = bm.worlds.gridworld(0.25)
    prior = bm.SymmetricPrior(support=world.support)
    posterior = bm.fit(world.sample(300, seed=1), world.task, prior=prior)
    reward = np.zeros((25, 4, 25))
    reward[:20, :, 24] = 1.0
    policy = one_hot(np.where(np.arange(25) % 5 == 4, 2, 1), 4)
    return Case(posterior.draws(200, seed=3), policy, reward)


def random_case(
    form: int,
    *,
    discount: float,
    terminal: tuple[int, ...] = (),
    start: str | int | list[float] = "uniform",
    concentration: float = 1.0,
    mean_count: float = 2.0,
    n_draws: int = 150,
) -> Case:
    """Six states, three actions, rewards with ``form`` axes, a random policy."""
    rng = np.random.default_rng(100 * form + len(terminal))
    reward = rng.normal(size=(6, 3, 6)[:form])
    task = bm.Task(6, 3, reward, discount=discount, start=start, terminal=terminal)
    counts = rng.poisson(mean_count, size=(6, 3, 6))
    counts[list(terminal)] = 0
    prior = bm.SymmetricPrior(concentration)
    posterior = bm.fit(bm.Counts.from_dense(counts), task, prior=prior)
    return Case(posterior.draws(n_draws, seed=7), stochastic(rng, 6, 3), reward)


MIXED_START = [0.1, 0.2, 0.0, 0.3, 0.4, 0.0]  # state 4 is terminal in these cases
CASES: dict[str, Callable[[], Case]] = {
    "grid, deterministic": grid_case,
    "synthetic, [S]": lambda: random_case(1, discount=0.999),
    "[S, A]": lambda: random_case(2, discount=0.9),
    "[S, A, S]": lambda: random_case(3, discount=0.5),
    "[S] with ends": lambda: random_case(
        1, discount=0.95, terminal=(1, 4), start=MIXED_START
    ),
    "[S, A] with ends": lambda: random_case(
        2, discount=0.999, terminal=(4,), start=MIXED_START
    ),
    "[S, A, S] with ends": lambda: random_case(
        3, discount=0.9, terminal=(0, 4), start=3
    ),
    "discount 0": lambda: random_case(3, discount=0.0, terminal=(4,)),
    "discount 1, [S]": lambda: random_case(
        1, discount=1.0, terminal=(0, 4), start=MIXED_START, concentration=3.0
    ),
    "discount 1, [S, A, S]": lambda: random_case(
        3, discount=1.0, terminal=(2, 4), concentration=2.0
    ),
    "little data": lambda: random_case(
        3, discount=0.6, concentration=0.3, mean_count=0.2, n_draws=50
    ),
    "three draws": lambda: random_case(2, discount=0.9, n_draws=3),
}


@pytest.mark.parametrize("name", CASES)
def test_evaluation_equals_a_loop_over_draws(name: str) -> None:
    case = CASES[name]()
    found = bm.evaluate(case.policy, case.draws, control=False)
    for key, expected in reference.evaluate(
        case.policy, case.draws, case.reward
    ).items():
        scale = max(float(np.abs(expected).max()), 1e-3)
        np.testing.assert_allclose(
            getattr(found, key), expected, rtol=1e-10, atol=1e-10 * scale, err_msg=key
        )
    assert found.n_draws == case.draws.n_draws
    assert found.n_endless == 0


def test_the_loop_over_draws_would_notice_another_draw() -> None:
    case = CASES["[S, A]"]()
    other = bm.evaluate(case.policy, case.draws.belief.draws(150, 8), control=False)
    expected = reference.evaluate(case.policy, case.draws, case.reward)
    assert np.abs(other.value - expected["value"]).max() > 1e-6


# Gradient, several policies, weights


def swept(
    draws: bm.Draws,
    policies: Array,
    want: engine.Want,
    weights: Array | None = None,
) -> tuple[engine.Problem, engine.Nominal, engine.Sums]:
    problem = engine.Problem.of_draws(draws, policies, every_row=True)
    nominal = nominal_of(problem, control=False)
    with engine.workers(1, None) as pool:
        sums = engine.sweep(
            problem, nominal, draws.n_draws, want=want, pool=pool, weights=weights
        )
    return problem, nominal, sums


def start_value(case: Case, policy: Array) -> float:
    _, _, sums = swept(case.draws, policy[None], engine.Want())
    return float(sums.start[0, channels.START_VALUE].mean())


GRADIENT_CASES = ("[S, A]", "[S] with ends", "[S, A, S] with ends", "discount 1, [S]")


@pytest.mark.parametrize("name", GRADIENT_CASES)
def test_gradient_equals_central_differences_along_tangents(name: str) -> None:
    """Step 1e-4: truncation is of order h^2 = 1e-8, rounding of order eps/h = 1e-12."""
    case, h = CASES[name](), 1e-4
    rng = np.random.default_rng(0)
    policy = 0.8 * case.policy + 0.2 / 3  # inside the simplex: both sides exist
    problem, _, sums = swept(case.draws, policy[None], engine.Want(gradient=True))
    state, action = problem.rows.row_id.T
    for _ in range(5):
        direction = rng.normal(size=policy.shape)
        direction -= direction.mean(axis=1, keepdims=True)
        direction /= np.abs(direction).max()
        slope = sums.row[0, 0] @ direction[state, action] / case.draws.n_draws
        up = start_value(case, policy + h * direction)
        down = start_value(case, policy - h * direction)
        assert slope == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", GRADIENT_CASES)
def test_gradient_and_its_square_equal_a_loop_over_draws(name: str) -> None:
    case = CASES[name]()
    problem, _, sums = swept(case.draws, case.policy[None], engine.Want(gradient=True))
    at = reference.setting(case.draws.belief.task, case.reward)
    slopes = []
    for i in range(case.draws.n_draws):
        one = reference.solve(case.draws.dynamics(i).to_dense(), case.policy, at)
        value = (one.value - at.terminal_value)[:, None]
        slopes.append(one.occupancy[:, None] * (one.q - value))
    state, action = problem.rows.row_id.T
    expected = np.array(slopes)[:, state, action]
    scale = np.abs(expected).max()
    for found, wanted in zip(sums.row[0], (expected, expected**2), strict=True):
        np.testing.assert_allclose(
            found, wanted.sum(axis=0), rtol=1e-9, atol=1e-9 * scale
        )


def test_policies_swept_together_equal_each_alone() -> None:
    case = CASES["[S] with ends"]()
    rng = np.random.default_rng(1)
    switching = one_hot(np.arange(6) % 3, 3)
    policies = np.stack([case.policy, stochastic(rng, 6, 3), switching])
    want = engine.Want(variance=True, occupancy=True, gradient=True)
    _, _, together = swept(case.draws, policies, want)
    for p, policy in enumerate(policies):
        _, _, alone = swept(case.draws, policy[None], want)
        for name in ("state", "row", "start", "ended"):
            assert np.array_equal(getattr(together, name)[p], getattr(alone, name)[0])


def test_weights_of_draws_weigh_every_sum() -> None:
    case = CASES["[S, A, S] with ends"]()
    weights = np.random.default_rng(2).exponential(size=case.draws.n_draws)
    weights[[3, 40]] = 0.0
    want = engine.Want(variance=True, occupancy=True, gradient=True)
    problem, nominal, sums = swept(case.draws, case.policy[None], want, weights)
    at = reference.setting(case.draws.belief.task, case.reward)
    solved = [
        reference.solve(case.draws.dynamics(i).to_dense(), case.policy, at)
        for i in range(case.draws.n_draws)
    ]
    order = problem.rows.order
    value, variance, occupancy = (
        np.array([getattr(one, name)[order] for one in solved])
        - nominal.reference[j, 0]
        for j, name in enumerate(("value", "variance", "occupancy"))
    )
    powers = {
        channels.V: value,
        channels.VV: value**2,
        channels.VVV: value**3,
        channels.VVVV: value**4,
        channels.R: variance,
        channels.RR: variance**2,
        channels.VR: value * variance,
        channels.VVR: value**2 * variance,
        channels.D: occupancy,
        channels.DD: occupancy**2,
    }
    for channel, values in powers.items():
        np.testing.assert_allclose(
            sums.state[0, channel], weights @ values, rtol=1e-9, atol=1e-10
        )
    advantage = np.array(
        [one.occupancy[:, None] * (one.q - one.value[:, None]) for one in solved]
    )
    state, action = problem.rows.row_id.T
    expected = np.tensordot(weights, advantage, axes=1)[state, action]
    np.testing.assert_allclose(sums.row[0, 0], expected, rtol=1e-9, atol=1e-10)
    assert sums.ended[0].tolist() == (weights > 0).tolist()


# Simulation and enumeration


def rollouts(case: Case, n: int, rng: np.random.Generator) -> Array:
    """Returns ``[D, n]`` of plain simulation in every draw, from random starts."""
    at = reference.setting(case.draws.belief.task, case.reward)
    n_draws = case.draws.n_draws
    theta = np.array([case.draws.dynamics(i).to_dense() for i in range(n_draws)])
    ladder = np.cumsum(theta, axis=3)
    draw = np.repeat(np.arange(n_draws), n)
    state = rng.choice(at.rho.size, size=draw.size, p=at.rho)
    returns = at.terminal_value[state].copy()  # those that are over at once
    playing = np.flatnonzero(~at.ends[state])
    factor = 1.0
    choices = np.cumsum(case.policy, axis=1)
    while playing.size and factor > 1e-7:
        s, i = state[playing], draw[playing]
        a = (rng.random(s.size)[:, None] > choices[s, :-1]).sum(axis=1)
        t = (rng.random(s.size)[:, None] > ladder[i, s, a, :-1]).sum(axis=1)
        returns[playing] += factor * at.r[s, a, t]
        state[playing] = t
        playing = playing[~at.ends[t]]
        factor *= at.g
    return returns.reshape(n_draws, n)


@pytest.mark.parametrize("form", [1, 2, 3])
def test_simulated_returns_have_the_mean_and_both_variances(form: int) -> None:
    """Simulation in the very draws that are evaluated; 40 batches give its error.

    Three comparisons at 4 standard errors of 40 batches (Student's t with 39 degrees
    of freedom: 2.7e-4 each), so an error rate below 9e-4 a case.
    """
    case = random_case(
        form,
        discount=0.8,
        terminal=(0, 4),
        start=MIXED_START,
        concentration=0.3,
        mean_count=0.3,
    )
    n_batches, n = 40, 200
    returns = rollouts(case, n_batches * n, np.random.default_rng(5))
    batches = returns.reshape(case.draws.n_draws, n_batches, n)
    aleatoric = batches.var(axis=2, ddof=1).mean(axis=0)
    estimates = {
        "start_value": batches.mean(axis=(0, 2)),
        "start_aleatoric_sd": aleatoric,
        # the variance of group means holds 1/n of the variance within groups
        "start_epistemic_sd": batches.mean(axis=2).var(axis=0, ddof=1) - aleatoric / n,
    }
    found = bm.evaluate(case.policy, case.draws, control=False)
    for name, estimate in estimates.items():
        power = 2 if name.endswith("sd") else 1
        error = estimate.std(ddof=1) / np.sqrt(n_batches)
        assert abs(getattr(found, name) ** power - estimate.mean()) < 4 * error
        assert error < 0.05 * abs(estimate.mean())  # sharp enough to matter


def trajectories(
    state: int, theta: Array, policy: Array, at: reference.Setting
) -> Iterator[tuple[float, float]]:
    """Probability and return of every trajectory from a state; they must all end."""
    if at.ends[state]:
        yield 1.0, 0.0
        return
    for action, next_state in np.ndindex(theta.shape[1:]):
        step = policy[state, action] * theta[state, action, next_state]
        if step > 0:
            for probability, rest in trajectories(next_state, theta, policy, at):
                paid = at.r[state, action, next_state]
                yield step * probability, paid + at.g * rest


@pytest.mark.parametrize("discount", [0.9, 1.0])
@pytest.mark.parametrize("form", [2, 3])
def test_rewards_of_actions_under_a_random_policy_equal_enumeration(
    form: int, discount: float
) -> None:
    rng = np.random.default_rng(form)
    onward = np.triu(np.ones((5, 5), dtype=bool), 1)  # no way back: 5 states, 4 steps
    reward = 10 * rng.normal(size=(5, 3, 5)[:form])
    task = bm.Task(5, 3, reward, discount=discount, terminal=[4])
    counts = rng.poisson(1.0, size=(5, 3, 5)) * onward[:, None, :]
    posterior = bm.fit(
        bm.Counts.from_dense(counts), task, prior=bm.SymmetricPrior(support=onward)
    )
    policy, draws = stochastic(rng, 5, 3), posterior.draws(6, seed=0)
    at = reference.setting(task, reward)
    values, variances = np.zeros((2, 6, 5))
    for i in range(6):
        theta = draws.dynamics(i).to_dense()
        for s in range(4):
            p, g = np.array(list(trajectories(s, theta, policy, at))).T
            assert p.sum() == pytest.approx(1)
            values[i, s] = p @ g
            variances[i, s] = p @ (g - p @ g) ** 2
    found = bm.evaluate(policy, draws, control=False)
    for name, expected in reference.errors_of(values, variances).items():
        np.testing.assert_allclose(
            getattr(found, name), expected, rtol=1e-10, atol=1e-12, err_msg=name
        )


# Dense kernels


def chain_matrix(n: int, filled: float) -> Array:
    """Return ``I - 0.99 T`` of a random chain with that share of entries."""
    rng = np.random.default_rng(n)
    T = rng.random((n, n)) * (rng.random((n, n)) < filled)
    T[np.arange(n), rng.integers(n, size=n)] += 0.1
    return np.eye(n) - 0.99 * T / T.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("filled", [1.0, 0.1])
def test_dense_kernels_equal_numpy(filled: float) -> None:
    """Condition numbers stay below 1e4 here, so 1e-10 leaves room for rounding."""
    for n in [*range(1, 41), 130]:
        matrix = chain_matrix(n, filled)
        x = np.random.default_rng(1000 + n).normal(size=n)
        lu = matrix.copy()
        least = dense.factorise(lu, matrix.sum(axis=1))
        lower, upper = np.tril(lu, -1) + np.eye(n), np.triu(lu)
        np.testing.assert_allclose(lower @ upper, matrix, atol=1e-13)
        assert least == np.diag(lu).min() >= 0.00999
        found, transposed, product = x.copy(), x.copy(), np.empty((2, n))
        several = np.stack([x, 2 * x])
        dense.solve(lu, found)
        dense.solve_transposed(lu, transposed)
        dense.times_transposed(matrix, several, product)
        np.testing.assert_allclose(product[1], 2 * product[0], rtol=1e-12)
        for together in (2, 3, 4, 5):  # two or three at a time, and one that is left
            some = np.outer(2.0 ** np.arange(together), x)
            dense.solve_all(lu, some)
            wanted = np.outer(2.0 ** np.arange(together), found)
            np.testing.assert_array_equal(some, wanted)
        np.testing.assert_allclose(found, np.linalg.solve(matrix, x), rtol=1e-10)
        np.testing.assert_allclose(
            transposed, np.linalg.solve(matrix.T, x), rtol=1e-10, atol=1e-10
        )
        np.testing.assert_allclose(product[0], matrix.T @ x, atol=1e-12)
        assert dense.dot(x, found) == pytest.approx(float(x @ found), rel=1e-12)


def test_factorising_a_chain_without_end_returns_a_pivot_that_is_not_positive() -> None:
    ring = np.roll(np.eye(5), 1, axis=1)
    assert dense.factorise(np.eye(5) - ring, np.zeros(5)) <= 0
    assert dense.factorise(np.eye(5) - 0.5 * ring, np.full(5, 0.5)) > 0


def test_pivots_do_not_cancel_where_an_end_is_rare() -> None:
    """Two states that almost never end: the value is 1 / exit, in every digit."""
    exit_mass = 1e-14
    matrix = np.array([[1.0, -1.0], [-(1.0 - exit_mass), 1.0]])
    lu = matrix.copy()
    dense.factorise(lu, np.array([0.0, exit_mass]))
    steps = np.ones(2)
    dense.solve(lu, steps)
    np.testing.assert_allclose(steps * exit_mass, [2.0, 2.0], rtol=1e-12)


# Control variates


@pytest.mark.parametrize(
    "name", ["little data", "[S] with ends", "grid, deterministic"]
)
def test_control_variates_have_their_stated_means(name: str) -> None:
    """The first has mean 0, the second ``g X k`` (theory: Delage and Mannor).

    At most 2 x 25 comparisons of correlated states at 4 standard errors (6.3e-5 each,
    100,000 draws): an error rate below 3.2e-3 a case. The second mean is far from 0.
    """
    case, n_draws = CASES[name](), 100_000
    draws = case.draws.belief.draws(n_draws, seed=11)
    at = reference.setting(draws.belief.task, case.reward)
    expanded = reference.expand(case.policy, reference.dense_alpha(draws.belief), at)
    problem = engine.Problem.of_draws(draws, case.policy[None])
    nominal = nominal_of(problem, control=True)
    with engine.workers(2, None) as pool:
        sums = engine.sweep(problem, nominal, n_draws, want=engine.Want(), pool=pool)
    mean = np.empty((channels.YZ + 1, at.rho.size))
    mean[:, problem.rows.order] = sums.state[0] / n_draws
    expected = at.g * expanded.inverse @ expanded.k
    for first, second, wanted in (
        (channels.Y, channels.YY, 0.0 * expected),
        (channels.Z, channels.ZZ, expected),
    ):
        error = np.sqrt((mean[second] - mean[first] ** 2) / n_draws)
        assert (np.abs(mean[first] - wanted) <= 4 * error).all()
        assert (error[at.live] > 0).all()
    assert (np.abs(expected[at.live]) / error[at.live]).max() > 20  # g X k, not 0


@pytest.mark.parametrize("n_draws", [10, 15, 16, 49, 50, 300])
@pytest.mark.parametrize("name", ["[S, A]", "[S] with ends"])
def test_controlled_values_equal_a_regression_in_numpy(name: str, n_draws: int) -> None:
    """Coefficients are 1 below 16 draws, else least squares of the start value."""
    case = CASES[name]()
    draws = case.draws.belief.draws(n_draws, seed=13)
    at = reference.setting(draws.belief.task, case.reward)
    alpha = reference.dense_alpha(draws.belief)
    nominal = reference.expand(case.policy, alpha, at)
    h = at.r + at.g * (nominal.value - at.terminal_value)
    V, y1, y2 = np.zeros((3, n_draws, at.rho.size))
    for i in range(n_draws):
        theta = draws.dynamics(i).to_dense()
        V[i] = reference.solve(theta, case.policy, at).value
        difference = theta - nominal.theta
        u = np.einsum("sa,sat,sat->s", case.policy, difference, h)
        delta = np.einsum("sa,sat->st", case.policy, difference)
        y1[i] = nominal.inverse @ u
        y2[i] = at.g * nominal.inverse @ delta @ y1[i]
    mean = at.g * nominal.inverse @ nominal.k
    controls = np.stack([y1 @ at.rho, (y2 - mean) @ at.rho])
    _, start_error, coefficients = reference.controlled(
        V @ at.rho, controls, np.ones(2)
    )
    residuals = V - coefficients[0] * y1 - coefficients[1] * (y2 - mean)
    found = bm.evaluate(case.policy, draws)
    root = np.sqrt(n_draws)
    np.testing.assert_allclose(found.value, residuals.mean(axis=0), rtol=1e-9)
    starts = residuals @ at.rho
    assert found.start_value == pytest.approx(starts.mean(), rel=1e-9)
    assert found.start_value_mcse == pytest.approx(start_error, rel=1e-7)
    error = residuals.std(axis=0, ddof=1) * start_error / starts.std(ddof=1)
    np.testing.assert_allclose(found.value_mcse, error, rtol=1e-6, atol=1e-15)
    gain = (found.start_epistemic_sd / root / found.start_value_mcse) ** 2
    if n_draws >= 50:
        assert found.variance_reduction == pytest.approx(gain, rel=1e-12)
    else:
        assert found.variance_reduction == 1.0
