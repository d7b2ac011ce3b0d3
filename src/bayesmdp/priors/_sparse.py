"""Only next states that were observed, and a bad one as a fallback.

The paper's conservative model of clinical data (section 5.3): the support of a pair is
what was observed after it plus the fallback (death), each with the same concentration.
A pair that was once observed to lead to recovery is then not certain to do so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import (
    checked_concentration,
    counted,
    rows_from_keys,
)


@dataclass(frozen=True)
class SparsePrior:
    """Dirichlet on the observed next states and a fallback.

    Its support looks at the data, so it is not a prior in the strict sense, and model
    evidence has no meaning for it.

    Parameters
    ----------
    concentration
        Pseudo-count of every possible next state, above 0.
    fallback
        State (or its label) that is always possible, such as death; None for
        observed next states alone.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.SparsePrior(fallback="death")
    SparsePrior(concentration=1.0, fallback='death')
    """

    concentration: float = 1.0
    fallback: Name | None = None

    def __post_init__(self) -> None:
        """Check the concentration; the fallback is checked against the task."""
        checked = checked_concentration(self.concentration)
        object.__setattr__(self, "concentration", checked)

    @property
    def looks_at_data(self) -> bool:
        """Always: the support is what was observed."""
        return True

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        row, next_state, _ = counted(pair, counts, task)
        key = row * task.n_states + next_state
        if self.fallback is not None:
            fallback = np.arange(pair.size) * task.n_states + task.state(
                self.fallback, "fallback"
            )
            key = np.union1d(key, fallback)
        rows = rows_from_keys(pair, key, task)
        return rows, np.broadcast_to(self.concentration, rows.next_state.shape)
