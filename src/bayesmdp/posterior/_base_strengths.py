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
_MOST_SEATED = 128  # tables up to which they take less time than two log-gammas


class Observed(NamedTuple):
    """What was observed: triplets of state, action and next state, by state."""

    cell_start: IntArray  # [S + 1], observed next states of each state
    base: FloatArray  # [K], base measure of each
    rest: FloatArray  # [S], base measure of all other next states
    start: IntArray  # [S + 1], triplets of each state
    cell: IntArray  # [L], observed next state of each triplet
    visits: IntArray  # [L]


class Lattice(NamedTuple):
    """Work space: points of ``k`` that are looked at, 16 of them."""

    log_k: FloatArray
    k: FloatArray
    product: FloatArray  # ones between calls, as the next
    under: FloatArray
    total: FloatArray  # log likelihoods


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
def _add_polya(o: Observed, m: IntArray, s: int, at: Lattice) -> None:
    """Add the log likelihood of a state's tables at each k, smallest or largest first.

    Products, because a logarithm takes as long as thirty factors.
    """
    k, product, under, total = at.k, at.product, at.under, at.total
    largest = k.size - 1 if k[0] < k[k.size - 1] else 0
    seated, n_cells = 0, o.cell_start[s + 1] - o.cell_start[s]
    for cell in range(o.cell_start[s], o.cell_start[s + 1]):
        n = m[cell]
        seated += n
        if n <= MOST_FACTORS:
            for j in range(1, n):
                step = o.base[cell] / j
                for i in range(k.size):
                    product[i] *= 1.0 + step * k[i]
                if product[largest] > LARGE:
                    settle(product, total)
        else:
            for i in range(k.size):
                total[i] += log_rising(k[i] * o.base[cell] + 1.0, n - 1)
    _take_off_seated(seated, largest, at)
    for i in range(k.size):
        total[i] += (n_cells - 1) * at.log_k[i] + math.log(product[i] / under[i])
        product[i] = 1.0
        under[i] = 1.0


@jit
def _take_off_seated(seated: int, largest: int, at: Lattice) -> None:
    """Take off the log of ``(k + 1) ... (k + M - 1)``; what is left is ``under``."""
    k, under, total = at.k, at.under, at.total
    if seated > _MOST_SEATED:
        for i in range(k.size):
            total[i] -= log_rising(k[i] + 1.0, seated - 1)
        return
    for j in range(1, seated):
        for i in range(k.size):
            under[i] *= k[i] + j
        if under[largest] > LARGE:
            for i in range(k.size):
                total[i] -= math.log(under[i])
                under[i] = 1.0


@jit
def choose_k(
    o: Observed,
    m: IntArray,
    hyper: FloatArray,
    stream: BitArray,
    at: Lattice,
    k: FloatArray,
) -> None:
    """Draw ``k`` [S] given tables, mu integrated out, on a lattice around each."""
    scale = math.exp(hyper[4])
    for s in range(o.rest.size):
        if o.cell_start[s + 1] == o.cell_start[s]:
            continue
        width = 0.8 * uniform(stream) ** 2
        here = int(uniform(stream) * at.k.size)
        centre, ratio = math.log(k[s]), math.exp(width)
        point = math.exp(centre - here * width)
        for i in range(at.k.size):
            x = centre + (i - here) * width
            z = (x - hyper[3]) / scale
            at.log_k[i], at.k[i], at.total[i] = x, point, -0.5 * z * z
            point *= ratio
        _add_polya(o, m, s, at)
        k[s] = math.exp(at.log_k[pick_log(at.total, uniform(stream))])


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
    at: Lattice,
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
        at.total[i] = -math.inf
        if grid.low[which] <= local[i] <= grid.high[which]:
            at.total[i] = 0.0
    ratio = math.exp(width)
    for s in range(k.size):
        if o.cell_start[s + 1] > o.cell_start[s]:
            z = (math.log(k[s]) - location) / scale
            point = math.exp(local[0] + scale * z)
            for i in range(local.size):
                if which == 3:
                    at.log_k[i], at.k[i] = local[i] + scale * z, point
                    point *= ratio
                else:  # what is out of range must not overflow
                    inside = min(local[i], grid.high[which])
                    at.log_k[i] = location + math.exp(inside) * z
                    at.k[i] = math.exp(at.log_k[i])
            _add_polya(o, m, s, at)
    hyper[which] = local[pick_log(at.total, uniform(stream))]
    for s in range(k.size):
        z = (math.log(k[s]) - location) / scale
        k[s] = math.exp(hyper[3] + math.exp(hyper[4]) * z)
