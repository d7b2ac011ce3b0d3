"""Gibbs sampling of the hierarchical belief, on arrays.

One sweep, in this order (drawing ``k`` after ``mu`` and keeping that ``mu`` is wrong)::

    mu | m, k             Dirichlet, on observed next states and the rest as one lump
    w, location, scale    with every c[s] summed out over a grid of log strengths
    c[s] | mu, n          Polya; multinomial at infinity
    m | c, mu, n          tables of n customers at concentration c mu (Antoniak 1974)
    k | m                 Polya of tables, mu integrated out

Likelihoods of strengths are relative to "no effect": ``prod_j (1 + j / (c mu[t]))``
over the visits of each next state, over the same of each pair. Hyperparameters move on
a lattice around themselves in random position, which is a Gibbs step for the lattice.
"""

import math
from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, FloatArray, IntArray
from bayesmdp.posterior._random import gamma_row, open_stream, uniform

__all__ = ["Grid", "Observed", "run_chain"]

_MOST_FACTORS = 64  # visits up to which products are multiplied out
_LARGE = 1e150  # products are put into logarithms beyond


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
    low: FloatArray  # [4], logit w, location and log scale of log c, log k
    high: FloatArray  # [4]


@jit
def _log_rising(x: float, n: int) -> float:
    """Log of x (x + 1) ... (x + n - 1)."""
    return math.lgamma(x + n) - math.lgamma(x)


@jit
def _settle(product: FloatArray, total: FloatArray) -> None:
    """Move products into logarithms."""
    for i in range(product.size):
        total[i] += math.log(product[i])
        product[i] = 1.0


@jit
def _pick_log(log_weight: FloatArray, u: float) -> int:
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
def _n_tables(n: int, x: float, stream: BitArray) -> int:
    """Tables of n customers at concentration x: sum_j Bernoulli(x / (x + j))."""
    m = 1
    for j in range(1, min(n, _MOST_FACTORS)):
        m += uniform(stream) * (x + j) < x
    low = _MOST_FACTORS
    while low < n:  # by thinning: in [low, 2 low) chances are at most x / (x + low)
        high = min(2 * low, n)
        most = x / (x + low)
        j = low - 1
        if most > 0.25:
            while j < high - 1:
                j += 1
                m += uniform(stream) * (x + j) < x
        else:
            rate = 1.0 / math.log1p(-most)
            while True:
                skip = math.log(uniform(stream)) * rate
                if skip >= high - 1 - j:
                    break
                j += 1 + int(skip)
                m += uniform(stream) * (x + j) < x + low
        low = high
    return m


@jit
def _likelihoods(  # noqa: C901 - one loop over what was observed
    o: Observed,
    grid: Grid,
    mu: FloatArray,
    like: FloatArray,
    none: FloatArray,
    product: FloatArray,
    total: FloatArray,
) -> None:
    """Fill likelihoods of strengths, ``like`` [S, C], and of no effect, ``none`` [S].

    Scaled in each state such that the largest is 1.
    """
    inverse = np.exp(-grid.log_strength)
    for s in range(o.rest.size):
        total[:] = 0.0
        product[:] = 1.0
        for at in range(o.start[s], o.start[s + 1]):
            n = o.visits[at]
            if n == 1:
                continue
            scale = 1.0 / mu[o.cell[at]]
            if n <= _MOST_FACTORS:
                for j in range(1, n):
                    step = j * scale
                    for i in range(inverse.size):
                        product[i] *= 1.0 + step * inverse[i]
                    if product[0] > _LARGE:  # the weakest strength has the largest
                        _settle(product, total)
            else:
                for i in range(inverse.size):
                    x = math.exp(grid.log_strength[i]) / scale
                    total[i] += _log_rising(x + 1.0, n - 1) - (n - 1) * math.log(x)
        _settle(product, total)
        top = 0.0
        for i in range(inverse.size):
            total[i] -= grid.of_pairs[s, i]
            top = max(top, total[i])
        for i in range(inverse.size):
            like[s, i] = math.exp(total[i] - top)
        none[s] = math.exp(-top)


@jit
def _fill_slab(
    log_strength: FloatArray, location: float, log_scale: float, slab: FloatArray
) -> None:
    """Fill the probabilities of finite strengths ``[C]``."""
    narrow = math.exp(-log_scale)
    total = 0.0
    for i in range(slab.size):
        z = (log_strength[i] - location) * narrow
        slab[i] = math.exp(-0.5 * z * z) + 1e-100
        total += slab[i]
    for i in range(slab.size):
        slab[i] /= total


@jit
def _log_posterior(
    hyper: FloatArray,
    grid: Grid,
    o: Observed,
    like: FloatArray,
    none: FloatArray,
    slab: FloatArray,
) -> float:
    """Log density of w, location and scale, strengths summed out, up to a constant."""
    _fill_slab(grid.log_strength, hyper[1], hyper[2], slab)
    w = 1.0 / (1.0 + math.exp(-hyper[0]))
    for i in range(slab.size):
        slab[i] *= 1.0 - w
    total, product = math.log(w) + math.log1p(-w), 1.0
    for s in range(none.size):
        if o.cell_start[s + 1] > o.cell_start[s]:
            x = w * none[s]
            for i in range(slab.size):
                x += slab[i] * like[s, i]
            product *= x
            if product < 1e-150:
                total += math.log(product)
                product = 1.0
    return total + math.log(product)


@jit
def _move(
    way: FloatArray,
    hyper: FloatArray,
    grid: Grid,
    o: Observed,
    like: FloatArray,
    none: FloatArray,
    slab: FloatArray,
    weight: FloatArray,
    stream: BitArray,
) -> None:
    """Move w, location and scale along a lattice around them, in random position."""
    here = int(uniform(stream) * weight.size)
    at = np.empty(3)
    for j in range(3):
        at[j] = hyper[j]
    for i in range(weight.size):
        inside = True
        for j in range(3):
            hyper[j] = at[j] + (i - here) * way[j]
            inside = inside and grid.low[j] <= hyper[j] <= grid.high[j]
        weight[i] = -math.inf
        if inside:
            weight[i] = _log_posterior(hyper, grid, o, like, none, slab)
    steps = _pick_log(weight, uniform(stream)) - here
    for j in range(3):
        hyper[j] = at[j] + steps * way[j]


@jit
def _choose_strengths(
    hyper: FloatArray,
    grid: Grid,
    o: Observed,
    like: FloatArray,
    none: FloatArray,
    slab: FloatArray,
    weight: FloatArray,
    stream: BitArray,
    c: FloatArray,
) -> None:
    """Draw the strength of each state, ``c`` [S]; infinite where nothing was logged."""
    _fill_slab(grid.log_strength, hyper[1], hyper[2], slab)
    w = 1.0 / (1.0 + math.exp(-hyper[0]))
    for s in range(none.size):
        c[s] = math.inf
        if o.cell_start[s + 1] > o.cell_start[s]:
            total = 0.0
            for i in range(slab.size):
                weight[i] = (1.0 - w) * slab[i] * like[s, i]
                total += weight[i]
            u = uniform(stream) * (total + w * none[s])
            for i in range(slab.size):
                u -= weight[i]
                if u < 0.0:
                    c[s] = math.exp(grid.log_strength[i])
                    break


@jit
def _seat(
    o: Observed, c: FloatArray, mu: FloatArray, stream: BitArray, m: IntArray
) -> None:
    """Draw the tables of each observed next state, summed over actions, ``m`` [K]."""
    m[:] = 0
    for s in range(c.size):
        for at in range(o.start[s], o.start[s + 1]):
            n = o.visits[at]
            if n > 1 and c[s] < math.inf:
                n = _n_tables(n, c[s] * mu[o.cell[at]], stream)
            m[o.cell[at]] += n


@jit
def _choose_k(  # noqa: C901 - one loop over tables
    o: Observed,
    m: IntArray,
    hyper: FloatArray,
    grid: Grid,
    stream: BitArray,
    local: FloatArray,
    product: FloatArray,
    total: FloatArray,
    k: FloatArray,
) -> None:
    """Draw ``k`` [S] given tables, mu integrated out, and what all states share.

    On a lattice around each in random position; from the shared distribution where
    nothing was observed.
    """
    narrow = math.exp(-hyper[4])
    n_told, mean, square = 0, 0.0, 0.0
    for s in range(o.rest.size):
        n_cells = o.cell_start[s + 1] - o.cell_start[s]
        if n_cells == 0:
            size = math.sqrt(-2.0 * math.log(uniform(stream)))
            z = size * math.cos(2.0 * math.pi * uniform(stream))
            k[s] = math.exp(hyper[3] + z / narrow)
            continue
        width = 0.8 * uniform(stream) ** 2
        here = int(uniform(stream) * local.size)
        at = math.log(k[s])
        for i in range(local.size):
            x = at + (i - here) * width
            local[i] = math.exp(x)
            z = (x - hyper[3]) * narrow
            total[i] = -0.5 * z * z + n_cells * x
            product[i] = 1.0
        seated = 0
        for cell in range(o.cell_start[s], o.cell_start[s + 1]):
            n = m[cell]
            seated += n
            if n <= _MOST_FACTORS:
                for j in range(1, n):
                    step = o.base[cell] / j
                    for i in range(local.size):
                        product[i] *= 1.0 + step * local[i]
                    if product[local.size - 1] > _LARGE:
                        _settle(product, total)
            else:
                for i in range(local.size):
                    total[i] += _log_rising(local[i] * o.base[cell] + 1.0, n - 1)
        _settle(product, total)
        for i in range(local.size):
            total[i] -= _log_rising(local[i], seated)
        k[s] = local[_pick_log(total, uniform(stream))]
        x = math.log(k[s])
        n_told += 1
        mean += x
        square += x * x
    if n_told > 0:
        mean /= n_told
        square = max(square - n_told * mean * mean, 0.0)
        here = int(uniform(stream) * local.size)
        width = 0.3 * uniform(stream)
        for i in range(local.size):  # scale, with the location integrated out
            x = hyper[4] + (i - here) * width
            local[i] = x
            total[i] = -math.inf
            if grid.low[4] <= x <= grid.high[4]:
                total[i] = (1 - n_told) * x - 0.5 * square * math.exp(-2.0 * x)
        hyper[4] = local[_pick_log(total, uniform(stream))]
        size = math.exp(hyper[4]) / math.sqrt(n_told)
        for _ in range(100):
            z = math.sqrt(-2.0 * math.log(uniform(stream)))
            z *= math.cos(2.0 * math.pi * uniform(stream))
            hyper[3] = mean + size * z
            if grid.low[3] <= hyper[3] <= grid.high[3]:
                break
        hyper[3] = min(max(hyper[3], grid.low[3]), grid.high[3])


@jit
def _choose_mu(
    o: Observed,
    m: IntArray,
    k: FloatArray,
    stream: BitArray,
    shape: FloatArray,
    variate: FloatArray,
    mu: FloatArray,
) -> None:
    """Draw the latent row of each state on its observed next states, ``mu`` [K]."""
    for s in range(o.rest.size):
        first, n = o.cell_start[s], o.cell_start[s + 1] - o.cell_start[s]
        if n == 0:
            continue
        for i in range(n):
            shape[i] = k[s] * o.base[first + i] + m[first + i]
        n_all = n
        if o.rest[s] > 0.0:
            shape[n] = k[s] * o.rest[s]
            n_all += 1
        total = gamma_row(shape[:n_all], stream, variate[:n_all])
        for i in range(n):
            mu[first + i] = max(variate[i] / total, 1e-300)


@jit
def run_chain(  # noqa: C901 - the steps of a sweep
    key: BitArray,
    number: int,
    n_warm: int,
    thin: int,
    n_moves: int,
    n_base_moves: int,
    first: FloatArray,
    o: Observed,
    grid: Grid,
    tables: IntArray,
    strengths: FloatArray,
    bases: FloatArray,
    hypers: FloatArray,
) -> None:
    """Run one chain; keep tables [M, K], c and k [M, S] and hypers [M, 5].

    One state of ``thin`` is kept. In a sweep, w, location and scale move ``n_moves``
    times, and ``k`` moves ``n_base_moves`` times. Hyperparameters begin at ``first``
    [4], or anywhere if that is empty; strengths at "no effect".
    """
    n_states, n_grid = o.rest.size, grid.log_strength.size
    stream = np.empty(4, dtype=np.uint64)
    open_stream(stream, key, number, 0, 0)
    hyper = np.empty(5)  # each chain starts from a place of its own
    for i in range(5):
        hyper[i] = grid.low[i] + uniform(stream) * (grid.high[i] - grid.low[i])
        if first.size > 0:
            hyper[i] = min(max(first[i], grid.low[i]), grid.high[i])
    m = np.zeros(o.base.size, dtype=np.int64)
    mu = np.empty(o.base.size)
    c = np.full(n_states, math.inf)
    k = np.full(n_states, math.exp(hyper[3]))
    like, none = np.zeros((n_states, n_grid)), np.ones(n_states)
    product, total = np.ones(n_grid), np.zeros(n_grid)
    slab, weight = np.empty(n_grid), np.empty(n_grid)
    local, product2, total2 = np.empty(16), np.ones(16), np.zeros(16)
    way = np.empty(3)
    longest = 1
    for s in range(n_states):
        longest = max(longest, o.cell_start[s + 1] - o.cell_start[s] + 1)
    shape, variate = np.empty(longest), np.empty(longest)
    _seat(o, c, mu, stream, m)
    for sweep in range(n_warm + thin * hypers.shape[0]):
        _choose_mu(o, m, k, stream, shape, variate, mu)
        _likelihoods(o, grid, mu, like, none, product, total)
        for step in range(n_moves):
            for i in range(3):
                way[i] = (grid.high[i] - grid.low[i]) * 0.06 * uniform(stream) ** 2
                if step % 4 < 3 and i != step % 4:
                    way[i] = 0.0  # along one axis, or, every fourth time, across
                if uniform(stream) < 0.5:
                    way[i] = -way[i]
            _move(way, hyper, grid, o, like, none, slab, total2, stream)
        _choose_strengths(hyper, grid, o, like, none, slab, weight, stream, c)
        _seat(o, c, mu, stream, m)
        for _ in range(n_base_moves):
            _choose_k(o, m, hyper, grid, stream, local, product2, total2, k)
        at, rest = divmod(sweep - n_warm, thin)
        if at >= 0 and rest == thin - 1:
            for cell in range(m.size):
                tables[at, cell] = m[cell]
            for s in range(n_states):
                strengths[at, s] = c[s]
                bases[at, s] = k[s]
            for i in range(5):
                hypers[at, i] = hyper[i]
