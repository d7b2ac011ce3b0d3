"""``auto``: the GPU where there is one and it pays, else the CPU.

What pays depends on counts of operations, never on a clock, so that the same problem is
given to the same device again. A solver stays with the device that chose it.
"""

from dataclasses import dataclass, replace
from typing import Any

from bayesmdp._typing import FloatArray
from bayesmdp.engine._backend import Backend, Nominal, Sums, backend_of
from bayesmdp.engine._rows import Problem
from bayesmdp.errors import BackendError, TooLargeError

# A draw that takes the CPU less is solved before a GPU is through with its kernels'
# start and copies: a round number, which no command measures. How many draws there will
# be is not known when a device is chosen.
_LEAST_SECONDS = 20e-6
# Vectors of larger chains do not fit into a multiprocessor, and are streamed.
_MOST_STATES = 20_000


@dataclass(frozen=True, eq=False)
class Chosen:
    """A solver, with the device it is for."""

    backend: Backend
    solver: Any  # of the backend

    @property
    def name(self) -> str:
        """As the solver is called."""
        return str(self.solver.name)


class Auto(Backend):
    """Chooses a device for each problem, and hands it all that follows."""

    name = "auto"
    mixes_discounts = True

    def choose(self, problem: Problem, wanted: str, *, adjoint: bool) -> Chosen:
        """Choose on the CPU first, which tells what it takes for one draw.

        What the GPU refuses, or where there is none, the CPU does.
        """
        cpu = backend_of("cpu")
        found = Chosen(cpu, cpu.choose(problem, wanted, adjoint=adjoint))
        if wanted == "dense" or problem.n_live > _MOST_STATES:
            return found
        if cpu.seconds_per_draw(problem, found.solver) < _LEAST_SECONDS:
            return found
        try:
            gpu = backend_of("cuda")
            return Chosen(gpu, gpu.solver_for(problem, wanted, adjoint=adjoint))
        except (BackendError, TooLargeError):
            return found

    def behind(self, solver: Chosen) -> Backend:
        """Return the device of a solver."""
        return solver.backend

    def solve_mean(self, problem: Problem, solver: Chosen, bits: int) -> FloatArray:
        """Solve the mean model on its device."""
        return solver.backend.solve_mean(problem, solver.solver, bits)

    def inverses(self, problem: Problem, solver: Chosen) -> FloatArray:
        """Invert on the device of the solver."""
        return solver.backend.inverses(problem, solver.solver)

    def sweep(
        self,
        problem: Problem,
        nominal: Nominal,
        bits: int,
        first: int,
        weights: FloatArray,
    ) -> Sums:
        """Sweep one range on the device of the solver."""
        chosen: Chosen = nominal.solver
        nominal = replace(nominal, solver=chosen.solver)
        return chosen.backend.sweep(problem, nominal, bits, first, weights)

    def bytes_per_thread(self, problem: Problem, solver: Chosen, bits: int) -> int:
        """Ask the device."""
        return solver.backend.bytes_per_thread(problem, solver.solver, bits)

    def seconds_per_draw(self, problem: Problem, solver: Chosen) -> float:
        """Ask the device."""
        return solver.backend.seconds_per_draw(problem, solver.solver)

    def iterates(self, solver: Chosen) -> bool:
        """Ask the device."""
        return solver.backend.iterates(solver.solver)

    def lighter(self, solver: Chosen) -> Chosen | None:
        """Ask the device."""
        found = solver.backend.lighter(solver.solver)
        return None if found is None else Chosen(solver.backend, found)

    def exact(self, problem: Problem, solver: Chosen) -> Chosen | None:
        """Ask the device, and else the CPU: digits count for more than time."""
        found = solver.backend.exact(problem, solver.solver)
        if found is not None:
            return Chosen(solver.backend, found)
        cpu = backend_of("cpu")
        if solver.backend is cpu:
            return None
        on_cpu = cpu.choose(problem, "auto", adjoint=True)
        found = cpu.exact(problem, on_cpu) if cpu.iterates(on_cpu) else on_cpu
        return None if found is None else Chosen(cpu, found)
