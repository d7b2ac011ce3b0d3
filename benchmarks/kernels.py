"""The parts under a sweep: elimination beside LAPACK, streams and numbers.

Both eliminations run on one thread on the same matrices, best of several repeats.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from bayesmdp._jit import jit
from bayesmdp.engine._dense import factorise, solve
from bayesmdp.posterior.sampling import open_stream, uniform
from benchmarks import Row, made_with

_N = 1_000_000


@jit
def _open_many(n: int, stream: Any, key: Any) -> float:
    total = 0.0
    for i in range(n):
        open_stream(stream, key, i, 3, 1)
        total += uniform(stream)
    return total


@jit
def _draw_many(n: int, stream: Any) -> float:
    total = 0.0
    for _ in range(n):
        total += uniform(stream)
    return total


def best(work: Callable[[], object], repeats: int) -> float:
    """Shortest time of several."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def elimination(n: int, repeats: int, target: float) -> Row:
    """Time of LAPACK's factorisation over ours, with the solutions compared."""
    rng = np.random.default_rng(n)
    chain = rng.dirichlet(np.ones(n), n)
    matrix = np.eye(n) - 0.999 * chain
    lu, slack, x = matrix.copy(), np.full(n, 0.001), np.ones(n)

    def ours() -> None:
        lu[:] = matrix
        slack[:] = 0.001
        factorise(lu, slack)

    ours()
    solve(lu, x)
    expected = lu_solve(lu_factor(matrix), np.ones(n))
    off = float(np.abs(x / expected - 1).max())
    rival = best(lambda: lu_factor(matrix, check_finite=False), repeats)
    mine = best(ours, repeats)
    return Row(
        what=f"LAPACK / our elimination, {n} states",
        measured=rival / mine,
        unit="x",
        sense=">=",
        target=target,
        check=f"ours {1e6 * mine:.3g} us; solutions differ by {off:.0e}",
        correct=off < 1e-9,
    )


def numbers() -> list[Row]:
    """Nanoseconds to open a stream and to draw from it."""
    stream, key = np.ones(4, dtype=np.uint64), np.ones(2, dtype=np.uint64)
    _open_many(10, stream, key)
    _draw_many(10, stream)
    rows = []
    for what, work, target in (
        ("open a stream and draw once", lambda: _open_many(_N, stream, key), 40.0),
        ("draw a uniform number", lambda: _draw_many(_N, stream), 4.0),
    ):
        mean = work() / _N
        error = np.sqrt(1 / 12 / _N)
        rows.append(
            Row(
                what=what,
                measured=1e9 * best(work, 5) / _N,
                unit="ns",
                sense="<=",
                target=target,
                check=f"mean {mean:.5f}, {(mean - 0.5) / error:+.1f} errors off",
                correct=bool(abs(mean - 0.5) < 5 * error),
            )
        )
    return rows


def run() -> dict[str, Any]:
    """Measure everything."""
    rows = [elimination(20, 2000, 2.0), elimination(713, 8, 0.4), *numbers()]
    return {
        "problem": "kernels under the sweep, one thread",
        "made_with": made_with(),
        "rows": [row.as_record() for row in rows],
    }
