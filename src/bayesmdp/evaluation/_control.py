"""Control variates: the same answer from fewer draws.

Each draw brings two quantities with known means, ``y1`` (0) and ``y2`` (``g X k``),
which follow ``V`` closely. Coefficients come from a regression of the start value on
both, and are the same for all states, so that ``value`` and ``start_value`` stay
consistent. They shift means only: the epistemic standard deviation is that of the raw
values. Where ``X`` is too large to form, the start value alone has the first.

**Coefficients.** With ``f`` the start value less the controls at coefficients 1 (which
are unbiased), ``x`` a row of 1 and the controls, less their means and over their root
mean squares, ``a = (x x' + diag(0, l, l))^-1 x f'``: a regression that stays at 1 where
the draws do not tell, with the weight of ``l`` draws.

**Errors.** The residuals of a regression are too small exactly where it matters: with
small concentrations a few draws lie far out, the regression follows them, and the rest
look alike. With the leverage ``h[i] = x[:, i]' (x x' + ..)^-1 x[:, i]`` of a draw (its
pull on its own fit) and ``w[i]`` its weight in the mean, the error is that of
Cribari-Neto (2004, HC4), in place of that of plain residuals ``e``::

    error^2 = sum_i w[i]^2 e[i]^2 / (1 - h[i])^min(4, h[i] / mean(h))

Where that is more than twice the error without controls, they are left out; the factor
2 stays, since the draws themselves were asked. `docs/performance.md` has what these
errors cover. The error of a state's value, of which there are only sums, is that of its
residuals times the ratio of both errors at the start.
"""

from dataclasses import dataclass, replace

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine import Nominal, Problem, channels
from bayesmdp.evaluation._expansion import expand

_ENOUGH = 16  # draws, below which coefficients are not estimated
_PULL = 0.1  # draws that stand for coefficients of 1
_MOST = 2.0  # times the error without controls; beyond, they are left out
_ROUNDING = 1e-13  # share of a value below which its variation is rounding


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


def fit_coefficients(
    values: FloatArray, controls: FloatArray, expected: FloatArray
) -> tuple[FloatArray, float]:
    """Coefficients ``[K]`` of controls ``[K, D]`` of mean 0, and their inflation.

    ``expected`` are the coefficients where the draws do not tell.
    """
    tiny = _ROUNDING * float(np.abs(values).max())
    if values.std() <= tiny:
        return expected, 1.0
    coefficients, inflation = expected, 1.0
    if values.size >= _ENOUGH:
        coefficients, inflation = _regress(values, controls, expected, tiny)
    residuals = values - coefficients @ controls
    if inflation * residuals.std() > _MOST * values.std():
        return np.zeros_like(expected), _MOST
    return coefficients, inflation


def _regress(
    values: FloatArray, controls: FloatArray, expected: FloatArray, tiny: float
) -> tuple[FloatArray, float]:
    """Return coefficients and inflation by the formulae of the module."""
    n = values.size
    scale = np.sqrt((controls**2).mean(axis=1))
    scale[scale <= tiny] = np.inf  # no control at all
    x = np.vstack([np.ones(n), controls / scale[:, None]])
    gram = x @ x.T
    gram[np.diag_indices_from(gram)] += np.r_[0.0, np.full(scale.size, _PULL)]
    inverse = np.linalg.inv(gram)
    free = values - expected @ controls
    free = free - free.mean()
    found = inverse @ (x @ free)
    residuals = free - found @ x
    leverage = np.einsum("kd,kd->d", x, inverse @ x)
    power = np.minimum(4.0, leverage / leverage.mean())
    influence = inverse[0] @ x * residuals / (1.0 - leverage) ** (power / 2)
    plain = residuals @ residuals / (n * (n - 1))
    inflation = np.sqrt(influence @ influence / plain) if plain > 0 else 1.0
    return expected + found[1:] / scale, float(inflation)
