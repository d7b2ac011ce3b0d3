"""The best concentration, searched on its logarithm."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesmdp.errors import PriorError

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
