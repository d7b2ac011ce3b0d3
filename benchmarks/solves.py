"""The solves of one draw alone, ours and dense, from the same sampled rows.

Only here do benchmarks reach into the engine: the sweep times whole draws.
"""

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from bayesmdp import engine
from bayesmdp.engine import _solve
from bayesmdp.engine._bellman import bellman_mean
from bayesmdp.engine._chain import Chain, build_chain
from bayesmdp.engine._dense import assemble
from bayesmdp.engine._kernel import Method

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Solves:
    """Solves of a problem's first policy, for value and (if wanted) occupancy."""

    problem: engine.Problem
    nominal: engine.Nominal
    adjoint: bool

    @property
    def want(self) -> int:
        """What is solved for, as the kernels read it."""
        return _solve.GRADIENT if self.adjoint else 0

    @cached_property
    def chain(self) -> Chain:
        """Where the entries of the policy's chain stand."""
        problem = self.problem
        return build_chain(
            problem.policies[0], problem.rows.layout, problem.n_live, self.adjoint
        )

    @cached_property
    def _space(self) -> _solve.Space:
        return self._space_for(self.nominal.solver)

    @cached_property
    def _dense_space(self) -> _solve.Space:
        return self._space_for(Method())

    def _space_for(self, method: Method) -> _solve.Space:
        return method.space(*self.problem.sizes[:3])

    @cached_property
    def _out(self) -> _solve.Solution:
        return _solve.Solution(*np.zeros((3, 1, self.problem.rows.start.size)))

    def ours(self, theta: Array) -> tuple[float, Array]:
        """Seconds of the engine's own way, with its guesses; solutions ``[2, S]``."""
        problem, nominal, out = self.problem, self.nominal, self._out
        chain, space = self.chain, self._space
        lengths = nominal.solver.length
        began = time.perf_counter()
        out.value[0] = nominal.reference[0, 0]
        out.occupancy[0] = nominal.reference[2, 0]
        products = _solve.solve_iteratively(
            nominal.solver.krylov,
            chain,
            space,
            self.want,
            theta,
            problem.policies[0],
            problem.rows.layout,
            problem.reward,
            problem.discounts,
            problem.rows.start,
            lengths[0, 0],
            lengths[1, 0],
            out,
        )
        seconds = time.perf_counter() - began
        if products <= 0:
            raise AssertionError("iterations did not solve a draw of a benchmark")
        return seconds, np.stack([out.value[0], out.occupancy[0]])

    def eliminated(self, theta: Array) -> tuple[float, Array]:
        """Seconds of our own dense elimination; solutions ``[2, S]``."""
        problem, out, space = self.problem, self._out, self._dense_space
        began = time.perf_counter()
        _solve.solve_directly(
            _solve.Dense(),
            None,
            space,
            self.want,
            theta,
            problem.policies[0],
            problem.rows.layout,
            problem.reward,
            problem.discounts,
            problem.rows.start,
            out,
        )
        seconds = time.perf_counter() - began
        return seconds, np.stack([out.value[0], out.occupancy[0]])

    def by_lapack(self, theta: Array) -> tuple[float, Array]:
        """Seconds of LAPACK, the matrix handed over ready and in its own order."""
        problem, n = self.problem, self.problem.n_live
        pi, g = problem.policies[0], problem.task.discount
        matrix, slack = np.empty((n, n)), np.empty(n)
        assemble(theta, pi, problem.rows.layout, g, matrix, slack)
        matrix = np.asfortranarray(matrix)
        paid = np.empty((1, problem.rows.start.size))
        bellman_mean(theta, pi, problem.rows.layout, problem.reward, paid)
        paid = paid[0]
        out = np.zeros((2, paid.size))
        start = problem.rows.start[:n].copy()
        began = time.perf_counter()
        lu = lu_factor(matrix, overwrite_a=True, check_finite=False)
        out[0, :n] = lu_solve(lu, paid[:n], check_finite=False)
        if self.adjoint:
            out[1, :n] = lu_solve(lu, start, trans=1, check_finite=False)
        return time.perf_counter() - began, out
