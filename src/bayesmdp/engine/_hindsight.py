"""The best value of one draw, had its model been known."""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._dense import dot
from bayesmdp.engine._layout import Layout
from bayesmdp.engine._planner import FAILED, plan_model
from bayesmdp.engine._solve import Krylov


@jit
def best_value(
    krylov: Krylov | None,
    theta: FloatArray,
    g: float,
    rows: Layout,
    reward: FloatArray,
    terminal_value: FloatArray,
    start: FloatArray,
    warm: IntArray,
) -> float:
    """Return the optimal start value of a model ``theta`` [E].

    Planning starts from the rows ``warm`` [N]. Not a number where a better policy
    would never end; minus infinity where iterations failed.
    """
    value, choice = np.zeros(start.size), warm.copy()
    done = plan_model(krylov, theta, rows, reward, g, choice, value, False)
    if done == FAILED:
        return -np.inf
    return dot(start, value) + dot(start, terminal_value) if done > 0 else np.nan
