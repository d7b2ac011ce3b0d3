"""The nominal model: the mean of the draws, around which a sweep is summed.

Its value, return variance and occupancy are the references of the kernel's sums, where
iterations start, and what control variates are made of. With the inverse ``X = (I - g
T_bar)^-1`` every state has two of them; ``X`` is dense, so it is formed for up to
`MAX_INVERSE` live states only. Beyond that, the start value alone has one.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray
from bayesmdp.engine._choose import Solver
from bayesmdp.engine._dense import assemble, factorise, solve
from bayesmdp.engine._layout import Layout, References
from bayesmdp.engine._problem import Problem, read_only, writable

MAX_INVERSE = 2000
_SMALL_SHARE = 1e-4  # of the largest; six digits are right then


@dataclass(frozen=True, eq=False)
class Nominal:
    """Reference values, how to solve, and what control variates need."""

    reference: FloatArray  # [3, P, S] value, variance, occupancy
    theta_bar: FloatArray  # [E]
    inverse: FloatArray  # [P, N, N], transposes of X; or [P, 0, 0]
    solver: Solver
    controls: bool = False  # whether control variates are formed
    few_digits: tuple[bool, ...] = ()  # [P], see `lacks_digits`; or none

    @property
    def every_state(self) -> bool:
        """Whether control variates are formed for every state, not the start alone."""
        return bool(self.inverse.shape[1] > 0)

    def references(self, n_live: int) -> References:
        """Return what kernels read."""
        return References(
            n_live,
            writable(self.reference),
            writable(self.solver.length),
            read_only(self.theta_bar),
            read_only(self.inverse),
        )


def blank(problem: Problem, solver: Solver) -> Nominal:
    """No reference: sums of a single draw are then its values."""
    n_policies, n_states = problem.policies.shape[0], problem.start.size
    return Nominal(
        reference=np.zeros((3, n_policies, n_states)),
        theta_bar=problem.theta_bar,
        inverse=np.empty((n_policies, 0, 0)),
        solver=solver,
    )


def lacks_digits(problem: Problem, reference: FloatArray) -> tuple[bool, ...]:
    """Whether iterations leave few digits of the start's value or variance, ``[P]``.

    Their errors are small beside the largest value of all states, and the largest
    variance. Where those from the start are far smaller (rewards of another size that
    the start hardly sees, or an end far away), less is right of them.
    """
    live = slice(0, problem.n_live)
    weight = problem.start[live]
    found = []
    for p in range(reference.shape[1]):
        size = np.abs(reference[:2, p, live])  # [value and variance, N]
        found.append(bool((size @ weight < _SMALL_SHARE * size.max(axis=1)).any()))
    return tuple(found) if weight.any() else (False,) * len(found)


def inverses(problem: Problem) -> FloatArray:
    """Transposes of ``X`` of every policy, ``[P, N, N]``."""
    n = problem.n_live
    out = np.empty((problem.policies.shape[0], n, n))
    for policy, transposed in zip(problem.policies, out, strict=True):
        _invert(
            writable(problem.theta_bar),
            read_only(policy),
            problem.layout,
            problem.task.discount,
            transposed,
        )
    return out


@jit
def _invert(
    theta: FloatArray,
    pi: FloatArray,
    rows: Layout,
    g: float,
    transposed: FloatArray,
) -> None:
    """Fill ``transposed`` with the transpose of ``(I - g T)^-1``."""
    n = transposed.shape[0]
    matrix, slack = np.empty((n, n)), np.empty(n)
    assemble(theta, pi, rows, g, matrix, slack)
    factorise(matrix, slack)
    transposed[:] = 0.0
    for column in range(n):
        transposed[column, column] = 1.0
        solve(matrix, transposed[column])
