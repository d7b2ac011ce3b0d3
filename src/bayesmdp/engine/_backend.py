"""What computes: sample, solve, reduce, and what these take. The CPU is the first.

A backend gets a `Problem` (rows, policies, a stream of draws) and answers with arrays.
Splitting draws into tasks, joining their sums, looking at memory and everything above
are the same for all. Another device is another `Backend`, registered under its name.

Sums are taken around the *nominal model*, the mean of the draws. Its value, return
variance and occupancy are the references of the kernel's sums, where iterations start,
and what control variates are made of. With the inverse ``X = (I - g T_bar)^-1`` every
state has two of them; ``X`` is dense, so it is formed for up to `MAX_INVERSE` live
states only. Beyond that, the start value alone has one.
"""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.engine._join import Sums
from bayesmdp.engine._rows import Problem
from bayesmdp.errors import ArgumentError

MAX_INVERSE = 2000


@dataclass(frozen=True, eq=False)
class Nominal:
    """Reference values, how to solve, and what control variates need."""

    reference: FloatArray  # [3, P, S] value, variance, occupancy
    theta_bar: FloatArray  # [E]
    inverse: FloatArray  # [P, N, N], transposes of X; or [P, 0, 0]. P: as in `Sums`
    solver: Any  # of the backend
    controls: bool = False  # whether control variates are formed
    few_digits: tuple[bool, ...] = ()  # [P], see `lacks_digits`; or none
    iterates: bool = False  # see `Backend.iterates`

    @property
    def every_state(self) -> bool:
        """Whether control variates are formed for every state, not the start alone."""
        return bool(self.inverse.shape[1] > 0)


def blank(problem: Problem, solver: Any) -> Nominal:
    """No reference: sums of a single draw are then its values."""
    n_policies = problem.policies.shape[0] * problem.n_columns
    n_states = problem.rows.start.size
    return Nominal(
        reference=np.zeros((3, n_policies, n_states)),
        theta_bar=problem.rows.mean,
        inverse=np.empty((n_policies, 0, 0)),
        solver=solver,
    )


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

    def iterates(self, solver: Any) -> bool:
        """Whether solutions start from the nominal one.

        They are then right to a share of the largest value of all states only.
        """
        return False

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
