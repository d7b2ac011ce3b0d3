"""What every prior can do.

A prior gives each pair a Dirichlet distribution over its next states. It answers for
the pairs it is asked about with `Rows` (which next states are possible) and one
concentration per entry. Where the set of possible next states is random, these stand
for means alone, and `OnSets` says the rest.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from bayesmdp import _checks
from bayesmdp._arguments import argument
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Rows, Task

LEAST = 1e-300  # the smallest concentration whose logarithm is not lost
MOST = 1e100  # sums, and the powers that logarithms are expanded in, stay finite


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


def check_rows(
    rows: Rows, task: Task, counts: Counts, *, widen: bool, add: bool = True
) -> None:
    """Refuse rows without a next state, with remedies that work.

    Parameters
    ----------
    rows, task, counts
        What was asked for, and from which data.
    widen
        Whether there is a support, so that it can be widened.
    add
        Whether a fallback can be added to such rows.
    """
    empty = rows.pair[np.diff(rows.indptr) == 0]
    if not empty.size:
        return
    remedies = ["widen the support"] * widen
    remedies += [f"add a next state, {argument('fallback')}"] * add
    # A state that was visited can do without the pairs that were not; another cannot.
    visited = np.isin(empty, counts.state * task.n_actions + counts.action).any()
    if np.isin(empty // task.n_actions, counts.state).all() and not visited:
        least = argument("min_count", 1)
        remedies.append(f"leave out pairs that were never visited, {least}")
    where = task.pair_name(*divmod(int(empty[0]), task.n_actions))
    raise PriorError(
        f"The prior allows no next state for {where}: "
        f"{', or '.join(remedies) or 'take another prior'}."
    )


def rows_of(
    prior: Prior, pair: IntArray, counts: Counts, task: Task
) -> tuple[Rows, FloatArray]:
    """Ask a prior about sorted pairs ``[R]``; what one of a user says is checked."""
    answer = prior.concentrations(pair, counts, task)
    if type(prior).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return answer
    return _checked(f"{type(prior).__name__}.concentrations", answer, pair, task)


def _checked(
    who: str, answer: object, pair: IntArray, task: Task
) -> tuple[Rows, FloatArray]:
    """Refuse rows that are none, and concentrations that cannot be sampled."""
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise PriorError(
            f"`{who}` must return Rows and an array of concentrations; got "
            f"{type(answer).__name__}."
        )
    rows, given = answer
    _checks.of_type(f"{who}[0]", rows, Rows, PriorError)
    _check_rows_of(who, rows, pair, task)
    shape = rows.next_state.shape
    alpha = _checks.float_array(f"{who}[1]", given, ("entry",), PriorError, shape)
    outside = (alpha < LEAST) | (alpha > MOST)
    if outside.any():
        entry = int(np.argmax(outside))
        row = int(rows.row_of_entry[entry])
        raise PriorError(
            f"`{who}[1]` must be in [{LEAST:g}, {MOST:g}]: "
            f"{task.pair_name(*divmod(int(pair[row]), task.n_actions))}, next state "
            f"{task.state_name(rows.next_state[entry])} has {alpha[entry]:g}; leave "
            "out next states that are not possible."
        )
    return rows, alpha


def _check_rows_of(who: str, rows: Rows, pair: IntArray, task: Task) -> None:
    sizes, wanted = (rows.n_states, rows.n_actions), (task.n_states, task.n_actions)
    if sizes != wanted or not np.array_equal(rows.pair, pair):
        raise PriorError(
            f"`{who}[0]` must have a row for each of the {pair.size} pairs that it is "
            f"asked for, in their order, of {wanted[0]} states and {wanted[1]} actions."
        )
    ends = _checks.index_array("indptr", rows.indptr, PriorError)
    right = ends.size == pair.size + 1 and ends[0] == 0 and (np.diff(ends) >= 0).all()
    if not right or ends[-1] != rows.next_state.size:
        raise PriorError(
            f"`{who}[0]` must have `indptr` [R + 1] that rises from 0 to the number of "
            f"entries, {rows.next_state.size}."
        )
    to = _checks.index_array(
        "next_state", rows.next_state, PriorError, task.n_states, "entry"
    )
    falls = np.flatnonzero(to[1:] <= to[:-1]) + 1
    falls = falls[~np.isin(falls, ends)]
    if falls.size:
        row = int(np.searchsorted(ends, falls[0], side="right")) - 1
        raise PriorError(
            f"`{who}[0]` must list next states in rising order, each once: in the row "
            f"of {task.pair_name(*divmod(int(pair[row]), task.n_actions))}, "
            f"{to[falls[0]]} comes after {to[falls[0] - 1]}."
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
            "out; widen the support, or leave these transitions out."
        )
    return row, entry
