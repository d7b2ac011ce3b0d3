"""What the sums of a sweep say about each policy, with control variates.

`_errors` has how coefficients and Monte Carlo errors are found.

**Control variates** give the same answer from fewer draws. Each draw brings two
quantities with known means, ``y1`` (0) and ``y2`` (``g X k``), which follow ``V``
closely. Coefficients come from a regression of the start value on both, and are the
same for all states, so that ``value`` and ``start_value`` stay consistent. They shift
means only: the epistemic standard deviation is that of the raw values. Where ``X`` is
too large to form, the start value alone has the first. The error of a state's value, of
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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.engine import Nominal, Problem, Sums
from bayesmdp.engine import channels as c
from bayesmdp.errors import ConvergenceError, EndlessError
from bayesmdp.evaluation._errors import Estimates, Size, fit_coefficients, from_moments

_ROUNDING = 1e-15  # share of a variance below which a residual is rounding


@dataclass(frozen=True, eq=False)
class Control:
    """Coefficients of the two control variates, and the mean of the second."""

    coefficients: FloatArray  # [2]
    inflation: float  # error of a mean over that of its residuals
    mean: FloatArray  # [S], of y2
    start_mean: float


@dataclass(frozen=True, eq=False)
class Measured:
    """Results of one policy in arrays, states in their own order."""

    start: Estimates
    states: Estimates  # of [S]
    occupancy: FloatArray  # [S]
    occupancy_mcse: FloatArray  # [S]
    start_values: FloatArray  # [D], NaN where a draw's chain does not end
    n_endless: int
    n_unsolved: int
    n_retried: int
    control: Control | None


def measure(
    problem: Problem,
    nominal: Nominal,
    sums: Sums,
    exact: bool,
    policy: int = 0,
    chain: float = 0.0,
) -> list[Measured]:
    """Turn the sums of a policy into estimates; ``chain``: noise of chains.

    One for each column: a reward, or a sum of some.
    """
    at = problem.columns(policy)
    columns, p = range(at.start, at.stop), at.start
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
    start = sums.start[at] if n == ended.size else sums.start[at][..., ended]
    controls: list[Control | None] = [None for _ in columns]
    if nominal.controls and n == ended.size:  # leaving draws out shifts their means
        controls = [
            fit_control(problem, nominal, k, own)
            for k, own in zip(columns, start, strict=True)
        ]
    of_states = controls if nominal.every_state else []
    state_sums = np.empty_like(sums.state[at])
    state_sums[..., problem.rows.order] = sums.state[at]
    reference = np.empty((3, len(columns), problem.rows.start.size))
    reference[..., problem.rows.order] = nominal.reference[:, at]
    size = Size(n, sums.weights[ended], exact, chain)
    by_channel = state_sums.swapaxes(0, 1)
    with np.errstate(over="ignore", invalid="ignore"):  # a record is finite, or refused
        # the start's at last
        found = np.empty((7, len(columns), reference.shape[-1] + 1))
        moments_of_states(by_channel, size, reference[:2], of_states, found[..., :-1])
        for k, control in enumerate(controls):
            moments_of_start(start[k], size, control, found[:, k, -1])
        both = vars(from_moments(size, *found)).values()
        occupancy = by_channel[c.D] / size.total
        spread = np.maximum(by_channel[c.DD] / size.total - occupancy**2, 0.0)
    visits = occupancy + reference[2]
    if problem.lost:
        visits = np.maximum(visits - problem.lost * problem.task.start, 0.0)
    mcse = np.sqrt(spread * (chain + (not exact) / max(n - 1, 1)))
    n_unsolved = int(sums.unsolved[p].sum())
    made = []
    for k, control in enumerate(controls):
        states = Estimates(*(x[k, :-1].copy() for x in both))
        _add_terminal(problem, k, states, size, ended)
        values = sums.start[at.start + k, c.START_VALUE]
        measured = Measured(
            start=Estimates(*(x[k, -1] for x in both)),
            states=states,
            occupancy=visits[k],
            occupancy_mcse=mcse[k],
            start_values=np.where(ended, values, np.nan),
            n_endless=ended.size - n - n_unsolved,
            n_unsolved=n_unsolved,
            n_retried=int(sums.retried[p].sum()),
            control=control,
        )
        made.append(measured)
    return made


def _add_terminal(
    problem: Problem, k: int, states: Estimates, size: Size, ended: BoolArray
) -> None:
    """Add the values of terminal states, which may differ between models."""
    values = problem.ends_of(np.flatnonzero(ended))
    if values is None:
        known = problem.ends_of(None)
        assert known is not None
        states.value[:] += known[0, k]
        return
    ends = estimates_of_values(np.ascontiguousarray(values[:, k].T), size)  # [S]
    at = problem.rows.order[problem.n_live :]
    for name, found in vars(ends).items():
        getattr(states, name)[at] = found[at]


def moments_of_states(
    sums: FloatArray,
    size: Size,
    reference: FloatArray,
    controls: Sequence[Control | None],
    out: FloatArray,
) -> None:
    """Set what `from_moments` takes, ``[7, K, S]``, from sums ``[17, K, S]``.

    ``reference`` [2, K, S] holds the value and variance the sums are taken around;
    ``controls`` are K, or none.
    """
    mean = sums / size.total
    v = mean[c.V]
    m2 = np.maximum(mean[c.VV] - v**2, 0.0)
    m4 = mean[c.VVVV] - 4 * v * mean[c.VVV] + 6 * v**2 * mean[c.VV] - 3 * v**4
    r = mean[c.R]
    r2 = np.maximum(mean[c.RR] - r**2, 0.0)
    vvr = mean[c.VVR] - 2 * v * mean[c.VR] + v**2 * r - r * m2
    out[0], out[1], out[2], out[3] = v + reference[0], m2, m2, m4
    out[4], out[5], out[6] = r + reference[1], r2, vvr
    for k, control in enumerate(controls):
        if control is not None:
            own, (first, second) = mean[:, k], control.coefficients
            value = v[k] - first * own[c.Y] - second * (own[c.Z] - control.mean)
            out[0, k] = value + reference[0, k]
            left = _residual_variance(own, m2[k], first, second)
            out[1, k] = control.inflation**2 * left


def moments_of_start(
    start: FloatArray, size: Size, control: Control | None, out: FloatArray
) -> None:
    """Set the same ``[7]`` from the start distribution, from every draw ``[4, D]``."""
    values, variances = start[c.START_VALUE], start[c.START_VARIANCE]
    deviation = values - size.mean(values)
    spread = variances - size.mean(variances)
    residuals, inflation = values, 1.0
    if control is not None:
        controls = start_controls(start, control.start_mean)
        residuals, inflation = (
            values - control.coefficients @ controls,
            control.inflation,
        )
    centre, square = size.mean(residuals), deviation**2
    out[0] = centre
    out[1] = inflation**2 * size.mean((residuals - centre) ** 2)
    out[2], out[3] = size.mean(square), size.mean(square**2)
    out[4], out[5] = size.mean(variances), size.mean(spread**2)
    out[6] = size.mean(square * spread)


def estimates_of_values(values: FloatArray, size: Size) -> Estimates:
    """Return the same from values of every draw ``[S, D]``, without any chance."""
    mean = size.mean(values)
    deviation = values - mean[:, None]
    m2, m4 = size.mean(deviation**2), size.mean((deviation**2) ** 2)
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


def start_controls(start: FloatArray, mean: float) -> FloatArray:
    """Both control variates of the start value less their means, ``[2, D]``."""
    return np.stack([start[c.START_Y], start[c.START_Z] - mean])


def fit_control(
    problem: Problem, nominal: Nominal, p: int, start: FloatArray
) -> Control:
    """Find the coefficients of policy ``p`` from its draws ``[4, D]``."""
    mean = control_mean(problem, nominal, p)
    start_mean = float(problem.rows.start @ mean)
    coefficients, inflation = fit_coefficients(
        start[c.START_VALUE],
        start_controls(start, start_mean),
        np.array([1.0, float(nominal.every_state)]),
    )
    in_order = np.empty_like(mean)
    in_order[problem.rows.order] = mean
    return Control(coefficients, inflation, in_order, start_mean)


def control_mean(problem: Problem, nominal: Nominal, p: int) -> FloatArray:
    """Return the exact mean of the second control variate, ``[S]`` in sweep order."""
    mean = np.zeros(problem.rows.start.size)
    if not nominal.every_state:  # then there is no second one
        return mean
    k, g = expand(problem, nominal, p).k, problem.discounts[p % problem.n_columns]
    mean[: problem.n_live] = g * (k @ nominal.inverse[p])
    return mean


@dataclass(frozen=True, eq=False)
class Expansion:
    """Second moments of one policy's rows; states in sweep order."""

    spread: FloatArray  # [R], the terms of q
    q: FloatArray  # [N]
    k: FloatArray  # [N]


def expand(problem: Problem, nominal: Nominal, p: int = 0) -> Expansion:
    """Expand policy ``p`` of a problem with Dirichlet rows."""
    policy, own = divmod(p, problem.n_columns)
    n, g, rows = problem.n_live, problem.discounts[own], problem.rows
    theta, total = rows.mean, rows.row_sums
    assert rows.total is not None
    length = np.diff(rows.indptr)
    h = problem.reward[own] + g * nominal.reference[0, p, rows.target]
    h = h - np.repeat(total(theta * h), length)
    # column s of X at the next states of a row of state s; zero once it has ended
    column = np.zeros(h.size)
    inside = rows.target < n
    source = np.repeat(rows.source, length)
    column[inside] = nominal.inverse[p][source[inside], rows.target[inside]]
    w0 = problem.policies[policy] ** 2 / (rows.total + 1.0)
    spread = w0 * total(theta * h * h)
    covariance = w0 * total(theta * h * column)
    return Expansion(
        spread=spread, q=_by_state(problem, spread), k=_by_state(problem, covariance)
    )


def _by_state(problem: Problem, terms: FloatArray) -> FloatArray:
    """Sum terms ``[R]`` over the rows of each live state, ``[N]``."""
    total = np.bincount(problem.rows.source, terms, minlength=problem.n_live)
    return total.astype(np.float64)
