"""The narrow waist: sweeps over draws, on arrays.

Everything here compiles with numba, so the room is imported where work is done, not
where names are listed.
"""

from bayesmdp.engine import _kernel as channels
from bayesmdp.engine._ending import check_ending
from bayesmdp.engine._nominal import MAX_INVERSE, Nominal
from bayesmdp.engine._problem import Problem
from bayesmdp.engine._sweep import (
    BLOCK,
    Sums,
    Want,
    nominal,
    solve_known,
    sweep,
    workers,
)

__all__ = [
    "BLOCK",
    "MAX_INVERSE",
    "Nominal",
    "Problem",
    "Sums",
    "Want",
    "channels",
    "check_ending",
    "nominal",
    "solve_known",
    "sweep",
    "workers",
]
