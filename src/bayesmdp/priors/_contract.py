"""What every prior can do.

A prior gives each pair a Dirichlet distribution over its next states. It answers for
the pairs it is asked about with `Rows` (which next states are possible) and one
concentration an entry. Where it doubts which next states are possible, these stand for
means alone, and `OnSets` says the rest.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Rows, Task

LEAST = 1e-300  # the smallest concentration whose logarithm is not lost
MOST = 1e100  # sums, and the powers that logarithms are expanded in, stay finite


#: What to do about rows without a next state; where a fallback helps, and where not.
EMPTY = "widen the support, give a fallback, or raise `min_count`"
TOO_NARROW = "widen the support, or raise `min_count`"


@runtime_checkable
class Prior(Protocol):
    """The contract of a prior."""

    @property
    def looks_at_data(self) -> bool:
        """Whether the rows are made from the data; evidence then has no meaning."""

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""


@runtime_checkable
class OwnEvidence(Protocol):
    """A prior whose rows are not Dirichlet before the data, but which has evidence."""

    def log_evidence(self, pair: IntArray, counts: Counts, task: Task) -> float:
        """Log probability of the counts of sorted pairs ``[R]``."""


@runtime_checkable
class Tuned(Protocol):
    """A prior that chooses a number by looking at the data."""

    def tuned(self, pair: IntArray, counts: Counts, task: Task) -> Prior:
        """Return the prior with the number it chooses; itself if there is none."""


def tuned(prior: Prior, pair: IntArray, counts: Counts, task: Task) -> Prior:
    """Return a prior with every number chosen; itself if there is none to choose."""
    return prior.tuned(pair, counts, task) if isinstance(prior, Tuned) else prior


def checked_concentration(value: object, name: str = "concentration") -> float:
    """Check a concentration: above 0, and neither too small nor too large to use."""
    checked = _checks.real(name, value, PriorError, 0, open_low=True)
    if checked < LEAST:
        raise PriorError(
            f"`{name}` must be at least {LEAST:g}; got {checked:g}, which cannot be "
            "sampled."
        )
    if checked > MOST:
        raise PriorError(
            f"`{name}` must be at most {MOST:g}; got {checked:g}, which cannot be "
            "summed."
        )
    return checked


def counted(
    pair: IntArray, counts: Counts, task: Task
) -> tuple[IntArray, IntArray, IntArray]:
    """Row, next state and count of every triplet ``[K]`` that has one of the pairs."""
    seen = counts.state * task.n_actions + counts.action
    wanted = np.isin(seen, pair)
    row = np.searchsorted(pair, seen[wanted])
    return row, counts.next_state[wanted], counts.count[wanted]


def rows_from_entries(
    pair: IntArray, length: IntArray, next_state: IntArray, task: Task
) -> Rows:
    """Build rows of given lengths from their next states."""
    indptr = np.concatenate([[0], np.cumsum(length)])
    return Rows(
        task.n_states,
        task.n_actions,
        _checks.sealed(np.array(pair, dtype=np.int64)),
        _checks.sealed(indptr.astype(np.int64)),
        _checks.sealed(next_state.astype(np.int64, copy=False)),
    )


def rows_from_keys(pair: IntArray, key: IntArray, task: Task) -> Rows:
    """Build rows from sorted keys, ``row * n_states + next_state``."""
    row, next_state = np.divmod(key, task.n_states)
    length = np.bincount(row, minlength=pair.size)
    return rows_from_entries(pair, length, next_state, task)


def including(rows: Rows, state: int, task: Task) -> tuple[Rows, IntArray]:
    """Add a next state to rows that lack it; where their entries were inserted."""
    everywhere = np.full(rows.pair.size, state)
    _, entry = rows.find(rows.state, rows.action, everywhere)
    missing = np.flatnonzero(entry < 0)
    if missing.size == 0:
        return rows, missing
    key = rows.row_of_entry * task.n_states + rows.next_state
    new = missing * task.n_states + state
    at = np.searchsorted(key, new)
    return rows_from_keys(rows.pair, np.insert(key, at, new), task), at


def check_rows(rows: Rows, task: Task, remedy: str = EMPTY) -> None:
    """Refuse rows without a next state."""
    length = np.diff(rows.indptr)
    if length.size and length.min() == 0:
        empty = int(rows.pair[np.argmin(length)])
        where = task.pair_name(*divmod(empty, task.n_actions))
        raise PriorError(
            f"The prior's support is empty for {where}: no next state is possible; "
            f"{remedy}."
        )


def locate(rows: Rows, counts: Counts, task: Task) -> tuple[IntArray, IntArray]:
    """Row and entry of each triplet ``[K]``, -1 without; refuse one ruled out."""
    row, entry = rows.find(counts.state, counts.action, counts.next_state)
    outside = (row >= 0) & (entry < 0)
    if outside.any():
        i = int(np.argmax(outside))
        n = int(counts.count[i])
        raise PriorError(
            f"`data` has {n} transition{'' if n == 1 else 's'} from "
            f"{task.pair_name(counts.state[i], counts.action[i])} to next state "
            f"{task.state_name(counts.next_state[i])}, which the prior's support rules "
            "out; widen the support or mend the data."
        )
    return row, entry
