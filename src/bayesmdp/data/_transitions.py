"""A handle on a table of logged transitions.

Only `Transitions.counts`, `Transitions.reward_statistics` and the split by episode
touch the rows; everything else in the package works on what they return. Arrays in
memory are one kind of table; readers of files and databases bring others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray, Seed
from bayesmdp.data._counts import Counts
from bayesmdp.data._folds import check_folds, folds_of
from bayesmdp.errors import ArgumentError, CountsError

#: What a state or action is called where it came from.
Label: TypeAlias = int | str


@dataclass(frozen=True, eq=False)
class RewardStatistics:
    """What was paid on each distinct transition; axis K runs over triplets."""

    state: IntArray  # [K]
    action: IntArray  # [K]
    next_state: IntArray  # [K]
    count: IntArray  # [K]
    mean: FloatArray  # [K]
    sd: FloatArray  # [K], ddof 0: 0 where the reward is a function of the triplet


class Table(Protocol):
    """What a kind of table must be able to answer."""

    @property
    def n_rows(self) -> int:
        """Number of transitions."""

    def counts(self) -> Counts:
        """Count every row, truncated ones included."""

    def counts_by_fold(self, n_folds: int, seed: int) -> list[Counts]:
        """Count disjoint groups of whole episodes."""

    def reward_statistics(self) -> RewardStatistics:
        """Mean and spread of the reward of each distinct transition."""


@dataclass(frozen=True, eq=False)
class Transitions:
    """Logged transitions; where the rows live is the table's business.

    Build one from arrays with `from_arrays`, from files and dataframes with
    `read_transitions`, or get one from a world's ``sample`` and ``simulate``.
    A truncated step is a counted transition: the log stopped, the patient did not.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.Transitions.from_arrays([0, 1], [0, 0], [1, 2], episode=[0, 0])
    >>> log.n_rows, log.counts().total
    (2, 2)
    """

    table: Table
    state_labels: tuple[Label, ...] | None = None  # of ids 0, 1, ...; None: ids as are
    action_labels: tuple[Label, ...] | None = None
    notes: tuple[str, ...] = ()  # what reading left out or made up, with figures
    columns: Mapping[str, str] | None = None  # which column played which role

    @classmethod
    def from_arrays(
        cls,
        state: ArrayLike,
        action: ArrayLike,
        next_state: ArrayLike,
        *,
        reward: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        step: ArrayLike | None = None,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        n_states: int | None = None,
        n_actions: int | None = None,
    ) -> "Transitions":
        """Hold columns in memory.

        Parameters
        ----------
        state, action, next_state
            Ids from 0, one a row.
        reward
            What was paid on the row.
        episode, step
            Which trajectory the row belongs to, and when in it.
        terminated, truncated
            Whether the process, or only the log, ended with this row.
        n_states, n_actions
            Sizes; where not given, the task's sizes rule.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.Transitions.from_arrays([0], [0], [0], reward=[1.5]).n_rows
        1
        """
        n_states = _checks.size("n_states", n_states, CountsError)
        n_actions = _checks.size("n_actions", n_actions, CountsError)
        columns: dict[str, IntArray | FloatArray | BoolArray] = {
            **_checks.triplets(
                state, action, next_state, n_states, n_actions, CountsError
            )
        }
        if reward is not None:
            columns["reward"] = _checks.float_array(
                "reward", reward, ("row",), CountsError
            )
        for name, ids in (("episode", episode), ("step", step)):
            if ids is not None:
                columns[name] = _checks.index_array(name, ids, CountsError)
        for name, flags in (("terminated", terminated), ("truncated", truncated)):
            if flags is not None:
                columns[name] = _checks.flags(name, flags, CountsError)
        _checks.same_length(columns, CountsError)
        return cls(ArrayTable(columns, n_states, n_actions))

    @property
    def n_rows(self) -> int:
        """Number of transitions."""
        return self.table.n_rows

    def counts(self) -> Counts:
        """Count the transitions."""
        return self.table.counts()

    def counts_by_fold(self, n_folds: int, *, seed: Seed = 0) -> list[Counts]:
        """Split whole episodes at random into folds and count each.

        Parameters
        ----------
        n_folds
            At least 2, at most the number of episodes.
        seed
            Which episode falls into which fold.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> log = bm.Transitions.from_arrays(
        ...     [0, 1, 0], [0, 0, 0], [1, 2, 1], episode=[7, 7, 8]
        ... )
        >>> sorted(fold.total for fold in log.counts_by_fold(2))
        [1, 2]
        """
        n = _checks.integer("n_folds", n_folds, 2, ArgumentError)
        return self.table.counts_by_fold(n, _checks.seed_integer(seed))

    def reward_statistics(self) -> RewardStatistics:
        """Mean and spread of the logged reward for each distinct transition."""
        return self.table.reward_statistics()

    def __repr__(self) -> str:
        return f"Transitions({self.n_rows} rows)"


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """Columns in memory, already checked."""

    columns: dict[str, IntArray | FloatArray | BoolArray] = field(repr=False)
    n_states: int | None
    n_actions: int | None

    @property
    def n_rows(self) -> int:
        """Number of transitions."""
        return int(self.columns["state"].size)

    def counts(self) -> Counts:
        """Count every row, truncated ones included."""
        return self._count(slice(None))

    def _count(self, rows: slice | BoolArray) -> Counts:
        columns = (
            self.columns[name][rows] for name in ("state", "action", "next_state")
        )
        return Counts.from_arrays(
            *columns, n_states=self.n_states, n_actions=self.n_actions
        )

    def counts_by_fold(self, n_folds: int, seed: int) -> list[Counts]:
        """Count disjoint groups of whole episodes."""
        if "episode" not in self.columns:
            check_folds(n_folds, None)
        episodes, number = np.unique(self.columns["episode"], return_inverse=True)
        fold = folds_of(episodes.size, n_folds, seed)
        return [self._count(fold[number] == k) for k in range(n_folds)]

    def reward_statistics(self) -> RewardStatistics:
        """Mean and spread of the reward of each distinct transition."""
        if "reward" not in self.columns:
            raise CountsError("These transitions have no `reward` column.")
        triplets = np.stack(
            [self.columns[name] for name in ("state", "action", "next_state")]
        )
        unique, inverse = np.unique(triplets, axis=1, return_inverse=True)
        inverse = inverse.reshape(-1)
        reward = self.columns["reward"]
        count = np.bincount(inverse, minlength=unique.shape[1])
        mean = np.bincount(inverse, reward, minlength=unique.shape[1]) / count
        square = np.bincount(
            inverse, (reward - mean[inverse]) ** 2, minlength=unique.shape[1]
        )
        state, action, next_state = _checks.sealed(unique.astype(np.int64))
        return RewardStatistics(
            state,
            action,
            next_state,
            _checks.sealed(count),
            _checks.sealed(mean),
            _checks.sealed(np.sqrt(square / count)),
        )
