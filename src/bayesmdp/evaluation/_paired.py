"""Differences between policies on the same draws.

Two good policies often differ by far less than either's value varies over draws, so
their difference is taken draw by draw, and freed of what the control variates of both
explain. Plain draws cannot tell such policies apart.
"""

from collections.abc import Sequence

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import Pool, channels
from bayesmdp.evaluation._control import ENOUGH, control_mean, regress
from bayesmdp.evaluation._evaluate import Swept, sweep_policies
from bayesmdp.posterior import Draws


def differences(swept: Swept, reference: int) -> tuple[FloatArray, FloatArray]:
    """Start value of each policy minus that of one of them, and the errors, ``[P]``."""
    start, weights = swept.sums.start, swept.sums.weights
    every = swept.sums.ended.all(axis=0)
    weights = weights[every] / weights[every].sum()
    values = start[:, channels.START_VALUE][:, every]
    gaps = values - values[reference]
    if swept.nominal.controls and every.all():
        gaps = _controlled(swept, gaps, reference)
    mean = gaps @ weights
    if swept.draws.exact:
        return mean, np.zeros(mean.size)
    variance = (gaps - mean[:, None]) ** 2 @ weights
    return mean, np.sqrt(variance / max(int(every.sum()) - 1, 1))


def _controlled(swept: Swept, gaps: FloatArray, reference: int) -> FloatArray:
    """Gaps ``[P, D]`` with the controls of both sides taken off."""
    start = swept.sums.start
    controls = np.stack(
        [start[:, channels.START_Y], start[:, channels.START_Z]], axis=1
    )
    for p in range(gaps.shape[0]):
        mean = control_mean(swept.problem, swept.nominal, p)
        controls[p, 1] -= swept.problem.rows.start @ mean
    out = gaps.copy()
    for p in _others(gaps.shape[0], reference):
        both = np.concatenate([controls[p], controls[reference]])
        second = float(swept.nominal.every_state)
        slopes = np.array([1.0, second, -1.0, -second])
        if gaps.shape[1] >= ENOUGH:
            slopes = regress(gaps[p], both)
        out[p] -= slopes @ both
    return out


def _others(n: int, reference: int) -> Sequence[int]:
    return [p for p in range(n) if p != reference]


def sweep_paired(
    policies: FloatArray, draws: Draws, *, pool: Pool, solver: str = "auto"
) -> Swept:
    """Sweep checked policies ``[P, S, A]`` for their differences."""
    return sweep_policies(
        policies, draws, values_only=True, solver=solver, pool=pool, progress=False
    )


def start_values(
    policy: FloatArray, draws: Draws, *, pool: Pool, solver: str = "auto"
) -> FloatArray:
    """Start value of a checked policy in every draw, ``[D]``; NaN if not solved."""
    swept = sweep_policies(
        policy[None],
        draws,
        values_only=True,
        control=False,
        solver=solver,
        pool=pool,
        progress=False,
    )
    found = swept.sums.start[0, channels.START_VALUE]
    return np.where(swept.sums.ended[0] | (swept.sums.weights == 0), found, np.nan)


def start_spread(
    policy: FloatArray, draws: Draws, *, pool: Pool, solver: str = "auto"
) -> float:
    """Epistemic standard deviation of a policy's start value; never quite 0."""
    values = start_values(policy, draws, pool=pool, solver=solver)
    solved = np.isfinite(values)
    values, weights = values[solved], draws.weights[solved]
    weights = weights / weights.sum()
    mean = weights @ values
    spread = float(np.sqrt(weights @ (values - mean) ** 2))
    return max(spread, 1e-12 * max(abs(float(mean)), 1e-300))
