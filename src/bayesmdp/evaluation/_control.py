"""Control variates: the same answer from fewer draws.

Each draw brings two quantities with known means, ``y1`` (0) and ``y2`` (``g X k``),
which follow ``V`` closely. Coefficients come from a regression of the start value on
both, and are the same for all states, so that ``value`` and ``start_value`` stay
consistent. They shift means only: the epistemic standard deviation is that of the raw
values. Where ``X`` is too large to form, the start value alone has the first.

`_errors` has how coefficients and errors are found. The error of a state's value, of
which there are only sums, is that of its residuals times the ratio of both errors at
the start.
"""

from dataclasses import dataclass, replace

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine import Nominal, Problem, channels
from bayesmdp.evaluation._errors import fit_coefficients
from bayesmdp.evaluation._expansion import expand


@dataclass(frozen=True, eq=False)
class Control:
    """Coefficients of the two control variates, and the mean of the second."""

    coefficients: FloatArray  # [2]
    inflation: float  # error of a mean over that of its residuals
    mean: FloatArray  # [S], of y2, sweep order
    start_mean: float

    def in_order(self, order: IntArray) -> "Control":
        """Return the same with states in their own order."""
        mean = np.empty_like(self.mean)
        mean[order] = self.mean
        return replace(self, mean=mean)

    def start_residuals(self, start: FloatArray) -> FloatArray:
        """Start values ``[D]`` freed of what the controls explain; ``start`` [4, D]."""
        controls = start_controls(start, self.start_mean)
        return np.asarray(start[channels.START_VALUE] - self.coefficients @ controls)


def start_controls(start: FloatArray, mean: float) -> FloatArray:
    """Both control variates of the start value less their means, ``[2, D]``."""
    return np.stack([start[channels.START_Y], start[channels.START_Z] - mean])


def fit_control(
    problem: Problem, nominal: Nominal, p: int, start: FloatArray
) -> Control:
    """Find the coefficients of policy ``p`` from its draws ``[4, D]``."""
    mean = control_mean(problem, nominal, p)
    start_mean = float(problem.rows.start @ mean)
    coefficients, inflation = fit_coefficients(
        start[channels.START_VALUE],
        start_controls(start, start_mean),
        np.array([1.0, float(nominal.every_state)]),
    )
    return Control(coefficients, inflation, mean, start_mean)


def control_mean(problem: Problem, nominal: Nominal, p: int) -> FloatArray:
    """Return the exact mean of the second control variate, ``[S]`` in sweep order."""
    mean = np.zeros(problem.rows.start.size)
    if not nominal.every_state:  # then there is no second one
        return mean
    k = expand(problem, nominal, p).k
    mean[: problem.n_live] = problem.task.discount * (k @ nominal.inverse[p])
    return mean
