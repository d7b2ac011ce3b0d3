"""How the CPU solves horizons, by products, and averages per step, by renewals.

Each solves the mean model, and makes the kernel of a policy that `_cpu` calls with its
draws; the maths is in `_stages` and `averages`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._typing import FloatArray
from bayesmdp.engine import _solve as solving
from bayesmdp.engine._backend import BLOCK
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._stages import (
    Stages,
    StageSpace,
    fill_direction,
    solve_stages,
    stage_space,
    sweep_stages,
)
from bayesmdp.engine.averages import (
    Renewal,
    fill_derivative,
    make_renewal,
    solve_renewal,
    sweep_average,
)
from bayesmdp.errors import EndlessError

if TYPE_CHECKING:
    from bayesmdp.engine._cpu import Range

#: Sweeps some draws: number of the first, rows [n, E], rewards, terminal values.
Kernel = Callable[[int, FloatArray, FloatArray, FloatArray], None]


class Timed(ABC):
    """A way to solve that asks for no chain to end."""

    name: str

    @abstractmethod
    def solve_mean(self, problem: Problem, p: int, bits: int) -> FloatArray:
        """Value, variance and occupancy of a policy's mean model, ``[3, M, S]``."""

    @abstractmethod
    def kernel(self, part: "Range", p: int) -> Kernel:
        """Return the kernel of one policy, ready but for its draws."""

    @abstractmethod
    def n_bytes(self, problem: Problem) -> int:
        """Work space of one thread."""

    @abstractmethod
    def seconds(self, problem: Problem) -> float:
        """Rough time of one policy and draw."""


@dataclass(frozen=True, eq=False)
class Products(Timed):
    """A horizon: one product for each cycle."""

    stages: Stages
    name = "products"

    def solve_mean(self, problem: Problem, p: int, bits: int) -> FloatArray:
        """Solve the mean model."""
        return np.stack(self._solved(problem, p, bits)[0])

    def _solved(
        self, problem: Problem, p: int, bits: int
    ) -> tuple[solving.Solution, StageSpace]:
        space, rows = self._space(problem), problem.rows
        m = problem.n_columns
        out = solving.Solution(*np.zeros((3, m, rows.start.size)))
        solve_stages(
            self.stages,
            space,
            bits & ~solving.GRADIENT,
            rows.mean.copy(),
            read_only(problem.policies[p]),
            rows.layout,
            read_only(problem.reward),
            writable(problem.terminal_value),
            writable(rows.start),
            problem.n_live,
            out,
            np.zeros((0, rows.start.size)),
            np.zeros((m, rows.source.size)),
        )
        return out, space

    def _space(self, problem: Problem) -> StageSpace:
        rows = problem.rows
        return stage_space(self.stages, rows.start.size, rows.source.size)

    def _direction(self, problem: Problem, p: int) -> FloatArray:
        """Return derivatives of start values by the mean rows, ``[M, E]``."""
        rows, policy = problem.rows, read_only(problem.policies[p])
        out = np.empty((problem.n_columns, rows.mean.size))
        space = self._solved(problem, p, 0)[1]
        given = rows.mean.copy(), policy, rows.layout, read_only(problem.reward)
        start = writable(rows.start)
        fill_direction(self.stages, space, *given, start, problem.n_live, out)
        return out

    def kernel(self, part: "Range", p: int) -> Kernel:
        """Return the kernel of one policy."""
        problem, rows = part.problem, part.problem.rows
        columns, space = problem.columns(p), self._space(problem)
        direction = np.zeros((problem.n_columns, 0))
        if part.bits & solving.CONTROL:
            direction = self._direction(problem, p)

        def call(
            begin: int, theta: FloatArray, reward: FloatArray, final: FloatArray
        ) -> None:
            sweep_stages(
                begin,
                BLOCK,
                part.bits,
                self.stages,
                space,
                rows.layout,
                theta,
                reward,
                final,
                read_only(problem.policies[p]),
                writable(rows.start),
                read_only(part.weights),
                problem.n_live,
                writable(part.nominal.reference[:, columns]),
                read_only(rows.mean),
                direction,
                part.state[columns],
                part.row[columns],
                part.start[columns],
                part.status[p],
                part.kept[columns],
                part.cross[p],
            )

        return call

    def n_bytes(self, problem: Problem) -> int:
        """Values of all times, and rewards of entries."""
        n_times = self.stages.phase.size + 1
        values = problem.rows.start.size * n_times * problem.n_columns
        return int(8 * (values + 2 * problem.reward.size))

    def seconds(self, problem: Problem) -> float:
        """Three passes over the entries for each cycle, one more for each column."""
        passes = self.stages.phase.size * (problem.n_columns + 2)
        return float(0.6e-9 * passes * problem.rows.target.size)


@dataclass(frozen=True, eq=False)
class Renewals(Timed):
    """Averages: elimination between visits of a state."""

    anchors: tuple[int, ...]  # [P]
    name = "renewals"

    def solve_mean(self, problem: Problem, p: int, bits: int) -> FloatArray:
        """Solve the mean model."""
        at, m = self._solved(problem, p), problem.n_columns
        found = np.empty((3, m, problem.n_live))
        found[0], found[1] = at.gain[:, None], np.diag(at.rate)[:, None]
        found[2] = at.share
        return found

    def _solved(self, problem: Problem, p: int) -> Renewal:
        at = make_renewal(problem.n_live, len(problem.order))
        policy, rows = read_only(problem.policies[p]), problem.rows
        given = rows.mean.copy(), policy, rows.layout, read_only(problem.reward)
        if not solve_renewal(*given, self.anchors[p], at):
            name = problem.task.state_name(int(rows.order[self.anchors[p]]))
            raise EndlessError(
                f"This policy comes back to state {name} so rarely that its average "
                "cannot be resolved; use a discount below 1."
            )
        return at

    def kernel(self, part: "Range", p: int) -> Kernel:
        """Return the kernel of one policy."""
        problem, rows = part.problem, part.problem.rows
        columns, policy = problem.columns(p), read_only(problem.policies[p])
        direction = np.zeros((problem.n_columns, rows.mean.size))
        at = self._solved(problem, p)
        if part.bits & solving.CONTROL:
            paid = read_only(problem.reward)
            fill_derivative(policy, rows.layout, paid, at, direction)

        def call(
            begin: int, theta: FloatArray, reward: FloatArray, final: FloatArray
        ) -> None:
            sweep_average(
                begin,
                BLOCK,
                part.bits,
                self.anchors[p],
                at,
                rows.layout,
                theta,
                reward,
                policy,
                writable(rows.start),
                read_only(part.weights),
                writable(part.nominal.reference[:, columns]),
                read_only(rows.mean),
                direction,
                part.state[columns],
                part.row[columns],
                part.start[columns],
                part.status[p],
                part.kept[columns],
                part.cross[p],
            )

        return call

    def n_bytes(self, problem: Problem) -> int:
        """Return what the matrix takes."""
        return 8 * problem.n_live**2

    def seconds(self, problem: Problem) -> float:
        """One elimination."""
        return 0.05e-9 * problem.n_live**3 + 1e-9 * problem.rows.target.size
