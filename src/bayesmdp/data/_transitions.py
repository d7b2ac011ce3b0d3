"""A handle on a table of logged transitions.

Only `Transitions.counts`, its split by episode, `Transitions.reward_statistics`,
`Transitions.endings`, `Transitions.starts` and `Transitions.episodes` touch the rows;
everything else in the package works on what they return. Arrays in memory are one kind
of table; readers of files and databases bring others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import argument
from bayesmdp._sheet import Sheet
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray, IntArray, Seed
from bayesmdp.data._counts import Counts, Keys
from bayesmdp.data._episodes import (
    ORDERED,
    EpisodeBatch,
    Piece,
    batches,
    check_folds,
    folds_of,
)
from bayesmdp.data._queries import scramble
from bayesmdp.errors import ArgumentError, CountsError

if TYPE_CHECKING:
    from bayesmdp.data._frames import FrameTable

#: What a state or action is called where it came from.
Label: TypeAlias = int | str
TRIPLET = ("state", "action", "next_state")


@dataclass(frozen=True, eq=False)
class RewardStatistics:
    """What was paid on each distinct transition; axis K runs over triplets."""

    state: IntArray  # [K]
    action: IntArray  # [K]
    next_state: IntArray  # [K]
    count: IntArray  # [K]
    mean: FloatArray  # [K]
    sd: FloatArray  # [K], ddof 0: 0 where the reward is a function of the triplet


@dataclass(frozen=True, eq=False)
class Endings:
    """Rows into and out of each state; axis K runs over states that occur, rising.

    A row that stays where it is (as logs are padded after the end) is neither an
    arrival nor a departure, and is counted apart. Flags are None without the column.
    """

    state: IntArray  # [K]
    arrivals: IntArray  # [K], rows from another state into this one
    terminated: IntArray | None  # [K], arrivals with which the process ended
    truncated: IntArray | None  # [K], arrivals with which only the log ended
    stays: IntArray  # [K], rows from the state to itself
    stays_terminated: IntArray | None  # [K], those with which the process ended
    left: IntArray  # [K], rows from this state to another


@dataclass(frozen=True, eq=False)
class Starts:
    """Episodes that begin in each state; axis K runs over such states, rising."""

    state: IntArray  # [K]
    count: IntArray  # [K]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Logged transitions, in memory, in files or in a database.

    Build one from arrays with `from_arrays`, from files and dataframes with
    `read_transitions`, or get one from a world's ``sample`` and ``simulate``. A
    truncated step is a counted transition: observation ended, the episode did not.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.Transitions.from_arrays([0, 1], [0, 0], [1, 2], episode=[0, 0])
    >>> log.n_rows, log.counts().total
    (2, 2)
    """

    table: ArrayTable | FrameTable
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
    ) -> Transitions:
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
        n_states = _checks.size_or_none("n_states", n_states, CountsError)
        n_actions = _checks.size_or_none("n_actions", n_actions, CountsError)
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

    def episode_sums(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Tell which episodes rows belong to in a number for each transition.

        Returns distinct ``state, action, next_state``, in any order, and for each the
        sum over its rows of a random-looking number of their episode. Only the order of
        episodes' names counts, and that of rows does not: nothing is sorted but names,
        which takes far less time than `episodes`.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> steps = [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 2, 2]
        >>> one = bm.Transitions.from_arrays(*steps, episode=[7, 8, 7, 8])
        >>> other = bm.Transitions.from_arrays(*steps, episode=[7, 7, 8, 8])
        >>> one.counts() == other.counts()
        True
        >>> (one.episode_sums()[3] == other.episode_sums()[3]).all()
        np.False_
        """
        return self.table.episode_sums()

    def reward_statistics(self) -> RewardStatistics:
        """Mean and spread of the logged reward for each distinct transition."""
        return self.table.reward_statistics()

    def endings(self) -> Endings:
        """Count how each state was entered and left, and what flags said of it.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> log = bm.Transitions.from_arrays(
        ...     [0, 1, 0], [0, 0, 0], [1, 2, 1], terminated=[False, True, False]
        ... )
        >>> found = log.endings()
        >>> found.state.tolist(), found.arrivals.tolist(), found.left.tolist()
        ([0, 1, 2], [0, 2, 1], [2, 1, 0])
        >>> found.terminated.tolist()
        [0, 0, 1]
        """
        return self.table.endings()

    def starts(self) -> Starts:
        """Count the episodes that begin in each state, by their first step.

        Where reading dropped rows (see ``notes``), the first that is left counts.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> log = bm.Transitions.from_arrays(
        ...     [0, 1, 1], [0, 0, 0], [1, 2, 2], episode=[7, 7, 8], step=[0, 1, 0]
        ... )
        >>> log.starts().state.tolist(), log.starts().count.tolist()
        ([0, 1], [1, 1])
        """
        lacking = [x for x in ("episode", "step") if x not in self.table.roles]
        if lacking:
            raise CountsError(
                "Where episodes begin needs `episode` and `step` columns; these "
                f"transitions have no `{'` and no `'.join(lacking)}`."
            )
        return self.table.starts()

    def episodes(self, *, batch_rows: int = 100_000) -> Iterator[EpisodeBatch]:
        """Iterate over the rows, ordered by episode and step, in batches.

        Episodes come in the order of their ids (text by its code points), rows of an
        episode by ``step``, or as they stand in the log where it has no such column.
        Every source of one log gives the same batches. The engine that holds the rows
        sorts them; no more than a few batches are in Python at a time.

        Parameters
        ----------
        batch_rows
            Most rows in a batch. Episodes are never split: one that is longer is a
            batch of its own.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> log = bm.Transitions.from_arrays(
        ...     [1, 1, 0], [0, 0, 0], [2, 2, 1], episode=[7, 8, 7], step=[1, 0, 0]
        ... )
        >>> (batch,) = log.episodes()
        >>> batch.start.tolist(), batch.state.tolist()
        ([0, 2, 3], [0, 1, 1])
        >>> [x.state.tolist() for x in log.episodes(batch_rows=2)]
        [[0, 1], [1]]
        """
        n = _checks.integer("batch_rows", batch_rows, 1, ArgumentError)
        if "episode" not in self.table.roles:
            raise CountsError(
                "These transitions have no `episode` column, so which rows belong "
                "together is not known: name its column when the log is read, "
                f"{argument('episode')}."
            )
        return self.table.episodes(n)

    def _repr_html_(self) -> str:
        lines = [f"columns: {', '.join(sorted(self.table.roles))}"]
        for what, labels in (
            ("states", self.state_labels),
            ("actions", self.action_labels),
        ):
            if labels is not None:
                lines.append(f"{len(labels)} named {what}, {labels[0]} to {labels[-1]}")
        lines += [f"note: {note}" for note in self.notes]
        return Sheet(_checks.many(self.n_rows, "logged transition"), lines).html()

    def __repr__(self) -> str:
        return f"Transitions({_checks.many(self.n_rows, 'row')})"


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

    @property
    def roles(self) -> frozenset[str]:
        """Roles that the table has a column for."""
        return frozenset(self.columns)

    def counts(self) -> Counts:
        """Count every row, truncated ones included."""
        return self._count(slice(None))

    def _count(self, rows: slice | BoolArray) -> Counts:
        s, a, t = (column[rows] for column in self._triplets())
        return Counts._from_checked(
            s, a, t, n_states=self.n_states, n_actions=self.n_actions
        )

    def _triplets(self) -> tuple[IntArray, IntArray, IntArray]:
        s, a, t = (cast("IntArray", self.columns[name]) for name in TRIPLET)
        return s, a, t

    def counts_by_fold(self, n_folds: int, seed: int) -> list[Counts]:
        """Count disjoint groups of whole episodes."""
        if "episode" not in self.columns:
            check_folds(n_folds, None)
        episodes, number = np.unique(self.columns["episode"], return_inverse=True)
        fold = folds_of(episodes.size, n_folds, seed)
        return [self._count(fold[number] == k) for k in range(n_folds)]

    def episode_sums(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Sum scrambled numbers of the episodes of each distinct transition."""
        keys = Keys.of(*self._triplets(), self.n_states, self.n_actions)
        unique, number = keys.distinct()
        episode = np.unique(self.columns["episode"], return_inverse=True)[1]
        total = np.zeros(unique.size, dtype=np.int64)
        np.add.at(total, number, scramble(episode, 0))
        return *keys.unpacked(unique), total

    def reward_statistics(self) -> RewardStatistics:
        """Mean and spread of the reward of each distinct transition."""
        if "reward" not in self.columns:
            raise CountsError("These transitions have no `reward` column.")
        keys = Keys.of(*self._triplets(), self.n_states, self.n_actions)
        unique, number = keys.distinct()
        reward = self.columns["reward"]
        n = unique.size
        count = np.bincount(number, minlength=n)
        some = np.zeros(n)  # any one reward of the group
        some[number] = reward
        varies = np.bincount(number, reward != some[number], minlength=n) > 0
        with np.errstate(over="ignore", invalid="ignore"):  # spreads beyond floats
            # What never varies is exact; a sum of many tenths is not.
            mean = np.bincount(number, reward, minlength=n) / count
            mean = np.where(varies, mean, some)
            square = np.bincount(number, (reward - mean[number]) ** 2, minlength=n)
        state, action, next_state = keys.unpacked(unique)
        return RewardStatistics(
            _checks.sealed(state),
            _checks.sealed(action),
            _checks.sealed(next_state),
            _checks.sealed(count),
            _checks.sealed(mean),
            _checks.sealed(np.sqrt(square / count)),
        )

    def endings(self) -> Endings:
        """Count how each state was entered and left."""
        flagged = (
            self._count(self.columns[name].astype(np.bool_))
            if name in self.columns
            else None
            for name in ("terminated", "truncated")
        )
        return endings_of(self.counts(), *flagged)

    def starts(self) -> Starts:
        """Count the episodes that begin in each state."""
        episodes, number = np.unique(self.columns["episode"], return_inverse=True)
        step = self.columns["step"]
        first = np.full(episodes.size, step.max(initial=0))
        np.minimum.at(first, number, step)
        state, count = np.unique(
            self.columns["state"][step == first[number]], return_counts=True
        )
        check_starts(int(count.sum()), episodes.size)
        return Starts(_checks.sealed(state), _checks.sealed(count))

    def episodes(self, batch_rows: int) -> Iterator[EpisodeBatch]:
        """Sort rows by episode and step; hand them over in batches."""
        return batches(self._sorted(batch_rows), batch_rows)

    def _sorted(self, n: int) -> Iterator[Piece]:
        keys = [self.columns[x] for x in ("step", "episode") if x in self.columns]
        order = np.lexsort(keys)  # of equal keys, the first row stays first
        names = [x for x in ORDERED if x in self.columns]
        for i in range(0, order.size, n):
            yield {name: self.columns[name][order[i : i + n]] for name in names}


def endings_of(
    counts: Counts, terminated: Counts | None, truncated: Counts | None
) -> Endings:
    """Sum counts of all rows, and of those that carry a flag, by state."""
    state = np.union1d(counts.state, counts.next_state)
    arrivals, stays = _into(state, counts)
    ended = (None, None) if terminated is None else _into(state, terminated)
    cut = None if truncated is None else _into(state, truncated)[0]
    moved = counts.state != counts.next_state
    return Endings(
        state=_checks.sealed(state),
        arrivals=arrivals,
        terminated=ended[0],
        truncated=cut,
        stays=stays,
        stays_terminated=ended[1],
        left=_total(state, counts.state[moved], counts.count[moved]),
    )


def _into(state: IntArray, counts: Counts) -> tuple[IntArray, IntArray]:
    """Rows into each state ``[K]`` from others, and from itself."""
    moved = counts.state != counts.next_state
    return (
        _total(state, counts.next_state[moved], counts.count[moved]),
        _total(state, counts.next_state[~moved], counts.count[~moved]),
    )


def _total(state: IntArray, where: IntArray, count: IntArray) -> IntArray:
    total = np.zeros(state.size, dtype=np.int64)
    np.add.at(total, np.searchsorted(state, where), count)
    return _checks.sealed(total)


def check_starts(n_first_rows: int, n_episodes: int) -> None:
    """Refuse episodes whose first step stands in several rows."""
    if n_first_rows > n_episodes:
        raise CountsError(
            f"{n_episodes} episodes have {n_first_rows} first rows: some have several "
            "rows with one `step`, so where they began is not known; number the steps."
        )
