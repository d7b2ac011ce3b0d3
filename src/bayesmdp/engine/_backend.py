"""What computes: sample, solve, reduce, and what these take. The CPU is the first.

A backend gets a `Problem` (rows, policies, a stream of draws) and answers with arrays.
Splitting draws into tasks, joining their sums, looking at memory and everything above
are the same for all. Another device is another `Backend`, registered under its name.
"""

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.engine._join import Sums
from bayesmdp.engine._rows import Problem
from bayesmdp.errors import ArgumentError

if TYPE_CHECKING:
    from bayesmdp.engine._nominal import Nominal

_BACKENDS: dict[str, "Backend"] = {}


class Backend(ABC):
    """One device, and how it does what a sweep needs.

    Solvers are a backend's own: `choose` returns one, and it is handed back to the
    other methods.
    """

    name: str

    @abstractmethod
    def choose(self, problem: Problem, wanted: str, *, adjoint: bool) -> Any:
        """Choose a solver for the policies; ``adjoint`` where visits are wanted.

        It has a ``name``, which results report.
        """

    @abstractmethod
    def solve_mean(self, problem: Problem, solver: Any, bits: int) -> FloatArray:
        """Value, variance and occupancy of the mean model, ``[3, P, S]``.

        In sweep order, terminal values not added; zeros for what is not wanted.
        """

    @abstractmethod
    def inverses(self, problem: Problem) -> FloatArray:
        """Transposes of ``(I - g T)^-1`` of the mean model, ``[P, N, N]``."""

    @abstractmethod
    def sweep(
        self,
        problem: Problem,
        nominal: "Nominal",
        bits: int,
        first: int,
        weights: FloatArray,
    ) -> Sums:
        """Sample, solve and reduce a range of draws, from number ``first`` on."""

    @abstractmethod
    def bytes_per_thread(self, problem: Problem, solver: Any, bits: int) -> int:
        """Memory that one thread takes beside its sums."""

    @abstractmethod
    def seconds_per_draw(self, problem: Problem, solver: Any) -> float:
        """Rough time of one draw of all policies, which sets the size of tasks."""

    def lighter(self, solver: Any) -> Any | None:
        """Return a solver that takes less memory, if there is one."""
        return None

    def exact(self, problem: Problem, solver: Any) -> Any | None:
        """Return a cheap solver without rounding, where ``solver`` loses digits."""
        return None


def register(backend: Backend) -> None:
    """Make a backend known under its name."""
    _BACKENDS[backend.name] = backend


def backend_of(device: str | None) -> Backend:
    """Return the backend of a device; by default ``BAYESMDP_DEVICE``, else the CPU."""
    name = os.environ.get("BAYESMDP_DEVICE", "cpu") if device is None else device
    if not isinstance(name, str) or name not in _BACKENDS:
        hint = _checks.did_you_mean(str(name), _BACKENDS)
        raise ArgumentError(
            f"`device` must be one of {', '.join(_BACKENDS)}; got {name!r:.60}{hint}."
        )
    return _BACKENDS[name]
