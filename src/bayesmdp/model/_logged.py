"""Logged episodes in the task's terms: its numbers, its rewards, its ends.

The return of an episode is ``G = sum_t g^t r_t`` over its rows, with the task's rewards
``r_t = r[s_t, a_t, s_{t+1}]``: what is set beside a predicted value is paid by the same
rule. Rows from a terminal state come after the end and are left out.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import ArgumentError, CountsError
from bayesmdp.model._align import Log, align, as_log, numbering
from bayesmdp.model._task import Task


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

    def take(self, episodes: IntArray) -> "LoggedEpisodes":
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
