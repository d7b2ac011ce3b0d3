"""What the sums of a sweep say about each policy."""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import Nominal, Problem, Sums, channels
from bayesmdp.errors import EndlessError
from bayesmdp.evaluation._control import Control, fit_control
from bayesmdp.evaluation._moments import Estimates, estimates, start_estimates


@dataclass(frozen=True, eq=False)
class Measured:
    """Results of one policy in arrays, states in their own order."""

    start: Estimates
    states: Estimates  # of [S]
    occupancy: FloatArray  # [S]
    occupancy_error: FloatArray  # [S]
    start_values: FloatArray  # [D], NaN where a draw's chain does not end
    n_endless: int
    control: Control | None


def measure(problem: Problem, nominal: Nominal, sums: Sums, p: int = 0) -> Measured:
    """Turn the sums of policy ``p`` into estimates."""
    ended = sums.ended[p]
    n = int(ended.sum())
    if n < 2:
        raise EndlessError(
            f"With discount 1 only {n} of {ended.size} draws end within rounding; "
            "use a discount below 1."
        )
    start = sums.start[p][:, ended]
    control = None
    if nominal.controls and n == ended.size:  # leaving draws out shifts their means
        control = fit_control(problem, nominal, p, start)
    state_sums = np.empty_like(sums.state[p])
    state_sums[:, problem.order] = sums.state[p]
    reference = np.empty((3, problem.start.size))
    reference[:, problem.order] = nominal.reference[:, p]
    states = estimates(
        state_sums, n, reference[:2], control and control.in_order(problem.order)
    )
    states.value[:] += problem.task.terminal_value
    occupancy = state_sums[channels.D] / n
    spread = np.maximum(state_sums[channels.DD] / n - occupancy**2, 0.0)
    return Measured(
        start=start_estimates(start, control),
        states=states,
        occupancy=occupancy + reference[2],
        occupancy_error=np.sqrt(spread / (n - 1)),
        start_values=np.where(ended, sums.start[p, channels.START_VALUE], np.nan),
        n_endless=ended.size - n,
        control=control,
    )
