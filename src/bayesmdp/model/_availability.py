"""Which pairs a policy may use, and what was said about it.

``min_count=k`` keeps pairs with at least ``k`` visits. A live state left without a pair
keeps its most visited one (ties: the lowest action); one never visited keeps all its
actions. Both are reported, as are the visits that no longer count.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, IntArray
from bayesmdp.model._task import Task


@dataclass(frozen=True, eq=False)
class Availability:
    """Available pairs and how they came about."""

    available: BoolArray  # [S, A]
    min_count: int
    n_pairs: int  # pairs of live states
    n_available: int
    n_dropped_visits: int  # logged transitions of pairs that are not available
    rescued: IntArray  # states that keep one pair below min_count
    unvisited: IntArray  # live states never visited, which keep every action

    def report(self, task: Task) -> list[str]:
        """Sentences for a summary."""
        lines = [
            f"{self.n_available} of {_checks.many(self.n_pairs, 'pair')} available"
        ]
        if self.min_count == 0:
            return lines
        lines[0] += (
            f" (at least {_checks.many(self.min_count, 'visit')}; "
            f"{_checks.many(self.n_dropped_visits, 'logged transition')} on the others)"
        )
        if self.rescued.size:
            lines.append(
                f"{_states(self.rescued, task)} without such a pair: most visited one "
                "kept"
            )
        if self.unvisited.size:
            lines.append(
                f"{_states(self.unvisited, task)} never visited: all actions kept"
            )
        return lines


def availability(visits: IntArray, task: Task, min_count: int) -> Availability:
    """Decide which pairs are available from visits ``[S, A]``."""
    live = ~task.is_terminal
    available = (visits >= min_count) & live[:, None]
    empty = live & ~available.any(axis=1)
    unvisited = np.flatnonzero(live & (visits.sum(axis=1) == 0))
    available[unvisited] = True
    rescued = np.setdiff1d(np.flatnonzero(empty), unvisited)
    available[rescued, np.argmax(visits[rescued], axis=1)] = True
    return Availability(
        available=_checks.sealed(available),
        min_count=min_count,
        n_pairs=task.live.size * task.n_actions,
        n_available=int(available.sum()),
        n_dropped_visits=int(visits[~available & live[:, None]].sum()),
        rescued=_checks.sealed(rescued),
        unvisited=_checks.sealed(unvisited),
    )


def _states(states: IntArray, task: Task) -> str:
    shown = ", ".join(task.state_name(s) for s in states[:5])
    more = ", ..." if states.size > 5 else ""
    return f"{states.size} state{'s' if states.size > 1 else ''} ({shown}{more})"
