"""What every prior can do.

A prior gives each pair a Dirichlet distribution over its next states. It answers for
the pairs it is asked about with `Rows` (which next states are possible) and one
concentration an entry.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Rows, Task

_LEAST = 1e-300


@runtime_checkable
class Prior(Protocol):
    """The contract of a prior."""

    @property
    def looks_at_data(self) -> bool:
        """Whether the support depends on the counts; evidence then has no meaning."""

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""


def checked_concentration(value: object) -> float:
    """Check a concentration: above 0, and not so small that its logarithm is lost."""
    checked = _checks.real("concentration", value, PriorError, 0, open_low=True)
    if checked < _LEAST:
        raise PriorError(
            f"`concentration` must be at least {_LEAST:g}; got {checked:g}, which "
            "cannot be sampled."
        )
    return checked


def rows_from_entries(
    pair: IntArray, length: IntArray, next_state: IntArray, task: Task
) -> Rows:
    """Build rows of given lengths from their next states; none may be empty."""
    if pair.size and length.min() == 0:
        empty = int(pair[np.argmin(length)])
        where = task.pair_name(*divmod(empty, task.n_actions))
        raise PriorError(
            f"The prior's support is empty for {where}: no next state is possible. "
            "Widen the support, give a fallback, or raise `min_count`."
        )
    indptr = np.concatenate([[0], np.cumsum(length)])
    return Rows(
        task.n_states,
        task.n_actions,
        _checks.sealed(np.array(pair, dtype=np.int64)),
        _checks.sealed(indptr.astype(np.int64)),
        _checks.sealed(next_state.astype(np.int64, copy=False)),
    )
