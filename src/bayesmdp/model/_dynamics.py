"""Ragged rows: the only form of a model.

A row belongs to one pair (state, action) and lists the next states it may lead to.
`Rows` says which; `Dynamics` adds their probabilities. A pair without a row is not
available.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray
from bayesmdp.errors import ArgumentError, DynamicsError

_AT_ONCE = 1_000_000  # look-ups made together, so that their arrays stay small


@dataclass(frozen=True, eq=False)
class Rows:
    """Possible next states of each pair, rows and next states in rising order."""

    n_states: int
    n_actions: int
    pair: IntArray  # [R], state * n_actions + action
    indptr: IntArray  # [R + 1]
    next_state: IntArray  # [E]

    @classmethod
    def of_keys(cls, key: IntArray, n_states: int, n_actions: int) -> Rows:
        """Rows of entries ``pair * n_states + next_state``, rising, each once."""
        pair, length = np.unique(key // n_states, return_counts=True)
        indptr = np.concatenate([[0], np.cumsum(length)])
        columns = map(_checks.sealed, (pair, indptr, key % n_states))
        return cls(n_states, n_actions, *columns)

    @cached_property
    def state(self) -> IntArray:
        """State of each row, ``[R]``."""
        return _checks.sealed(self.pair // self.n_actions)

    @cached_property
    def action(self) -> IntArray:
        """Action of each row, ``[R]``."""
        return _checks.sealed(self.pair % self.n_actions)

    @cached_property
    def available(self) -> BoolArray:
        """Which pairs have a row, ``[S, A]``."""
        mask = np.zeros(self.n_states * self.n_actions, dtype=np.bool_)
        mask[self.pair] = True
        return _checks.sealed(mask.reshape(self.n_states, self.n_actions))

    @property
    def row_of_entry(self) -> IntArray:
        """Row each entry belongs to, ``[E]``."""
        return np.repeat(np.arange(self.pair.size), np.diff(self.indptr))

    def row_sums(self, values: FloatArray) -> FloatArray:
        """Sum values ``[E]`` over each row, ``[R]``."""
        if values.size == 0:
            return np.zeros(self.pair.size)
        return np.add.reduceat(values, self.indptr[:-1])

    def of_pairs(self, used: BoolArray) -> IntArray:
        """Rows of the pairs that are ``used`` [S, A], rising."""
        return np.flatnonzero(used[self.state, self.action])

    def entries_of(self, row: IntArray) -> IntArray | slice:
        """Entries of some rows in rising order ``[R']``, for indexing ``[E]``."""
        if row.size == self.pair.size:
            return slice(None)
        chosen = np.zeros(self.pair.size, dtype=np.bool_)
        chosen[row] = True
        return np.flatnonzero(np.repeat(chosen, np.diff(self.indptr)))

    def take(self, row: IntArray, entries: IntArray | slice | None = None) -> Rows:
        """Keep some rows, in rising order ``[R']``; their entries may be known."""
        if row.size == self.pair.size:
            return self
        entries = self.entries_of(row) if entries is None else entries
        length = np.diff(self.indptr)[row]
        return Rows(
            self.n_states,
            self.n_actions,
            _checks.sealed(self.pair[row]),
            _checks.sealed(np.concatenate([[0], np.cumsum(length)])),
            _checks.sealed(self.next_state[entries]),
        )

    def find(
        self, state: IntArray, action: IntArray, next_state: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Row and entry of each triplet ``[K]``; -1 where there is none."""
        pair = state * self.n_actions + action
        if self.pair.size == 0:
            nowhere = np.full(pair.shape, -1)
            return nowhere, nowhere.copy()
        row = np.minimum(np.searchsorted(self.pair, pair), self.pair.size - 1)
        row = np.where(self.pair[row] == pair, row, -1)
        entry = np.empty_like(row)
        for first in range(0, row.size, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            entry[part] = self._entry_in_row(row[part], next_state[part])
        return row, entry

    def _entry_in_row(self, row: IntArray, next_state: IntArray) -> IntArray:
        """Entry of each next state ``[K]`` in its row, by bisection; -1 if none.

        Keys of all entries would be found faster, and take several times the memory of
        the rows themselves.
        """
        if self.next_state.size == 0:
            return np.full(row.shape, -1)
        low, stop = self.indptr[row], self.indptr[row + 1]
        high = stop
        while (low < high).any():
            middle = (low + high) // 2
            below = self.next_state[np.minimum(middle, self.next_state.size - 1)]
            go_up = (low < high) & (below < next_state)
            low, high = np.where(go_up, middle + 1, low), np.where(go_up, high, middle)
        at = np.minimum(low, self.next_state.size - 1)
        found = (row >= 0) & (low < stop) & (self.next_state[at] == next_state)
        return np.where(found, at, -1)


@dataclass(frozen=True, eq=False)
class Dynamics:
    """A known model: the probability of each next state, for each available pair.

    Build one with `from_dense`, `from_matrices` or `from_arrays`, or get one from
    ``posterior.mean()``, ``draws.dynamics(i)`` or a world.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> walk = bm.Dynamics.from_dense([[[0.5, 0.5]], [[0.0, 1.0]]])
    >>> walk.next_state.tolist(), walk.probability.tolist()
    ([0, 1, 1], [0.5, 0.5, 1.0])
    """

    rows: Rows
    probability: FloatArray  # [E]

    def __post_init__(self) -> None:
        """Check that every row is a distribution."""
        if self.probability.shape != self.rows.next_state.shape:
            raise DynamicsError(
                f"`probability` must have shape {self.rows.next_state.shape} (entry); "
                f"got {self.probability.shape}."
            )
        if not np.isfinite(self.probability).all():
            entry = int(np.argmax(~np.isfinite(self.probability)))
            row = int(self.rows.row_of_entry[entry])
            raise DynamicsError(
                f"`probability` must be finite: {self._pair_name(row)}, next state "
                f"{self.rows.next_state[entry]} has {self.probability[entry]}."
            )
        if (self.probability < 0).any():
            entry = int(np.argmax(self.probability < 0))
            row = int(self.rows.row_of_entry[entry])
            raise DynamicsError(
                f"`probability` must not be negative: {self._pair_name(row)}, next "
                f"state {self.rows.next_state[entry]} has {self.probability[entry]:g}."
            )
        off = np.abs(self.rows.row_sums(self.probability) - 1.0) > _checks.SUM_TOLERANCE
        if off.any():
            row = int(np.argmax(off))
            total = self.rows.row_sums(self.probability)[row]
            raise DynamicsError(
                f"`probability` rows must sum to 1: {self._pair_name(row)} sums to "
                f"{total:.10g}."
            )

    def _pair_name(self, row: int) -> str:
        return f"state {self.rows.state[row]}, action {self.rows.action[row]}"

    @classmethod
    def from_dense(cls, array: ArrayLike) -> Dynamics:
        """Read an array ``[S, A, S]``; a row of zeros makes its pair unavailable.

        Parameters
        ----------
        array
            Probabilities, axes (state, action, next_state). Rows in single precision
            are divided by their sums, which a warning says.

        Examples
        --------
        >>> import numpy as np, bayesmdp as bm
        >>> bm.Dynamics.from_dense(np.full((2, 1, 2), 0.5)).available.tolist()
        [[True], [True]]
        """
        axes = ("state", "action", "next_state")
        dense = _checks.float_array("array", array, axes, DynamicsError)
        if dense.shape[0] != dense.shape[2]:
            raise DynamicsError(
                "`array` must have shape (n_states, n_actions, n_states); "
                f"got {dense.shape}."
            )
        key = np.flatnonzero(dense)
        tolerance = _checks.sum_tolerance(array)
        n_states, n_actions, _ = dense.shape
        return _joined(key, dense.flat[key], n_states, n_actions, "array", tolerance)

    @classmethod
    def from_matrices(cls, matrices: Any) -> Dynamics:
        """Read one matrix of next states per action, or one for all; also sparse.

        Parameters
        ----------
        matrices
            A matrices ``[S, S]``, or one ``[S * A, S]`` whose row is ``state * A +
            action``; arrays, or matrices of scipy.sparse. A row without entries makes
            its pair unavailable.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> from scipy import sparse
        >>> stay, swap = sparse.eye(2), sparse.csr_matrix([[0, 1], [1, 0]])
        >>> bm.Dynamics.from_matrices([stay, swap]).row(0, 1)[0].tolist()
        [1]
        >>> pairs = sparse.csr_matrix([[1, 0], [0, 1], [0, 1], [1, 0]])  # [S * A, S]
        >>> bm.Dynamics.from_matrices(pairs).row(0, 1)[0].tolist()
        [1]
        """
        listed = getattr(matrices, "ndim", 0) == 3
        if isinstance(matrices, list | tuple) and len(matrices):
            first = matrices[0]
            listed = (
                is_sparse(first)
                or _checks.any_array("matrices", first, DynamicsError).ndim == 2
            )
        found = [coordinates(x) for x in (matrices if listed else [matrices])]
        n_rows, n_states = found[0].shape
        fits = n_states and (n_rows == n_states if listed else n_rows % n_states == 0)
        other = next((x.shape for x in found if x.shape != found[0].shape), None)
        if not fits or other:
            raise DynamicsError(
                "`matrices` must be one [S, S] per action, or one [S * A, S]; got "
                f"{found[0].shape}{f' and {other}' if other else ''}."
            )
        n_actions = len(found) if listed else n_rows // n_states
        row = np.concatenate([x.row for x in found]).astype(np.int64)
        action = np.repeat(np.arange(len(found)), [x.data.size for x in found])
        return cls.from_arrays(
            row if listed else row // n_actions,
            action if listed else row % n_actions,
            np.concatenate([x.col for x in found]).astype(np.int64),
            np.concatenate([x.data for x in found]),
            n_states=n_states,
            n_actions=n_actions,
        )

    @classmethod
    def from_arrays(
        cls,
        state: ArrayLike,
        action: ArrayLike,
        next_state: ArrayLike,
        probability: ArrayLike,
        *,
        n_states: int,
        n_actions: int,
    ) -> Dynamics:
        """Read columns; the same transition may stand in several rows, which add up.

        Parameters
        ----------
        state, action, next_state
            Ids from 0, one a row.
        probability
            Of the next state given the pair.
        n_states, n_actions
            Sizes.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.Dynamics.from_arrays([0, 0], [0, 0], [0, 1], [0.25, 0.75],
        ...                         n_states=2, n_actions=1)
        Dynamics(2 states, 1 action, 1 pair, 2 entries)
        """
        n_states = _checks.size("n_states", n_states, DynamicsError)
        n_actions = _checks.size("n_actions", n_actions, DynamicsError)
        columns = _checks.triplets(
            state, action, next_state, n_states, n_actions, DynamicsError
        )
        p = _checks.float_array("probability", probability, ("row",), DynamicsError)
        _checks.same_length({**columns, "probability": p}, DynamicsError)
        s, a, t = columns.values()
        key = (s * n_actions + a) * n_states + t
        tolerance = _checks.sum_tolerance(probability)
        return _joined(key, p, n_states, n_actions, "probability", tolerance)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self.rows.n_states

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.rows.n_actions

    @property
    def pair(self) -> IntArray:
        """Pair of each row, ``state * n_actions + action``, ``[R]``."""
        return self.rows.pair

    @property
    def indptr(self) -> IntArray:
        """Where each row starts among the entries, ``[R + 1]``."""
        return self.rows.indptr

    @property
    def next_state(self) -> IntArray:
        """Next state of each entry, ``[E]``."""
        return self.rows.next_state

    @property
    def available(self) -> BoolArray:
        """Which pairs have a row, ``[S, A]``."""
        return self.rows.available

    def row(self, state: int, action: int) -> tuple[IntArray, FloatArray]:
        """Next states of one pair and their probabilities.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> next_state, probability = bm.worlds.gridworld().dynamics.row(0, 1)
        >>> next_state.tolist(), probability.tolist()
        ([1, 5], [0.75, 0.25])
        """
        state = _checks.integer("state", state, 0, ArgumentError)
        action = _checks.integer("action", action, 0, ArgumentError)
        at = np.flatnonzero(self.pair == state * self.n_actions + action)
        if at.size == 0 or action >= self.n_actions:
            raise ArgumentError(f"State {state} has no available action {action}.")
        entries = slice(self.indptr[at[0]], self.indptr[at[0] + 1])
        return self.next_state[entries], self.probability[entries]

    def to_dense(self) -> FloatArray:
        """Return an array ``[S, A, S]``; rows of unavailable pairs are zero."""
        dense = np.zeros((self.n_states * self.n_actions, self.n_states))
        dense[self.pair[self.rows.row_of_entry], self.next_state] = self.probability
        return dense.reshape(self.n_states, self.n_actions, self.n_states)

    def __repr__(self) -> str:
        sizes = {"state": self.n_states, "action": self.n_actions}
        sizes |= {"pair": self.pair.size, "entry": self.probability.size}
        return f"Dynamics({', '.join(_checks.many(n, x) for x, n in sizes.items())})"


def as_dynamics(model: Any) -> Any:
    """Read an array ``[S, A, S]`` or sparse matrices; return all else as it is."""
    if isinstance(model, np.ndarray):
        return Dynamics.from_dense(model)
    listed = isinstance(model, list | tuple) and len(model) > 0
    if is_sparse(model) or (listed and all(map(is_sparse, model))):
        return Dynamics.from_matrices(model)
    return model


def is_sparse(value: object) -> bool:
    """Whether this is a matrix of scipy.sparse."""
    from scipy.sparse import issparse

    return bool(issparse(value))


class Coordinates(NamedTuple):
    """Entries of a matrix; SciPy's own have no half precision."""

    row: IntArray
    col: IntArray
    data: NDArray[Any]
    shape: tuple[int, int]


def coordinates(matrix: Any) -> Coordinates:
    """Return a matrix of numbers by row, column and value."""
    if not is_sparse(matrix):
        matrix = _checks.any_array("matrices", matrix, DynamicsError)
    if matrix.ndim != 2 or matrix.dtype.kind not in "iufb":
        raise DynamicsError(
            "`matrices` must hold numbers, in one matrix [S, S] per action or one "
            f"[S * A, S]; got {matrix.dtype} of shape {matrix.shape}."
        )
    if is_sparse(matrix):
        found = matrix.tocoo()
        return Coordinates(found.row, found.col, found.data, found.shape)
    row, col = np.nonzero(matrix)
    return Coordinates(row, col, matrix[row, col], matrix.shape)


def _joined(
    key: IntArray,
    p: FloatArray,
    n_states: int,
    n_actions: int,
    name: str,
    tolerance: float,
) -> Dynamics:
    """Add up what is said of each transition; sums of rows may be so far from 1."""
    key, inverse = np.unique(key, return_inverse=True)
    total = np.bincount(inverse, p, minlength=key.size)
    key, total = key[total != 0], total[total != 0]
    rows = Rows.of_keys(key, n_states, n_actions)
    sums = _checks.sums_to_divide(name, rows.row_sums(total), tolerance)
    return Dynamics(rows, _checks.sealed(total / sums[rows.row_of_entry]))
