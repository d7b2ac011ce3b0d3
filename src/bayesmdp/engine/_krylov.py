"""Iterative solution of a policy's chain, at a cost in proportion to its entries.

``(I - g T) x = b`` is preconditioned by a Gauss-Seidel sweep ``M``, the diagonal of
``I - g T`` and one triangle of it. Because ``I - g T = M - (the other triangle)``, the
preconditioned matrix ``K = M^-1 (I - g T)`` times ``v`` is ``v`` minus one sweep over
``v`` with no right-hand side: the preconditioner costs nothing beyond the product. What
sweeps alone resolve slowly (long episodes), BiCGSTAB (van der Vorst 1992) resolves in
tens of products.

**Where rows are short and states many, sweeps go first.** BiCGSTAB reads and writes
eight vectors a product, a sweep one, which counts beside few entries. On fewer states
it stays alone: it ends with digits to spare, which standard deviations near 0 need to
agree with elimination. What sweeps resolve slowly is
mostly one direction, that of the ``w`` below, the length of episodes; how far off
values are along it can be told from a sweep. It changes them by ``d = K (error)``, and
``K w = k``, so they are off by about ``c w`` with ``c = sum d / sum k``. Taken off now
and then, it leaves what the chain forgets, at a rate that does not depend on the
discount. Where sweeps gain little, BiCGSTAB goes on from where they came to.

**Errors are bounded, not guessed.** ``K`` is an M-matrix. So for any ``w > 0`` with
``k = K w > 0``, a residual ``r`` of ``K x`` leaves an error of at most ``w[s] max_i
|r[i]| / k[i]`` in state ``s``. The nominal model's own ``w = (I - g T_bar)^-1 1``, the
length of its episodes, serves nearly every draw; others find theirs first. A solution
is accepted where the bound, found from a residual recomputed, is below the
tolerance; where rounding stops it earlier, up to `ACCEPTED`; all else is said to have
failed. Episodes of more than some 10^7 steps are beyond what rounding allows.

Indices are unsigned in the inner loop, because numba tests signed ones for counting
from the end, which doubles its time.
"""

from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IndexArray
from bayesmdp.engine._dense import ENDLESS, copy_to, dot

TOLERANCE = 1e-10  # bound on the error, relative to the largest value, to stop at
ACCEPTED = 1e-8  # and at most, where rounding allows no better
MOST_PRODUCTS = 1000
N_VECTORS = 8  # work space, vectors over states
_LOOSE = 0.5  # residual with which an episode length still bounds errors
_ROUNDING = 1e-15  # of a residual, relative to the largest value
STALLS = 4  # restarts that gain nothing, after which it gives up
BLOWN = 1e8  # growth of a residual after which a restart is better
_SHORT = 28  # entries a row, on average, below which one sum is faster than four
SPILLED = 1 << 13  # states beyond which vectors and short rows take more than 1 MB
WINDOW, QUICK = 4, 0.1  # so many sweeps must bring a bound down to such a part
ASIDE = 0.1  # part of a bound that one direction may hold before it is taken off
_CHUNK = 1024  # elements worked on together, while they are in the nearest cache
_U1, _U2, _U3, _U4 = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


class System(NamedTuple):
    """Rows of ``T`` and the inverse diagonal of ``I - g T``, states in sweep order.

    Columns of terminal states may stay in: vectors are zero there.
    """

    g: float
    backward: bool  # whether sweeps run from the last state to the first
    begin: IndexArray  # [N], where a state's entries start
    stop: IndexArray  # [N], and end
    column: IndexArray  # [K]
    value: FloatArray  # [K]
    inverse: FloatArray  # [N]


@jit
def fill_inverse(system: System) -> None:
    """Set the inverse diagonal from slack and off-diagonal entries: nothing cancels.

    Columns of terminal states must be among the entries.
    """
    column, value = system.column, system.value
    for i in range(system.begin.size):
        rest = 0.0
        for k in range(system.begin[i], system.stop[i]):
            if column[k] != i:
                rest += value[k]
        diagonal = (1.0 - system.g) + system.g * rest
        system.inverse[i] = 1.0 / diagonal if diagonal > ENDLESS else np.inf


@jit
def gather(
    value: FloatArray, column: IndexArray, first: int, last: int, x: FloatArray
) -> float:
    """Sum entries ``first..last-1`` times ``x`` at their columns, in four sums."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    k, end = np.uint64(first), np.uint64(last)
    while k + _U4 <= end:
        s0 += value[k] * x[column[k]]
        s1 += value[k + _U1] * x[column[k + _U1]]
        s2 += value[k + _U2] * x[column[k + _U2]]
        s3 += value[k + _U3] * x[column[k + _U3]]
        k += _U4
    while k < end:
        s0 += value[k] * x[column[k]]
        k += _U1
    return (s0 + s1) + (s2 + s3)


@jit
def gather_few(
    value: FloatArray, column: IndexArray, first: int, last: int, x: FloatArray
) -> float:
    """Sum the same in one sum: two to three times faster on short rows."""
    total = 0.0
    k, end = np.uint64(first), np.uint64(last)
    while k < end:
        total += value[k] * x[column[k]]
        k += _U1
    return total


@jit
def relax(system: System, rhs: FloatArray, weight: float, x: FloatArray) -> None:
    """Sweep ``x`` [S] once, in place, for the right-hand side ``weight rhs``."""
    begin, stop, inverse = system.begin, system.stop, system.inverse
    value, column = system.value, system.column
    n = begin.size
    i, step = 0, 1
    if system.backward:
        i, step = n - 1, -1
    few = are_short(begin, stop)
    for _ in range(n):
        at = np.uint64(i)
        x[at] = 0.0
        if few:
            ahead = gather_few(value, column, begin[at], stop[at], x)
        else:
            ahead = gather(value, column, begin[at], stop[at], x)
        x[at] = (weight * rhs[at] + system.g * ahead) * inverse[at]
        i += step


@jit
def are_short(begin: IndexArray, stop: IndexArray) -> bool:
    """Whether rows are short, by some of them spread over the states."""
    n = begin.size
    stride = max(n // 16, 1)
    total, seen = 0, 0
    for i in range(0, n, stride):
        total += int(stop[i]) - int(begin[i])
        seen += 1
    return total < _SHORT * seen


@jit
def product(
    system: System,
    rhs: FloatArray,
    weight: float,
    v: FloatArray,
    other: FloatArray,
    out: FloatArray,
) -> tuple[float, float]:
    """Set ``out = K v - weight M^-1 b``; return its products with another and itself.

    ``out`` [S] holds ``v`` at first; both are zero for terminal states. Without
    ``weight``, give as ``rhs`` what is read anyway, the inverse diagonal.
    """
    n = system.begin.size
    relax(system, rhs, weight, out)
    crossed, squared = 0.0, 0.0
    for first in range(0, n, _CHUNK):
        last = min(first + _CHUNK, n)
        for i in range(first, last):
            out[i] = v[i] - out[i]
        crossed += dot(other[first:last], out[first:last])
        squared += dot(out[first:last], out[first:last])
    return crossed, squared


@jit
def largest(r: FloatArray, scale: FloatArray) -> float:
    """Return the largest ``|r[i]| scale[i]``; what is not a number may be missed."""
    m0, m1, m2, m3 = 0.0, 0.0, 0.0, 0.0
    n = scale.size
    whole = n - n % 4
    for i in range(0, whole, 4):
        h0, h1 = abs(r[i]) * scale[i], abs(r[i + 1]) * scale[i + 1]
        h2, h3 = abs(r[i + 2]) * scale[i + 2], abs(r[i + 3]) * scale[i + 3]
        m0 = m0 if h0 <= m0 else h0
        m1 = m1 if h1 <= m1 else h1
        m2 = m2 if h2 <= m2 else h2
        m3 = m3 if h3 <= m3 else h3
    for i in range(whole, n):
        h0 = abs(r[i]) * scale[i]
        m0 = m0 if h0 <= m0 else h0
    m0 = m0 if m1 <= m0 else m1
    m2 = m2 if m3 <= m2 else m3
    return m0 if m2 <= m0 else m2


@jit
def size_of(x: FloatArray, n: int, given: float) -> float:
    """Return the size that tolerances are relative to: given, or the largest ``|x|``.

    A number, because numba compiles twice for a flag that is a constant.
    """
    if given > 0.0:
        return given
    most = 0.0
    for i in range(n):
        most = max(most, abs(x[i]))
    return most


@jit
def _vanishes(x: FloatArray, n: int) -> bool:
    """Whether all are 0."""
    zero = True
    for i in range(n):
        zero = zero and x[i] == 0.0
    return zero


@jit
def _set_shadow(r: FloatArray, shadow: FloatArray, n: int, stalls: int) -> None:
    """Take the residual; random signs where that has led nowhere."""
    bits = np.uint64(stalls)
    for i in range(n):
        bits = bits * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        sign = 1.0 if bits >> np.uint64(63) else -1.0
        shadow[i] = r[i] if stalls == 0 else sign


@jit
def settle(
    system: System,
    rhs: FloatArray,
    scale: FloatArray,
    tolerance: float,
    x: FloatArray,
    space: FloatArray,
) -> int:
    """Sweep ``x`` [S] until it is right or sweeps gain too little; return how often.

    ``space`` is as `bounding_scale` left it. Nothing is claimed: what a sweep says of
    the error is about ``x`` before it.
    """
    n = system.begin.size
    w, k = space[6], space[7]
    most, total = size_of(w, n, 0.0), 0.0
    for i in range(n):
        total += k[i]
    sweeps, before, going = 0, np.inf, True
    while going:
        bound, size, change = _sweep(system, rhs, scale, x)
        c = change / total
        if abs(c) * most > ASIDE * bound:
            for i in range(n):  # c w before the sweep is c (w - k) after it
                x[i] += c * (w[i] - k[i])
        going = bound > tolerance * size
        if sweeps % WINDOW == 0:
            going = going and bound < QUICK * before
            before = bound
        sweeps += 1
    return sweeps


@jit
def _sweep(
    system: System, rhs: FloatArray, scale: FloatArray, x: FloatArray
) -> tuple[float, float, float]:
    """Sweep once; return the bound before, the largest value and the sum of changes."""
    begin, stop, inverse = system.begin, system.stop, system.inverse
    value, column = system.value, system.column
    n = begin.size
    i, step = 0, 1
    if system.backward:
        i, step = n - 1, -1
    few = are_short(begin, stop)
    bound, size, total = 0.0, 0.0, 0.0
    for _ in range(n):
        at = np.uint64(i)
        old = x[at]
        x[at] = 0.0
        if few:
            ahead = gather_few(value, column, begin[at], stop[at], x)
        else:
            ahead = gather(value, column, begin[at], stop[at], x)
        new = (rhs[at] + system.g * ahead) * inverse[at]
        x[at] = new
        total += new - old
        bound = max(bound, abs(new - old) * scale[at])
        size = max(size, abs(new))
        i += step
    return bound, size, total


@jit
def iterate(
    system: System,
    rhs: FloatArray,
    scale: FloatArray,
    given: float,
    tolerance: float,
    accepted: float,
    x: FloatArray,
    space: FloatArray,
) -> int:
    """Solve by BiCGSTAB from ``x`` [S], in place; return the number of products.

    ``scale`` [N] turns a residual into a bound on the error, ``max |r| scale``, which
    is compared with the tolerance times a size: the one ``given``, or the largest
    ``|x|`` where that is 0. A negative number says that it failed; ``x`` is then where
    it stopped. ``space`` is [8, S], zero for terminal states; where no size is given it
    is as `bounding_scale` left it.
    """
    n = system.begin.size
    r, shadow = space[0], space[1]
    if _vanishes(rhs, n):  # no tolerance is small enough for a solution of 0
        x[:n] = 0.0
        return 1
    products, stalls = 0, 0
    best = np.inf
    if given == 0.0 and n > SPILLED and are_short(system.begin, system.stop):
        products = settle(system, rhs, scale, tolerance, x, space)
    while True:
        copy_to(r, x[:n])
        _, squared = product(system, rhs, 1.0, x, x, r)
        for i in range(n):
            r[i] = -r[i]
        products += 1
        size = size_of(x, n, given)
        bound = np.nan if np.isnan(squared) else largest(r, scale)
        if bound <= tolerance * size:
            return products
        if not bound < 0.5 * best:  # a restart that gained nothing
            stalls += 1
            if bound <= accepted * size:
                return products
            if stalls >= STALLS or not np.isfinite(bound):
                return -products
        if products >= MOST_PRODUCTS:
            return products if bound <= accepted * size else -products
        best = min(best, bound)
        _set_shadow(r, shadow, n, stalls)
        limit = BLOWN * best
        products += _run(system, scale, given, tolerance, limit, products, x, space)


@jit
def _run(
    system: System,
    scale: FloatArray,
    given: float,
    tolerance: float,
    limit: float,
    used: int,
    x: FloatArray,
    space: FloatArray,
) -> int:
    """Run until the updated residual is small, or no further; return products."""
    n = system.begin.size
    r, shadow, p = space[0], space[1], space[2]
    v, s, t = space[3], space[4], space[5]
    copy_to(p, r[:n])
    copy_to(v, p[:n])
    rho = dot(shadow[:n], r[:n])
    products = 0
    if rho == 0.0:
        return products
    while used + products < MOST_PRODUCTS:
        slope, _ = product(system, system.inverse, 0.0, p, shadow, v)
        products += 1
        if not abs(slope) > 1e-300:
            break
        alpha = rho / slope
        for i in range(n):
            s[i] = r[i] - alpha * v[i]
            t[i] = s[i]
        crossed, squared = product(system, system.inverse, 0.0, s, s, t)
        products += 1
        omega = crossed / squared if squared > 0.0 else 0.0
        bound, size, new = 0.0, 0.0, 0.0
        for first in range(0, n, _CHUNK):
            last = min(first + _CHUNK, n)
            for i in range(first, last):
                x[i] += alpha * p[i] + omega * s[i]
                r[i] = s[i] - omega * t[i]
            here = largest(r[first:last], scale[first:last])
            bound = bound if here <= bound else here
            size = max(size, size_of(x[first:last], last - first, given))
            new += dot(shadow[first:last], r[first:last])
        # Half: the true residual, recomputed, is a little larger.
        if not bound > 0.5 * tolerance * size or not bound < limit:
            break
        if new == 0.0 or omega == 0.0:
            break
        beta = (new / rho) * (alpha / omega)
        rho = new
        for i in range(n):
            p[i] = r[i] + beta * (p[i] - omega * v[i])
            v[i] = p[i]
    return products


@jit
def bounding_scale(
    system: System,
    length: FloatArray,
    ones: FloatArray,
    scale: FloatArray,
    space: FloatArray,
) -> int:
    """Fill ``scale`` [N] from a trial ``length`` [S]; return products, 0 if it failed.

    Where ``K length`` is not positive everywhere, this chain's own length is found; it
    stays in ``space[6]``.
    """
    n = system.begin.size
    w, k = space[6], space[7]
    copy_to(w, length[:n])
    copy_to(k, w[:n])
    product(system, system.inverse, 0.0, w, w, k)
    products = 1
    if not _positive(w, k, n):
        # K w = M^-1 1 up to half of itself: then K w is positive
        k[:n] = 0.0
        relax(system, ones, 1.0, k)
        for i in range(n):
            scale[i] = 1.0 / k[i]
        w[:n] = 0.0
        found = iterate(system, ones, scale, 1.0, _LOOSE, _LOOSE, w, space)
        copy_to(k, w[:n])
        product(system, system.inverse, 0.0, w, w, k)
        products += abs(found) + 2
        if not _positive(w, k, n):
            return 0
    most, least = size_of(w, n, 0.0), np.inf
    for i in range(n):
        scale[i] = most / k[i]
        least = min(least, k[i])
    # A residual is known up to rounding; where that alone spoils the bound, luck could
    # make it 0.
    return products if _ROUNDING * most <= ACCEPTED * least else 0


@jit
def _positive(w: FloatArray, k: FloatArray, n: int) -> bool:
    """Whether ``K w`` is positive by more than rounding, and ``w`` finite."""
    good = True
    for i in range(n):
        good = good and 0.0 < w[i] < np.inf and k[i] > 1e-14 * w[i]
    return good
