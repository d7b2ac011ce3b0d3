"""Rows of several models laid over each other.

A row then lists every next state that some model allows; what a model rules out has the
value 0 there.
"""

from collections.abc import Sequence

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.model import Rows


def union(layouts: Sequence[Rows]) -> Rows:
    """Return rows of the same pairs with every next state that some layout allows."""
    first = layouts[0]
    if all(_alike(first, other) for other in layouts[1:]):
        return first
    keys = [x.row_of_entry * x.n_states + x.next_state for x in layouts]
    row, next_state = np.divmod(np.unique(np.concatenate(keys)), first.n_states)
    length = np.bincount(row, minlength=first.pair.size)
    return Rows(
        first.n_states,
        first.n_actions,
        first.pair,
        _checks.sealed(np.concatenate([[0], np.cumsum(length)])),
        _checks.sealed(next_state),
    )


def _alike(one: Rows, other: Rows) -> bool:
    return one is other or (
        np.array_equal(one.pair, other.pair)
        and np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.next_state, other.next_state)
    )


def place(rows: Rows, wide: Rows) -> IntArray | slice:
    """Entry of wider rows of the same pairs at which each entry stands, ``[E]``."""
    if _alike(rows, wide):
        return slice(None)
    row = rows.row_of_entry
    return wide.find(rows.state[row], rows.action[row], rows.next_state)[1]


def spread(rows: Rows, values: FloatArray, wide: Rows) -> FloatArray:
    """Values of the entries of rows at those of wider rows, ``[E]``; 0 elsewhere."""
    out = np.zeros(wide.next_state.size)
    out[place(rows, wide)] = values
    return out
