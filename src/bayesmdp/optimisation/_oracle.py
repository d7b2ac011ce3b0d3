"""Stochastic gradients of policies, on fresh draws of a belief."""

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.engine import BLOCK, Pool, Problem, Slopes, check_ending, slopes
from bayesmdp.errors import EndlessError
from bayesmdp.posterior import Belief, Draws

_FEW_MODELS = 1000  # up to so many models of an ensemble are swept exactly
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
        n_models = belief.n_models
        self.exact = n_models is not None and n_models <= _FEW_MODELS
        stream = belief.stream(None if self.exact else 1, seed, "optimise")
        self.problem = Problem.of_belief(belief).with_stream(stream)
        self.used = used

    @property
    def work(self) -> float:
        """Rough count of operations of a draw, which sets how many are affordable.

        In units of dense elimination, whose operations are the fastest.
        """
        entries = self.problem.rows.target.size
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
        if problem.rows.target.size <= _MANY_ENTRIES or problem.task.discount == 1.0:
            return rows  # without discount, what is of little use may be the only end
        top = np.zeros(problem.n_live)
        np.maximum.at(top, problem.rows.source, rows)
        kept = np.where(rows >= _LITTLE * top[problem.rows.source], rows, 0.0)
        total = np.bincount(problem.rows.source, kept, minlength=problem.n_live)
        return np.asarray(kept / total[problem.rows.source])

    def slopes(
        self, policy: FloatArray, n_draws: int, first: int | None = None
    ) -> Slopes:
        """Gradient of policy rows ``[R]`` on fresh draws, or those from ``first``."""
        weights = None
        if self.exact:
            assert self.problem.stream is not None
            assert self.belief.n_models is not None
            n_draws, first = self.belief.n_models, 0
            weights = self.problem.stream.weights(n_draws)
        elif first is None:
            first = self.used
            self.used += -(-n_draws // BLOCK) * BLOCK
        return slopes(
            self.problem,
            policy,
            n_draws,
            pool=self.pool,
            first=first,
            weights=weights,
            exact=self.exact,
            solver=self.solver,
        )

    def reached(self, policy: FloatArray) -> BoolArray:
        """States a policy may reach from the start, ``[S]``."""
        problem = self.problem
        row = problem.rows.row_of_entry
        used = (self.rows(policy)[row] > 0) & (problem.rows.mean > 0)
        tail, head = problem.rows.source[row[used]], problem.rows.target[used]
        seen = problem.rows.start > 0
        while True:
            new = np.zeros_like(seen)
            new[head[seen[tail]]] = True
            if not (new & ~seen).any():
                break
            seen = seen | new
        out = np.empty_like(seen)
        out[problem.rows.order] = seen
        return out

    def ends(self, policy: FloatArray) -> bool:
        """Whether a policy ends and has a mean; always, for discounts below 1."""
        if self.problem.task.discount < 1.0:
            return True
        try:
            rows = self.rows(policy)[None]
            check_ending(self.problem.with_policies(rows), self.belief)
        except EndlessError:
            return False
        return True

    def draws(self, purpose: str, n_draws: int) -> Draws:
        """Draws kept apart from those of the ascent: to choose on, or to judge on."""
        if self.exact:
            return self.belief.draws()
        return Draws(self.belief, n_draws, self.seed, purpose)

    def rows(self, policy: FloatArray) -> FloatArray:
        """Policy ``[S, A]`` as probabilities of rows, ``[R]``."""
        return self.problem.rows.of_rows(policy)

    def policy(self, rows: FloatArray) -> FloatArray:
        """Rows ``[R]`` as a policy ``[S, A]``."""
        out = self.problem.rows.as_policy(rows)
        total = out.sum(axis=1, keepdims=True)
        np.divide(out, total, out, where=total > 0)
        return out
