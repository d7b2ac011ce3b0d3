"""The best value of each draw, had its model been known."""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, FloatArray, IntArray
from bayesmdp.engine._dense import dot
from bayesmdp.engine._kernel import sample
from bayesmdp.engine._planner import plan_model


@jit
def best_values(
    first: int,
    g: float,
    key: BitArray,
    row_id: IntArray,
    source: IntArray,
    indptr: IntArray,
    target: IntArray,
    alpha: FloatArray,
    table: FloatArray,
    member: IntArray,
    rewards: FloatArray,
    terminal_values: FloatArray,
    start: FloatArray,
    warm: IntArray,
    out: FloatArray,
) -> None:
    """Fill ``out`` [n] with the optimal start values of draws ``first...``.

    Planning starts from the rows ``warm`` [N]. Other arrays as in ``sweep_blocks``.
    """
    theta = np.empty(target.size)
    stream = np.empty(4, dtype=np.uint64)
    value = np.zeros(start.size)
    for i in range(out.size):
        draw = first + i
        model = member[draw] if member.size > 0 else 0
        sample(key, draw, model, row_id, indptr, alpha, table, stream, theta)
        reward = rewards[model if rewards.shape[0] > 1 else 0]
        terminal = terminal_values[model if terminal_values.shape[0] > 1 else 0]
        choice = warm.copy()
        plan_model(theta, source, indptr, target, reward, g, choice, value, False)
        out[i] = dot(start, value) + dot(start, terminal)
