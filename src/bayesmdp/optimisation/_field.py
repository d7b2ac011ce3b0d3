"""The ground an optimiser walks on: every row of a belief, and fresh draws of it."""

from dataclasses import replace

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import BLOCK, Pool, Problem, Slopes, check_ending, slopes
from bayesmdp.engine.planning import every_row
from bayesmdp.errors import EndlessError
from bayesmdp.posterior import Draws, Ensemble, Posterior

_FEW_MODELS = 1000  # up to so many models of an ensemble are swept exactly
_STREAM = 2**40  # draws of an optimiser's stream; more than anybody uses


class Field:
    """Gradients of policies on draws that are used once and never again."""

    def __init__(
        self, belief: Posterior | Ensemble, seed: int, pool: Pool, used: int = 0
    ) -> None:
        self.belief, self.seed, self.pool = belief, seed, pool
        self.exact = isinstance(belief, Ensemble) and belief.n_models <= _FEW_MODELS
        self.problem = every_row(belief)
        self.used = used
        if not self.exact:
            self.problem = self._with_draws("optimise")

    def _with_draws(self, purpose: str) -> Problem:
        draws = Draws(self.belief, self._stream_length(), self.seed, purpose)
        if isinstance(self.belief, Posterior):
            return replace(self.problem, key=draws.key)
        return replace(self.problem, key=draws.key, member=draws.members)

    def _stream_length(self) -> int:
        return _STREAM if isinstance(self.belief, Posterior) else 10**6

    @property
    def work(self) -> float:
        """Rough count of operations of a draw, which sets how many are affordable."""
        return self.problem.n_live**3 / 3 + 10.0 * self.problem.target.size

    def affordable(self, budget: float, least: int, most: int) -> int:
        """Draws within a budget of operations, in whole blocks."""
        n = int(np.clip(budget / self.work, least, most))
        return max(n // BLOCK, 1) * BLOCK

    def slopes(
        self, policy: FloatArray, n_draws: int, first: int | None = None
    ) -> Slopes:
        """Gradient of policy rows ``[R]`` on fresh draws, or those from ``first``."""
        if self.exact and isinstance(self.belief, Ensemble):
            n = self.belief.n_models
            weights = self.belief.weights * n
            return slopes(self.problem, policy, n, pool=self.pool, weights=weights)
        if first is None:
            first = self.used
            self.used += -(-n_draws // BLOCK) * BLOCK
        return slopes(self.problem, policy, n_draws, pool=self.pool, first=first)

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
