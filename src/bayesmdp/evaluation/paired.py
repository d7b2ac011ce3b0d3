"""Differences between policies on the same draws.

Two good policies often differ by far less than either's value varies over draws, so
their difference is taken draw by draw, and freed of what the control variates of both
explain. Plain draws cannot tell such policies apart.

Apart from the rest of the room because it needs numba.
"""

from typing import Any

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import Pool, channels
from bayesmdp.evaluation._errors import (
    Size,
    fit_coefficients,
    gaps,
    least_size,
    mean_and_mcse,
    tie,
)
from bayesmdp.evaluation._evaluate import Swept, sweep_policies
from bayesmdp.evaluation._measure import control_mean, start_controls
from bayesmdp.posterior import Draws

__all__ = [
    "controlled",
    "differences",
    "moments",
    "paired",
    "start_values",
    "sweep_paired",
]


def paired(swept: Swept, reference: int) -> tuple[FloatArray, FloatArray]:
    """Start values less those of a policy in draws that all end, and their weights.

    ``[P, D]`` and ``[D]``; ties are exactly 0, and weights sum to 1.
    """
    every = swept.sums.ended.all(axis=0)
    values = swept.sums.start[:, channels.START_VALUE, every]
    weights = swept.sums.weights[every]
    least = least_size(swept.nominal.iterates, swept.nominal.reference[0])
    return gaps(values, values[reference], least), weights / weights.sum()


def differences(swept: Swept, reference: int) -> tuple[FloatArray, FloatArray]:
    """Start value of each policy minus that of one of them, and the errors, ``[P]``."""
    chain = swept.draws.belief.chain_noise
    _, common = mean_and_mcse(*paired(swept, reference), exact=True, chain=chain)
    found, weights, inflation = controlled(swept, reference)
    mean, error = mean_and_mcse(found, weights, exact=swept.draws.exact)
    values = swept.sums.start[:, channels.START_VALUE]
    same = tie(np.abs(values).max())  # controls may leave rounding alone
    mean, error = (np.where(np.abs(x) <= same, 0.0, x) for x in (mean, error))
    return mean, np.hypot(inflation * error, common)


def controlled(
    swept: Swept, reference: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gaps ``[P, D]`` freed of controls where there are some, weights, inflations."""
    found, weights = paired(swept, reference)
    if not swept.nominal.controls or weights.size < swept.sums.weights.size:
        return found, weights, np.ones(found.shape[0])
    problem, nominal = swept.problem, swept.nominal
    controls = [
        start_controls(
            start, float(problem.rows.start @ control_mean(problem, nominal, p))
        )
        for p, start in enumerate(swept.sums.start)
    ]
    one = np.array([1.0, float(nominal.every_state)])
    out, inflation = found.copy(), np.ones(found.shape[0])
    for p in np.flatnonzero(found.any(axis=1)):  # not the reference, nor its ties
        both = np.concatenate([controls[p], controls[reference]])
        slopes, inflation[p] = fit_coefficients(found[p], both, np.r_[one, -one])
        out[p] -= slopes @ both
    return out, weights, inflation


def sweep_paired(
    policies: FloatArray, draws: Draws, *, pool: Pool, solver: str = "auto"
) -> Swept:
    """Sweep checked policies ``[P, S, A]`` for their differences."""
    return sweep_policies(policies, draws, pool, values_only=True, solver=solver)


def start_values(
    policy: FloatArray, draws: Draws, *, pool: Pool, solver: str = "auto"
) -> FloatArray:
    """Start value of a checked policy in every draw, ``[D]``; NaN if not solved."""
    how: Any = {"values_only": True, "control": False, "solver": solver}
    swept = sweep_policies(policy[None], draws, pool, **how)
    found = swept.sums.start[0, channels.START_VALUE]
    return np.where(swept.sums.ended[0] | (swept.sums.weights == 0), found, np.nan)


def moments(values: FloatArray, draws: Draws) -> tuple[float, float]:
    """Mean and epistemic standard deviation of start values ``[D]`` that are known."""
    solved = np.isfinite(values)
    size = Size(int(solved.sum()), draws.weights[solved], exact=True)
    mean = size.mean(values[solved])
    return float(mean), float(np.sqrt(size.mean((values[solved] - mean) ** 2)))
