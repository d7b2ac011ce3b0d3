"""Stays with a state and an action in every row, as transitions.

The next state is that of the same stay one step later; a gap in the steps is a missing
row and is not bridged; the last row of a stay leads to one of two terminal states.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp._typing import BoolArray, IntArray
from bayesmdp.data import _doses
from bayesmdp.data._cohort import Cohort
from bayesmdp.data._transitions import Transitions

CENSORED = -2  # in place of a next state


def moves(
    cohort: Cohort, state: IntArray, action: IntArray, n_live: int
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Columns of transitions, next state -1 before a gap, and what to say of gaps.

    The last row of a censored stay has `CENSORED`.
    """
    order = np.lexsort((cohort.step, cohort.episode))
    stay, step = cohort.episode[order], cohort.step[order]
    same = stay[1:] == stay[:-1]
    follows = same & (step[1:] == step[:-1] + 1)
    last = np.full(state.size, True)
    last[order[:-1][same]] = False
    next_state = np.where(last, np.where(cohort.died, n_live, n_live + 1), -1)
    cut = last & cohort.censored
    next_state[cut] = CENSORED
    next_state[order[:-1][follows]] = state[order[1:][follows]]
    n_gaps = int((next_state == -1).sum())
    notes: tuple[str, ...] = ()
    if n_gaps:
        notes = (
            f"{n_gaps} of {state.size} rows of {cohort.origin} were dropped from the "
            "transitions because the step after them is missing.",
        )
    columns = {
        "state": state,
        "action": action,
        "next_state": next_state,
        "episode": cohort.episode,
        "step": cohort.step,
        "terminated": last & ~cut,
    }
    return columns, notes


def as_log(
    columns: Mapping[str, NDArray[Any]],
    names: tuple[tuple[str, ...], tuple[str, ...]],
    rows: BoolArray,
) -> Transitions:
    """Make transitions of some rows, less those before a gap."""
    states, actions = names
    kept = rows & (columns["next_state"] >= 0)
    log = Transitions.from_arrays(
        **{name: column[kept] for name, column in columns.items()},
        n_states=len(states),
        n_actions=len(actions),
    )
    ends = log.counts()
    note = ", ".join(
        f"{ends.count[ends.next_state == s].sum()} stays end in {states[s]!r}"
        for s in (len(states) - 2, len(states) - 1)
    )
    cut = int((rows & (columns["next_state"] == CENSORED)).sum())
    if cut:
        note += f", {cut} are censored, and their last row is left out of the counts"
    dropped = int(rows.sum() - kept.sum()) - cut
    note += f"; {dropped} rows were dropped before gaps in the steps."
    return replace(log, state_labels=states, action_labels=actions, notes=(note,))


def names_of(
    n_live: int, ends: tuple[str, str], doses: tuple[str, ...], n_bins: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of states and of actions."""
    states = (*(str(s) for s in range(n_live)), *ends)
    return states, _doses.action_labels(doses, n_bins)
