"""The generators, and the rows made of them; gamma variates are in ``test_gamma``.

Known answers pin the bits. Distributions are tested with fixed seeds: p-values of
Kolmogorov-Smirnov tests must be above 1e-6 and z-scores within 5 (two-sided 5.7e-7).
The file makes fewer than 200 such checks, so that for a correct sampler about one seed
in 5,000 would fail any of them. Tests named "wrong" show that the checks have power.
"""

from collections.abc import Callable

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

import bayesmdp as bm
from bayesmdp._checks import read_only
from bayesmdp.posterior import Draws
from bayesmdp.posterior._random import next_bits, open_stream, philox, uniform
from bayesmdp.posterior.sampling import sample_dirichlet

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
KEY = np.array([20240719, 0x5EED], dtype=np.uint64)
N = 200_000
P_VALUE = 1e-6
Z = 5.0
MASK = 2**64 - 1


# ---------------------------------------------------------------- known answers


@pytest.mark.parametrize("key", [(0, 0), (1, 2), (2**64 - 1, 0x123456789ABCDEF)])
@pytest.mark.parametrize("counter", [(0, 0, 0, 0), (7, 3, 1, 0), (MASK - 1, 5, 9, 2)])
def test_philox_gives_the_numbers_of_numpy(
    key: tuple[int, int], counter: tuple[int, int, int, int]
) -> None:
    generator = np.random.Philox(
        key=np.array(key, dtype=np.uint64), counter=np.array(counter, dtype=np.uint64)
    )
    first, *rest = counter  # numpy counts up before the first output
    words = [np.uint64(x) for x in (*key, first + 1, *rest)]
    assert list(philox(*words)) == generator.random_raw(4).tolist()


def xoshiro(state: list[int], n: int) -> list[int]:
    """First outputs of xoshiro256++, as its authors write it."""

    def rotate(x: int, k: int) -> int:
        return ((x << k) | (x >> (64 - k))) & MASK

    s, out = list(state), []
    for _ in range(n):
        out.append((rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK)
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
    return out


def test_the_reference_gives_the_published_first_output() -> None:
    # (1, 2, 3, 4) is the vector of the Rust crate rand_xoshiro, from the C code.
    assert xoshiro([1, 2, 3, 4], 4) == [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
    ]


@pytest.mark.parametrize("state", [[1, 2, 3, 4], [MASK, 0, 1 << 63, 0xDEADBEEF]])
def test_next_bits_is_xoshiro(state: list[int]) -> None:
    stream = np.array(state, dtype=np.uint64)
    assert [int(next_bits(stream)) for _ in range(50)] == xoshiro(state, 50)


def test_a_stream_starts_from_philox_of_its_address() -> None:
    stream = np.empty(4, dtype=np.uint64)
    open_stream(stream, KEY, 11, 22, 33)
    address = [np.uint64(x) for x in (11, 22, 33, 0)]
    a, b, c, d = philox(KEY[0], KEY[1], *address)
    assert stream.tolist() == [a | 1, b, c, d]


# ---------------------------------------------------------------- uniform numbers


@numba.njit
def _fill(key: NDArray[np.uint64], out: Array) -> None:
    stream = np.empty(4, dtype=np.uint64)
    for i in range(out.size):
        if i % 8 == 0:  # short streams with neighbouring addresses, as rows have
            open_stream(stream, key, i, 0, 0)
        out[i] = uniform(stream)


def p_value(sample: Array, cdf: Callable[[Array], Array]) -> float:
    return float(stats.kstest(sample, cdf, method="asymp").pvalue)


def z_of_mean(sample: Array, mean: float, sd: float) -> float:
    return float((sample.mean() - mean) / (sd / np.sqrt(sample.size)))


def test_uniforms_are_uniform_and_never_zero_or_one() -> None:
    u = np.empty(1_000_000)
    _fill(KEY, u)
    assert 0.0 < u.min() < 1e-5
    assert 1.0 - 1e-5 < u.max() < 1.0
    assert p_value(u, stats.uniform.cdf) > P_VALUE
    assert abs(z_of_mean(u, 0.5, np.sqrt(1 / 12))) < Z
    in_cell = np.bincount((u * 1024).astype(np.int64), minlength=1024)
    assert stats.chisquare(in_cell).pvalue > P_VALUE


# ---------------------------------------------------------------- Dirichlet rows


def rows(alpha: list[float], n: int, draw: int = 0) -> Array:
    """Draw ``n`` rows with the same parameters, as the states of one draw."""
    k = len(alpha)
    theta = np.empty((1, n * k))
    sample(
        KEY,
        np.array([draw]),
        np.arange(n),
        np.zeros(n, dtype=np.int64),
        np.arange(0, n * k + 1, k),
        np.tile(alpha, n),
        theta,
    )
    return theta.reshape(n, k)


def sample(
    key: NDArray[np.uint64],
    draws: Ints,
    state: Ints,
    action: Ints,
    indptr: Ints,
    alpha: Array,
    theta: Array,
) -> None:
    """Fill every row of draws ``[n]`` in ``theta`` [n, E], as streams do."""
    given = (draws, state, action, indptr, alpha, np.ones(state.size, dtype=np.bool_))
    sample_dirichlet(read_only(key), *map(read_only, given), theta)


ROWS = {
    "flat": [1.0, 1.0, 1.0],
    "with counts": [1.0, 4.0, 12.0, 2.0],
    "not whole": [1.5, 3.5, 7.25],
    "below one": [0.072, 0.5, 2.0, 0.3],
    "large": [200.0, 31.5, 1.0],
    "every kind": [0.05, 0.4, 1.0, 2.0, 16.0, 17.0, 3.5],
}


@pytest.mark.parametrize("name", ROWS)
def test_dirichlet_rows_have_beta_marginals_and_their_covariance(name: str) -> None:
    alpha = np.array(ROWS[name])
    theta = rows(ROWS[name], N // 2)
    total = alpha.sum()
    np.testing.assert_allclose(theta.sum(axis=1), 1.0, atol=1e-14)
    for i, a in enumerate(alpha):
        assert p_value(theta[:, i], stats.beta(a, total - a).cdf) > P_VALUE
    mean = alpha / total
    covariance = (np.diag(mean) - np.outer(mean, mean)) / (total + 1)
    deviation = theta - mean
    for i in range(alpha.size):
        for j in range(i):
            product = deviation[:, i] * deviation[:, j]
            z = z_of_mean(product, covariance[i, j], product.std())
            assert abs(z) < Z, (i, j)


def test_a_slightly_wrong_dirichlet_parameter_is_rejected() -> None:
    theta = rows([1.0, 4.0, 12.0, 2.0], N // 2)
    assert p_value(theta[:, 1], stats.beta(4.2, 15.0).cdf) < P_VALUE


@pytest.mark.parametrize("concentration", [1e-6, 1e-4, 1e-3, 1e-2, 0.072])
def test_rows_of_tiny_concentrations_are_right_on_average(concentration: float) -> None:
    weight = np.array([1.0, 2.0, 5.0])
    theta = rows((concentration * weight).tolist(), N // 4)
    assert np.isfinite(theta).all()
    assert theta.min() >= 0.0
    np.testing.assert_allclose(theta.sum(axis=1), 1.0, atol=1e-14)
    mean = weight / weight.sum()
    sd = np.sqrt(mean * (1 - mean) / (concentration * weight.sum() + 1))
    for i in range(3):
        assert abs(z_of_mean(theta[:, i], mean[i], sd[i])) < Z


@pytest.mark.parametrize("n_entries", [2, 716])
@pytest.mark.parametrize("concentration", [1e-300, 1e-6, 1e-4, 1.0 / 716, 0.05])
def test_rows_of_tiny_concentrations_are_finite_and_sum_to_one(
    concentration: float, n_entries: int
) -> None:
    theta = rows([concentration] * n_entries, 200)
    assert np.isfinite(theta).all()
    assert theta.min() >= 0.0
    np.testing.assert_allclose(theta.sum(axis=1), 1.0, atol=1e-13)


@pytest.mark.parametrize("concentration", [1e-4, 1e-3, 1e-2])
def test_small_entries_of_tiny_rows_have_their_distribution(
    concentration: float,
) -> None:
    """Look at the smaller of two entries where it is above 1e-50.

    It is under ``x`` with probability ``2 I_x(a, a)``.
    """
    theta = rows([concentration] * 2, N)
    smaller = theta.min(axis=1)

    def cdf(x: Array | float) -> Array:
        return 2.0 * special.betainc(concentration, concentration, x)

    seen = smaller[smaller > 1e-50]
    below = float(cdf(1e-50))
    assert abs(seen.size - N * (1 - below)) < Z * np.sqrt(N * below * (1 - below))
    assert p_value((cdf(seen) - below) / (1 - below), stats.uniform.cdf) > P_VALUE


def test_a_row_of_one_entry_is_certain() -> None:
    assert (rows([0.3], 10) == 1.0).all()


# ---------------------------------------------------------------- independence


def grid_of_uniforms(key: NDArray[np.uint64], sizes: tuple[int, int, int]) -> Array:
    """Return one uniform a row, scaled to mean 0 and variance 1: [draw, state, action].

    The first entry of a Dirichlet(1, 1) row is uniform.
    """
    n_draws, n_states, n_actions = sizes
    state, action = np.divmod(np.arange(n_states * n_actions), n_actions)
    indptr = np.arange(0, 2 * state.size + 1, 2)
    theta = np.empty((n_draws, 2 * state.size))
    sample(
        key, np.arange(n_draws), state, action, indptr, np.ones(2 * state.size), theta
    )
    return np.sqrt(12.0) * (theta[:, ::2].reshape(sizes) - 0.5)


def z_of_correlation(x: Array, y: Array) -> float:
    """Correlation of standardised variables in standard errors."""
    return float((x * y).mean() * np.sqrt(x.size))


def neighbours(x: Array) -> dict[str, tuple[Array, Array]]:
    """Pairs of rows whose addresses are close, or easily confused."""
    return {
        "next draw": (x[1:], x[:-1]),
        "next state": (x[:, 1:], x[:, :-1]),
        "next action": (x[:, :, 1:], x[:, :, :-1]),
        "next draw, state before": (x[1:, :-1], x[:-1, 1:]),
        "state and action exchanged": (x, x.transpose(0, 2, 1)),
        "draw and state exchanged": (x, x.transpose(1, 0, 2)),
    }


def test_rows_of_neighbouring_addresses_are_not_correlated() -> None:
    x = grid_of_uniforms(KEY, (48, 48, 48))
    off = ~np.eye(48, dtype=bool)
    for name, (a, b) in neighbours(x).items():
        if name == "state and action exchanged":
            a, b = a[:, off], b[:, off]
        elif name == "draw and state exchanged":
            a, b = a[off], b[off]
        # a pair and its mirror image are the same product: half as many terms
        scale = np.sqrt(2.0) if "exchanged" in name else 1.0
        assert abs(z_of_correlation(a, b)) < Z * scale, name
        square = np.sqrt(5.0) / 2.0
        z = z_of_correlation(square * (a**2 - 1.0), square * (b**2 - 1.0))
        assert abs(z) < Z * scale, f"squares: {name}"


def test_wrongly_shared_streams_would_be_noticed() -> None:
    x = grid_of_uniforms(KEY, (8, 48, 48))
    mixed = np.sqrt(0.98) * x[1:] + np.sqrt(0.02) * x[:-1]
    assert abs(z_of_correlation(mixed, x[:-1])) > Z


def test_seeds_and_purposes_open_different_streams() -> None:
    world = bm.worlds.gridworld()
    posterior = bm.fit(world.sample(50, seed=0), world.task, prior=bm.SymmetricPrior())
    keys = [
        Draws(posterior, 2, seed, purpose).stream.key
        for seed in (0, 1, 2**63)
        for purpose in ("evaluate", "optimise", "msbi")
    ]
    grids = [grid_of_uniforms(key, (8, 32, 32)) for key in keys]
    for i, one in enumerate(grids):
        for other in grids[:i]:
            assert not (one == other).any()
            assert abs(z_of_correlation(one, other)) < Z


def test_the_same_address_gives_the_same_row_whatever_else_is_sampled() -> None:
    world = bm.worlds.gridworld()
    posterior = bm.fit(world.sample(50, seed=0), world.task, prior=bm.SymmetricPrior())
    draws, again = posterior.draws(20, seed=4), posterior.draws(500, seed=4)
    seventh = draws.dynamics(7).probability
    assert np.array_equal(seventh, again.dynamics(7).probability)
    assert not np.array_equal(seventh, again.dynamics(8).probability)
    at = posterior.layout
    row = 33
    alone = np.empty((1, at.indptr[row + 1] - at.indptr[row]))
    entries = slice(at.indptr[row], at.indptr[row + 1])
    sample(
        draws.stream.key,
        np.array([7]),
        at.state[row : row + 1],
        at.action[row : row + 1],
        np.array([0, alone.size]),
        posterior.alpha[entries],
        alone,
    )
    assert np.array_equal(alone[0], seventh[entries])
    some = draws.stream.of_rows(np.array([2, row, 40]))
    theta = np.empty((2, some.layout.next_state.size))
    some.fill(np.array([3, 7]), np.ones(3, dtype=np.bool_), theta)
    first, last = some.layout.indptr[1:3]
    assert np.array_equal(theta[1, first:last], seventh[entries])
