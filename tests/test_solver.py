"""Which solver is taken, and that all agree.

Answers found another way: elimination beside iterations, and sparse solves and power
series of ``draws.dynamics(i)`` in SciPy. Seeds are fixed; the one statistical
test states its error rate.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array, eye_array
from scipy.sparse.linalg import spsolve

import bayesmdp as bm
from bayesmdp import engine
from bayesmdp.errors import ArgumentError

Array = NDArray[np.float64]
QUANTITIES = (
    *("value", "epistemic_sd", "aleatoric_sd", "total_sd"),
    *("occupancy", "start_values"),
)


def random_posterior(
    n: int, discount: float = 0.99, *, n_actions: int = 3, n_next: int = 5
) -> bm.Posterior:
    """Sparse rows that lead anywhere and never end."""
    rng = np.random.default_rng(n)
    state = np.repeat(np.arange(n), n_actions * n_next)
    action = np.tile(np.repeat(np.arange(n_actions), n_next), n)
    next_state = rng.integers(n, size=state.size)
    seen = rng.integers(1, 10, size=state.size)
    task = bm.Task(n, n_actions, rng.normal(size=n), discount=discount)
    counts = bm.Counts.from_arrays(
        state, action, next_state, seen, n_states=n, n_actions=n_actions
    )
    return bm.fit(counts, task, prior=bm.SparsePrior())


def one_action(
    tail: NDArray[np.int64], head: NDArray[np.int64], seen: object, discount: float
) -> bm.Posterior:
    """Return a belief about a chain without choices, rewards at random."""
    n = int(tail.max()) + 1
    reward = np.random.default_rng(0).normal(size=n)
    task = bm.Task(n, 1, reward, discount=discount)
    counts = bm.Counts.from_arrays(tail, 0 * tail, head, seen)
    return bm.fit(counts, task, prior=bm.SparsePrior())


def queue(n: int, discount: float) -> bm.Posterior:
    """Moves of one step up or down, states named at random."""
    rng = np.random.default_rng(n)
    name, i = rng.permutation(n), np.arange(n)
    head = np.concatenate([np.minimum(i + 1, n - 1), np.maximum(i - 1, 0)])
    seen = rng.integers(5, 50, size=2 * n)
    return one_action(name[np.tile(i, 2)], name[head], seen, discount)


def ring(n: int = 600, discount: float = 0.99999) -> bm.Posterior:
    """Nearly periodic: each to the next in a shuffled order, seldom one further."""
    order = np.random.default_rng(n).permutation(n)
    head = np.concatenate([np.roll(order, -1), np.roll(order, -2)])
    return one_action(np.tile(order, 2), head, np.repeat([10**6, 1], n), discount)


def leap(n: int, discount: float = 0.99999) -> bm.Posterior:
    """A ring that seldom leaps anywhere: slow, and no band holds it."""
    rng = np.random.default_rng(n)
    order = rng.permutation(n)
    head = np.concatenate([np.roll(order, -1), rng.integers(n, size=n)])
    return one_action(np.tile(order, 2), head, np.repeat([10**7, 1], n), discount)


def grid(width: int, height: int, n: int, discount: float = 0.999) -> bm.Posterior:
    world = bm.worlds.gridworld(width=width, height=height, discount=discount)
    prior = bm.SymmetricPrior(2.0, support=world.support)
    return bm.fit(world.sample(n, seed=1), world.task, prior=prior)


def synthetic(n_states: int) -> bm.Posterior:
    world = bm.worlds.synthetic(0, n_states=n_states)
    return bm.fit(
        world.sample(40 * n_states, seed=0), world.task, prior=bm.SymmetricPrior()
    )


def sepsis() -> bm.Posterior:
    world = bm.worlds.icu_sepsis(discount=0.999)
    cohort = world.simulate(world.expert, 4000, seed=0)
    prior = bm.SparsePrior(fallback="death")
    return bm.fit(cohort, world.task, prior=prior, min_count=5)


def policy_of(posterior: bm.Posterior, mixed: bool) -> Array:
    """Return a random policy on available pairs."""
    rng = np.random.default_rng(3)
    chance = rng.random(posterior.available.shape) * posterior.available
    chance[~chance.any(axis=1)] = 1.0  # terminal
    if not mixed:
        chance = (chance == chance.max(axis=1, keepdims=True)).astype(np.float64)
    return chance / chance.sum(axis=1, keepdims=True)


def chain_of(draws: bm.Draws, draw: int, policy: Array) -> csr_array:
    """Return the rows of a policy in one draw, ``[S, S]``."""
    rows, theta = draws.belief.rows().layout, draws.dynamics(draw).probability
    row = rows.row_of_entry
    share = policy[rows.state, rows.action][row] * theta
    n = rows.n_states
    return coo_array((share, (rows.state[row], rows.next_state)), shape=(n, n)).tocsr()


def assert_close(found: Array, expected: Array, name: str, limit: float = 1e-8) -> None:
    """Compare relative to the largest."""
    gap = np.abs(found - expected).max()
    assert gap <= limit * np.abs(expected).max(), f"{name}: {gap}"


def chosen(posterior: bm.Posterior, wanted: str = "auto") -> str:
    policies = policy_of(posterior, mixed=False)[None]
    problem = engine.Problem.of_draws(posterior.draws(2), policies)
    name: str = engine.CPU().choose(problem, wanted, adjoint=True).name
    return name


# ------------------------------------------------------------ the choice


CHOICES: dict[str, tuple[Callable[[], bm.Posterior], tuple[str, ...]]] = {
    "a small grid": (lambda: grid(5, 5, 300), ("dense",)),
    "64 sparse states": (lambda: random_posterior(64), ("dense",)),
    "500 sparse states": (lambda: random_posterior(500), ("iterative",)),
    "5,000 sparse states": (lambda: random_posterior(5000), ("iterative",)),
    "a filled chain": (lambda: synthetic(100), ("dense", "iterative")),
    "a long queue": (lambda: queue(2000, 0.99999), ("banded",)),
    "a short ring": (ring, ("dense", "banded")),
    "a ring with leaps": (lambda: leap(2500), ("dense", "banded")),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_choice_follows_size_and_fill(name: str) -> None:
    """Where iterations do not converge, elimination is taken while it is in reach."""
    make, expected = CHOICES[name]
    assert chosen(make()) in expected


@pytest.mark.parametrize("n", [10, 200])
@pytest.mark.parametrize("solver", ["dense", "iterative"])
def test_the_solver_asked_for_is_taken_and_reported(solver: str, n: int) -> None:
    posterior = random_posterior(n)
    policy = policy_of(posterior, mixed=True)
    evaluation = bm.evaluate(policy, posterior.draws(20), solver=solver)
    assert evaluation.solver == solver
    assert (evaluation.n_retried, evaluation.n_unsolved) == (0, 0)
    assert evaluation.notes == ()


def two_wards(n: int, dear: float) -> bm.Posterior:
    """Two parts that never meet, one with larger rewards; the start is in the other."""
    rng = np.random.default_rng(0)
    tail = np.repeat(np.arange(2 * n), 5)
    head = rng.integers(0, n, tail.size) + n * (tail >= n)
    reward = rng.normal(size=2 * n) * np.repeat([dear, 1.0], n)
    task = bm.Task(2 * n, 1, reward, discount=0.99, start=2 * n - 1)
    counts = bm.Counts.from_arrays(tail, 0 * tail, head, 1 + 0 * tail)
    return bm.fit(counts, task, prior=bm.SparsePrior())


def start_of(found: bm.Evaluation) -> list[float]:
    return [found.start_value, found.start_epistemic_sd, found.start_aleatoric_sd]


def test_a_start_of_small_values_is_eliminated_where_that_is_cheap() -> None:
    """Errors of iterations are small beside what the start never sees."""
    plain, dear = two_wards(150, 1.0), two_wards(150, 1e6)
    policy = [0] * 300
    assert bm.evaluate(policy, plain.draws(64)).solver == "iterative"
    right = bm.evaluate(policy, plain.draws(64), solver="dense")
    found = bm.evaluate(policy, dear.draws(64))
    assert found.solver in ("dense", "banded")
    assert found.notes == ()
    np.testing.assert_allclose(start_of(found), start_of(right), rtol=1e-12)


def test_a_start_of_few_digits_is_told() -> None:
    policy = [0] * 300
    draws = two_wards(150, 1e6).draws(64)
    with pytest.warns(bm.BayesmdpWarning, match="fewer digits"):
        found = bm.evaluate(policy, draws, solver="iterative")
    right = bm.evaluate(policy, draws, solver="dense")
    assert "solver='dense'" in found.notes[0]
    off = np.abs(np.array(start_of(found)) / start_of(right) - 1)
    assert off.max() > 1e-8  # or there is nothing to tell
    assert bm.evaluate(policy, two_wards(150, 9.0).draws(64)).notes == ()


def test_an_end_far_away_keeps_its_digits() -> None:
    n = 150
    tail = np.tile(np.arange(n), 2)
    head = np.minimum(tail + np.repeat([0, 1], n), n - 1)
    task = bm.Task(n, 1, reward=np.arange(n) == n - 1, discount=0.9, start=0)
    seen = bm.Counts.from_arrays(tail, 0 * tail, head)
    draws = bm.fit(seen, task, prior=bm.SparsePrior()).draws(16, seed=0)
    found = bm.evaluate([0] * n, draws, control=False)
    for i in range(3):
        theta = draws.dynamics(i).to_dense()[:, 0]
        wanted = np.linalg.solve(np.eye(n) - 0.9 * theta, task.reward)[0]
        assert found.start_values[i] == pytest.approx(wanted, rel=1e-9)
    assert found.start_value < 1e-9


CALLS: dict[str, Callable[[bm.Posterior, str], object]] = {
    "evaluate": lambda p, s: bm.evaluate([0] * 5, p.draws(20), solver=s),
    "compare": lambda p, s: bm.compare(
        {"a": [0] * 5, "b": [1] * 5}, p.draws(20), solver=s
    ),
    "optimise": lambda p, s: bm.optimise(p, starts=["nominal"], solver=s),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("bad", ["fast", "Dense", "banded", "", 3, None, ["auto"]])
def test_an_unknown_solver_is_refused_by_name(name: str, bad: object) -> None:
    with pytest.raises(ArgumentError, match="`solver` must be one of auto, dense, ite"):
        CALLS[name](synthetic(5), bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        ("a long queue", "auto"),
        ("500 sparse states", "auto"),
        ("a short ring", "iterative"),  # retried
    ],
)
def test_neither_choice_nor_bits_depend_on_the_number_of_threads(
    name: str, solver: str
) -> None:
    posterior = CHOICES[name][0]()
    policy, draws = policy_of(posterior, mixed=False), posterior.draws(50, seed=4)
    one, two = (
        bm.evaluate(policy, draws, solver=solver, threads=n, control=False)
        for n in (1, 2)
    )
    assert one.solver == two.solver
    assert one.n_retried == two.n_retried
    for quantity in QUANTITIES:
        found = getattr(one, quantity), getattr(two, quantity)
        assert np.array_equal(*found), quantity


# ------------------------------------------------------------ all agree


WORLDS: dict[str, Callable[[], bm.Posterior]] = {
    "gridworld": lambda: grid(5, 5, 300),
    "gridworld of 20 x 20": lambda: grid(20, 20, 3000),
    "gridworld without discount": lambda: grid(20, 20, 3000, 1.0),
    "synthetic": lambda: synthetic(5),
    "larger synthetic": lambda: synthetic(40),
    "icu_sepsis": sepsis,
    "an endless chain": lambda: random_posterior(200, 0.9999),
    "discount 0": lambda: grid(12, 12, 1000, 0.0),
}


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest) -> bm.Posterior:
    return WORLDS[request.param]()


@pytest.mark.parametrize("mixed", [False, True])
def test_iterations_and_elimination_agree(world: bm.Posterior, mixed: bool) -> None:
    policy, draws = policy_of(world, mixed), world.draws(24, seed=5)
    control = world.task.n_states < 300  # takes time, and is tested elsewhere
    dense, found, auto = (
        bm.evaluate(policy, draws, solver=solver, control=control)
        for solver in ("dense", "iterative", "auto")
    )
    assert found.solver == "iterative"
    assert (found.n_retried, found.n_unsolved) == (0, 0)
    for name in QUANTITIES:
        assert_close(getattr(found, name), getattr(dense, name), name)
        assert_close(getattr(auto, name), getattr(dense, name), name)


@pytest.mark.parametrize("mixed", [False, True])
def test_gradients_of_iterations_and_elimination_agree(
    world: bm.Posterior, mixed: bool
) -> None:
    policies = policy_of(world, mixed)[None]
    problem = engine.Problem.of_draws(world.draws(2, 5), policies, every_row=True)
    with engine.workers(2, None) as pool:
        dense, found = (
            engine.slopes(problem, problem.policies[0], 20, pool=pool, solver=solver)
            for solver in ("dense", "iterative")
        )
    for name in ("value", "slope", "visits"):
        one, other = getattr(found, name), getattr(dense, name)
        assert_close(np.asarray(one), np.asarray(other), name)
    scale = 1e-9 * np.abs(dense.slope).max()
    assert found.gap == pytest.approx(dense.gap, rel=1e-6, abs=scale)
    assert found.gap_mcse == pytest.approx(dense.gap_mcse, rel=1e-6, abs=scale)


def test_policies_compared_by_iterations_are_as_by_elimination() -> None:
    posterior = random_posterior(150, 0.999)
    policies = {str(a): np.full(150, a) for a in range(3)}
    policies["mixed"] = policy_of(posterior, mixed=True)
    dense, found = (
        bm.compare(policies, posterior.draws(100), solver=solver)
        for solver in ("dense", "iterative")
    )
    for one, other in zip(found.rows, dense.rows, strict=True):
        assert one.name == other.name
        assert one.difference == pytest.approx(other.difference, abs=1e-6)
        assert one.value == pytest.approx(other.value, abs=1e-6)


@pytest.mark.parametrize("solver", ["auto", "iterative"])
@pytest.mark.parametrize("exponent", [6, 7, 8, 9, 11])
def test_discounts_next_to_one_are_solved_by_someone(
    exponent: int, solver: str
) -> None:
    """Rounding stops iterations: then elimination steps in, or is taken at once."""
    posterior = random_posterior(100, 1 - 10.0**-exponent)
    policy, draws = policy_of(posterior, mixed=False), posterior.draws(20, seed=1)
    found = bm.evaluate(policy, draws, solver=solver, control=False)
    dense = bm.evaluate(policy, draws, solver="dense", control=False)
    assert (found.n_unsolved, found.n_endless) == (0, 0)
    for name in ("value", "aleatoric_sd", "occupancy", "start_values"):
        assert_close(getattr(found, name), getattr(dense, name), name)


def test_which_draws_are_endless_does_not_depend_on_the_solver() -> None:
    """Exits ~ Beta(0.014, 1.007): below 1e-70 one time in ten."""
    task = bm.Task(3, 1, [[[0.0, 1.0, 0.0]]] * 3, discount=1, start=0, terminal=[1, 2])
    support = ([0, 0, 0], [0, 0, 0], [0, 1, 2])
    posterior = bm.fit(
        bm.Counts.from_arrays([0], [0], [0], n_states=3, n_actions=1),
        task,
        prior=bm.SymmetricPrior(0.007, support=support),
    )
    with pytest.warns(bm.BayesmdpWarning) as record:
        dense, found = (
            bm.evaluate([0] * 3, posterior.draws(500), solver=solver, control=False)
            for solver in ("dense", "iterative")
        )
    said = [str(warning.message) for warning in record]
    assert sum("too long to resolve" in message for message in said) == 2
    assert 20 < dense.n_endless == found.n_endless
    ended = np.isfinite(dense.start_values)
    assert np.array_equal(ended, np.isfinite(found.start_values))
    assert_close(found.start_values[ended], dense.start_values[ended], "start_values")


# ------------------------------------------------------------ large


def test_a_queue_equals_a_sparse_direct_solve() -> None:
    posterior = queue(2000, 0.99999)
    draws, policy = posterior.draws(2, seed=1), np.ones((2000, 1))
    reward = posterior.task.reward
    expected = [
        spsolve(
            csc_array(eye_array(2000) - 0.99999 * chain_of(draws, i, policy)), reward
        )
        for i in range(2)
    ]
    for solver in ("auto", "iterative"):
        found = bm.evaluate(policy, draws, solver=solver, control=False)
        assert_close(found.value, np.mean(expected, axis=0), solver)
        starts = np.array([x.mean() for x in expected])
        assert_close(found.start_values, starts, solver)


def powers(T: csr_array, b: Array, g: float) -> Array:
    """Sum ``(g T)^k b``: 300 terms, and the rest as if terms shrank by ``g`` alone."""
    x = step = np.zeros_like(b)
    for _ in range(300):
        step = b + g * (T @ x) - x
        x = x + step
    return x + step * g / (1 - g)


def test_20000_states_equal_a_power_series() -> None:
    """A series is within its residual over ``1 - g`` of the truth.

    For values in the largest entry, for visits in the sum, where 20,000 roundings meet.
    """
    posterior, g = random_posterior(20_000), 0.99
    policy, draws = policy_of(posterior, mixed=False), posterior.draws(2, seed=0)
    reward, start = posterior.task.reward, posterior.task.start
    values, visits = np.zeros((2, 20_000)), np.zeros((2, 20_000))
    for i in range(2):
        T = chain_of(draws, i, policy)
        values[i], visits[i] = powers(T, reward, g), powers(csr_array(T.T), start, g)
        residual = reward + g * (T @ values[i]) - values[i]
        assert np.abs(residual).max() < 1e-10 * (1 - g)
        residual = start + g * (T.T @ visits[i]) - visits[i]
        assert np.abs(residual).sum() < 1e-8 * (1 - g) * visits[i].max()
    found = bm.evaluate(policy, draws, control=False)
    assert found.solver == "iterative"
    alone = bm.evaluate(policy, draws, control=False, threads=1)
    assert np.array_equal(found.value, alone.value)
    assert_close(found.value, values.mean(axis=0), "value")
    assert_close(found.epistemic_sd, values.std(axis=0, ddof=1), "epistemic_sd")
    assert_close(found.occupancy, visits.mean(axis=0), "occupancy")
    gap = np.abs(found.start_values - values @ start).max()
    assert gap <= 1e-8 * np.abs(values).max()


def test_above_2000_states_control_variates_act_on_the_start_value() -> None:
    """Both estimates are of the same mean: 4 errors are exceeded 6 times in 1e5."""
    posterior = random_posterior(2100, 0.95)
    policy, draws = policy_of(posterior, mixed=False), posterior.draws(80, seed=2)
    with_control = bm.evaluate(policy, draws)
    without = bm.evaluate(policy, draws, control=False)
    assert with_control.variance_reduction > 3.0 > without.variance_reduction == 1.0
    assert with_control.start_value_mcse < 0.6 * without.start_value_mcse
    gap = abs(with_control.start_value - without.start_value)
    assert 0 < gap < 4 * without.start_value_mcse
    fresh = bm.evaluate(policy, posterior.draws(80, seed=3))
    error = np.hypot(fresh.start_value_mcse, with_control.start_value_mcse)
    assert abs(with_control.start_value - fresh.start_value) < 4 * error
    for name in QUANTITIES:  # nothing else is touched
        assert np.array_equal(getattr(with_control, name), getattr(without, name))
