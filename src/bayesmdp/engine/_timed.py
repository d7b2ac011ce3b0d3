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
from bayesmdp.engine._chain import Setting
from bayesmdp.engine._kernel import setting
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import CONTROL, GRADIENT
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


def solved_by_time(
    problem: Problem,
    given: Setting,
    theta: FloatArray,
    reward: FloatArray,
    final: FloatArray,
) -> StageSpace:
    """Solve one model ``[F * E]``: what was found, and values of all times."""
    stages, rows = problem.stages, problem.rows
    assert stages is not None
    space = stage_space(stages, rows.start.size, rows.source.size)
    model = theta.copy(), read_only(reward), writable(final)
    solve_stages(stages, space, given, *model)
    return space


@dataclass(frozen=True, eq=False)
class Products(Timed):
    """A horizon: one product for each cycle."""

    stages: Stages
    name = "products"

    def solve_mean(self, problem: Problem, p: int, bits: int) -> FloatArray:
        """Solve the mean model."""
        given = setting(problem, p, bits & ~GRADIENT)
        model = problem.rows.mean, problem.reward, problem.terminal_value
        return np.stack(solved_by_time(problem, given, *model).found)

    def kernel(self, part: "Range", p: int) -> Kernel:
        """Return the kernel of one policy."""
        problem, rows, given, out = part.problem, part.problem.rows, *part.of(p)
        space = stage_space(self.stages, rows.start.size, rows.source.size)
        direction = np.zeros((problem.n_columns, 0))
        if part.bits & CONTROL:  # derivatives of start values by the mean rows
            direction = np.empty((problem.n_columns, rows.mean.size))
            plain, reward = setting(problem, p, 0), read_only(problem.reward)
            mean = rows.mean, problem.reward, problem.terminal_value
            values = solved_by_time(problem, plain, *mean)
            theta = rows.mean.copy()
            fill_direction(self.stages, values, plain, theta, reward, direction)

        def call(
            begin: int, theta: FloatArray, reward: FloatArray, final: FloatArray
        ) -> None:
            how = begin, given, self.stages, space
            sweep_stages(*how, theta, reward, final, direction, out)

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
        problem, at, given, out = (
            part.problem,
            self._solved(part.problem, p),
            *part.of(p),
        )
        direction = np.zeros((problem.n_columns, problem.rows.mean.size))
        if part.bits & CONTROL:
            paid = read_only(problem.reward)
            fill_derivative(given.pi, given.rows, paid, at, direction)
        anchor = self.anchors[p]

        def call(
            begin: int, theta: FloatArray, reward: FloatArray, final: FloatArray
        ) -> None:
            sweep_average(begin, given, anchor, at, theta, reward, direction, out)

        return call

    def n_bytes(self, problem: Problem) -> int:
        """Return what the matrix takes."""
        return 8 * problem.n_live**2

    def seconds(self, problem: Problem) -> float:
        """One elimination."""
        return 0.05e-9 * problem.n_live**3 + 1e-9 * problem.rows.target.size
