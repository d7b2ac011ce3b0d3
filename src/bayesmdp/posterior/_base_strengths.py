"""Strengths of the base in each state, and what states share: moves of a chain.

Before them what chains read, and arithmetic on lattices.

With tables ``m``, ``M`` of them in a state, and mu integrated out ::

    p(m | k) = prod_t (k g[t]) ... (k g[t] + m[t] - 1) / (k (k + 1) ... (k + M - 1))
    log k[s] ~ normal, location uniform, log scale uniform within limits
"""

import math
from typing import NamedTuple

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, FloatArray, IntArray
from bayesmdp.posterior._random import uniform

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


@jit
def draw_normal(stream: BitArray) -> float:
    """Draw a standard normal number (Box and Muller)."""
    size = math.sqrt(-2.0 * math.log(uniform(stream)))
    return size * math.cos(2.0 * math.pi * uniform(stream))


@jit
def _add_polya(
    o: Observed,
    m: IntArray,
    s: int,
    local: FloatArray,
    product: FloatArray,
    total: FloatArray,
) -> None:
    """Add to ``total`` the log likelihood of a state's tables at each k in ``local``.

    Smallest or largest k first.
    """
    largest = local.size - 1 if local[0] < local[local.size - 1] else 0
    seated = 0
    n_cells = o.cell_start[s + 1] - o.cell_start[s]
    for cell in range(o.cell_start[s], o.cell_start[s + 1]):
        n = m[cell]
        seated += n
        if n <= MOST_FACTORS:
            for j in range(1, n):
                step = o.base[cell] / j
                for i in range(local.size):
                    product[i] *= 1.0 + step * local[i]
                if product[largest] > LARGE:
                    settle(product, total)
        else:
            for i in range(local.size):
                total[i] += log_rising(local[i] * o.base[cell] + 1.0, n - 1)
    settle(product, total)
    for i in range(local.size):
        total[i] += n_cells * math.log(local[i]) - log_rising(local[i], seated)


@jit
def choose_k(
    o: Observed,
    m: IntArray,
    hyper: FloatArray,
    stream: BitArray,
    local: FloatArray,
    product: FloatArray,
    total: FloatArray,
    k: FloatArray,
) -> None:
    """Draw ``k`` [S] given tables, mu integrated out, on a lattice around each."""
    scale = math.exp(hyper[4])
    for s in range(o.rest.size):
        if o.cell_start[s + 1] == o.cell_start[s]:
            continue
        width = 0.8 * uniform(stream) ** 2
        here = int(uniform(stream) * local.size)
        at = math.log(k[s])
        for i in range(local.size):
            x = at + (i - here) * width
            local[i] = math.exp(x)
            z = (x - hyper[3]) / scale
            total[i] = -0.5 * z * z
        _add_polya(o, m, s, local, product, total)
        k[s] = local[pick_log(total, uniform(stream))]


@jit
def choose_k_shared(
    o: Observed,
    grid: Grid,
    stream: BitArray,
    k: FloatArray,
    hyper: FloatArray,
    local: FloatArray,
    total: FloatArray,
) -> None:
    """Draw location, then scale, of log ``k`` over the states observed."""
    n, mean, square = 0, 0.0, 0.0
    for s in range(k.size):
        if o.cell_start[s + 1] > o.cell_start[s]:
            n += 1
            step = math.log(k[s]) - mean
            mean += step / n
            square += step * (math.log(k[s]) - mean)
    for which in range(3, 5):
        here = int(uniform(stream) * local.size)
        width = (grid.high[which] - grid.low[which]) * 0.1 * uniform(stream) ** 2
        for i in range(local.size):
            local[i] = hyper[which] + (i - here) * width
            location, log_scale = hyper[3], hyper[4]
            if which == 3:
                location = local[i]
            else:
                log_scale = local[i]
            total[i] = -math.inf
            if grid.low[which] <= local[i] <= grid.high[which]:
                spread = square + n * (mean - location) ** 2
                total[i] = -n * log_scale - 0.5 * spread * math.exp(-2.0 * log_scale)
        hyper[which] = local[pick_log(total, uniform(stream))]


@jit
def move_k(
    which: int,
    o: Observed,
    m: IntArray,
    grid: Grid,
    stream: BitArray,
    k: FloatArray,
    hyper: FloatArray,
    local: FloatArray,
    product: FloatArray,
    total: FloatArray,
    each: FloatArray,
) -> None:
    """Move location (3) or scale (4) of log ``k``, and every ``k`` with it.

    Standardised k stay. Where few tables tell each k, moves of `choose_k_shared` are
    short and these are long (Yu and Meng 2011).
    """
    here = int(uniform(stream) * local.size)
    width = (grid.high[which] - grid.low[which]) * 0.1 * uniform(stream) ** 2
    location, scale = hyper[3], math.exp(hyper[4])
    for i in range(local.size):
        local[i] = hyper[which] + (i - here) * width
        total[i] = -math.inf
        if grid.low[which] <= local[i] <= grid.high[which]:
            total[i] = 0.0
    for s in range(k.size):
        if o.cell_start[s + 1] > o.cell_start[s]:
            z = (math.log(k[s]) - location) / scale
            for i in range(local.size):
                if which == 3:
                    each[i] = math.exp(local[i] + scale * z)
                else:
                    each[i] = math.exp(location + math.exp(local[i]) * z)
            _add_polya(o, m, s, each, product, total)
    hyper[which] = local[pick_log(total, uniform(stream))]
    for s in range(k.size):
        z = (math.log(k[s]) - location) / scale
        k[s] = math.exp(hyper[3] + math.exp(hyper[4]) * z)
