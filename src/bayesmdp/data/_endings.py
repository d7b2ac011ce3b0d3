"""How states were entered and left, and where episodes began: what a task needs."""

from dataclasses import dataclass

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import IntArray
from bayesmdp.data._counts import Counts
from bayesmdp.errors import CountsError


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
