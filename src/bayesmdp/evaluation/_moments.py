"""From sums over draws to estimates and their Monte Carlo errors.

With ``D`` draws of a value ``V`` and a return variance ``R`` (central moments ``m2``,
``m4`` of ``V``)::

    value          mean V                      error  sd(V) / sqrt(D); with controls,
                                                      see `_control`
    epistemic_sd   sqrt(D m2 / (D - 1))        error  sd sqrt((kurtosis - 1) / (4 D))
    aleatoric_sd   sqrt(mean R)                error  sd(R) / sqrt(D) / (2 sd)
    total_sd       sqrt(epistemic^2            error  sd((V - m)^2 + R) / sqrt(D)
                        + aleatoric^2)                / (2 sd)
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import channels as c
from bayesmdp.evaluation._control import Control

_FEW = 30
_ROUNDING = 1e-15  # share of a variance below which a residual is rounding


@dataclass(frozen=True, eq=False)
class Estimates:
    """Four quantities and their errors, for any number of states."""

    value: FloatArray
    value_error: FloatArray
    epistemic_sd: FloatArray
    epistemic_sd_error: FloatArray
    aleatoric_sd: FloatArray
    aleatoric_sd_error: FloatArray
    total_sd: FloatArray
    total_sd_error: FloatArray


@dataclass(frozen=True, eq=False)
class Size:
    """How many draws stand behind an estimate, and what they weigh together."""

    n: int
    weights: FloatArray  # [n]
    exact: bool  # every model there is: population moments, no Monte Carlo error

    def mean(self, values: FloatArray) -> FloatArray:
        """Weighted mean over draws, the last axis."""
        return np.asarray(values @ self.weights / self.weights.sum())


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
    return _combine(
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
    return _combine(
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
    return _combine(size, mean, m2, m2, m4, nothing, nothing, nothing)


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


def _combine(
    size: Size,
    value: FloatArray,
    value_variance: FloatArray,
    m2: FloatArray,
    m4: FloatArray,
    r: FloatArray,
    r2: FloatArray,
    vvr: FloatArray,
) -> Estimates:
    """Put moments together; see the module docstring."""
    degrees = max(size.n - 1, 1)
    unbias = 1.0 if size.exact else size.n / degrees
    noise = 0.0 if size.exact else 1.0 / degrees
    noise_of_squares = 0.0 if size.exact else 1.0 / size.n
    if size.n < _FEW:  # few draws cannot show their kurtosis: at least a normal's
        m4 = np.maximum(m4, 3.0 * m2**2)
    epistemic = np.sqrt(m2 * unbias)
    aleatoric = np.sqrt(np.maximum(r, 0.0))
    total = np.sqrt(epistemic**2 + aleatoric**2)
    square = np.maximum(m4 - m2**2, 0.0)
    return Estimates(
        value=value,
        value_error=np.sqrt(value_variance * noise),
        epistemic_sd=epistemic,
        epistemic_sd_error=_half(np.sqrt(square * noise_of_squares), epistemic),
        aleatoric_sd=aleatoric,
        aleatoric_sd_error=_half(np.sqrt(r2 * noise), aleatoric),
        total_sd=total,
        total_sd_error=_half(
            np.sqrt(np.maximum(square + r2 + 2 * vvr, 0.0) * noise_of_squares), total
        ),
    )


def _half(error: FloatArray, sd: FloatArray) -> FloatArray:
    """Error of a root from that of its square."""
    safe = np.where(sd > 0, sd, 1.0)
    return np.where(sd > 0, error / (2 * safe), 0.0)
