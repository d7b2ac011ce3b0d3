"""Control variates: the same answer from fewer draws.

Each draw brings two quantities with known means, ``y1`` (0) and ``y2`` (``g X k``),
which follow ``V`` closely. Coefficients come from a regression of the start value on
both, and are the same for all states, so that ``value`` and ``start_value`` stay
consistent; below 50 draws they are 1, which is unbiased and nearly as good. They shift
means only: the epistemic standard deviation is that of the raw values.

Where ``X`` is too large to form, the start value alone has the first of the two.
"""

from dataclasses import dataclass, replace

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine import Nominal, Problem, channels
from bayesmdp.evaluation._expansion import expand

ENOUGH = 50  # draws, below which coefficients are not estimated


@dataclass(frozen=True, eq=False)
class Control:
    """Coefficients of the two control variates, and the mean of the second."""

    coefficients: FloatArray  # [2]
    mean: FloatArray  # [S], of y2, sweep order
    start_mean: float

    def in_order(self, order: IntArray) -> "Control":
        """Return the same with states in their own order."""
        mean = np.empty_like(self.mean)
        mean[order] = self.mean
        return replace(self, mean=mean)

    def start_residuals(self, start: FloatArray) -> FloatArray:
        """Start values ``[D]`` freed of what the controls explain; ``start`` [4, D]."""
        y = start[channels.START_Y]
        z = start[channels.START_Z] - self.start_mean
        first, second = self.coefficients
        return np.asarray(start[channels.START_VALUE] - first * y - second * z)


def fit_control(
    problem: Problem, nominal: Nominal, p: int, start: FloatArray
) -> Control:
    """Find the coefficients of policy ``p`` from its draws ``[4, D]``."""
    mean = control_mean(problem, nominal, p)
    start_mean = float(problem.rows.start @ mean)
    coefficients = np.array([1.0, float(nominal.every_state)])
    values = start[channels.START_VALUE]
    doubtful = values.std() > 1e-13 * max(abs(values.mean()), 1e-300)
    if start.shape[1] >= ENOUGH and doubtful:
        coefficients = regress(
            start[channels.START_VALUE],
            np.stack([start[channels.START_Y], start[channels.START_Z]]),
        )
    return Control(coefficients, mean, start_mean)


def control_mean(problem: Problem, nominal: Nominal, p: int) -> FloatArray:
    """Return the exact mean of the second control variate, ``[S]`` in sweep order."""
    mean = np.zeros(problem.rows.start.size)
    if not nominal.every_state:  # then there is no second one
        return mean
    k = expand(problem, nominal, p).k
    mean[: problem.n_live] = problem.task.discount * (k @ nominal.inverse[p])
    return mean


def regress(response: FloatArray, predictors: FloatArray) -> FloatArray:
    """Least squares slopes; a predictor that does not vary gets 0."""
    centred = predictors - predictors.mean(axis=1, keepdims=True)
    scale = np.sqrt((centred**2).mean(axis=1))
    scale[scale == 0] = 1.0
    design = (centred / scale[:, None]).T
    slopes, *_ = np.linalg.lstsq(design, response - response.mean(), rcond=1e-10)
    return np.asarray(slopes / scale)
