"""The narrow waist: sweeps over draws, on arrays.

Everything here compiles with numba, so the room is imported where work is done, not
where names are listed.
"""

from bayesmdp.engine import _backend as channels
from bayesmdp.engine._backend import (
    BLOCK,
    MAX_INVERSE,
    Backend,
    Joiner,
    Nominal,
    Sums,
    backend_of,
    default_device,
    gpu_name,
    make_auto,
    make_gpu,
    register,
    register_later,
)
from bayesmdp.engine._cpu import CPU, check_solver
from bayesmdp.engine._ending import Ending, check_ending
from bayesmdp.engine._kernel import invert
from bayesmdp.engine._rows import Problem, SweepRows
from bayesmdp.engine._sweep import (
    Pool,
    Want,
    nominal,
    results,
    solve_known,
    sweep,
    workers,
)
from bayesmdp.engine.ascent import Slopes, draw_values, slopes

register(CPU())
register_later("cuda", make_gpu)
register_later("auto", make_auto)

__all__ = [
    "CPU",
    "Backend",
    "Ending",
    "Nominal",
    "Problem",
    "Sums",
    "SweepRows",
    "channels",
    "nominal",
    "register",
    "results",
    "slopes",
    "sweep",
    "workers",
]
