"""Normal, exponential and gamma variates, by every way they are made.

Distributions are tested with fixed seeds: p-values of Kolmogorov-Smirnov tests must be
above 1e-6 and z-scores within 5 (two-sided 5.7e-7). The file makes fewer than 400 such
checks, so that for a correct sampler about one seed in 3,000 would fail any of them.
Tests named "wrong" show that the checks have power.
"""

from collections.abc import Callable

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from bayesmdp.posterior import _random
from bayesmdp.posterior._random import (
    dirichlet_row,
    gamma_above_one,
    gamma_row,
    gamma_whole,
    log_gamma_tiny,
    normal,
    open_stream,
)

Array = NDArray[np.float64]
KEY = np.array([20240719, 0x5EED], dtype=np.uint64)
N = 100_000
P_VALUE = 1e-6
Z = 5.0

TINY = (0.001, 0.01, 0.072, 0.0999)
BELOW_ONE = (0.1, 0.3, 0.5, 0.9, 0.9999)
WHOLE = tuple(float(a) for a in range(1, 17))
OTHER = (1.0001, 1.5, 3.5, 15.5, 16.0001, 17.0, 100.0, 1000.0)
SHAPES = TINY + BELOW_ONE + WHOLE + OTHER


def p_value(sample: Array, cdf: Callable[[Array], Array]) -> float:
    return float(stats.kstest(sample, cdf, method="asymp").pvalue)


def z_of_mean(sample: Array, mean: float, sd: float) -> float:
    return float((sample.mean() - mean) / (sd / np.sqrt(sample.size)))


def row(alpha: Array, salt: int = 0) -> Array:
    """Gamma variates of the shapes, as a row has them."""
    stream, out = np.empty(4, dtype=np.uint64), np.empty(alpha.size)
    open_stream(stream, KEY, 0, salt, 0)
    total = gamma_row(alpha, stream, out)
    assert total == pytest.approx(out.sum(), rel=1e-12)
    return out


# ---------------------------------------------------------------- layers


@pytest.mark.parametrize("m", range(16))
def test_layers_have_equal_areas_and_close_at_the_top(m: int) -> None:
    edges, heights = _random._gamma_layers(m, _random._BASE[m])
    left, right = edges.T
    area = np.diff(heights) * (right - left)[:-1]
    np.testing.assert_allclose(area, area[0], rtol=1e-10)
    beyond = special.gammaincc(m + 1, right[1]) * special.gamma(m + 1)
    np.testing.assert_allclose(area[0], heights[1] * right[1] + beyond, rtol=1e-12)
    for x in (left, right) if m else (right,):
        density = x[1:256] ** m * np.exp(-x[1:256])
        np.testing.assert_allclose(density, heights[1:256], rtol=1e-12)
    top = float(m) ** m * np.exp(-m)
    assert top <= heights[256] < top * (1.0 + 1e-6)
    assert (np.diff(left) >= 0).all()
    assert (np.diff(right) < 0).all()


# ---------------------------------------------------------------- ziggurats


@numba.njit
def _sums(m: int, edge: float, n: int, key: NDArray[np.uint64]) -> tuple[Array, int]:
    """Sums of the powers 1 to 4 of variates, and how many are beyond an edge.

    Shape ``m + 1``, or normal where ``m`` is -1.
    """
    stream = np.empty(4, dtype=np.uint64)
    open_stream(stream, key, m, 2, 0)
    words = (stream[0], stream[1], stream[2], stream[3])
    beyond, first, second, third, fourth = 0, 0.0, 0.0, 0.0, 0.0
    for _ in range(n):
        x, words = gamma_whole(np.uint64(m), words) if m >= 0 else normal(words)
        square = x * x
        beyond += abs(x) > edge
        first += x
        second += square
        third += x * square
        fourth += square * square
    return np.array([first, second, third, fourth]), beyond


@numba.njit
def _variates(m: int, first: int, key: NDArray[np.uint64], out: Array) -> None:
    """Variates from words that begin with a given number, or from any where it is 0.

    xoshiro256++ returns rotl(s0 + s3, 23) + s0: where s0 is 0, s3 sets it.
    """
    bits = np.uint64(first)
    last = (bits >> np.uint64(23)) | (bits << np.uint64(41))
    stream = np.empty(4, dtype=np.uint64)
    for i in range(out.size):
        open_stream(stream, key, i, 3, 0)
        if first != 0:
            stream[0], stream[3] = 0, last
        words = (stream[0], stream[1], stream[2], stream[3])
        x, _ = gamma_whole(np.uint64(m), words) if m >= 0 else normal(words)
        out[i] = x


def assert_moments(sums: Array, moment: Callable[[int], float], n: int) -> None:
    for power, total in enumerate(sums, 1):
        sd = np.sqrt(moment(2 * power) - moment(power) ** 2)
        assert abs(total / n - moment(power)) < Z * sd / np.sqrt(n), power


def assert_uniform(u: Array) -> None:
    """Uniform as a whole, and near 0, where the logarithm looks."""
    assert p_value(u, stats.uniform.cdf) > P_VALUE
    assert abs(z_of_mean(-np.log(u), 1.0, 1.0)) < Z


def test_normals_are_normal() -> None:
    x = np.empty(N)
    _variates(-1, 0, KEY, x)
    assert p_value(x, stats.norm.cdf) > P_VALUE
    assert p_value(x, stats.norm(scale=1.03).cdf) < P_VALUE
    n, edge = 10_000_000, _random._EDGE[1]  # where the ziggurat's tail begins
    sums, beyond = _sums(-1, edge, n, KEY)
    assert_moments(sums, lambda k: (k % 2 == 0) * special.factorial2(k - 1), n)
    expected = 2 * n * stats.norm.sf(edge)
    assert abs(beyond - expected) < Z * np.sqrt(expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_tails_of_normals_are_normal(sign: int) -> None:
    x, edge = np.empty(N), _random._EDGE[1]
    _variates(-1, 0x7FFFFFFFFFFFF800 if sign > 0 else -(2**63), KEY, x)
    assert (sign * x >= edge).all()
    assert_uniform(stats.norm.sf(sign * x) / stats.norm.sf(edge))


@pytest.mark.parametrize("m", range(16))
def test_whole_shapes_have_their_moments_and_tails(m: int) -> None:
    n, edge, shape = 4_000_000, _random._BASE[m], m + 1
    sums, beyond = _sums(m, edge, n, KEY)
    assert_moments(sums, lambda k: special.poch(shape, k), n)
    tail = special.gammaincc(shape, edge)
    assert abs(beyond - n * tail) < Z * np.sqrt(n * tail)
    x = np.empty(2 * N)
    _variates(m, -256, KEY, x)  # layer 0, and every bit of the position set
    assert (x >= edge).all()
    assert_uniform(special.gammaincc(shape, x) / tail)


# ---------------------------------------------------------------- all shapes


def log_gamma_cdf(shape: float) -> Callable[[Array], Array]:
    """Distribution of the logarithm of a gamma variate, also where it underflows."""

    def cdf(x: Array) -> Array:
        small = np.exp(np.minimum(shape * x - special.gammaln(shape + 1.0), 0.0))
        return np.where(x < -40, small, special.gammainc(shape, np.exp(x)))

    return cdf


@pytest.mark.parametrize("shape", [a for a in SHAPES if a > 0.001])
def test_variates_have_their_distribution(shape: float) -> None:
    x = row(np.full(N, shape))
    assert x.min() > 0.0
    seen = np.log(x)
    assert p_value(seen, log_gamma_cdf(shape)) > P_VALUE
    sd, fourth = np.sqrt(shape), 3 * shape**2 + 6 * shape
    assert abs(z_of_mean(x, shape, sd)) < Z
    assert abs(z_of_mean((x - shape) ** 2, shape, np.sqrt(fourth - shape**2))) < Z


@pytest.mark.parametrize("shape", [0.02, 0.072, *BELOW_ONE, *WHOLE, *OTHER])
def test_logarithms_have_their_moments(shape: float) -> None:
    x = np.log(row(np.full(N, shape), salt=1))
    mean, sd = special.digamma(shape), np.sqrt(special.polygamma(1, shape))
    fourth = special.polygamma(3, shape) + 3 * sd**4
    assert abs(z_of_mean(x, mean, sd)) < Z
    assert abs(z_of_mean((x - mean) ** 2, sd**2, np.sqrt(fourth - sd**4))) < Z


@pytest.mark.parametrize("shape", SHAPES)
def test_a_slightly_wrong_shape_is_rejected(shape: float) -> None:
    x = np.log(row(np.full(N // 2, shape)))
    for factor in (0.96, 1.04):
        assert p_value(x, log_gamma_cdf(factor * shape)) < P_VALUE


def test_variates_too_small_are_held_at_the_floor() -> None:
    x = np.log(row(np.full(N, 0.001)))
    at_floor = x < -699.9999
    cdf = log_gamma_cdf(0.001)
    below = float(cdf(np.array(-700.0)))
    assert abs(at_floor.sum() - N * below) < Z * np.sqrt(N * below * (1 - below))
    u = (cdf(x[~at_floor]) - below) / (1 - below)
    assert p_value(u, stats.uniform.cdf) > P_VALUE


# ---------------------------------------------------------------- full forms


@numba.njit
def _full(alpha: Array, key: NDArray[np.uint64], draw: int, out: Array) -> None:
    """Logarithms of variates by the full forms alone, from the words of `row`."""
    stream = np.empty(4, dtype=np.uint64)
    open_stream(stream, key, draw, 0, 0)
    words = (stream[0], stream[1], stream[2], stream[3])
    for i in range(alpha.size):
        shape = alpha[i]
        if shape < 0.1:
            out[i], words = log_gamma_tiny(shape, words)
        elif shape <= 16.0 and shape == np.floor(shape):
            x, words = gamma_whole(np.uint64(shape - 1.0), words)
            out[i] = np.log(x)
        else:
            d = shape + (1.0 if shape < 1.0 else 0.0) - 1.0 / 3.0
            x, words = gamma_above_one(d, 1.0 / np.sqrt(9.0 * d), words)
            out[i] = np.log(x)
            if shape < 1.0:
                exponential, words = gamma_whole(np.uint64(0), words)
                out[i] -= exponential / shape


def logarithms(alpha: Array, draw: int = 0) -> Array:
    out = np.empty(alpha.size)
    _full(alpha, KEY, draw, out)
    return out


@pytest.mark.parametrize("shape", [1e-6, 1e-4, 0.01, 0.072])
def test_logarithms_of_tiny_shapes_are_right_where_variates_underflow(
    shape: float,
) -> None:
    x = logarithms(np.full(N, shape))
    assert p_value(x, log_gamma_cdf(shape)) > P_VALUE
    assert p_value(x, log_gamma_cdf(1.04 * shape)) < P_VALUE
    mean, sd = special.digamma(shape), np.sqrt(special.polygamma(1, shape))
    assert abs(z_of_mean(x, mean, sd)) < Z


def test_short_and_full_forms_agree_and_use_the_same_words() -> None:
    # Words that were not the same would change every later variate.
    alpha = np.random.default_rng(0).choice(SHAPES, 500_000)
    expected = np.maximum(logarithms(alpha), -700.0)
    np.testing.assert_allclose(np.log(row(alpha)), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("scale", [1.0, 0.03, 1e-3])
def test_rows_are_those_of_the_logarithms_however_faint(scale: float) -> None:
    # Rows of the first scale are never made again, of the last nearly always.
    alpha = scale * np.array([0.03, 0.05, 0.09, 0.07])
    stream, theta = np.empty(4, dtype=np.uint64), np.empty(4)
    for draw in range(1_000):
        open_stream(stream, KEY, draw, 0, 0)
        dirichlet_row(alpha, stream, theta)
        expected = special.softmax(logarithms(alpha, draw))
        np.testing.assert_allclose(theta, expected, rtol=1e-9, atol=1e-50)


# ---------------------------------------------------------------- squeeze


def least_gap(shape: float, factor: float) -> float:
    """Least of ``h - (1 - factor c^2 x^4)`` over ``x < 0``, as ``_random`` has it."""
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    t = -np.linspace(1e-3, 1.0 - 1e-9, 200_001)
    x = t / c
    log_h = 3.0 * d * (np.log1p(t) - t + t**2 / 2 - t**3 / 3)
    return float((np.exp(log_h) - 1.0 + factor * c**2 * x**4).min())


@pytest.mark.parametrize("shape", [1.0, 1.001, 1.1, 1.5, 2.0, 3.5, 17.0, 1e3, 1e6])
def test_the_quick_test_accepts_nothing_the_exact_one_rejects(shape: float) -> None:
    assert least_gap(shape, 0.2) >= -1e-12


def test_a_wrong_quick_test_would_be_noticed() -> None:
    assert least_gap(1.0, 0.19) < 0.0
