"""What the sums of a sweep say about each policy.

`_errors` has the Monte Carlo errors.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.engine import Nominal, Problem, Sums
from bayesmdp.engine import channels as c
from bayesmdp.errors import ConvergenceError, EndlessError
from bayesmdp.evaluation._control import Control, fit_control
from bayesmdp.evaluation._errors import Estimates, Size, from_moments

_ROUNDING = 1e-15  # share of a variance below which a residual is rounding


@dataclass(frozen=True, eq=False)
class Measured:
    """Results of one policy in arrays, states in their own order."""

    start: Estimates
    states: Estimates  # of [S]
    occupancy: FloatArray  # [S]
    occupancy_error: FloatArray  # [S]
    start_values: FloatArray  # [D], NaN where a draw's chain does not end
    n_endless: int
    n_unsolved: int
    n_retried: int
    control: Control | None


def measure(
    problem: Problem, nominal: Nominal, sums: Sums, exact: bool, p: int = 0
) -> Measured:
    """Turn the sums of policy ``p`` into estimates."""
    ended = sums.ended[p] | (sums.weights == 0)
    n = int(ended.sum())
    if n < 2 and not exact and sums.unsolved[p].any():
        raise ConvergenceError(
            f"Only {n} of {ended.size} draws could be solved: they converge too "
            "slowly, and are too large to be solved directly; use a smaller discount."
        )
    if n < 2 and not exact:
        raise EndlessError(
            f"Only {n} of {ended.size} draws have episodes that can be resolved; use a "
            "smaller discount."
        )
    start = sums.start[p][:, ended]
    control = None
    if nominal.controls and n == ended.size:  # leaving draws out shifts their means
        control = fit_control(problem, nominal, p, start)
    of_states = control if control is not None and nominal.every_state else None
    state_sums = np.empty_like(sums.state[p])
    state_sums[:, problem.rows.order] = sums.state[p]
    reference = np.empty((3, problem.rows.start.size))
    reference[:, problem.rows.order] = nominal.reference[:, p]
    size = Size(n, sums.weights[ended], exact)
    of_states = of_states and of_states.in_order(problem.rows.order)
    with np.errstate(over="ignore", invalid="ignore"):  # a record is finite, or refused
        from_start = start_estimates(start, size, control)
        states = estimates(state_sums, size, reference[:2], of_states)
    _add_terminal(problem, states, size, ended)
    occupancy = state_sums[c.D] / size.weights.sum()
    spread = np.maximum(state_sums[c.DD] / size.weights.sum() - occupancy**2, 0.0)
    return Measured(
        start=from_start,
        states=states,
        occupancy=occupancy + reference[2],
        occupancy_error=np.sqrt(spread / max(n - 1, 1)) * (not exact),
        start_values=np.where(ended, sums.start[p, c.START_VALUE], np.nan),
        n_endless=ended.size - n - int(sums.unsolved[p].sum()),
        n_unsolved=int(sums.unsolved[p].sum()),
        n_retried=int(sums.retried[p].sum()),
        control=control,
    )


def _add_terminal(
    problem: Problem, states: Estimates, size: Size, ended: BoolArray
) -> None:
    """Add the values of terminal states, which may differ between models."""
    rows, stream = problem.rows, problem.stream
    draws = np.flatnonzero(ended)
    values = None if stream is None else stream.terminal_values(draws)
    if values is None:
        states.value[rows.order] += rows.terminal_value
        return
    ends = estimates_of_values(np.ascontiguousarray(values.T), size)  # [S]
    at = rows.order[problem.n_live :]
    for name, found in vars(ends).items():
        getattr(states, name)[at] = found[at]


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
