"""The rows of a belief that policies use, in the form kernels read.

States stand in *sweep order*: live ones first, terminal ones after. A vector of values
then simply continues with zeros, and no inner loop asks where an episode ends.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesmdp._checks import read_only
from bayesmdp._typing import BoolArray, FloatArray, IndexArray, IntArray
from bayesmdp.engine._layout import Layout
from bayesmdp.errors import TooLargeError
from bayesmdp.model import Dynamics, Task
from bayesmdp.posterior import Belief, BeliefRows, Draws, Stream


@dataclass(frozen=True, eq=False)
class SweepRows:
    """What is the same in every draw: where rows lead, means, rewards."""

    task: Task
    order: IntArray  # [S], sweep order -> state
    row: IntArray  # [R], rows of the belief's layout that are used
    row_id: IntArray  # [R, 2], state and action
    source: IntArray  # [R]
    indptr: IntArray  # [R + 1]
    target: IndexArray  # [E]
    mean: FloatArray  # [E], mean probability
    reward: FloatArray  # [E], mean reward
    terminal_value: FloatArray  # [S], mean value of terminal states
    start: FloatArray  # [S]
    total: FloatArray | None  # [R], as in `BeliefRows`

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what is derived: it would arrive in another form."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def layout(self) -> Layout:
        """Where rows lead, as kernels read it."""
        source, indptr = read_only(self.source), read_only(self.indptr)
        return Layout(source, indptr, read_only(self.target))

    @property
    def n_live(self) -> int:
        """Number of live states."""
        return int(self.task.live.size)

    def row_sums(self, values: FloatArray) -> FloatArray:
        """Sum values ``[E]`` over each row, ``[R]``."""
        return np.add.reduceat(values, self.indptr[:-1])

    @property
    def row_of_entry(self) -> IntArray:
        """Row each entry belongs to, ``[E]``."""
        return np.repeat(np.arange(self.source.size), np.diff(self.indptr))

    def of_rows(self, policy: FloatArray) -> FloatArray:
        """Policies ``[..., S, A]`` as probabilities of rows, ``[..., R]``."""
        return np.ascontiguousarray(policy[..., self.row_id[:, 0], self.row_id[:, 1]])

    def as_policy(self, rows: FloatArray) -> FloatArray:
        """Probabilities of rows ``[R]`` as a policy ``[S, A]``."""
        out = np.zeros((self.task.n_states, self.task.n_actions))
        out[self.row_id[:, 0], self.row_id[:, 1]] = rows
        return out

    @classmethod
    def of(cls, rows: BeliefRows, task: Task, used: BoolArray) -> "SweepRows":
        """Take the rows of live states that are ``used`` [S, A]."""
        layout = rows.layout
        wanted = used & ~task.is_terminal[:, None]
        row = np.flatnonzero(wanted[layout.state, layout.action])
        n_entries = int(np.diff(layout.indptr)[row].sum())
        if n_entries >= 2**32:  # kernels count entries with 32 bits
            raise TooLargeError(
                f"The policies use {n_entries} entries; 2**32 would not fit. Take a "
                "policy or a prior with fewer next states."
            )
        order = np.concatenate([task.live, task.terminal])
        position = np.empty(task.n_states, dtype=np.int64)
        position[order] = np.arange(task.n_states)
        entries, kept = layout.entries_of(row), layout.take(row)
        row_id = np.stack([kept.state, kept.action], axis=1)
        return cls(
            task=task,
            order=order,
            row=row,
            row_id=np.ascontiguousarray(row_id),
            source=position[kept.state],
            indptr=np.asarray(kept.indptr, dtype=np.int64),
            target=position[kept.next_state].astype(np.uint32),
            mean=np.ascontiguousarray(rows.mean[entries]),
            reward=np.ascontiguousarray(rows.reward[entries]),
            terminal_value=np.ascontiguousarray(rows.terminal_value[order]),
            start=np.ascontiguousarray(task.start[order]),
            total=None if rows.total is None else rows.total[row],
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """What a sweep reads: rows, policies over them, and which draws."""

    rows: SweepRows
    policies: FloatArray  # [P, R]
    stream: Stream | None = None  # None: the mean model alone

    @property
    def task(self) -> Task:
        """The known part."""
        return self.rows.task

    @property
    def n_live(self) -> int:
        """Number of live states."""
        return self.rows.n_live

    @cached_property
    def used(self) -> BoolArray:
        """Whether some policy uses a row, ``[R]``."""
        return np.asarray((self.policies > 0).any(axis=0))

    def with_policies(self, policies: FloatArray) -> "Problem":
        """Return the same rows and draws for other policies ``[P, R]``."""
        return replace(self, policies=policies)

    def with_stream(self, stream: Stream) -> "Problem":
        """Return the same rows and policies on other draws of the belief."""
        return replace(self, stream=stream.of_rows(self.rows.row))

    @classmethod
    def of_draws(
        cls, draws: Draws, policies: FloatArray, *, every_row: bool = False
    ) -> "Problem":
        """Rows of a belief that policies ``[P, S, A]`` use (or all), and its draws."""
        if every_row:
            problem = cls.of_belief(draws.belief)
            problem = problem.with_policies(problem.rows.of_rows(policies))
        else:
            problem = cls.of_belief(draws.belief, policies)
        return problem.with_stream(draws.stream)

    @classmethod
    def of_belief(cls, belief: Belief, policies: FloatArray | None = None) -> "Problem":
        """Rows that policies ``[P, S, A]`` use, or every available one; no draws."""
        return cls._of(belief.rows(), belief.task, belief.available, policies)

    @classmethod
    def of_dynamics(
        cls, dynamics: Dynamics, task: Task, policies: FloatArray | None = None
    ) -> "Problem":
        """One known model: rows that policies ``[P, S, A]`` use, or every one."""
        layout = dynamics.rows
        reward = task.transition_reward(
            layout.state, layout.action, layout.next_state, np.diff(layout.indptr)
        )
        rows = BeliefRows(
            layout, dynamics.probability, reward, task.terminal_value, None
        )
        return cls._of(rows, task, layout.available, policies)

    @classmethod
    def _of(
        cls,
        rows: BeliefRows,
        task: Task,
        available: BoolArray,
        policies: FloatArray | None,
    ) -> "Problem":
        if policies is None:
            every = SweepRows.of(rows, task, available)
            return cls(every, np.zeros((1, every.row.size)))
        used = SweepRows.of(rows, task, np.asarray((policies > 0).any(axis=0)))
        return cls(used, used.of_rows(policies))
