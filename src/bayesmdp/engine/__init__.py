"""The narrow waist: sweeps over draws, on arrays.

Everything here compiles with numba, so the room is imported where work is done, not
where names are listed.
"""

from bayesmdp.engine import _kernel as channels
from bayesmdp.engine._ending import Ending, check_ending
from bayesmdp.engine._nominal import MAX_INVERSE, Nominal
from bayesmdp.engine._problem import Problem
from bayesmdp.engine._sweep import (
    BLOCK,
    Pool,
    Slopes,
    Sums,
    Want,
    nominal,
    slopes,
    solve_known,
    sweep,
    workers,
)

__all__ = [
    "BLOCK",
    "MAX_INVERSE",
    "Ending",
    "Nominal",
    "Pool",
    "Problem",
    "Slopes",
    "Sums",
    "Want",
    "channels",
    "check_ending",
    "nominal",
    "slopes",
    "solve_known",
    "sweep",
    "workers",
]
