"""The ground an optimiser walks on: every row of a belief, and fresh draws of it."""

from dataclasses import replace

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.engine import BLOCK, Pool, Slopes, check_ending, slopes
from bayesmdp.engine.planning import every_row
from bayesmdp.errors import EndlessError
from bayesmdp.posterior import Belief, Draws, Ensemble

_FEW_MODELS = 1000  # up to so many models of an ensemble are swept exactly
_FIRST_DRAWS = 100_000  # draws that models are named for at first
_MANY_ENTRIES = 20_000  # entries above which rows of little use are not sampled
_LITTLE = 0.01  # probability, relative to a state's largest, of little use


class Field:
    """Gradients of policies on draws that are used once and never again."""

    def __init__(
        self,
        belief: Belief,
        seed: int,
        pool: Pool,
        used: int = 0,
        solver: str = "auto",
    ) -> None:
        self.belief, self.seed, self.pool, self.solver = belief, seed, pool, solver
        self.exact = isinstance(belief, Ensemble) and belief.n_models <= _FEW_MODELS
        self.problem = every_row(belief)
        self.used = used
        if not self.exact:
            self._name_draws(_FIRST_DRAWS)

    def _name_draws(self, n_draws: int) -> None:
        """Set the stream of the ascent; models are named for so many draws."""
        draws = Draws(self.belief, n_draws, self.seed, "optimise")
        self.problem = replace(self.problem, key=draws.key, member=draws.members)

    @property
    def work(self) -> float:
        """Rough count of operations of a draw, which sets how many are affordable.

        In units of dense elimination, whose operations are the fastest.
        """
        entries = self.problem.target.size
        return min(self.problem.n_live**3 / 3, 200.0 * entries) + 10.0 * entries

    def affordable(self, budget: float, least: int, most: int) -> int:
        """Draws within a budget of operations, in whole blocks."""
        n = int(np.clip(budget / self.work, least, most))
        return max(n // BLOCK, 1) * BLOCK

    def sparse(self, rows: FloatArray) -> FloatArray:
        """Policy rows ``[R]`` without those of little use, where rows are many.

        The gradient knows rows without probability by their mean, so they cost no
        draw: the ascent of a large problem moves among policies of few actions a
        state, and an action comes back as soon as its slope has raised it again.
        """
        problem = self.problem
        if problem.target.size <= _MANY_ENTRIES or problem.task.discount == 1.0:
            return rows  # without discount, what is of little use may be the only end
        top = np.zeros(problem.n_live)
        np.maximum.at(top, problem.source, rows)
        kept = np.where(rows >= _LITTLE * top[problem.source], rows, 0.0)
        total = np.bincount(problem.source, kept, minlength=problem.n_live)
        return np.asarray(kept / total[problem.source])

    def slopes(
        self, policy: FloatArray, n_draws: int, first: int | None = None
    ) -> Slopes:
        """Gradient of policy rows ``[R]`` on fresh draws, or those from ``first``."""
        if self.exact and isinstance(self.belief, Ensemble):
            n = self.belief.n_models
            weights = self.belief.weights * n
            return slopes(
                self.problem,
                policy,
                n,
                pool=self.pool,
                weights=weights,
                solver=self.solver,
            )
        if first is None:
            first = self.used
            self.used += -(-n_draws // BLOCK) * BLOCK
        if 0 < self.problem.member.size < first + n_draws:
            self._name_draws(4 * (first + n_draws))
        return slopes(
            self.problem,
            policy,
            n_draws,
            pool=self.pool,
            first=first,
            solver=self.solver,
        )

    def reached(self, policy: FloatArray) -> BoolArray:
        """States a policy may reach from the start, ``[S]``."""
        problem = self.problem
        row = np.repeat(np.arange(problem.source.size), np.diff(problem.indptr))
        used = (self.rows(policy)[row] > 0) & (problem.theta_bar > 0)
        tail, head = problem.source[row[used]], problem.target[used]
        seen = problem.start > 0
        while True:
            new = np.zeros_like(seen)
            new[head[seen[tail]]] = True
            if not (new & ~seen).any():
                break
            seen = seen | new
        out = np.empty_like(seen)
        out[problem.order] = seen
        return out

    def ends(self, policy: FloatArray) -> bool:
        """Whether a policy ends and has a mean; always, for discounts below 1."""
        if self.problem.task.discount < 1.0:
            return True
        try:
            check_ending(replace(self.problem, policies=self.rows(policy)[None]))
        except EndlessError:
            return False
        return True

    def draws(self, purpose: str, n_draws: int) -> Draws:
        """Draws kept apart from those of the ascent: to choose on, or to judge on."""
        if self.exact and isinstance(self.belief, Ensemble):
            return self.belief.draws()
        return Draws(self.belief, n_draws, self.seed, purpose)

    def rows(self, policy: FloatArray) -> FloatArray:
        """Policy ``[S, A]`` as probabilities of rows, ``[R]``."""
        row_id = self.problem.row_id
        return np.asarray(policy[row_id[:, 0], row_id[:, 1]])

    def policy(self, rows: FloatArray) -> FloatArray:
        """Rows ``[R]`` as a policy ``[S, A]``."""
        task = self.problem.task
        out = np.zeros((task.n_states, task.n_actions))
        out[self.problem.row_id[:, 0], self.problem.row_id[:, 1]] = rows
        total = out.sum(axis=1, keepdims=True)
        np.divide(out, total, out, where=total > 0)
        return out
