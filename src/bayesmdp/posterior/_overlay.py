"""Rows of several models laid over each other.

A row then lists every next state that some model allows, and a table holds what each
model has for it: 0 where it rules the next state out.
"""

from collections.abc import Sequence

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.model import Rows


def overlay(
    parts: Sequence[tuple[Rows, FloatArray]], pair: IntArray
) -> tuple[Rows, FloatArray]:
    """Join rows of the given pairs ``[R]``; what each part has, ``[M, E]``.

    Parts are rows with a number an entry, above 0 where the entry is possible.
    """
    if _alike(parts, pair):
        return parts[0][0], _checks.sealed(np.stack([values for _, values in parts]))
    rows = _union(parts, pair)
    return rows, _checks.sealed(np.stack([spread(*part, rows) for part in parts]))


def _alike(parts: Sequence[tuple[Rows, FloatArray]], pair: IntArray) -> bool:
    """Whether all parts have the same rows, those asked for, and no zeros."""
    first = parts[0][0]
    return np.array_equal(first.pair, pair) and all(
        np.array_equal(rows.pair, pair)
        and np.array_equal(rows.indptr, first.indptr)
        and np.array_equal(rows.next_state, first.next_state)
        and bool((values > 0).all())
        for rows, values in parts
    )


def _union(parts: Sequence[tuple[Rows, FloatArray]], pair: IntArray) -> Rows:
    """Rows of the given pairs with every next state some part allows."""
    n_states, n_actions = parts[0][0].n_states, parts[0][0].n_actions
    keys = []
    for rows, values in parts:
        entry_pair = rows.pair[rows.row_of_entry]
        wanted = np.isin(entry_pair, pair) & (values > 0)
        keys.append(entry_pair[wanted] * n_states + rows.next_state[wanted])
    found, next_state = np.divmod(np.unique(np.concatenate(keys)), n_states)
    length = np.bincount(np.searchsorted(pair, found), minlength=pair.size)
    return Rows(
        n_states,
        n_actions,
        _checks.sealed(pair),
        _checks.sealed(np.concatenate([[0], np.cumsum(length)])),
        _checks.sealed(next_state),
    )


def spread(rows: Rows, values: FloatArray, wide: Rows) -> FloatArray:
    """Values of the entries of rows at those of wider rows, ``[E]``; 0 elsewhere."""
    row = rows.row_of_entry
    _, entry = wide.find(rows.state[row], rows.action[row], rows.next_state)
    out = np.zeros(wide.next_state.size)
    out[entry[entry >= 0]] = values[entry >= 0]
    return out
