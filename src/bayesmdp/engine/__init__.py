"""The narrow waist: sweeps over draws, on arrays.

Everything here compiles with numba, so the room is imported where work is done, not
where names are listed.
"""

from bayesmdp.engine import _reduce as channels
from bayesmdp.engine._choose import check_solver
from bayesmdp.engine._ending import Ending, check_ending
from bayesmdp.engine._join import BLOCK, Sums
from bayesmdp.engine._nominal import MAX_INVERSE, Nominal
from bayesmdp.engine._problem import Problem
from bayesmdp.engine._sweep import Slopes, Want, nominal, slopes, solve_known, sweep
from bayesmdp.engine._workers import Pool, results, workers

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
    "check_solver",
    "nominal",
    "results",
    "slopes",
    "solve_known",
    "sweep",
    "workers",
]
