"""What chains of the hierarchical belief read, and arithmetic on lattices."""

import math
from typing import NamedTuple

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray

__all__ = [
    "LARGE",
    "MOST_FACTORS",
    "Grid",
    "Observed",
    "log_rising",
    "pick_log",
    "settle",
]

MOST_FACTORS = 64  # visits up to which products are multiplied out
LARGE = 1e150  # products are put into logarithms beyond


class Observed(NamedTuple):
    """What was observed: triplets of state, action and next state, by state."""

    cell_start: IntArray  # [S + 1], observed next states of each state
    base: FloatArray  # [K], base measure of each
    rest: FloatArray  # [S], base measure of all other next states
    start: IntArray  # [S + 1], triplets of each state
    cell: IntArray  # [L], observed next state of each triplet
    visits: IntArray  # [L]


class Grid(NamedTuple):
    """Strengths that are looked at, and ranges of hyperparameters."""

    log_strength: FloatArray  # [C]
    of_pairs: FloatArray  # [S, C], log likelihood of the pairs' visits
    low: FloatArray  # [5], logit w, location and log scale of log c and of log k
    high: FloatArray  # [5]


@jit
def log_rising(x: float, n: int) -> float:
    """Log of x (x + 1) ... (x + n - 1)."""
    return math.lgamma(x + n) - math.lgamma(x)


@jit
def settle(product: FloatArray, total: FloatArray) -> None:
    """Move products into logarithms."""
    for i in range(product.size):
        total[i] += math.log(product[i])
        product[i] = 1.0


@jit
def pick_log(log_weight: FloatArray, u: float) -> int:
    """Pick by weights given in logarithms."""
    top = -math.inf
    for x in log_weight:
        top = max(top, x)
    mass = 0.0
    for x in log_weight:
        mass += math.exp(x - top)
    u *= mass
    for i in range(log_weight.size - 1):
        u -= math.exp(log_weight[i] - top)
        if u < 0.0:
            return i
    return log_weight.size - 1
