"""How often each (state, action, next state) was observed, as sparse triplets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import many
from bayesmdp._typing import ArrayLike, IntArray
from bayesmdp.errors import CountsError


@dataclass(frozen=True, eq=False)
class Counts:
    """Observed transitions, counted; triplets sorted, distinct, all positive.

    Build one with `from_dense` or `from_arrays`. Counts add up with ``+``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> counts = bm.Counts.from_arrays([0, 0, 1], [0, 0, 0], [1, 1, 0])
    >>> counts.total, counts.count.tolist()
    (3, [2, 1])
    >>> (counts + counts).total
    6
    """

    state: IntArray  # [K]
    action: IntArray  # [K]
    next_state: IntArray  # [K]
    count: IntArray  # [K]
    n_states: int
    n_actions: int
    sized: tuple[bool, bool]  # which sizes were given, not read off the largest ids

    @classmethod
    def from_dense(cls, array: ArrayLike) -> Counts:
        """Read an array ``[S, A, S]`` of counts.

        Parameters
        ----------
        array
            Whole numbers of zero or more, axes (state, action, next_state).

        Examples
        --------
        >>> import numpy as np, bayesmdp as bm
        >>> bm.Counts.from_dense(np.ones((2, 1, 2))).total
        4
        """
        dense = _checks.any_array("array", array, CountsError)
        if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
            raise CountsError(
                "`array` must have shape (n_states, n_actions, n_states); "
                f"got {dense.shape}."
            )
        whole = _checks.whole_numbers("array", dense, CountsError)
        if (whole < 0).any():
            where = _checks.first_true(whole < 0)
            at = _checks.place(where, ("state", "action", "next_state"))
            raise CountsError(f"`array` must be 0 or more: {at} is {whole[where]}.")
        state, action, next_state = np.nonzero(whole)
        return cls.from_arrays(
            state,
            action,
            next_state,
            whole[state, action, next_state],
            n_states=dense.shape[0],
            n_actions=dense.shape[1],
        )

    @classmethod
    def from_arrays(
        cls,
        state: ArrayLike,
        action: ArrayLike,
        next_state: ArrayLike,
        count: ArrayLike | None = None,
        *,
        n_states: int | None = None,
        n_actions: int | None = None,
    ) -> Counts:
        """Count triplets; the same triplet may stand in several rows.

        Parameters
        ----------
        state, action, next_state
            Ids from 0, one a row.
        count
            How often each row was observed, whole numbers; 1 where not given.
        n_states, n_actions
            Sizes; where not given, a task larger than the largest id is welcome.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.Counts.from_arrays([0], [1], [0], [5], n_states=3, n_actions=2).total
        5
        """
        n_states = _checks.size_or_none("n_states", n_states, CountsError)
        n_actions = _checks.size_or_none("n_actions", n_actions, CountsError)
        columns = _checks.triplets(
            state, action, next_state, n_states, n_actions, CountsError
        )
        if count is not None:
            columns["count"] = _checks.index_array("count", count, CountsError)
        _checks.same_length(columns, CountsError)
        return cls._from_checked(
            *columns.values(), n_states=n_states, n_actions=n_actions
        )

    @classmethod
    def _from_checked(
        cls,
        state: IntArray,
        action: IntArray,
        next_state: IntArray,
        count: IntArray | None = None,
        *,
        n_states: int | None,
        n_actions: int | None,
    ) -> Counts:
        """Sort, merge equal triplets and drop zeros."""
        sized = n_states is not None, n_actions is not None
        keys = Keys.of(state, action, next_state, n_states, n_actions)
        unique, total = _totals(keys, count)
        s, a, t = (_checks.sealed(x) for x in keys.unpacked(unique))
        return cls(s, a, t, _checks.sealed(total), keys.n_states, keys.n_actions, sized)

    @property
    def total(self) -> int:
        """Number of transitions."""
        return int(self.count.sum())

    def pair_totals(self, n_states: int, n_actions: int) -> IntArray:
        """Visits of each pair, ``[S, A]``, for sizes at least this record's own."""
        totals = np.zeros((n_states, n_actions), dtype=np.int64)
        np.add.at(totals, (self.state, self.action), self.count)
        return totals

    def to_dense(self) -> IntArray:
        """Return the counts as an array ``[S, A, S]``."""
        shape = (self.n_states, self.n_actions, self.n_states)
        dense = np.zeros(shape, dtype=np.int64)
        dense[self.state, self.action, self.next_state] = self.count
        return dense

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        joint = Counts._from_checked(
            *(
                np.concatenate([getattr(self, name), getattr(other, name)])
                for name in ("state", "action", "next_state", "count")
            ),
            n_states=_joint_size("n_states", 0, self, other),
            n_actions=_joint_size("n_actions", 1, self, other),
        )
        sized = self.sized[0] or other.sized[0], self.sized[1] or other.sized[1]
        return replace(joint, sized=sized)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("state", "action", "next_state", "count")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Counts({many(self.total, 'transition')}, {self.count.size} distinct, "
            f"{many(self.n_states, 'state')}, {many(self.n_actions, 'action')})"
        )


@dataclass(frozen=True, eq=False)
class Keys:
    """Triplets as one number each, which sorts as they do."""

    key: IntArray  # [N], (state * n_actions + action) * n_states + next_state
    n_states: int
    n_actions: int

    @classmethod
    def of(
        cls,
        state: IntArray,
        action: IntArray,
        next_state: IntArray,
        n_states: int | None,
        n_actions: int | None,
    ) -> Keys:
        """Pack columns that were checked; sizes default to what the ids need."""
        if n_states is None:
            n_states = int(max(state.max(), next_state.max())) + 1 if state.size else 0
        if n_actions is None:
            n_actions = int(action.max()) + 1 if action.size else 0
        if n_states**2 * n_actions >= 2**63:
            raise CountsError(
                f"`n_states` and `n_actions` are too large to index, {n_states} and "
                f"{n_actions}: number both from 0 without gaps."
            )
        key = state * n_actions
        key += action
        key *= n_states
        key += next_state
        return cls(key, n_states, n_actions)

    @property
    def few(self) -> bool:
        """Whether a table of every possible key is no larger than the rows."""
        return self.n_states**2 * self.n_actions <= 4 * self.key.size

    def unpacked(self, key: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return state, action and next state of some keys."""
        pair, next_state = np.divmod(key, max(self.n_states, 1))
        state, action = np.divmod(pair, max(self.n_actions, 1))
        return state, action, next_state

    def distinct(self) -> tuple[IntArray, IntArray]:
        """Return the distinct keys, sorted, and which of them each row has."""
        if not self.few:
            return np.unique(self.key, return_inverse=True)
        unique = np.flatnonzero(np.bincount(self.key))
        number = np.empty(self.n_states**2 * self.n_actions, dtype=np.int64)
        number[unique] = np.arange(unique.size)
        return unique, number[self.key]


def _totals(keys: Keys, count: IntArray | None) -> tuple[IntArray, IntArray]:
    """Return the distinct keys that were observed, sorted, and how often."""
    if count is None and keys.few:
        total = np.bincount(keys.key)
        unique = np.flatnonzero(total)
        return unique, total[unique]
    if count is None:
        return np.unique(keys.key, return_counts=True)
    if count.sum(dtype=np.float64) >= 2.0**62:
        raise CountsError("`count` is too large to add up: 2**62 or more in all.")
    unique, number = keys.distinct()
    total = np.zeros(unique.size, dtype=np.int64)
    np.add.at(total, number, count)
    return unique[total > 0], total[total > 0]


def _joint_size(name: str, axis: int, first: Counts, second: Counts) -> int:
    """Size of a sum: sizes that were stated must agree, inferred ones must fit."""
    n, m = getattr(first, name), getattr(second, name)
    if (first.sized[axis] and m > n) or (second.sized[axis] and n > m):
        raise CountsError(f"Counts of different `{name}` cannot be added: {n} and {m}.")
    return int(max(n, m))
