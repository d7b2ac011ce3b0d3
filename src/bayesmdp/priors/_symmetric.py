"""The same concentration on every possible next state.

``theta[s, a, :] ~ Dirichlet(concentration, ..., concentration)`` over the support: all
states, or those the user knows to be possible (the four neighbours in the paper's
gridworld).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import (
    Support,
    checked_concentration,
    checked_support,
    support_rows,
)


@dataclass(frozen=True, eq=False)
class SymmetricPrior:
    """Dirichlet with equal parameters on the states that are possible.

    Parameters
    ----------
    concentration
        Pseudo-count of every possible next state, above 0; 1 is the flat prior.
    support
        Which next states are possible: boolean ``[S, S]`` (the same for all
        actions) or ``[S, A, S]``, or three columns (state, action, next_state);
        everything where not given.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.SymmetricPrior(0.5)
    SymmetricPrior(concentration=0.5)
    """

    concentration: float = 1.0
    support: Support = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check the concentration."""
        checked = checked_concentration(self.concentration)
        object.__setattr__(self, "concentration", checked)
        object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Never: the support is fixed in advance."""
        return False

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        rows = support_rows(self.support, pair, task)
        return rows, np.broadcast_to(self.concentration, rows.next_state.shape)
