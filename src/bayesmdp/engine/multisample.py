"""Multi-sample backward induction on arrays (Dimitrakakis 2011).

Every draw keeps its own value function. An iteration takes, in each state, the action
that is best on average over draws (each looking ahead with its own values), and then
moves every draw's values one step under that common policy::

    pi[s]  = argmax_a  mean_d  Q_d[s, a]
    V_d[s] = Q_d[s, pi[s]]

Once the policy has stayed for a while, its values are solved for, which is where the
iteration was heading, and the search goes on from there: it ends where the policy stays
even then, or keeps coming back to policies it has left.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._backup import back_up, fill_table, settle, sum_lookahead
from bayesmdp.engine._planner import TIE
from bayesmdp.engine._problem import Problem
from bayesmdp.engine._sweep import BLOCK, workers

__all__ = ["MultiSample", "multi_sample_induction"]

_STAYS = 5  # iterations after which a policy's values are solved for
_RETURNS = 10  # to policies met before, after which it goes in circles


@dataclass(frozen=True, eq=False)
class MultiSample:
    """Best policy met, by its exact value on the draws."""

    choice: IntArray  # [N]
    iterations: int
    converged: bool
    status: str


class _Held:
    """Draws in memory, worked on by several threads in parts of whole blocks."""

    def __init__(self, problem: Problem, n_draws: int, pool: Executor) -> None:
        self.problem, self.pool = problem, pool
        size = problem.target.size
        self.table = np.empty((n_draws, size))
        self.paid = np.empty((n_draws, problem.source.size))
        self.values = np.zeros((n_draws, problem.start.size))
        self.parts = [
            slice(first, min(first + 4 * BLOCK, n_draws))
            for first in range(0, n_draws, 4 * BLOCK)
        ]
        self._each(self._fill)

    def _each(self, work: Callable[[slice], object]) -> list[object]:
        return list(self.pool.map(work, self.parts))

    def _fill(self, part: slice) -> None:
        p = self.problem
        fill_table(p.models, p.layout, part.start, self.table[part], self.paid[part])

    def _arguments(self, part: slice) -> tuple[object, ...]:
        p = self.problem
        return self.table[part], self.paid[part], p.layout, p.task.discount

    def mean_lookahead(self) -> FloatArray:
        """Mean of ``Q`` over draws, ``[R]``; parts are added in order."""

        def work(part: slice) -> FloatArray:
            sums = np.zeros(self.problem.source.size)
            run: Callable[..., None] = sum_lookahead
            run(*self._arguments(part), self.values[part], sums)
            return sums

        total = np.zeros(self.problem.source.size)
        for sums in self.pool.map(work, self.parts):
            total += sums
        return total / self.table.shape[0]

    def step(self, choice: IntArray) -> None:
        """One step of a policy on every draw."""
        run: Callable[..., None] = back_up
        self._each(lambda part: run(*self._arguments(part), choice, self.values[part]))

    def settle(self, choice: IntArray) -> float:
        """Solve for a policy's values; return its mean start value."""
        run: Callable[..., int] = settle
        ended = self.pool.map(
            lambda part: run(*self._arguments(part), choice, self.values[part]),
            self.parts,
        )
        if sum(ended) < self.table.shape[0]:  # no policy at all without an end
            return -np.inf
        return float((self.values @ self.problem.start).mean())


def multi_sample_induction(
    problem: Problem,
    choice: IntArray,
    n_draws: int,
    max_iterations: int,
    threads: int | None,
) -> MultiSample:
    """Search from a policy ``choice`` [N] on draws of a problem with every row."""
    with workers(threads, None) as (pool, _):
        held = _Held(problem, n_draws, pool)
        met: dict[bytes, tuple[float | None, IntArray]] = {
            choice.tobytes(): (held.settle(choice), choice)
        }
        stayed, returns, settled = 0, 0, True
        status, converged = f"stopped after {max_iterations} iterations", False
        for iteration in range(1, max_iterations + 1):
            new = _greedy(problem, held.mean_lookahead(), choice)
            if settled and np.array_equal(new, choice):
                status, converged = f"stays after {iteration} iterations", True
                break
            if not np.array_equal(new, choice):
                returns += new.tobytes() in met
                if returns > _RETURNS:
                    status = f"goes in circles after {iteration} iterations"
                    break
                choice, stayed, settled = new, 0, False
                met.setdefault(choice.tobytes(), (None, choice))
            stayed += 1
            if stayed < _STAYS:
                held.step(choice)
            else:
                value, settled = held.settle(choice), True
                met[choice.tobytes()] = (value, choice)
                if value == -np.inf:
                    status = (
                        f"met a policy that never ends after {iteration} iterations"
                    )
                    break
        best = _best(held, list(met.values()))
    return MultiSample(best, iteration, converged, status)


def _best(held: _Held, met: list[tuple[float | None, IntArray]]) -> IntArray:
    """Best by exact value of the policies met; the last few are solved for."""
    valued = [
        (held.settle(choice) if value is None else value, choice)
        for i, (value, choice) in enumerate(met)
        if value is not None or i >= len(met) - _STAYS
    ]
    return max(valued, key=lambda pair: pair[0])[1]


def _greedy(problem: Problem, q: FloatArray, choice: IntArray) -> IntArray:
    """Best row of each state; a tie keeps the row that is chosen."""
    n = problem.n_live
    top = np.full(n, -np.inf)
    np.maximum.at(top, problem.source, q)
    tie = TIE * max(float(np.abs(q).max()), 1e-300)
    rows = np.flatnonzero(q >= top[problem.source] - tie)
    new = choice.copy()
    new[problem.source[rows][::-1]] = rows[::-1]
    keeps = q[choice] >= top - tie
    new[keeps] = choice[keeps]
    return new
