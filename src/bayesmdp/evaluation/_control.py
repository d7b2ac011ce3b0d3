"""Control variates: the same answer from fewer draws.

Each draw brings two quantities with known means, ``y1`` (0) and ``y2`` (``g X k``),
which follow ``V`` closely. Coefficients come from a regression of the start value on
both, and are the same for all states, so that ``value`` and ``start_value`` stay
consistent. They shift means only: the epistemic standard deviation is that of the raw
values. Where ``X`` is too large to form, the start value alone has the first.

`_errors` has how coefficients and errors are found. The error of a state's value, of
which there are only sums, is that of its residuals times the ratio of both errors at
the start.

Their means come from moments of the rows around the nominal model (`expand`). With
``theta_bar = alpha / alpha0``, ``h[s,a,t] = r[s,a,t] + g V_bar[t]``, ``X = (I - g
T_bar)^-1`` and ``w0 = pi^2 / (alpha0 + 1)``::

    q[s] = sum_a w0[s,a] Var_{t ~ theta_bar[s,a]}(h[s,a,t])
    k[s] = sum_a w0[s,a] Cov_{t ~ theta_bar[s,a]}(X[t,s], h[s,a,t])

``Cov(V) ~ X diag(q) X'`` to first order, ``E[V] ~ V_bar + g X k`` to second (Delage and
Mannor 2010, without their tensor of size S^4). ``g X k`` is at the same time the exact
mean of the second control variate of the kernel.
"""

from dataclasses import dataclass, replace

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine import Nominal, Problem, channels
from bayesmdp.evaluation._errors import fit_coefficients


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


@dataclass(frozen=True, eq=False)
class Expansion:
    """Second moments of one policy's rows; states in sweep order."""

    spread: FloatArray  # [R], the terms of q
    q: FloatArray  # [N]
    k: FloatArray  # [N]


def expand(problem: Problem, nominal: Nominal, p: int = 0) -> Expansion:
    """Expand policy ``p`` of a problem with Dirichlet rows."""
    n, g, rows = problem.n_live, problem.task.discount, problem.rows
    theta, total = rows.mean, rows.row_sums
    assert rows.total is not None
    length = np.diff(rows.indptr)
    h = rows.reward + g * nominal.reference[0, p, rows.target]
    h = h - np.repeat(total(theta * h), length)
    # column s of X at the next states of a row of state s; zero once it has ended
    column = np.zeros(h.size)
    inside = rows.target < n
    source = np.repeat(rows.source, length)
    column[inside] = nominal.inverse[p][source[inside], rows.target[inside]]
    w0 = problem.policies[p] ** 2 / (rows.total + 1.0)
    spread = w0 * total(theta * h * h)
    covariance = w0 * total(theta * h * column)
    return Expansion(
        spread=spread,
        q=_by_state(problem, spread),
        k=_by_state(problem, covariance),
    )


def _by_state(problem: Problem, terms: FloatArray) -> FloatArray:
    """Sum terms ``[R]`` over the rows of each live state, ``[N]``."""
    total = np.bincount(problem.rows.source, terms, minlength=problem.n_live)
    return total.astype(np.float64)
