"""The same concentration on every possible next state.

``theta[s, a, :] ~ Dirichlet(concentration, ..., concentration)`` over the support: all
states, or those the user knows to be possible (the four neighbours in the paper's
gridworld).
"""

from dataclasses import dataclass, field

import numpy as np

from bayesmdp import _checks
from bayesmdp._memory import available_bytes, gigabytes
from bayesmdp._typing import ArrayLike, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError, TooLargeError
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import checked_concentration, rows_from_entries


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
    support: ArrayLike | tuple[ArrayLike, ArrayLike, ArrayLike] | None = field(
        default=None, repr=False
    )

    def __post_init__(self) -> None:
        """Check the concentration."""
        checked = checked_concentration(self.concentration)
        object.__setattr__(self, "concentration", checked)
        if isinstance(self.support, tuple):
            columns = tuple(_checks.sealed(np.array(x)) for x in self.support)
            object.__setattr__(self, "support", columns)
        elif self.support is not None:
            mask = _checks.any_array("support", self.support, PriorError)
            object.__setattr__(self, "support", _checks.sealed(mask.copy()))

    @property
    def looks_at_data(self) -> bool:
        """Never: the support is fixed in advance."""
        return False

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        length, next_state = self._entries(pair, task)
        rows = rows_from_entries(pair, length, next_state, task)
        return rows, np.broadcast_to(self.concentration, next_state.shape)

    def _entries(self, pair: IntArray, task: Task) -> tuple[IntArray, IntArray]:
        """Length of each row ``[R]``, and all next states in order."""
        if self.support is None:
            _check_memory(pair.size, task.n_states)
            length = np.full(pair.size, task.n_states)
            return length, np.tile(np.arange(task.n_states), pair.size)
        if isinstance(self.support, tuple):
            if len(self.support) != 3:
                raise PriorError(
                    "`support` must be boolean or three columns (state, action, "
                    f"next_state); got {len(self.support)} columns."
                )
            return self._entries_of_triplets(pair, task, *self.support)
        mask = np.asarray(self.support)
        if mask.dtype != np.bool_:
            raise PriorError(
                "`support` must be boolean or three columns (state, action, "
                f"next_state); got dtype {mask.dtype}."
            )
        n_states, n_actions = task.n_states, task.n_actions
        if mask.shape == (n_states, n_states):
            chosen = mask[pair // n_actions]
        elif mask.shape == (n_states, n_actions, n_states):
            chosen = mask.reshape(-1, n_states)[pair]
        else:
            raise PriorError(
                f"`support` must have shape {(n_states, n_states)} or "
                f"{(n_states, n_actions, n_states)}; got {mask.shape}."
            )
        return chosen.sum(axis=1), np.nonzero(chosen)[1]

    @staticmethod
    def _entries_of_triplets(
        pair: IntArray,
        task: Task,
        state: ArrayLike,
        action: ArrayLike,
        next_state: ArrayLike,
    ) -> tuple[IntArray, IntArray]:
        n_states, n_actions = task.n_states, task.n_actions
        columns = _checks.triplets(
            state, action, next_state, n_states, n_actions, PriorError, of="support "
        )
        _checks.same_length(columns, PriorError, "`support` columns")
        s, a, t = columns.values()
        key = np.unique((s * n_actions + a) * n_states + t)
        found, target = np.divmod(key, n_states)
        wanted = np.isin(found, pair)
        row = np.searchsorted(pair, found[wanted])
        return np.bincount(row, minlength=pair.size), target[wanted]


def _check_memory(n_pairs: int, n_states: int) -> None:
    """Refuse rows that do not fit: a next state and a concentration an entry, twice."""
    needed, there = 24 * n_pairs * n_states, available_bytes()
    if needed > there:
        raise TooLargeError(
            f"Every next state of {n_pairs} pairs takes {gigabytes(needed)} of memory, "
            f"and {gigabytes(there)} are free; use SparsePrior(), or give `support`."
        )
