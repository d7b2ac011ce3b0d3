"""Paired values and differences of checked policies, apart because they need numba."""

from bayesmdp.evaluation._paired import paired_differences, start_spread, start_values

__all__ = ["paired_differences", "start_spread", "start_values"]
