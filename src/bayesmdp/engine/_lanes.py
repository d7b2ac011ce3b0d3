"""Several right-hand sides of one chain, solved together by iterations.

Sweeps and BiCGSTAB as in `bayesmdp.engine._krylov`, each right-hand side with its own
scalars, bound and restarts. What they share is the reading of the chain's entries: one
pass serves all of them, and those that have converged stand still.

A pass costs as many loads as entries. So vectors are interleaved, ``x[width * state +
lane]``: what an entry is multiplied by lies side by side, two or four lanes wide, and
is one load (`bayesmdp.engine._vectors`). Elsewhere a vector is one flat array that is
worked on in chunks, over which the scalars of lanes are repeated. Kernels take the
width as a tuple of so many zeros, whose length is known when they are compiled.
"""

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.engine._krylov import (
    ACCEPTED,
    ASIDE,
    BLOWN,
    MOST_PRODUCTS,
    QUICK,
    SPILLED,
    STALLS,
    TOLERANCE,
    WINDOW,
    System,
    are_short,
    size_of,
)
from bayesmdp.engine._vectors import sweep_four, sweep_two

TWO, FOUR = (0.0, 0.0), (0.0, 0.0, 0.0, 0.0)  # as many zeros as there are lanes
WIDEST = 4  # right-hand sides that are solved together
N_LANES = 9  # work space, vectors over states and lanes
Wide = tuple[float, ...]
_CHUNK = 256  # elements worked on together; a multiple of the widths


@jit
def _relax(
    system: System, rhs: FloatArray, weight: float, wide: Wide, x: FloatArray
) -> None:
    """Sweep ``x`` [S * width] once, in place, for right-hand sides ``weight rhs``."""
    begin, stop, inverse = system.begin, system.stop, system.inverse
    value, column, g = system.value, system.column, system.g
    n, step, i = begin.size, 1, 0
    if system.backward:
        i, step = n - 1, -1
    for _ in range(n):
        at, place = np.uint64(i), i * len(wide)
        first, last = np.int64(begin[at]), np.int64(stop[at])
        scale = inverse[at]
        if len(wide) == 2:  # here, and not in a part: the compiler would lose the lanes
            sweep_two(value, column, rhs, x, first, last, 0, place, weight, g, scale)
        else:
            sweep_four(value, column, rhs, x, first, last, 0, place, weight, g, scale)
        i += step


@jit
def _product(
    system: System,
    rhs: FloatArray,
    weight: float,
    wide: Wide,
    v: FloatArray,
    other: FloatArray,
    out: FloatArray,
    scalars: FloatArray,
    sums: FloatArray,
) -> None:
    """Set ``out = K v - weight M^-1 b``; it holds ``v`` at first.

    Of ``scalars``, 0 are products with another vector and 1 those with itself.
    """
    m = system.begin.size * len(wide)
    _relax(system, rhs, weight, wide, out)
    sums[:2] = 0.0
    for first in range(0, m, _CHUNK):
        last = min(first + _CHUNK, m)
        a, b, c = v[first:last], other[first:last], out[first:last]
        crossed, squared = sums[0], sums[1]
        for i in range(a.size):
            c[i] = a[i] - c[i]
        for i in range(a.size):
            crossed[i] += b[i] * c[i]
        for i in range(a.size):
            squared[i] += c[i] * c[i]
    _add(sums[0], scalars[0])
    _add(sums[1], scalars[1])


@jit
def _add(sums: FloatArray, out: FloatArray) -> None:
    """Add up a chunk for each lane; the chunk is used up."""
    half = _CHUNK // 2
    while half >= out.size:
        for i in range(half):
            sums[i] += sums[i + half]
        half //= 2
    for lane in range(out.size):
        out[lane] = sums[lane]


@jit
def _most(sums: FloatArray, out: FloatArray) -> None:
    """Take the largest of a chunk for each lane."""
    half = _CHUNK // 2
    while half >= out.size:
        for i in range(half):
            more = sums[i + half]
            sums[i] = sums[i] if more <= sums[i] else more
        half //= 2
    for lane in range(out.size):
        out[lane] = sums[lane]


@jit
def _repeat(scalars: FloatArray, out: FloatArray) -> None:
    """Repeat scalars of lanes over a chunk."""
    for first in range(0, out.size, scalars.size):
        for lane in range(scalars.size):
            out[first + lane] = scalars[lane]


@jit
def _measure(
    r: FloatArray,
    x: FloatArray,
    scale: FloatArray,
    m: int,
    scalars: FloatArray,
    sums: FloatArray,
) -> None:
    """Set scalars 2 and 3 to the bound on the error and the size of each lane."""
    sums[:2] = 0.0
    for first in range(0, m, _CHUNK):
        last = min(first + _CHUNK, m)
        a, b, w = r[first:last], x[first:last], scale[first:last]
        bound, size = sums[0], sums[1]
        for i in range(a.size):
            h = abs(a[i]) * w[i]
            bound[i] = bound[i] if h <= bound[i] else h
        for i in range(a.size):
            h = abs(b[i])
            size[i] = size[i] if h <= size[i] else h
    _most(sums[0], scalars[2])
    _most(sums[1], scalars[3])


@jit
def _settle(  # noqa: C901 - loops over sweeps, states and lanes
    system: System,
    scale: FloatArray,
    wide: Wide,
    rhs: FloatArray,
    x: FloatArray,
    w: FloatArray,
    k: FloatArray,
) -> int:
    """Sweep until all are right or gain too little; return how often."""
    begin, stop, inverse = system.begin, system.stop, system.inverse
    value, column, g, n = system.value, system.column, system.g, system.begin.size
    most, weight = size_of(w, n, 0.0), 0.0
    for i in range(n):
        weight += k[i]
    old = np.empty(len(wide))
    bound, size = np.empty(len(wide)), np.empty(len(wide))
    change, before = np.empty(len(wide)), np.full(len(wide), np.inf)
    sweeps, going = 0, True
    while going:
        bound[:], size[:], change[:] = 0.0, 0.0, 0.0
        i, step = 0, 1
        if system.backward:
            i, step = n - 1, -1
        for _ in range(n):
            at, place, scale_ = np.uint64(i), i * len(wide), inverse[np.uint64(i)]
            first, last = np.int64(begin[at]), np.int64(stop[at])
            for lane in range(len(wide)):
                old[lane] = x[place + lane]
            if len(wide) == 2:
                sweep_two(value, column, rhs, x, first, last, 0, place, 1.0, g, scale_)
            else:
                sweep_four(value, column, rhs, x, first, last, 0, place, 1.0, g, scale_)
            for lane in range(len(wide)):
                new = x[place + lane]
                change[lane] += new - old[lane]
                bound[lane] = max(bound[lane], abs(new - old[lane]) * scale[at])
                size[lane] = max(size[lane], abs(new))
            i += step
        going = False
        for lane in range(len(wide)):
            c = change[lane] / weight
            if abs(c) * most > ASIDE * bound[lane]:
                for i in range(n):
                    x[i * len(wide) + lane] += c * (w[i] - k[i])
            on = bound[lane] > TOLERANCE * size[lane]
            if sweeps % WINDOW == 0:
                on = on and bound[lane] < QUICK * before[lane]
                before[lane] = bound[lane]
            going = going or on
        sweeps += 1
    return sweeps


@jit
def solve_lanes(
    system: System,
    rhs: FloatArray,
    scale: FloatArray,
    wide: Wide,
    x: FloatArray,
    vectors: FloatArray,
    lanes: FloatArray,
) -> int:
    """Solve for ``rhs`` [K, S], K up to the width, from ``x`` [K, S], in place.

    ``vectors`` is as `bounding_scale` left it; ``lanes`` [9, 4 S] is zero for terminal
    states. Returns the number of products, negative if one failed.
    """
    n, width = system.begin.size, len(wide)
    flat, given, weight = lanes[0], lanes[1], lanes[2]
    done = np.ones(width, dtype=np.bool_)
    for lane in range(width):
        if lane < rhs.shape[0]:
            for i in range(n):
                given[i * width + lane] = rhs[lane, i]
                done[lane] = done[lane] and rhs[lane, i] == 0.0
        else:
            for i in range(n):
                given[i * width + lane] = 0.0
        for i in range(n):  # no tolerance is small enough for a solution of 0
            flat[i * width + lane] = 0.0 if done[lane] else x[lane, i]
            weight[i * width + lane] = scale[i]
    # lanes of another width leave something in what stands for terminal states
    flat[n * width : vectors.shape[1] * width] = 0.0
    lanes[3:, n * width : vectors.shape[1] * width] = 0.0
    products = 0
    if n > SPILLED and are_short(system.begin, system.stop):
        w, k = vectors[6], vectors[7]
        products = _settle(system, scale, wide, given, flat, w, k)
    products = _iterate(system, wide, products, done, lanes)
    for lane in range(rhs.shape[0]):
        for i in range(n):
            x[lane, i] = flat[i * width + lane]
    return products


@jit
def _iterate(  # noqa: C901 - every lane may end in several ways
    system: System, wide: Wide, products: int, done: BoolArray, lanes: FloatArray
) -> int:
    """Restart BiCGSTAB until all are right, as `bayesmdp.engine._krylov.iterate`."""
    n, width = system.begin.size, len(wide)
    x, rhs, scale, r, shadow = lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]
    scalars, sums = np.empty((4, width)), np.empty((3, _CHUNK))
    best, stalls = np.full(width, np.inf), np.zeros(width, dtype=np.int64)
    while True:
        for i in range(n * width):
            r[i] = x[i]
        _product(system, rhs, 1.0, wide, x, x, r, scalars, sums)
        for i in range(n * width):
            r[i] = -r[i]
        products += 1
        _measure(r, x, scale, n * width, scalars, sums)
        for lane in range(width):
            if done[lane]:
                continue
            off, size = scalars[2, lane], scalars[3, lane]
            off = np.nan if np.isnan(scalars[1, lane]) else off
            near = off <= ACCEPTED * size
            done[lane] = off <= TOLERANCE * size
            if not done[lane] and not off < 0.5 * best[lane]:  # gained nothing
                stalls[lane] += 1
                done[lane] = near
                if not near and (stalls[lane] >= STALLS or not np.isfinite(off)):
                    return -products
            if not done[lane] and products >= MOST_PRODUCTS:
                if not near:
                    return -products
                done[lane] = True
            best[lane] = min(best[lane], off)
        if done.all():
            return products
        for lane in range(width):
            _set_shadow(r, shadow, n, width, lane, done[lane], stalls[lane])
        products += _run(system, wide, products, done, best, lanes)


@jit
def _set_shadow(
    r: FloatArray,
    shadow: FloatArray,
    n: int,
    width: int,
    lane: int,
    done: bool,
    stalls: int,
) -> None:
    """Take the residual; random signs where that has led nowhere; rest what is done."""
    bits = np.uint64(stalls)
    for i in range(n):
        at = i * width + lane
        if done:
            r[at] = 0.0
        shadow[at] = r[at]
        if stalls > 0:
            bits = bits * np.uint64(6364136223846793005)
            bits += np.uint64(1442695040888963407)
            shadow[at] = 1.0 if bits >> np.uint64(63) else -1.0


@jit
def _run(  # noqa: C901 - one loop, with scalars of lanes
    system: System,
    wide: Wide,
    used: int,
    done: BoolArray,
    best: FloatArray,
    lanes: FloatArray,
) -> int:
    """Run until all updated residuals are small, or no further; return products."""
    m, width = system.begin.size * len(wide), len(wide)
    x, rhs, scale, r, shadow = lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]
    p, v, s, t = lanes[5], lanes[6], lanes[7], lanes[8]
    scalars, sums = np.empty((4, width)), np.empty((3, _CHUNK))
    alpha, omega, beta = np.zeros(width), np.zeros(width), np.zeros(width)
    some, more = np.empty(_CHUNK), np.empty(_CHUNK)
    rho, new, going = np.empty(width), np.empty(width), ~done
    for i in range(m):
        p[i] = r[i]
        v[i] = r[i]
    _project(shadow, r, m, sums[2], rho)
    products = 0
    while going.any() and used + products < MOST_PRODUCTS:
        _product(system, rhs, 0.0, wide, p, shadow, v, scalars, sums)
        for lane in range(width):
            slope = scalars[0, lane]
            on = going[lane] and rho[lane] != 0.0 and abs(slope) > 1e-300
            going[lane] = on
            alpha[lane] = rho[lane] / slope if on else 0.0
        _repeat(alpha, some)
        for first in range(0, m, _CHUNK):
            last = min(first + _CHUNK, m)
            a, b, c, d = r[first:last], v[first:last], s[first:last], t[first:last]
            for i in range(a.size):
                c[i] = a[i] - some[i] * b[i]
            for i in range(a.size):
                d[i] = c[i]
        _product(system, rhs, 0.0, wide, s, s, t, scalars, sums)
        products += 2
        for lane in range(width):
            on = going[lane] and scalars[1, lane] > 0.0
            omega[lane] = scalars[0, lane] / scalars[1, lane] if on else 0.0
        _repeat(omega, more)
        for first in range(0, m, _CHUNK):
            last = min(first + _CHUNK, m)
            a, b, c = x[first:last], p[first:last], s[first:last]
            d, e = r[first:last], t[first:last]
            for i in range(a.size):
                a[i] += some[i] * b[i] + more[i] * c[i]
            for i in range(a.size):
                d[i] = c[i] - more[i] * e[i]
        _measure(r, x, scale, m, scalars, sums)
        _project(shadow, r, m, sums[2], new)
        for lane in range(width):
            bound, size = scalars[2, lane], scalars[3, lane]
            # Half: the true residual, recomputed, is a little larger.
            on = bound > 0.5 * TOLERANCE * size and bound < BLOWN * best[lane]
            going[lane] = going[lane] and on and omega[lane] != 0.0
            beta[lane] = 0.0
            if going[lane]:
                beta[lane] = (new[lane] / rho[lane]) * (alpha[lane] / omega[lane])
                rho[lane] = new[lane]
        _repeat(beta, some)
        for first in range(0, m, _CHUNK):
            last = min(first + _CHUNK, m)
            a, b, c = r[first:last], p[first:last], v[first:last]
            for i in range(a.size):
                b[i] = a[i] + some[i] * (b[i] - more[i] * c[i])
            for i in range(a.size):
                c[i] = b[i]
    return products


@jit
def _project(
    x: FloatArray, y: FloatArray, m: int, sums: FloatArray, out: FloatArray
) -> None:
    """Inner products of lanes, ``out`` [width]."""
    sums[:] = 0.0
    for first in range(0, m, _CHUNK):
        last = min(first + _CHUNK, m)
        a, b = x[first:last], y[first:last]
        for i in range(a.size):
            sums[i] += a[i] * b[i]
    _add(sums, out)
