"""Random sets of next states, in the form samplers read; see `bayesmdp.priors.Sets`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.model import Rows
from bayesmdp.posterior._overlay import spread
from bayesmdp.priors import Sets


class SetTable(NamedTuple):
    """Sets of every component's rows; all arrays are empty where rows have none."""

    group: IntArray  # [C, R], -1 where a component has Dirichlet rows
    shape: FloatArray  # [C, E], of entries that are possible for sure, 0 of others
    start: IntArray  # [G + 1], where the table of a group starts
    cumulative: FloatArray  # [T], probability of at most so many unseen states
    concentration: FloatArray  # [C], of an unseen state that is possible
    lump: IntArray  # [C, R], entry in its row that takes all unseen mass, or -1

    def of_rows(self, row: IntArray, entries: IntArray | slice) -> "SetTable":
        """Keep some rows ``[R]``, and their entries."""
        if self.group.shape[0] == 0:
            return self
        return self._replace(
            group=np.ascontiguousarray(self.group[:, row]),
            shape=np.ascontiguousarray(self.shape[:, entries]),
            lump=np.ascontiguousarray(self.lump[:, row]),
        )


def no_sets() -> SetTable:
    """Return the table of rows that have none."""
    nothing, none = np.empty((0, 0), dtype=np.int64), np.empty(0)
    return SetTable(
        nothing, np.empty((0, 0)), np.zeros(1, np.int64), none, none, nothing
    )


def set_table(
    parts: Sequence[tuple[Rows, FloatArray, Sets | None]], wide: Rows
) -> SetTable:
    """Lay the sets of components over rows of the same pairs that hold all of theirs.

    A part is the rows of a component, its Dirichlet parameters ``[E]``, and its sets.
    """
    found = [sets for _, _, sets in parts if sets is not None]
    if not found:
        return no_sets()
    n_rows, n_groups, n_values = wide.pair.size, 0, 0
    group, shape, start, lump = [], [], [np.zeros(1, dtype=np.int64)], []
    for rows, alpha, sets in parts:
        own = alpha if sets is None else sets.shape
        shape.append(own if rows is wide else spread(rows, own, wide))
        at = np.full(n_rows, -1)
        if sets is None:
            group.append(at)
        else:
            group.append(n_groups + sets.group)
            start.append(n_values + sets.start[1:])
            n_groups += sets.start.size - 1
            n_values += sets.cumulative.size
            if sets.fallback >= 0:
                at = np.flatnonzero(wide.next_state == sets.fallback) - wide.indptr[:-1]
        lump.append(at)
    each = [0.0 if sets is None else sets.concentration for _, _, sets in parts]
    return SetTable(
        _checks.sealed(np.stack(group)),
        _checks.sealed(shape[0][None] if len(shape) == 1 else np.stack(shape)),
        _checks.sealed(np.concatenate(start)),
        _checks.sealed(np.concatenate([sets.cumulative for sets in found])),
        _checks.sealed(np.array(each)),
        _checks.sealed(np.stack(lump)),
    )
