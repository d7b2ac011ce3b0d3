"""Data in the task's terms: names are found, ids are checked, sizes are the task's.

So are logged episodes: the return of one is ``G = sum_t g^t r_t`` over its rows, with
the task's rewards ``r_t = r[s_t, a_t, s_{t+1}]``: what is set beside a predicted value
is paid by the same rule. Rows from a terminal state come after the end and are left
out.

Visits say which pairs a policy may use: ``min_count=k`` keeps pairs with at least ``k``
of them. A live state left without a pair keeps its most visited one (ties: the lowest
action); one never visited keeps all its actions. Both are reported, as are the visits
that no longer count.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bayesmdp import _checks
from bayesmdp._io import digest_of
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts, Transitions, read_frame
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError
from bayesmdp.model._task import Task
from bayesmdp.model._task_readers import check_start, needs_log, read_start

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

#: A log as users have it: transitions, or a dataframe of them.
Log: TypeAlias = "Transitions | IntoFrame"
#: What a belief is fitted from.
Data: TypeAlias = "Log | Counts"


def as_data(data: Data, task: Task, name: str = "data") -> Transitions | Counts:
    """Return data, with dataframes read; numbers are names where labels are codes."""
    if isinstance(data, Transitions | Counts):
        return data
    named = (task.state_labels or (), task.action_labels or ())
    codes = any(
        labels != tuple(map(str, range(len(labels))))
        and all(x.removeprefix("-").isdecimal() for x in labels)
        for labels in named
    )
    return read_frame(data, name, labels=codes)


def as_log(log: Log, task: Task) -> Transitions:
    """Return a log, read where it is a dataframe; counts are refused."""
    found = as_data(log, task, "log")
    _checks.of_type("log", found, Transitions, ArgumentError)
    assert isinstance(found, Transitions)
    return found


def align(
    data: Data, task: Task, *, counts: Counts | None = None
) -> tuple[Counts, Task]:
    """Count the data in the task's numbering, and give the task the data's names.

    Names compare as text; counts have ids only. Where the task has names, every name of
    the data must be among them; where it has none, the data's are taken if there are as
    many. ``counts`` is a part of the data, such as a fold, to be taken instead.
    """
    data = as_data(data, task)
    if isinstance(data, Counts):
        check_start(task)
        return _sized(data, task), task
    found = data.counts() if counts is None else counts
    states = _texts("state", data.state_labels, found.state, found.next_state)
    actions = _texts("action", data.action_labels, found.action)
    if states is None and actions is None:
        return _sized(found, task), _started(task, data, None)
    task = task.with_labels(
        state_labels=_adopted("state", states, task.n_states, task.state_labels),
        action_labels=_adopted("action", actions, task.n_actions, task.action_labels),
    )
    state, action = numbering(data, task)
    named = Counts.from_arrays(
        found.state if state is None else state[found.state],
        found.action if action is None else action[found.action],
        found.next_state if state is None else state[found.next_state],
        found.count,
        n_states=found.n_states if state is None and found.sized[0] else None,
        n_actions=found.n_actions if action is None and found.sized[1] else None,
    )
    return _sized(named, task), _started(task, data, state)


def _started(task: Task, data: Transitions, number: IntArray | None) -> Task:
    """Let episodes start where those of a log do, if the task leaves that to it."""
    if not needs_log(task):
        return task
    starts = data.starts()
    share = np.zeros(task.n_states)
    at = starts.state if number is None else number[starts.state]
    share[at] = starts.count / starts.count.sum()
    return task._but(start=read_start(share, task))


def numbering(data: Transitions, task: Task) -> tuple[IntArray | None, IntArray | None]:
    """Task's numbers of the data's states and actions; None where ids are numbers."""
    names = [
        None if x is None else tuple(map(str, x))
        for x in (data.state_labels, data.action_labels)
    ]
    return (
        _numbers("state", names[0], task.state_labels),
        _numbers("action", names[1], task.action_labels),
    )


def log_digest(data: Transitions | None, counts: Counts, task: Task) -> str:
    """Name a log by its counts, and by the episodes they come from where it has them.

    The order of rows within an episode is left out, so that rows need not be sorted: a
    log in which steps of one episode are exchanged passes if its counts are the same.
    """
    parts = [counts.state, counts.action, counts.next_state, counts.count]
    known = data is not None and data.n_rows == counts.total
    if data is not None and known and "episode" in data.table.roles:
        s, a, t, total = data.episode_sums()
        state, action = numbering(data, task)
        s, t = (s, t) if state is None else (state[s], state[t])
        a = a if action is None else action[a]
        parts.append(total[np.lexsort((t, a, s))])
    return digest_of(*parts)


def _texts(
    what: str, labels: Sequence[int | str] | None, *ids: IntArray
) -> tuple[str, ...] | None:
    """Names of the data as text: one for every id, no two alike."""
    if labels is None:
        return None
    names = tuple(map(str, labels))
    largest = max(int(x.max(initial=-1)) for x in ids)
    if largest >= len(names):
        raise CountsError(
            f"`data` has {what} {largest}, but its `{what}_labels` are "
            f"{len(names)}: name every one from 0."
        )
    if len(set(names)) < len(names):
        twice = next(x for x in names if names.count(x) > 1)
        raise CountsError(f"`data` names two {what}s {twice!r}: names must differ.")
    return names


def _adopted(
    what: str, names: tuple[str, ...] | None, size: int, known: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """Names that a task without any takes from the data."""
    if names is None or known is not None:
        return None
    if len(names) != size:
        raise CountsError(
            f"`data` names {len(names)} {what}s, but `task` has {size} without names: "
            f"which is which is not known; give the task `{what}_labels`, or make it "
            "with Task.from_data(data, ...)."
        )
    warnings.warn(
        f"`task` has no `{what}_labels`, so those of the data are taken in their "
        f"order: {what} 0 is {names[0]!r}, {what} {size - 1} {names[-1]!r}.",
        BayesmdpWarning,
        stacklevel=4,
    )
    return names


def _numbers(
    what: str, names: tuple[str, ...] | None, known: tuple[str, ...] | None
) -> IntArray | None:
    """Task's number of each of the data's ids, where these have names."""
    if names is None or known is None:
        return None
    number = {name: i for i, name in enumerate(known)}
    unknown = [x for x in names if x not in number]
    if unknown:
        hint = _checks.did_you_mean(unknown[0], known)
        a = "an" if what == "action" else "a"
        more = f", nor do {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise CountsError(
            f"`data` names {a} {what} {unknown[0]!r}{hint}, which does not stand in "
            f"the task's `{what}_labels`{more}: add it there, or fix the data."
        )
    return np.array([number[x] for x in names], dtype=np.int64)


def _sized(counts: Counts, task: Task) -> Counts:
    """Check ids against the task's sizes, and take these."""
    for name, sized, axes in (
        ("n_states", counts.sized[0], ("state", "next_state")),
        ("n_actions", counts.sized[1], ("action",)),
    ):
        size, wanted = getattr(counts, name), getattr(task, name)
        if sized and size != wanted:
            raise CountsError(
                f"`data` and `task` disagree about `{name}`: {size} and {wanted}."
            )
        for axis in axes:
            column = getattr(counts, axis)
            if column.size and column.max() >= wanted:
                raise CountsError(
                    f"`{axis}` must be in 0..{wanted - 1}; the data has {column.max()} "
                    "(ids start from 0)."
                )
    if all(counts.sized):
        return counts
    return Counts.from_arrays(
        counts.state,
        counts.action,
        counts.next_state,
        counts.count,
        n_states=task.n_states,
        n_actions=task.n_actions,
    )


@dataclass(frozen=True, eq=False)
class LoggedEpisodes:
    """Rows of whole episodes, ordered by episode and step; N rows, E episodes.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.Transitions.from_arrays(
    ...     [0, 1, 0], [0, 0, 0], [1, 2, 1], episode=[7, 7, 8]
    ... )
    >>> task = bm.Task(3, 1, reward=[1, 1, 10], discount=0.5, terminal=2)
    >>> episodes = bm.model.logged_episodes(log, task)
    >>> episodes.returns.tolist(), episodes.ended.tolist()
    ([4.0, 1.0], [True, False])
    """

    task: Task
    start: IntArray  # [E + 1], the first row of each episode, and N
    step: IntArray  # [N], 0, 1, ... within the episode
    state: IntArray  # [N]
    action: IntArray  # [N]
    next_state: IntArray  # [N]
    follows: BoolArray  # [N], begins where the row before it, of its episode, ended

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return self.start.size - 1

    @property
    def n_rows(self) -> int:
        """Number of transitions."""
        return self.state.size

    @cached_property
    def episode(self) -> IntArray:
        """Number of the episode of each row, ``[N]``."""
        return _checks.sealed(
            np.repeat(np.arange(self.n_episodes), np.diff(self.start))
        )

    @cached_property
    def reward(self) -> FloatArray:
        """Task's reward of each row, ``[N]``."""
        return _checks.sealed(
            self.task.transition_reward(self.state, self.action, self.next_state)
        )

    @cached_property
    def returns(self) -> FloatArray:
        """Discounted return of each episode as far as it was logged, ``[E]``."""
        paid = self.task.discount**self.step * self.reward
        return _checks.sealed(np.add.reduceat(paid, self.start[:-1]))

    @property
    def first_state(self) -> IntArray:
        """State in which each episode begins, ``[E]``."""
        return self.state[self.start[:-1]]

    @property
    def last_state(self) -> IntArray:
        """State in which each episode was last observed, ``[E]``."""
        return self.next_state[self.start[1:] - 1]

    @property
    def ended(self) -> BoolArray:
        """Whether each episode reached a terminal state, ``[E]``."""
        return self.task.is_terminal[self.last_state]

    @property
    def keeps_arms(self) -> bool:
        """Whether every episode keeps its first action, with more than one row."""
        first = self.action[self.start[:-1]]
        longer = bool((np.diff(self.start) > 1).any())
        return longer and bool((self.action == first[self.episode]).all())

    def counts(self) -> Counts:
        """Count the transitions."""
        return Counts.from_arrays(
            self.state,
            self.action,
            self.next_state,
            n_states=self.task.n_states,
            n_actions=self.task.n_actions,
        )

    def take(self, episodes: IntArray) -> LoggedEpisodes:
        """Take these episodes by their numbers, in this order, repeats included."""
        length = np.diff(self.start)[episodes]
        start = np.concatenate([[0], np.cumsum(length)])
        within = np.arange(start[-1]) - np.repeat(start[:-1], length)
        row = np.repeat(self.start[episodes], length) + within
        columns = {
            x.name: _checks.sealed(getattr(self, x.name)[row])
            for x in fields(self)
            if x.name not in ("task", "start")
        }
        return replace(self, start=_checks.sealed(start), **columns)


def logged_episodes(log: Log, task: Task) -> LoggedEpisodes:
    """Read the rows of a log in the task's numbering, ordered by episode and step."""
    _checks.of_type("task", task, Task, ArgumentError)
    log = as_log(log, task)
    _, task = align(log, task)
    state, action = numbering(log, task)
    found = list(log.episodes())
    if not found:
        raise CountsError("`log` holds no transitions: there is nothing to look at.")

    def column(name: str, number: IntArray | None = None) -> IntArray:
        ids = np.concatenate([getattr(x, name) for x in found])
        return ids if number is None else number[ids]

    columns: dict[str, Any] = {
        "state": column("state", state),
        "action": column("action", action),
        "next_state": column("next_state", state),
        "step": column("step"),
        "follows": column("follows"),
    }
    episode = column("episode")
    live = ~task.is_terminal[columns["state"]]
    if not live.any():
        raise CountsError("`log` has no row from a state that is not terminal.")
    kept = {name: _checks.sealed(x[live]) for name, x in columns.items()}
    episode = episode[live]
    first = np.flatnonzero(np.append(True, episode[1:] != episode[:-1]))
    start: IntArray = _checks.sealed(np.append(first, episode.size).astype(np.int64))
    return LoggedEpisodes(task=task, start=start, **kept)


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
