"""From sums over draws to estimates; `_errors` has their Monte Carlo errors."""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import channels as c
from bayesmdp.evaluation._control import Control
from bayesmdp.evaluation._errors import Estimates, Size, from_moments

_ROUNDING = 1e-15  # share of a variance below which a residual is rounding


def estimates(
    sums: FloatArray, size: Size, reference: FloatArray, control: Control | None
) -> Estimates:
    """Estimates from the sums ``[17, S]`` over draws.

    ``reference`` [2, S] holds the value and variance the sums are taken around.
    """
    mean = sums / size.weights.sum()
    v = mean[c.V]
    m2 = np.maximum(mean[c.VV] - v**2, 0.0)
    m4 = mean[c.VVVV] - 4 * v * mean[c.VVV] + 6 * v**2 * mean[c.VV] - 3 * v**4
    r = mean[c.R]
    r2 = np.maximum(mean[c.RR] - r**2, 0.0)
    vvr = mean[c.VVR] - 2 * v * mean[c.VR] + v**2 * r - r * m2
    value, variance = v, m2
    if control is not None:
        first, second = control.coefficients
        value = v - first * mean[c.Y] - second * (mean[c.Z] - control.mean)
        variance = control.inflation**2 * _residual_variance(mean, m2, first, second)
    return from_moments(
        size, value + reference[0], variance, m2, m4, r + reference[1], r2, vvr
    )


def start_estimates(
    start: FloatArray, size: Size, control: Control | None
) -> Estimates:
    """Return the same from the start distribution, from every draw ``[4, D]``."""
    values, variances = start[c.START_VALUE], start[c.START_VARIANCE]
    deviation = values - size.mean(values)
    spread = variances - size.mean(variances)
    residuals, inflation = values, 1.0
    if control is not None:
        residuals, inflation = control.start_residuals(start), control.inflation
    centre = size.mean(residuals)
    return from_moments(
        size,
        centre,
        inflation**2 * size.mean((residuals - centre) ** 2),
        size.mean(deviation**2),
        size.mean(deviation**4),
        size.mean(variances),
        size.mean(spread**2),
        size.mean(deviation**2 * spread),
    )


def estimates_of_values(values: FloatArray, size: Size) -> Estimates:
    """Return the same from values of every draw ``[S, D]``, without any chance."""
    mean = size.mean(values)
    deviation = values - mean[:, None]
    m2, m4 = size.mean(deviation**2), size.mean(deviation**4)
    nothing = np.zeros_like(mean)
    return from_moments(size, mean, m2, m2, m4, nothing, nothing, nothing)


def _residual_variance(
    mean: FloatArray, m2: FloatArray, first: float, second: float
) -> FloatArray:
    """Variance of ``V - first y1 - second y2``."""
    yy = mean[c.YY] - mean[c.Y] ** 2
    zz = mean[c.ZZ] - mean[c.Z] ** 2
    vy = mean[c.VY] - mean[c.V] * mean[c.Y]
    vz = mean[c.VZ] - mean[c.V] * mean[c.Z]
    yz = mean[c.YZ] - mean[c.Y] * mean[c.Z]
    variance = m2 + first**2 * yy + second**2 * zz
    variance += 2 * (first * second * yz - first * vy - second * vz)
    return np.asarray(np.maximum(variance, _ROUNDING * m2))
