"""What the sums of a sweep say about each policy."""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.engine import Nominal, Problem, Sums, channels
from bayesmdp.errors import ConvergenceError, EndlessError
from bayesmdp.evaluation._control import Control, fit_control
from bayesmdp.evaluation._errors import Estimates, Size
from bayesmdp.evaluation._moments import (
    estimates,
    estimates_of_values,
    start_estimates,
)


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
    occupancy = state_sums[channels.D] / size.weights.sum()
    spread = np.maximum(
        state_sums[channels.DD] / size.weights.sum() - occupancy**2, 0.0
    )
    return Measured(
        start=from_start,
        states=states,
        occupancy=occupancy + reference[2],
        occupancy_error=np.sqrt(spread / max(n - 1, 1)) * (not exact),
        start_values=np.where(ended, sums.start[p, channels.START_VALUE], np.nan),
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
