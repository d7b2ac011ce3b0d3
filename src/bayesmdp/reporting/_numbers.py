"""Numbers as JSON holds them: rounded to what they know, with their errors.

A quantity is ``{"value": x, "mcse": e}``; ``e`` is a Monte Carlo standard error, 0
where there is none. What is not finite is None.
"""

import math
from typing import Any

from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.evaluation import quantile, rounded

VALUE_DIGITS, ERROR_DIGITS = 5, 2


def plain(value: float, digits: int = 12) -> float | None:
    """Return a float with so many significant digits; None if it is not finite."""
    number = float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None


def quantity(value: float, error: float = 0.0) -> dict[str, float | None]:
    """Return a number with its error."""
    return {"value": plain(value), "mcse": plain(error, 4)}


def column(values: FloatArray, digits: int = VALUE_DIGITS) -> list[float | None]:
    """Return many numbers, short."""
    return [plain(x, digits) for x in values.tolist()]


def whole(values: IntArray | BoolArray) -> list[int]:
    """Return whole numbers, and truth as 0 and 1."""
    return [int(x) for x in values.tolist()]


def share(hits: float, n: float) -> dict[str, float | None]:
    """Return the probability of an event met in a share ``hits`` of ``n`` draws.

    With no draw on one side the error is that of the first that might come: 1 / n.
    """
    error = math.sqrt(max(hits * (1.0 - hits), 0.0) / n) if n else math.nan
    return quantity(hits, max(error, 1.0 / n) if n and math.isfinite(n) else 0.0)


def in_percent(part: float) -> str:
    """Write a share in per cent, with two digits; three would be 100."""
    said = 100 * part
    return f"{said:.0f} %" if said >= 10 or said == 0 else f"{said:.2g} %"


def interval(
    values: FloatArray, weights: FloatArray, *, exact: bool, level: float = 0.95
) -> dict[str, Any]:
    """Return a central interval of draws ``[D]``; errors by order statistics."""
    found: dict[str, Any] = {"level": level}
    n = values.size
    for name, at in (("low", (1 - level) / 2), ("high", (1 + level) / 2)):
        step = 0.0 if exact else math.sqrt(at * (1 - at) / n)
        below = quantile(values, weights, max(at - step, 0.0))
        above = quantile(values, weights, min(at + step, 1.0))
        found[name] = quantity(quantile(values, weights, at), (above - below) / 2)
    return found


#: Probability from which on something is said to be better.
SURE = 0.95


def chance(x: dict[str, float | None]) -> str:
    """Write a probability from draws: never 0 or 100 % because no draw said else."""
    value, error = x["value"], x["mcse"] or 0.0
    if value is None:
        return "not known"
    if error and value > 1 - 2 * error:
        return f"above {_floor(100 * (1 - 3 * error))} %"
    if error and value < 2 * error:
        return f"below {min(300 * error, 100):.3g} %"
    if not error:
        return f"{100 * value:.4g} %"
    return f"{rounded(100 * value, 100 * error)} %"


def _floor(per_cent: float) -> str:
    return f"{math.floor(100 * max(per_cent, 0.0)) / 100:g}"
