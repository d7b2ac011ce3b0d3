"""Are ranks uniform? An exact test by their empirical distribution at many points.

Ranks ``r`` of ``n`` datasets lie in ``0..L``. At a point ``z = c / (L + 1)`` the number
of ranks below ``c`` is Binomial(n, z) if they are uniform. The statistic is the
smallest two-sided tail probability ``g`` over the points; its distribution follows from
the numbers at successive points being a Markov chain::

    X(z') - X(z) | X(z) ~ Binomial(n - X(z), (z' - z) / (1 - z))

so the chance that every count stays inside its own interval is a product of small
matrices. The intervals of the ``g`` whose chance is ``1 - error rate`` are a band for
the whole curve: it leaves the band anywhere with that probability (Säilynoja, Bürkner
and Vehtari 2022, Graphical test for discrete uniformity, Statistics and Computing 32).
"""

import numpy as np

from bayesmdp._typing import FloatArray, IntArray

_POINTS = 40  # the ends of central 95 % intervals are among them
_STRICT = 1 + 1e-9  # tails that are equal but for rounding are equal


def points(n_ranks: int) -> IntArray:
    """Where the curve is looked at: whole ``c`` in ``1..n_ranks - 1``."""
    even = np.arange(1, _POINTS) * n_ranks / _POINTS
    return np.unique(np.clip(np.rint(even).astype(np.int64), 1, n_ranks - 1))


def counts_below(ranks: IntArray, at: IntArray) -> IntArray:
    """Count ranks ``[n]`` below each point."""
    return np.searchsorted(np.sort(ranks), at)


def p_value(ranks: IntArray, n_ranks: int) -> float:
    """Chance of ranks ``[n]`` at least this far from uniform on ``0..n_ranks - 1``."""
    from scipy.stats import binom

    at = points(n_ranks)
    z, n = at / n_ranks, ranks.size
    below = counts_below(ranks, at)
    tails = np.minimum(binom.cdf(below, n, z), binom.sf(below - 1, n, z))
    low, high = _intervals(float(tails.min()), n, z)
    return float(np.clip(1 - chance_inside(low, high, n, z), 0.0, 1.0))


def band(n: int, n_ranks: int, error_rate: float) -> tuple[IntArray, IntArray]:
    """Lowest and highest counts at the points; all hold with ``1 - error_rate``."""
    z = points(n_ranks) / n_ranks
    left, right = error_rate / (4 * z.size), error_rate  # too wide, too narrow
    for _ in range(12):  # to a thousandth of the tail
        middle = float(np.sqrt(left * right))
        if 1 - chance_inside(*_intervals(middle, n, z), n, z) > error_rate:
            right = middle
        else:
            left = middle
    return _intervals(left, n, z)


def _intervals(tail: float, n: int, z: FloatArray) -> tuple[IntArray, IntArray]:
    """Return counts at each point both of whose tails are above ``tail``."""
    from scipy.stats import binom

    count = np.arange(n + 1)[:, None]
    lower = np.asarray(binom.cdf(count, n, z)) > tail * _STRICT
    upper = np.asarray(binom.sf(count - 1, n, z)) > tail * _STRICT
    return np.argmax(lower, axis=0), n - np.argmax(upper[::-1], axis=0)


def chance_inside(low: IntArray, high: IntArray, n: int, z: FloatArray) -> float:
    """Chance that counts of ``n`` uniform ranks are in ``low..high`` at all points."""
    from scipy.special import gammaln

    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    chance, before, at = np.ones(1), np.zeros(1, dtype=np.int64), 0.0
    for first, last, point in zip(low, high, z, strict=True):
        if last < first:  # nothing is inside
            return 0.0
        after = np.arange(first, last + 1)
        share = (point - at) / (1 - at)
        more = after - before[:, None]
        possible = more >= 0
        more = np.maximum(more, 0)
        log_p = log_factorial[n - before][:, None] - log_factorial[more]
        log_p = log_p - log_factorial[n - after] + more * np.log(share)
        log_p = log_p + (n - after) * np.log1p(-share)
        chance = chance @ np.where(possible, np.exp(np.where(possible, log_p, 0)), 0)
        before, at = after, point
    return float(chance.sum())
