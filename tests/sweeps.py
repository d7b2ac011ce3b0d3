"""Calls of the engine that several tests make."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import engine

Array = NDArray[np.float64]


def nominal_of(
    problem: engine.Problem, *, threads: int = 1, control: bool, **how: Any
) -> engine.Nominal:
    """Nominal model, for tests that need a pool for nothing else."""
    with engine.workers(threads, None) as pool:
        return engine.nominal(problem, pool, control=control, **how)


def gradient_of(
    problem: engine.Problem, n_draws: int, solver: str = "auto"
) -> tuple[Array, Array]:
    """Mean gradient ``[R]`` of one policy, and the variance of that mean."""
    want = engine.Want(gradient=True)
    with engine.workers(2, None) as pool:
        around = engine.nominal(problem, pool, control=False, solver=solver, want=want)
        sums = engine.sweep(problem, around, n_draws, want=want, pool=pool)
    assert sums.ended.all()
    slope, square = sums.row[0] / n_draws
    return slope, (square - slope**2) / (n_draws - 1)
