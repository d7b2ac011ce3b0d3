"""What every prior can do, and which next states are possible.

A prior gives each pair a Dirichlet distribution over its next states. It answers for
the pairs it is asked about with `Rows` (which next states are possible) and one
concentration per entry. Where the set of possible next states is random, these stand
for means alone, and `OnSets` says the rest.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import argument
from bayesmdp._labelled import in_order
from bayesmdp._resources import check_room
from bayesmdp._typing import ArrayLike, FloatArray, IntArray
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

    ``widen``: there is a support that can be widened; ``add``: a fallback can be added.
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


#: Boolean ``[S, S]`` or ``[S, A, S]``, three columns, or None for every state.
Support: TypeAlias = ArrayLike | tuple[ArrayLike, ArrayLike, ArrayLike] | None
_GIVEN = 32  # bytes more for an entry of a support that is looked up


def checked_support(support: Support) -> Support:
    """Copy a support, so that a later change of the original does not matter."""
    if support is None:
        return None
    if isinstance(support, tuple):
        columns = [_checks.any_array("support", x, PriorError) for x in support]
        return tuple(_checks.sealed(x.copy()) for x in columns)
    support = in_order("support", support, ("state", "state"), PriorError)
    mask = _checks.any_array("support", support, PriorError)
    return _checks.sealed(mask.copy())


def support_rows(
    support: Support, pair: IntArray, task: Task, n_bytes: int = 52
) -> Rows:
    """Return every possible next state of sorted pairs ``[R]``; rows may be empty.

    ``n_bytes`` is what an entry takes at its worst: while rows are made, and later by
    the mean and the summary of a posterior, which everyone asks for.
    """
    if support is None:
        _check_whole(pair.size, task, n_bytes)
    length, next_state = _entries(support, pair, task, n_bytes + _GIVEN)
    return rows_from_entries(pair, length, next_state, task)


def support_lengths(support: Support, pair: IntArray, task: Task) -> IntArray:
    """Count the possible next states of each pair, ``[R]``."""
    if support is None:
        return np.full(pair.size, task.n_states)
    return _entries(support, pair, task)[0]


def _entries(
    support: Support, pair: IntArray, task: Task, n_bytes: int = _GIVEN
) -> tuple[IntArray, IntArray]:
    """Length of each row ``[R]``, and all next states in order.

    A given support is refused where so many bytes for each entry would not fit.
    """
    if support is None:
        length = np.full(pair.size, task.n_states)
        return length, np.tile(np.arange(task.n_states), pair.size)
    if isinstance(support, tuple):
        if len(support) != 3:
            raise PriorError(
                "`support` must be boolean or three columns (state, action, "
                f"next_state); got {len(support)} columns."
            )
        _check_given(np.size(support[0]), n_bytes)
        return _entries_of_triplets(pair, task, *support)
    mask = np.asarray(support)
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
    length = chosen.sum(axis=1)
    _check_given(int(length.sum()), n_bytes)
    return length, np.nonzero(chosen)[1]


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


def _check_whole(n_pairs: int, task: Task, n_bytes: int) -> None:
    """Refuse every next state of pairs where these do not fit."""
    n, needed = task.n_states, n_bytes * n_pairs * task.n_states
    check_room(
        needed,
        f"Every next state of {n_pairs} pairs takes",
        lambda there: (
            "use SparsePrior with a `fallback`, or give `support`; without, about "
            f"{int(n * (there / needed) ** 0.5)} states would fit"
        ),
    )


def _check_given(n_entries: int, n_bytes: int) -> None:
    """Refuse a support that does not fit."""
    check_room(
        n_bytes * n_entries,
        f"`support` allows {n_entries} transitions, which take",
        lambda there: (
            f"use SparsePrior with a `fallback`, or allow about {there // n_bytes}"
        ),
    )


def is_restricted(prior: object) -> bool:
    """Whether a prior, or the one it builds on, was given a support."""
    if not is_dataclass(prior):
        return False  # a user's own
    for field in fields(prior):
        value = getattr(prior, field.name)
        if field.name == "support" and value is not None:
            return True
        if isinstance(value, Prior) and is_restricted(value):
            return True
    return False
