"""The arrays of a belief that a set of policies uses, in the form the kernel reads."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.model import Dynamics, Rows, Task
from bayesmdp.posterior import Draws


@dataclass(frozen=True, eq=False)
class Problem:
    """What a sweep reads. States stand in sweep order: live first, then terminal."""

    task: Task
    order: IntArray  # [S], sweep order -> state
    row: IntArray  # [R], rows of the belief that are used
    row_id: IntArray  # [R, 2]
    source: IntArray  # [R]
    indptr: IntArray  # [R + 1]
    target: IntArray  # [E]
    theta_bar: FloatArray  # [E], mean of the draws
    alpha: FloatArray  # [E] or [0]
    table: FloatArray  # [M, E] or [0, E]
    rewards: FloatArray  # [1, E] or [M, E]
    policies: FloatArray  # [P, R]
    start: FloatArray  # [S]
    terminal_value: FloatArray  # [S]
    key: NDArray[np.uint64]  # [2]

    @property
    def n_live(self) -> int:
        """Number of live states."""
        return int(self.task.live.size)

    @classmethod
    def of_draws(
        cls, draws: Draws, policies: FloatArray, *, every_row: bool = False
    ) -> "Problem":
        """Rows of a posterior that policies ``[P, S, A]`` use (or all of them)."""
        posterior = draws.posterior
        problem = cls._of_rows(posterior.rows, posterior.task, policies, every_row)
        entries = _entries(posterior.rows, problem.row)
        return replace(
            problem,
            theta_bar=np.ascontiguousarray(posterior.mean().probability[entries]),
            alpha=np.ascontiguousarray(posterior.alpha[entries]),
            key=draws.key,
        )

    @classmethod
    def of_dynamics(
        cls,
        dynamics: Dynamics,
        task: Task,
        policies: FloatArray,
        *,
        every_row: bool = False,
    ) -> "Problem":
        """One known model, as a table of a single draw."""
        problem = cls._of_rows(dynamics.rows, task, policies, every_row)
        entries = _entries(dynamics.rows, problem.row)
        return replace(
            problem, theta_bar=np.ascontiguousarray(dynamics.probability[entries])
        ).nominal()

    @classmethod
    def _of_rows(
        cls, rows: Rows, task: Task, policies: FloatArray, every_row: bool
    ) -> "Problem":
        of_row = policies[:, rows.state, rows.action]
        used = ~task.is_terminal[rows.state]
        if not every_row:
            used &= (of_row > 0).any(axis=0)
        row = np.flatnonzero(used)
        entries = _entries(rows, row)
        order = np.concatenate([task.live, task.terminal])
        position = np.empty(task.n_states, dtype=np.int64)
        position[order] = np.arange(task.n_states)
        length = np.diff(rows.indptr)[row]
        indptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        state, action = rows.state[row], rows.action[row]
        target = rows.next_state[entries]
        reward = task.transition_reward(
            np.repeat(state, length), np.repeat(action, length), target
        )
        return cls(
            task=task,
            order=order,
            row=row,
            row_id=np.ascontiguousarray(np.stack([state, action], axis=1)),
            source=position[state],
            indptr=indptr,
            target=position[target],
            theta_bar=np.empty(0),
            alpha=np.empty(0),
            table=np.empty((0, target.size)),
            rewards=np.ascontiguousarray(reward)[None],
            policies=np.ascontiguousarray(of_row[:, row]),
            start=np.ascontiguousarray(task.start[order]),
            terminal_value=np.ascontiguousarray(task.terminal_value[order]),
            key=np.zeros(2, dtype=np.uint64),
        )

    def nominal(self) -> "Problem":
        """Return the same problem with the mean of the draws as its only draw."""
        return replace(self, alpha=np.empty(0), table=self.theta_bar[None])


def _entries(rows: Rows, row: IntArray) -> IntArray | slice:
    """Entries of the given rows, in order."""
    if row.size == rows.pair.size:
        return slice(None)
    chosen = np.zeros(rows.pair.size, dtype=np.bool_)
    chosen[row] = True
    return np.flatnonzero(np.repeat(chosen, np.diff(rows.indptr)))
