"""Which next states are possible: how users say it, and how rows are made of it."""

from dataclasses import fields, is_dataclass
from typing import TypeAlias

import numpy as np

from bayesmdp import _checks
from bayesmdp._labelled import in_order
from bayesmdp._memory import check_room
from bayesmdp._typing import ArrayLike, IntArray
from bayesmdp.errors import PriorError
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import Prior, rows_from_entries

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
