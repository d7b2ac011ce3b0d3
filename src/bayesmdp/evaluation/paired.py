"""Paired values and differences of checked policies, apart because they need numba."""

from bayesmdp.evaluation._paired import (
    differences,
    start_moments,
    start_values,
    sweep_paired,
)

__all__ = ["differences", "start_moments", "start_values", "sweep_paired"]
