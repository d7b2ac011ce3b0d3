"""Which next states are possible: how users say it, and how rows are made of it."""

from dataclasses import fields, is_dataclass
from typing import TypeAlias

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._memory import available_bytes, gigabytes
from bayesmdp._typing import ArrayLike, IntArray
from bayesmdp.errors import PriorError, TooLargeError
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import Prior, rows_from_entries

#: Boolean ``[S, S]`` or ``[S, A, S]``, three columns, or None for every state.
Support: TypeAlias = ArrayLike | tuple[ArrayLike, ArrayLike, ArrayLike] | None


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
    support: Support, pair: IntArray, task: Task, n_bytes: int = 24
) -> Rows:
    """Return every possible next state of sorted pairs ``[R]``; rows may be empty.

    ``n_bytes`` is what the caller needs for an entry at its worst, the copy that `fit`
    makes included.
    """
    if support is None:
        _check_memory(pair.size, task.n_states, n_bytes)
    length, next_state = _entries(support, pair, task)
    return rows_from_entries(pair, length, next_state, task)


def support_lengths(support: Support, pair: IntArray, task: Task) -> IntArray:
    """Count the possible next states of each pair, ``[R]``."""
    if support is None:
        return np.full(pair.size, task.n_states)
    return _entries(support, pair, task)[0]


def _entries(support: Support, pair: IntArray, task: Task) -> tuple[IntArray, IntArray]:
    """Length of each row ``[R]``, and all next states in order."""
    if support is None:
        length = np.full(pair.size, task.n_states)
        return length, np.tile(np.arange(task.n_states), pair.size)
    if isinstance(support, tuple):
        if len(support) != 3:
            raise PriorError(
                "`support` must be boolean or three columns (state, action, "
                f"next_state); got {len(support)} columns."
            )
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
    return chosen.sum(axis=1), np.nonzero(chosen)[1]


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


def _check_memory(n_pairs: int, n_states: int, n_bytes: int) -> None:
    """Refuse rows that do not fit."""
    needed, there = n_bytes * n_pairs * n_states, available_bytes()
    if needed > there:
        raise TooLargeError(
            f"Every next state of {n_pairs} pairs takes {gigabytes(needed)} of memory, "
            f"and {gigabytes(there)} are free; use SparsePrior(), or give `support`."
        )


def is_restricted(prior: Prior) -> bool:
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
