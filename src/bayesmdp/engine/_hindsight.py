"""The best value of each draw, had its model been known."""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._dense import dot
from bayesmdp.engine._kernel import reward_of, sample, terminal_value_of
from bayesmdp.engine._layout import Layout, Models
from bayesmdp.engine._planner import FAILED, plan_model
from bayesmdp.engine._solve import Krylov


@jit
def best_values(
    krylov: Krylov | None,
    first: int,
    g: float,
    rows: Layout,
    models: Models,
    start: FloatArray,
    warm: IntArray,
    out: FloatArray,
) -> None:
    """Fill ``out`` [n] with the optimal start values of draws ``first...``.

    Planning starts from the rows ``warm`` [N]. Not a number where a better policy
    would never end; minus infinity where iterations failed.
    """
    theta = np.empty(rows.target.size)
    stream = np.empty(4, dtype=np.uint64)
    value = np.zeros(start.size)
    used = np.ones(rows.source.size, dtype=np.bool_)
    for i in range(out.size):
        draw = first + i
        sample(models, rows, used, draw, stream, theta)
        choice = warm.copy()
        reward = reward_of(models, draw)
        done = plan_model(krylov, theta, rows, reward, g, choice, value, False)
        best = dot(start, value) + dot(start, terminal_value_of(models, draw))
        out[i] = best if done > 0 else np.nan
        if done == FAILED:
            out[i] = -np.inf
