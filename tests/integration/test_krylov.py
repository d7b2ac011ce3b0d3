"""Iterations: right where they say so, and honest where they are not.

Answers found another way: sparse and dense solves of SciPy and NumPy, and exact
rational arithmetic. "Claimed" is a solution that `iterate` says is right.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array, eye_array
from scipy.sparse.linalg import spsolve

from bayesmdp.engine import _krylov as krylov

pytestmark = pytest.mark.integration  # for its time

Array = NDArray[np.float64]
BOTH = (False, True)


def random_chain(seed: int, n: int, n_next: int, n_ends: int = 0) -> csr_array:
    """Rows ``[n, n + n_ends]`` with ``n_next`` entries each, self-loops among them."""
    rng = np.random.default_rng(seed)
    width = min(n_next, n + n_ends)
    column = np.array([rng.permutation(n + n_ends)[:width] for _ in range(n)])
    if n_ends:
        column[0, 0] = n + n_ends - 1  # somewhere it ends
        column[0, 1:] = rng.permutation(n + n_ends - 1)[: width - 1]
        follow = np.arange(1, n)
        column[1:, 0] = follow - 1  # and everywhere leads there
    value = rng.dirichlet(np.full(width, 0.5), size=n) + 0.01
    value /= value.sum(axis=1, keepdims=True)
    row = np.repeat(np.arange(n), width)
    return coo_array(
        (value.ravel(), (row, column.ravel())), shape=(n, n + n_ends)
    ).tocsr()


def ring(n: int, slip: float, seed: int = 0) -> csr_array:
    """States in shuffled order, each to the next; slips skip one."""
    order = np.random.default_rng(seed).permutation(n)
    column = np.stack([np.roll(order, -1), np.roll(order, -2)], axis=1)
    value = np.tile([1.0 - slip, slip], n)
    return coo_array(
        (value, (np.repeat(order, 2), column.ravel())), shape=(n, n)
    ).tocsr()


def system_of(T: csr_array, g: float, backward: bool = False) -> krylov.System:
    """Write a chain, columns of terminal states included, as iterations read it."""
    begin, stop = T.indptr[:-1].astype(np.uint32), T.indptr[1:].astype(np.uint32)
    column = T.indices.astype(np.uint32)
    inverse = np.empty(T.shape[0])
    system = krylov.System(g, backward, begin, stop, column, T.data.copy(), inverse)
    krylov.fill_inverse(system)
    return system


def transposed(T: csr_array, g: float, backward: bool = False) -> krylov.System:
    """Write the transpose, live states only; the diagonal is that of the rows."""
    inner = csr_array(T[:, : T.shape[0]].T)
    inner.sort_indices()
    plain, turned = system_of(T, g), system_of(inner, g, backward)
    turned.inverse[:] = plain.inverse
    return turned


def matrix_of(T: csr_array, g: float) -> Array:
    n = T.shape[0]
    return np.eye(n) - g * T.toarray()[:, :n]


@dataclass(frozen=True)
class Found:
    products: int  # of iterations; negative where they failed
    x: Array  # [n]
    scale: Array  # [n]
    length: Array  # [n], weights behind the bound
    rest: Array  # what became of the entries of terminal states

    @property
    def claimed(self) -> bool:
        return self.products > 0


def solved(
    system: krylov.System,
    rhs: Array,
    *,
    n_ends: int = 0,
    start: Array | None = None,
    trial: Array | None = None,
) -> Found:
    """Solve from a start, with a bound from a trial length: zeros where not given."""
    n = system.begin.size
    space, scale = np.zeros((krylov.N_VECTORS, n + n_ends)), np.empty(n)
    x, b, w = np.zeros(n + n_ends), np.zeros(n + n_ends), np.zeros(n + n_ends)
    x[:n] = 0.0 if start is None else start
    w[:n] = 0.0 if trial is None else trial
    b[:n] = rhs
    ones = np.ones(n + n_ends)
    if krylov.bounding_scale(system, w, ones, scale, space) == 0:
        return Found(-1, x[:n], scale, space[6, :n], x[n:])
    length = space[6, :n].copy()
    products = krylov.iterate(
        system, b, scale, 0.0, krylov.TOLERANCE, krylov.ACCEPTED, x, space
    )
    return Found(products, x[:n], scale, length, x[n:])


def bound(system: krylov.System, rhs: Array, x: Array, scale: Array) -> float:
    """Return the bound on the error of any vector."""
    residual = np.zeros_like(x)
    residual[:] = x
    krylov.product(system, rhs, 1.0, x, x, residual)
    return krylov.largest(residual, scale)


# ------------------------------------------------------------ right answers


@pytest.mark.parametrize("g", [0.0, 0.5, 0.99, 0.9999, 1.0])
@pytest.mark.parametrize("n_next", [2, 5, 80])
def test_iterations_equal_a_sparse_direct_solve(n_next: int, g: float) -> None:
    n, n_ends = 150, 3 if g == 1.0 else 0
    T = random_chain(n_next, n, n_next, n_ends)
    rhs = np.random.default_rng(1).normal(size=n)
    A = csc_array(eye_array(n) - g * T[:, :n])
    for backward in BOTH:
        straight = solved(system_of(T, g, backward), rhs, n_ends=n_ends)
        across = solved(transposed(T, g, backward), rhs)
        for found, matrix in ((straight, A), (across, csc_array(A.T))):
            expected = spsolve(matrix, rhs)
            assert found.claimed
            assert np.abs(found.x - expected).max() <= 1e-9 * np.abs(expected).max()
            assert not found.rest.any()


@pytest.mark.parametrize("backward", BOTH)
def test_a_product_is_one_sweep_with_a_triangle(backward: bool) -> None:
    """The diagonal and the part already swept over are inverted, the rest is not."""
    T, g = random_chain(0, 40, 6, 2), 0.97
    A = matrix_of(T, g)
    M = np.triu(A) if backward else np.tril(A)
    rng = np.random.default_rng(0)
    v, b, out = np.zeros(42), np.zeros(42), np.zeros(42)
    v[:40], b[:40] = rng.normal(size=40), rng.normal(size=40)
    system = system_of(T, g, backward)
    out[:] = v
    krylov.product(system, b, 0.7, v, v, out)
    expected = np.linalg.solve(M, A @ v[:40] - 0.7 * b[:40])
    np.testing.assert_allclose(out[:40], expected, atol=1e-13)
    expected = np.linalg.solve(M, 0.7 * b[:40] + (M - A) @ v[:40])
    krylov.relax(system, b, 0.7, v)
    np.testing.assert_allclose(v[:40], expected, atol=1e-13)
    assert not out[40:].any()
    assert not v[40:].any()


def test_the_diagonal_is_found_without_cancelling() -> None:
    """A state that leaves once in 1e17 steps: 1 minus its self-loop would be 0."""
    T = csr_array(np.array([[1.0, 1e-17, 0.0], [0.5, 0.0, 0.5]]))
    assert system_of(T, 1.0).inverse == pytest.approx([1e17, 1.0])


def test_a_start_at_the_solution_takes_one_product() -> None:
    T, g = random_chain(3, 200, 4), 0.999
    rhs = np.random.default_rng(3).normal(size=200)
    exact = np.linalg.solve(matrix_of(T, g), rhs)
    found = solved(system_of(T, g), rhs, start=exact)
    assert found.products == 1
    assert np.array_equal(found.x, exact)
    near = solved(system_of(T, g), rhs, start=exact * (1 + 1e-6))
    assert 1 < near.products < solved(system_of(T, g), rhs).products


@pytest.mark.parametrize("started", BOTH)
def test_without_rewards_values_are_zero(started: bool) -> None:
    """Also where iterations start from a model that has some."""
    start = np.random.default_rng(0).normal(size=100) if started else None
    found = solved(system_of(random_chain(0, 100, 4), 0.99), np.zeros(100), start=start)
    assert found.claimed
    assert not found.x.any()
    assert found.products < 100


@pytest.mark.parametrize("power", [-60, -1, 60])
def test_rewards_times_a_power_of_two_give_the_same_bits(power: int) -> None:
    system = system_of(random_chain(5, 120, 4), 0.99)
    rhs = np.random.default_rng(5).normal(size=120)
    plain, scaled = solved(system, rhs), solved(system, rhs * 2.0**power)
    assert scaled.products == plain.products
    assert np.array_equal(scaled.x, plain.x * 2.0**power)


@pytest.mark.parametrize("power", [-1000, -700, 700, 1000])
def test_rewards_at_the_end_of_the_scale_are_solved_or_said_to_fail(power: int) -> None:
    system = system_of(random_chain(5, 120, 4), 0.99)
    rhs = np.random.default_rng(5).normal(size=120)
    plain, scaled = solved(system, rhs), solved(system, rhs * 2.0**power)
    if scaled.claimed:
        np.testing.assert_allclose(scaled.x * 2.0**-power, plain.x, rtol=1e-8)


# ------------------------------------------------------------ bounds on errors


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 40),
    n_next=st.integers(1, 12),
    g=st.sampled_from([0.3, 0.9, 0.999, 0.9999, 1.0]),
    backward=st.booleans(),
    across=st.booleans(),
    tried=st.booleans(),
    off=st.floats(1e-6, 1e3),
)
def test_the_bound_is_never_below_the_error(
    seed: int,
    n: int,
    n_next: int,
    g: float,
    backward: bool,
    across: bool,
    tried: bool,
    off: float,
) -> None:
    """For any vector, with this chain's own length or that of one like it."""
    n_ends = 2 if g == 1.0 else 0
    T = random_chain(seed, n, max(n_next, 1 + (g == 1.0)), n_ends)
    write = transposed if across else system_of
    A = matrix_of(T, g).T if across else matrix_of(T, g)
    system = write(T, g, backward)
    rng = np.random.default_rng(seed)
    rhs = rng.normal(size=n)
    exact = np.linalg.solve(A, rhs)
    trial = None
    if tried:
        other = T.copy()
        other.data = other.data * rng.uniform(0.8, 1.25, size=other.data.size)
        other = csr_array(other / other.sum(axis=1)[:, None])
        like = matrix_of(other, g).T if across else matrix_of(other, g)
        trial = np.linalg.solve(like, np.ones(n))
    found = solved(system, rhs, n_ends=0 if across else n_ends, trial=trial)
    assert found.claimed
    x = np.zeros(n if across else n + n_ends)
    x[:n] = exact + off * rng.normal(size=n) * rng.integers(2, size=n)
    b = np.append(rhs, np.zeros(x.size - n))
    error = np.abs(x[:n] - exact).max()
    assert bound(system, b, x, found.scale) * (1 + 1e-6) >= error * (1 - 1e-6)


@pytest.mark.parametrize("power", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("backward", BOTH)
def test_the_bound_covers_residuals_that_add_up_along_a_way(
    backward: bool, power: float
) -> None:
    """A way of 30 steps to the end; residuals of one sign, larger here or there."""
    n = 30
    rows = 0.9 * np.eye(n, n + 1, 1) + 0.1 * np.eye(n, n + 1)
    rows = rows if backward else np.hstack([rows[::-1, -2::-1], rows[::-1, -1:]])
    T = csr_array(rows)
    A = matrix_of(T, 1.0)
    system = system_of(T, 1.0, not backward)
    length = np.linalg.solve(A, np.ones(n))
    found = solved(system, np.ones(n), n_ends=1, trial=length)
    M = np.tril(A) if backward else np.triu(A)
    x = np.append(np.linalg.solve(A, 1.0 + M @ length**power), 0.0)
    b = np.append(np.ones(n), 0.0)
    error = np.abs(x[:n] - length).max()
    assert error > 0.5
    assert bound(system, b, x, found.scale) >= error * (1 - 1e-9)


def test_the_bound_is_sharp_where_errors_are_in_proportion_to_the_length() -> None:
    T, g = random_chain(1, 60, 4), 0.99
    system = system_of(T, g)
    rhs = np.random.default_rng(1).normal(size=60)
    exact = np.linalg.solve(matrix_of(T, g), rhs)
    found = solved(system, rhs)
    off = exact + 0.01 * found.length
    error = np.abs(off - exact).max()
    assert bound(system, rhs, off, found.scale) == pytest.approx(error, rel=1e-6)


TRIALS = {
    "zeros": lambda w: 0 * w,
    "negative": lambda w: -w,
    "one state wrong": lambda w: np.where(np.arange(w.size) == 17, 1e-3, w),
    "not a number": lambda w: np.where(np.arange(w.size) == 17, np.nan, w),
    "endless": lambda w: np.full(w.size, np.inf),
    "another chain's": lambda w: np.random.default_rng(0).permutation(w),
    "its own": lambda w: w,
}


@pytest.mark.parametrize("name", TRIALS)
def test_a_bad_trial_length_is_replaced_by_the_chains_own(name: str) -> None:
    n = 120
    T = random_chain(9, n, 3, n_ends=1)
    A = matrix_of(T, 1.0)
    own = np.linalg.solve(A, np.ones(n))
    rhs = np.random.default_rng(9).normal(size=n)
    found = solved(system_of(T, 1.0), rhs, n_ends=1, trial=TRIALS[name](own))
    expected = np.linalg.solve(A, rhs)
    assert found.claimed
    assert np.abs(found.x - expected).max() <= 1e-9 * np.abs(expected).max()
    off = np.append(expected + own, 0.0)
    b = np.append(rhs, 0.0)
    assert bound(system_of(T, 1.0), b, off, found.scale) >= own.max() * (1 - 1e-9)


# ------------------------------------------------------------ sweeps first


def settled(system: krylov.System, rhs: Array) -> tuple[int, Array]:
    """Sweep from zeros; how often, and where that led."""
    n = system.begin.size
    space, scale, x = np.zeros((krylov.N_VECTORS, n)), np.empty(n), np.zeros(n)
    assert krylov.bounding_scale(system, np.zeros(n), np.ones(n), scale, space) > 0
    return krylov.settle(system, rhs, scale, krylov.TOLERANCE, x, space), x


@pytest.mark.parametrize("backward", BOTH)
@pytest.mark.parametrize("n_next", [12, 40])
def test_sweeps_settle_at_a_rate_that_the_discount_does_not_touch(
    n_next: int, backward: bool
) -> None:
    T = random_chain(n_next, 300, n_next)
    rhs = np.random.default_rng(2).random(300)
    for write in (system_of, transposed):
        taken = []
        for g in (0.9, 0.99, 0.9999):
            A = matrix_of(T, g) if write is system_of else matrix_of(T, g).T
            expected = np.linalg.solve(A, rhs)
            sweeps, x = settled(write(T, g, backward), rhs)
            assert np.abs(x - expected).max() <= 1e-9 * np.abs(expected).max()
            taken.append(sweeps)
        assert max(taken) <= min(taken) + 12 < 60


@pytest.mark.parametrize("seed", range(3))
def test_sweeps_that_gain_little_end_soon_and_do_no_harm(seed: int) -> None:
    T, g = ring(300, 1e-3, seed), 0.999
    rhs = np.random.default_rng(seed).normal(size=300)
    sweeps, x = settled(system_of(T, g), rhs)
    exact = np.linalg.solve(matrix_of(T, g), rhs)
    assert sweeps <= 9
    assert np.abs(x - exact).max() <= 1.5 * np.abs(exact).max()  # from zeros


def large_chain(n: int, n_ends: int) -> csr_array:
    """Five next states each, so few that sweeps go first."""
    rng = np.random.default_rng(n)
    column = rng.integers(n, size=(n, 5))
    column[:, 4] = rng.integers(n, n + n_ends, size=n) if n_ends else column[:, 4]
    value = rng.dirichlet(np.ones(5), size=n)
    at = np.repeat(np.arange(n), 5), column.ravel()
    return coo_array((value.ravel(), at), shape=(n, n + n_ends)).tocsr()


@pytest.mark.parametrize("g", [0.9, 0.99, 0.9999, 1.0])
def test_large_chains_give_back_the_solution_they_were_made_for(g: float) -> None:
    n, n_ends = 9_000, 2 if g == 1.0 else 0
    T = large_chain(n, n_ends)
    A = csr_array(eye_array(n) - g * T[:, :n])
    exact = 3.0 + np.random.default_rng(0).normal(size=n)
    for backward in BOTH:
        straight = solved(system_of(T, g, backward), A @ exact, n_ends=n_ends)
        across = solved(transposed(T, g, backward), A.T @ exact)
        for found in (straight, across):
            assert found.claimed
            assert np.abs(found.x - exact).max() <= 1e-9 * np.abs(exact).max()


def test_a_large_shuffled_ring_is_handed_on_and_said_to_fail() -> None:
    n, g = 8_193, 0.99999
    rhs = np.random.default_rng(0).normal(size=n)
    found = solved(system_of(ring(n, 1e-6), g), rhs, trial=np.full(n, 1 / (1 - g)))
    assert not found.claimed
    assert 9 < abs(found.products) <= krylov.MOST_PRODUCTS + 2


# ------------------------------------------------------------ honest failures


@pytest.mark.parametrize("given_length", BOTH)
@pytest.mark.parametrize("slip", [0.0, 1e-6])
@pytest.mark.parametrize("backward", BOTH)
def test_a_large_shuffled_ring_is_said_to_fail(
    backward: bool, slip: float, given_length: bool
) -> None:
    T, g = ring(600, slip), 0.99999
    rhs = np.random.default_rng(0).normal(size=600)
    trial = np.full(600, 1 / (1 - g)) if given_length else None
    found = solved(system_of(T, g, backward), rhs, trial=trial)
    assert not found.claimed
    assert abs(found.products) <= krylov.MOST_PRODUCTS + 2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("g", [0.99, 0.9999, 0.99999])
def test_what_is_claimed_of_a_smaller_ring_is_right(g: float, seed: int) -> None:
    """Some of these converge, some do not, all of them slowly."""
    n = 300
    T = ring(n, 10.0 ** -(1 + seed), seed)
    rhs = np.random.default_rng(seed).normal(size=n)
    for system, A in (
        (system_of(T, g), matrix_of(T, g)),
        (transposed(T, g), matrix_of(T, g).T),
    ):
        found = solved(system, rhs)
        if found.claimed:
            expected = np.linalg.solve(A, rhs)
            error = np.abs(found.x - expected).max()
            assert error <= krylov.ACCEPTED * np.abs(expected).max()


def exactly(T: csr_array, g: float, rhs: Array) -> Array:
    """Solve in rational numbers; the diagonal completes a row, as in `_krylov`."""
    n, rows = T.shape[0], T.toarray()
    A = [[-Fraction(g) * Fraction(rows[i, j]) for j in range(n)] for i in range(n)]
    for i in range(n):
        leaves = sum((Fraction(v) for j, v in enumerate(rows[i]) if j != i), Fraction())
        A[i][i] = 1 - Fraction(g) + Fraction(g) * leaves
    x = [Fraction(value) for value in rhs]
    for k in range(n):
        for i in range(k + 1, n):
            factor = A[i][k] / A[k][k]
            x[i] -= factor * x[k]
            for j in range(k, n):
                A[i][j] -= factor * A[k][j]
    for k in reversed(range(n)):
        x[k] = (x[k] - sum(A[k][j] * x[j] for j in range(k + 1, n))) / A[k][k]
    return np.array([float(value) for value in x])


@pytest.mark.parametrize("n", [2, 8])
@pytest.mark.parametrize("exponent", range(6, 16))
def test_what_is_claimed_of_very_long_episodes_is_right(exponent: int, n: int) -> None:
    """Rounding may make a residual 0 by luck: that is no proof of anything."""
    rare = 10.0**-exponent
    rng = np.random.default_rng(exponent)
    for _ in range(4):
        rows = np.hstack([rng.dirichlet(np.ones(n), size=n), np.zeros((n, 1))])
        rows[0] = np.append(rows[0, :n] * (1 - rare), rare)
        T = csr_array(rows)
        expected = exactly(T, 1.0, np.ones(n))
        for backward in BOTH:
            found = solved(system_of(T, 1.0, backward), np.ones(n), n_ends=1)
            if found.claimed:
                error = np.abs(found.x - expected).max()
                assert error <= krylov.ACCEPTED * np.abs(expected).max()


@pytest.mark.parametrize("size", [1, 2, 30])
def test_a_chain_that_never_ends_is_said_to_fail(size: int) -> None:
    """The last ``size`` states go round among themselves."""
    n = 60
    rows = random_chain(0, n, 4, n_ends=1).toarray()
    inside = np.arange(n - size, n)
    rows[inside] = 0.0
    rows[inside, np.roll(inside, 1)] = 1.0
    for backward in BOTH:
        system = system_of(csr_array(rows), 1.0, backward)
        assert not solved(system, np.ones(n), n_ends=1).claimed


def test_what_is_not_a_number_is_not_claimed() -> None:
    """One state, which none leads to; all others are right from the start."""
    rows = random_chain(0, 60, 4).toarray()
    rows[:, 7] = 0.0
    T = csr_array(rows / rows.sum(axis=1, keepdims=True))
    exact = np.linalg.solve(matrix_of(T, 0.9), np.ones(60))
    exact[7] = np.nan
    assert not solved(system_of(T, 0.9), np.ones(60), start=exact).claimed
