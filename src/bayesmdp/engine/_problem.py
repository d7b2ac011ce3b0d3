"""The arrays of a belief that a set of policies uses, in the form the kernel reads."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp._typing import BoolArray, FloatArray, IndexArray, IntArray
from bayesmdp.engine._layout import Layout, Models
from bayesmdp.errors import TooLargeError
from bayesmdp.model import Dynamics, Rows, Task
from bayesmdp.posterior import (
    Draws,
    MixturePosterior,
    Posterior,
    SetTable,
    no_sets,
)


@dataclass(frozen=True, eq=False)
class Problem:
    """What a sweep reads. States stand in sweep order: live first, then terminal."""

    task: Task
    order: IntArray  # [S], sweep order -> state
    row: IntArray  # [R], rows of the belief that are used
    row_id: IntArray  # [R, 2]
    source: IntArray  # [R]
    indptr: IntArray  # [R + 1]
    target: IndexArray  # [E]
    theta_bar: FloatArray  # [E], mean of the draws
    reward_bar: FloatArray  # [E], mean reward
    terminal_bar: FloatArray  # [S], mean value of terminal states
    alpha: FloatArray  # [C, E] or [0, E]
    shares: FloatArray  # [C], weight of each component; or [0]
    table: FloatArray  # [M, E] or [0, E]
    member: IntArray  # [D], model or component of each draw; or [0]
    rewards: FloatArray  # [1, E] or [M, E]
    terminal_values: FloatArray  # [1, S] or [M, S]
    policies: FloatArray  # [P, R]
    start: FloatArray  # [S]
    key: NDArray[np.uint64]  # [2]
    sets: SetTable  # of next states that are in doubt

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what is derived: it would arrive in another form."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def layout(self) -> Layout:
        """Where rows lead, as kernels read it."""
        return Layout(
            read_only(self.source), read_only(self.indptr), read_only(self.target)
        )

    @cached_property
    def models(self) -> Models:
        """How a draw gets its rows, as kernels read it."""
        return for_kernels(
            Models(
                self.key,
                self.row_id,
                self.alpha,
                self.table,
                self.component_means,
                self.member,
                self.rewards,
                self.terminal_values,
            )
        )

    @cached_property
    def groups(self) -> SetTable | None:
        """Sets of next states, as kernels read them; None where rows are Dirichlet.

        Components of a mixture may have other next states than the rest, and are
        sampled in the same way; kernels for plain rows are not compiled for either.
        """
        if len(self.alpha) <= 1 and len(self.sets.group) == 0:
            return None
        return SetTable(*map(read_only, self.sets))

    def with_policies(self, policies: FloatArray) -> "Problem":
        """Return the same rows for other policies ``[P, R]``, ready for kernels."""
        other = replace(self, policies=policies)
        vars(other).update(layout=self.layout, models=self.models, groups=self.groups)
        return other

    @property
    def dirichlet(self) -> bool:
        """Whether rows are independent, each a Dirichlet."""
        return len(self.alpha) == 1 and len(self.sets.group) == 0

    @cached_property
    def component_means(self) -> FloatArray:
        """Mean of each component's rows, ``[C, E]``."""
        if self.alpha.shape[0] == 1:
            return self.theta_bar[None]
        return _row_shares(self.alpha, self.indptr)

    @cached_property
    def used(self) -> BoolArray:
        """Whether some policy uses a row, ``[R]``."""
        return np.asarray((self.policies > 0).any(axis=0))

    @property
    def n_live(self) -> int:
        """Number of live states."""
        return int(self.task.live.size)

    @classmethod
    def of_draws(
        cls, draws: Draws, policies: FloatArray, *, every_row: bool = False
    ) -> "Problem":
        """Rows of a belief that policies ``[P, S, A]`` use (or all of them)."""
        belief = draws.belief
        problem = cls._of_rows(belief.rows, belief.task, policies, every_row)
        entries = _entries(belief.rows, problem.row)
        if isinstance(belief, Posterior):
            alpha = np.ascontiguousarray(belief.alpha[entries])[None]
            theta_bar = _row_shares(alpha, problem.indptr)[0]
            return replace(
                problem,
                theta_bar=theta_bar,
                alpha=alpha,
                shares=np.ones(1),
                key=draws.key,
                sets=belief.set_table.of_rows(problem.row, entries),
            )
        theta_bar = np.ascontiguousarray(belief.mean().probability[entries])
        if isinstance(belief, MixturePosterior):
            return replace(
                problem,
                theta_bar=theta_bar,
                alpha=np.ascontiguousarray(belief.alpha[:, entries]),
                shares=belief.weights,
                member=draws.members,
                key=draws.key,
                sets=belief.set_table.of_rows(problem.row, entries),
            )
        shares = belief.weights if belief.terminal_values.shape[0] > 1 else np.ones(1)
        return replace(
            problem,
            theta_bar=theta_bar,
            reward_bar=np.ascontiguousarray(belief.mean_reward[entries]),
            terminal_bar=(shares @ belief.terminal_values)[problem.order],
            table=np.ascontiguousarray(belief.table[:, entries]),
            member=draws.members,
            rewards=np.ascontiguousarray(belief.rewards[:, entries]),
            terminal_values=np.ascontiguousarray(
                belief.terminal_values[:, problem.order]
            ),
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
        n_entries = int(np.diff(rows.indptr)[row].sum())
        if n_entries >= 2**32:  # kernels count entries with 32 bits
            raise TooLargeError(
                f"The policies use {n_entries} entries; 2**32 would not fit. Take a "
                "policy or a prior with fewer next states."
            )
        order = np.concatenate([task.live, task.terminal])
        position = np.empty(task.n_states, dtype=np.int64)
        position[order] = np.arange(task.n_states)
        length = np.diff(rows.indptr)[row]
        indptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        state, action = rows.state[row], rows.action[row]
        target = rows.next_state[entries]
        reward = task.transition_reward(state, action, target, length)
        return cls(
            task=task,
            order=order,
            row=row,
            row_id=np.ascontiguousarray(np.stack([state, action], axis=1)),
            source=position[state],
            indptr=indptr,
            target=position[target].astype(np.uint32),
            theta_bar=np.empty(0),
            reward_bar=np.ascontiguousarray(reward),
            terminal_bar=np.ascontiguousarray(task.terminal_value[order]),
            alpha=np.empty((0, target.size)),
            shares=np.empty(0),
            table=np.empty((0, target.size)),
            member=np.empty(0, dtype=np.int64),
            rewards=np.ascontiguousarray(reward)[None],
            terminal_values=np.ascontiguousarray(task.terminal_value[order])[None],
            policies=np.ascontiguousarray(of_row[:, row]),
            start=np.ascontiguousarray(task.start[order]),
            key=np.zeros(2, dtype=np.uint64),
            sets=no_sets(),
        )

    def nominal(self) -> "Problem":
        """Return the same problem with the mean of the draws as its only draw."""
        return replace(
            self,
            alpha=np.empty((0, self.target.size)),
            shares=np.empty(0),
            table=self.theta_bar[None],
            member=np.zeros(1, dtype=np.int64),
            rewards=self.reward_bar[None],
            terminal_values=self.terminal_bar[None],
            sets=no_sets(),
        )


def _entries(rows: Rows, row: IntArray) -> IntArray | slice:
    """Entries of the given rows, in order."""
    if row.size == rows.pair.size:
        return slice(None)
    chosen = np.zeros(rows.pair.size, dtype=np.bool_)
    chosen[row] = True
    return np.flatnonzero(np.repeat(chosen, np.diff(rows.indptr)))


def _row_shares(alpha: FloatArray, indptr: IntArray) -> FloatArray:
    """Parameters ``[C, E]`` over the totals of their rows."""
    total = np.add.reduceat(alpha, indptr[:-1], axis=1)
    return np.asarray(alpha / np.repeat(total, np.diff(indptr), axis=1))


def for_kernels(models: Models) -> Models:
    """Return the same arrays, of the types that kernels are compiled for."""
    values = writable(models.terminal_values)
    return Models(*map(read_only, models))._replace(terminal_values=values)


def writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array, or a copy that may be written to.

    Vectors and rows that kernels are given then have the type of those they make
    themselves, and what they call compiles once for both. Nothing writes to them.
    """
    return np.require(array, requirements=("C", "A", "W"))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Read-only view: numba compiles once for inputs that all look the same."""
    view = np.require(array, requirements=("C", "A")).view()
    view.flags.writeable = False
    return view
