"""The probability of counts, the dynamics integrated out.

A pair with ``K`` possible next states, each with concentration ``a``, and counts
``n[t]`` (``N`` in all) contributes ::

    lgamma(K a) - lgamma(K a + N) + sum_t (lgamma(a + n[t]) - lgamma(a))

Counts repeat: thousands of pairs share a few hundred values. So entries are grouped by
``n`` and rows by ``(K, N)`` once, and each evaluation costs a few hundred logarithms.

The best concentration, searched on its logarithm.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import ArrayLike, FloatArray, IntArray
from bayesmdp.errors import PriorError

_STIRLING = 100.0  # from here the series below is right to 1e-13


def log_rising(x: ArrayLike, n: ArrayLike) -> FloatArray:
    """Logarithm of a rising factorial, ``Gamma(x + n) / Gamma(x)``.

    The difference of two log-gammas loses all digits where ``x`` is large; there the
    difference of Stirling's series is taken term by term.

    Parameters
    ----------
    x
        Above 0.
    n
        0 or more; need not be whole.

    Examples
    --------
    >>> from bayesmdp.priors import log_rising
    >>> float(log_rising(2.0, 3).round(6))  # log(2 * 3 * 4)
    3.178054
    """
    from scipy.special import gammaln

    x, n = np.asarray(x, dtype=np.float64), np.asarray(n, dtype=np.float64)
    small = gammaln(x + n) - gammaln(x)
    safe = np.maximum(x, _STIRLING)
    end = safe + n
    large = (safe - 0.5) * np.log1p(n / safe) + n * np.log(end) - n
    large += (1 / end - 1 / safe) / 12 - (1 / end**3 - 1 / safe**3) / 360
    return np.asarray(np.where(x < _STIRLING, small, large))


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of a symmetric prior's pairs, grouped."""

    count: IntArray  # [U], different counts of a next state
    n_entries: IntArray  # [U], how often each occurs
    length: IntArray  # [V], possible next states of a pair
    visits: IntArray  # [V], its visits, above 0
    n_rows: IntArray  # [V], how many pairs have both

    @classmethod
    def of(cls, length: IntArray, row: IntArray, count: IntArray) -> "Tally":
        """Group counts ``[K]`` at given rows, of pairs with ``length`` [R]."""
        visits = np.zeros(length.size, dtype=np.int64)
        np.add.at(visits, row, count)
        seen = visits > 0
        sizes, n_rows = np.unique(
            np.stack([length[seen], visits[seen]]), axis=1, return_counts=True
        )
        values, n_entries = np.unique(count, return_counts=True)
        return cls(values, n_entries, sizes[0], sizes[1], n_rows)

    def log_evidence(self, concentration: float) -> float:
        """Log probability of the counts under a symmetric concentration."""
        inner = self.n_entries @ log_rising(concentration, self.count)
        outer = self.n_rows @ log_rising(self.length * concentration, self.visits)
        return float(inner - outer)

    def curvature(self, concentration: float) -> float:
        """Second derivative by the logarithm of the concentration, at a maximum."""
        from scipy.special import polygamma

        a, whole = concentration, self.length * concentration
        inner = self.n_entries @ (polygamma(1, a + self.count) - polygamma(1, a))
        outer = polygamma(1, whole + self.visits) - polygamma(1, whole)
        return float(a**2 * (inner - (self.n_rows * self.length**2) @ outer))


LOW, HIGH = 1e-6, 1e6
_STEPS_PER_DECADE = 4
_NOISE = 1e-10  # relative; what differs by less is rounding


@dataclass(frozen=True)
class Peak:
    """Where a function of the concentration is largest."""

    at: float
    value: float
    place: str  # "inside", "low", "high", or "flat"

    def needs_inside(self, who: str, remedy: str) -> float:
        """Return where it is; refuse an end or a plain."""
        if self.place == "flat":
            said = "the data say nothing about it, as when no pair was visited twice"
        elif self.place == "low":
            said = (
                f"the evidence keeps rising towards 0 (below {LOW:g}), as when every "
                "pair always led to the same next state"
            )
        elif self.place == "high":
            said = (
                f"the evidence keeps rising (above {HIGH:g}), as when every pair leads "
                "to all next states alike"
            )
        else:
            return self.at
        raise PriorError(f"{who} finds no best concentration: {said}; {remedy}.")


def find_peak(
    f: Callable[[float], float], low: float = LOW, high: float = HIGH
) -> Peak:
    """Maximise ``f`` between two concentrations: a coarse grid, then Brent's method."""
    from scipy.optimize import minimize_scalar

    n = max(int(np.log10(high / low) * _STEPS_PER_DECADE), 2) + 1
    x = np.linspace(np.log(low), np.log(high), n)
    y = np.array([f(float(c)) for c in np.exp(x)])
    i, noise = int(np.argmax(y)), _NOISE * (1 + np.abs(y).max())
    if y.max() - y.min() <= noise:
        return Peak(float(np.exp(x[i])), float(y[i]), "flat")
    found = minimize_scalar(
        lambda u: -f(float(np.exp(u))),
        bounds=(x[max(i - 1, 0)], x[min(i + 1, n - 1)]),
        method="bounded",
        options={"xatol": 1e-9},
    )
    best = -float(found.fun)
    for end, place, at in ((0, "low", low), (-1, "high", high)):
        if best - y[end] <= noise:
            return Peak(at, float(y[end]), place)
    return Peak(float(np.exp(found.x)), best, "inside")


def rounded(concentration: float) -> float:
    """Six digits: more than data can tell, and the same on every machine."""
    return float(f"{concentration:.6g}")
