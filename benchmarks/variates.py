"""Gamma variates and Dirichlet rows beside NumPy's, on one thread.

NumPy is asked for the same array of shapes, `Generator.standard_gamma(alpha)`, in turn
with ours; times are the best of several repeats.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bayesmdp._checks import read_only
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.posterior._random import gamma_row, open_stream
from bayesmdp.posterior.sampling import sample_dirichlet
from benchmarks import Row, made_with

_N = 100_000
_SHAPES = (0.01, 0.072, 0.5, 1.0, 2.0, 3.5, 10.0, 100.0)
_ROWS = 10_000
_KEY = np.array([7, 11], dtype=np.uint64)


def clinical_shapes(n: int) -> FloatArray:
    """Shapes as clinical counts give them with a concentration of 1.

    8 % are fallbacks without counts. Of the others, 92 % have 1 to 4 counts, which
    fall off geometrically; the rest have more, up to 400, by a power law.
    """
    rng = np.random.default_rng(0)
    counts = rng.geometric(1.0 - 0.08**0.25, n)  # above 4 with probability 0.08
    many = counts > 4
    tail = 5.0 * rng.random(int(many.sum())) ** (-1.0 / 1.2)
    counts[many] = np.minimum(tail, 400.0)
    counts[rng.random(n) < 0.08] = 0
    return 1.0 + counts.astype(np.float64)


def in_turn(
    ours: Callable[[], object], rival: Callable[[], object], repeats: int = 40
) -> tuple[float, float]:
    """Shortest time of each; in turn, so that a busy moment hits both."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        ours()
        between = time.perf_counter()
        rival()
        times.append((between - began, time.perf_counter() - between))
    mine, other = (min(column) for column in zip(*times, strict=True))
    return mine, other


def compared(
    what: str,
    target: float,
    nanoseconds: tuple[float, float],
    z: float,
    valid: bool = True,
) -> tuple[Row, dict[str, Any]]:
    """Claim and plain numbers of one comparison."""
    mine, other = nanoseconds
    row = Row(
        what=f"NumPy / ours, {what}",
        measured=other / mine,
        unit="x",
        sense=">=",
        target=target,
        check=f"ours {mine:.3g} ns, NumPy {other:.3g} ns; mean {z:+.1f} errors off",
        correct=bool(abs(z) < 5 and valid),
    )
    numbers = {
        "what": what,
        "ns": mine,
        "numpy_ns": other,
        "ratio": other / mine,
        "mean_in_errors": z,
    }
    return row, numbers


def variates(what: str, alpha: FloatArray, target: float) -> tuple[Row, dict[str, Any]]:
    """Nanoseconds a variate for an array of shapes."""
    rng = np.random.default_rng(1)
    stream, out = np.empty(4, dtype=np.uint64), np.empty(alpha.size)
    open_stream(stream, _KEY, 0, 0, 0)
    gamma_row(alpha, stream, out)
    z = float((out.sum() - alpha.sum()) / np.sqrt(alpha.sum()))
    mine, other = in_turn(
        lambda: gamma_row(alpha, stream, out), lambda: rng.standard_gamma(alpha)
    )
    scale = 1e9 / alpha.size
    return compared(what, target, (scale * mine, scale * other), z)


def _by_numpy(
    rng: np.random.Generator, alpha: FloatArray, start: IntArray, size: IntArray
) -> FloatArray:
    """Dirichlet rows with NumPy's variates."""
    theta = rng.standard_gamma(alpha)
    theta /= np.repeat(np.add.reduceat(theta, start), size)
    return theta


def rows() -> tuple[Row, dict[str, Any]]:
    """Nanoseconds an entry for Dirichlet rows, with the opening of their streams."""
    rng = np.random.default_rng(2)
    size = rng.integers(10, 25, _ROWS)
    indptr = np.concatenate([[0], np.cumsum(size)])
    alpha = clinical_shapes(int(indptr[-1]))
    theta = np.empty(alpha.size)
    state, action = np.arange(_ROWS), np.zeros(_ROWS, dtype=np.int64)

    def ours() -> None:
        draws, used = np.array([3]), np.ones(_ROWS, dtype=np.bool_)
        given = (read_only(x) for x in (draws, state, action, indptr, alpha, used))
        sample_dirichlet(_KEY, *given, theta[None])

    ours()
    start = indptr[:-1]
    total = np.add.reduceat(alpha, start)
    mean = alpha[start] / total
    variance = mean * (1.0 - mean) / (total + 1.0)
    z = float((theta[start] - mean).sum() / np.sqrt(variance.sum()))
    off = np.abs(np.add.reduceat(theta, start) - 1.0).max()
    mine, other = in_turn(ours, lambda: _by_numpy(rng, alpha, start, size))
    scale = 1e9 / alpha.size
    return compared(
        "clinical rows of 10 to 24 entries",
        2.0,
        (scale * mine, scale * other),
        z,
        valid=bool(off < 1e-13),
    )


def run() -> dict[str, Any]:
    """Measure each shape, the clinical mix and rows of it."""
    found = [variates(f"shape {a:g}", np.full(_N, a), 1.0) for a in _SHAPES]
    found.append(variates("clinical mix of shapes", clinical_shapes(_N), 2.0))
    found.append(rows())
    return {
        "problem": "gamma variates, one thread; nanoseconds a variate or entry",
        "made_with": made_with(),
        "rows": [row.as_record() for row, _ in found],
        "table": [numbers for _, numbers in found],
    }
