"""Gibbs sampling of the hierarchical belief, on arrays.

One sweep, in this order (drawing ``k`` after ``mu`` and keeping that ``mu`` is wrong)::

    mu | m, k             Dirichlet, on observed next states and the rest as one lump
    w, location, scale    with every c[s] summed out over a grid of log strengths
    c[s] | mu, n          Polya; multinomial at infinity
    m | c, mu, n          tables of n customers at concentration c mu (Antoniak 1974)
    k[s] | m              Polya of tables, mu integrated out
    location, scale | k   of log k, normal over states

Likelihoods of strengths are relative to "no effect": ``prod_j (1 + j / (c mu[t]))``
over the visits of each next state, over the same of each pair. Hyperparameters move on
a lattice around themselves in random position, which is a Gibbs step for the lattice.
"""

import math
from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BitArray, FloatArray, IntArray
from bayesmdp.posterior._base_strengths import (
    LARGE,
    MOST_FACTORS,
    Grid,
    Lattice,
    Observed,
    choose_k,
    choose_k_shared,
    draw_normal,
    log_rising,
    move_k,
    pick_log,
    settle,
)
from bayesmdp.posterior._random import gamma_row, open_stream, uniform

# Of the density at its peak: a state may differ from all others, and chains pass from
# "no effect" to the strengths of most states through those in between.
_FLOOR = 0.03


class Likelihoods(NamedTuple):
    """Of what was observed in each state, given its strength."""

    like: FloatArray  # [S, C]
    none: FloatArray  # [S], of no effect
    slab: FloatArray  # [C], probabilities of strengths: work space


@jit
def _n_tables(n: int, x: float, stream: BitArray) -> int:
    """Tables of n customers at concentration x: sum_j Bernoulli(x / (x + j))."""
    m = 1
    for j in range(1, min(n, MOST_FACTORS)):
        m += uniform(stream) * (x + j) < x
    low = MOST_FACTORS
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
    seen: Likelihoods,
    product: FloatArray,
    total: FloatArray,
) -> None:
    """Fill likelihoods, scaled in each state such that the largest is 1."""
    inverse = np.exp(-grid.log_strength)
    for s in range(o.rest.size):
        total[:] = 0.0
        product[:] = 1.0
        for at in range(o.start[s], o.start[s + 1]):
            n = o.visits[at]
            if n == 1:
                continue
            scale = 1.0 / mu[o.cell[at]]
            if n <= MOST_FACTORS:
                for j in range(1, n):
                    step = j * scale
                    for i in range(inverse.size):
                        product[i] *= 1.0 + step * inverse[i]
                    if product[0] > LARGE:  # the weakest strength has the largest
                        settle(product, total)
            else:
                for i in range(inverse.size):
                    x = math.exp(grid.log_strength[i]) / scale
                    total[i] += log_rising(x + 1.0, n - 1) - (n - 1) * math.log(x)
        settle(product, total)
        top = 0.0
        for i in range(inverse.size):
            total[i] -= grid.of_pairs[s, i]
            top = max(top, total[i])
        for i in range(inverse.size):
            seen.like[s, i] = math.exp(total[i] - top)
        seen.none[s] = math.exp(-top)


@jit
def _fill_slab(
    log_strength: FloatArray, location: float, log_scale: float, slab: FloatArray
) -> None:
    """Fill the probabilities of finite strengths ``[C]``, which are evenly spaced.

    From the peak outwards, each from the one before: four exponentials in place of C.
    """
    narrow, apart = math.exp(-log_scale), log_strength[1] - log_strength[0]
    near = int((location - log_strength[0]) / apart + 0.5)
    near = min(max(near, 0), slab.size - 1)
    z, step = (log_strength[near] - location) * narrow, apart * narrow
    peak, less = math.exp(-0.5 * z * z), math.exp(-step * step)
    point, factor = peak, math.exp(-step * (z + 0.5 * step))
    total = 0.0
    for i in range(near, slab.size):
        slab[i] = point + _FLOOR
        total += slab[i]
        point *= factor
        factor *= less
    factor = math.exp(step * (z - 0.5 * step))
    point = peak * factor
    for i in range(near - 1, -1, -1):
        factor *= less
        slab[i] = point + _FLOOR
        total += slab[i]
        point *= factor
    for i in range(slab.size):
        slab[i] /= total


@jit
def _dot(x: FloatArray, y: FloatArray) -> float:
    """Inner product in four sums, which takes a third of the time of one."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = x.size - x.size % 4
    for i in range(0, whole, 4):
        s0 += x[i] * y[i]
        s1 += x[i + 1] * y[i + 1]
        s2 += x[i + 2] * y[i + 2]
        s3 += x[i + 3] * y[i + 3]
    for i in range(whole, x.size):
        s0 += x[i] * y[i]
    return (s0 + s1) + (s2 + s3)


@jit
def _log_posterior(
    hyper: FloatArray,
    grid: Grid,
    o: Observed,
    seen: Likelihoods,
) -> float:
    """Log density of w, location and scale, strengths summed out, up to a constant."""
    like, none, slab = seen.like, seen.none, seen.slab
    _fill_slab(grid.log_strength, hyper[1], hyper[2], slab)
    w = 1.0 / (1.0 + math.exp(-hyper[0]))
    for i in range(slab.size):
        slab[i] *= 1.0 - w
    total, product = math.log(w) + math.log1p(-w), 1.0
    for s in range(none.size):
        if o.cell_start[s + 1] > o.cell_start[s]:
            product *= w * none[s] + _dot(slab, like[s])
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
    seen: Likelihoods,
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
            weight[i] = _log_posterior(hyper, grid, o, seen)
    steps = pick_log(weight, uniform(stream)) - here
    for j in range(3):
        hyper[j] = at[j] + steps * way[j]


@jit
def _choose_strengths(
    hyper: FloatArray,
    grid: Grid,
    o: Observed,
    seen: Likelihoods,
    weight: FloatArray,
    stream: BitArray,
    c: FloatArray,
) -> None:
    """Draw the strength of each state, ``c`` [S]."""
    like, none, slab = seen.like, seen.none, seen.slab
    _fill_slab(grid.log_strength, hyper[1], hyper[2], slab)
    w = 1.0 / (1.0 + math.exp(-hyper[0]))
    for s in range(none.size):
        c[s] = math.inf
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
    [5], or anywhere if that is empty; strengths at "no effect".
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
    seen = Likelihoods(like, none, np.empty(n_grid))
    product, total, weight = np.ones(n_grid), np.zeros(n_grid), np.empty(n_grid)
    local, ones = np.empty(16), np.ones((2, 16))
    lattice = Lattice(np.empty(16), np.empty(16), ones[0], ones[1], np.zeros(16))
    way = np.empty(3)
    longest = 1
    for s in range(n_states):
        longest = max(longest, o.cell_start[s + 1] - o.cell_start[s] + 1)
    shape, variate = np.empty(longest), np.empty(longest)
    _seat(o, c, mu, stream, m)
    for sweep in range(n_warm + thin * hypers.shape[0]):
        _choose_mu(o, m, k, stream, shape, variate, mu)
        _likelihoods(o, grid, mu, seen, product, total)
        for step in range(n_moves):
            for i in range(3):
                way[i] = (grid.high[i] - grid.low[i]) * 0.12 * uniform(stream) ** 2
                if step % 4 < 3 and i != step % 4:
                    way[i] = 0.0  # along one axis, or, every fourth time, across
                if uniform(stream) < 0.5:
                    way[i] = -way[i]
            _move(way, hyper, grid, o, seen, lattice.total, stream)
        _choose_strengths(hyper, grid, o, seen, weight, stream, c)
        _seat(o, c, mu, stream, m)
        for step in range(n_base_moves):
            choose_k(o, m, hyper, stream, lattice, k)
            choose_k_shared(o, grid, stream, k, hyper, local, lattice.total)
            move_k(3 + (sweep + step) % 2, o, m, grid, stream, k, hyper, local, lattice)
        for s in range(n_states):  # what nothing is known about
            if o.cell_start[s + 1] == o.cell_start[s]:
                k[s] = math.exp(hyper[3] + math.exp(hyper[4]) * draw_normal(stream))
        at, rest = divmod(sweep - n_warm, thin)
        if at >= 0 and rest == thin - 1:
            for cell in range(m.size):
                tables[at, cell] = m[cell]
            for s in range(n_states):
                strengths[at, s] = c[s]
                bases[at, s] = k[s]
            for i in range(5):
                hypers[at, i] = hyper[i]
