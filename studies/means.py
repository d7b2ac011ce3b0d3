"""Means over repetitions, told with their errors; numbers without any; and colours.

Repetitions (data sets, worlds, cohorts) are independent, so the spread between them
holds every source of noise, also the Monte Carlo error of each.
"""

import numpy as np

from bayesmdp._typing import ArrayLike
from bayesmdp.evaluation import rounded

#: Safe for colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
ROUNDING = 1e-12  # differences below are those of equal numbers


def mean_and_error(values: ArrayLike) -> tuple[float, float]:
    """Return the mean over repetitions and its standard error, nan for a single one."""
    x = np.asarray(values, dtype=np.float64)
    error = x.std(ddof=1) / np.sqrt(x.size) if x.size > 1 else np.nan
    return float(x.mean()), float(error)


def rms(values: ArrayLike) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def said(values: ArrayLike) -> str:
    """Write a mean with its standard error, to the precision that allows."""
    mean, error = mean_and_error(values)
    if np.isnan(error):
        return f"{mean:.2g}"
    if error < ROUNDING:
        return f"{mean:.2g}" if abs(mean) > ROUNDING else "0"
    return rounded(mean, error)


def short(x: float, digits: int = 2) -> str:
    """Write a number above 0 to so many digits, for people: 0.23, 470, 2,600."""
    if x >= 1e6 or x < 0.001:
        return f"{x:.{digits - 1}e}"
    rounded_x = float(f"{x:.{digits}g}")
    return f"{rounded_x:,.0f}" if rounded_x >= 10 ** (digits - 1) else f"{rounded_x:g}"


def percent(share: float) -> str:
    """Write a share in whole per cent; to one digit where it is below 1 % and not 0."""
    return f"{100 * share:{'.1g' if 0 < abs(share) < 0.01 else '.0f'}} %"


def fixed(values: ArrayLike, digits: int = 4, unit: str = "") -> str:
    """Write a mean with its standard error, to so many digits: columns stay aligned."""
    mean, error = mean_and_error(values)
    mean = round(mean, digits) + 0.0  # no minus before a zero
    if np.isnan(error):
        return f"{mean:.{digits}f}{unit}"
    return f"{mean:.{digits}f} ± {error:.{digits}f}{unit}"
