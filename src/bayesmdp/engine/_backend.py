"""What computes: sample, solve, reduce, and what these take. The CPU is the first.

A backend gets a `Problem` (rows, policies, a stream of draws) and answers with arrays.
Splitting draws into tasks, joining their sums, looking at memory and everything above
are the same for all. Another device is another `Backend`, registered under its name.

Sums are taken around the *nominal model*, the mean of the draws. Its value, return
variance and occupancy are the references of the kernel's sums, where iterations start,
and what control variates are made of. With the inverse ``X = (I - g T_bar)^-1`` every
state has two of them; ``X`` is dense, so it is formed for up to `MAX_INVERSE` live
states only. Beyond that, the start value alone has one.

Sums over draws join to the same bits however the draws were split. Rounding depends on
the order of additions, so the order is fixed: blocks of draws are the leaves of a
binary tree over block numbers, and a sum is the tree's. A range of blocks is held as
the few largest subtrees it covers; ranges computed apart join at their common edge, and
whoever computed them, in whatever parts, the tree is the same.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray, IntArray, StatusArray
from bayesmdp.engine._solve import (
    CONTROL_STATES,
    GRADIENT,
    OCCUPANCY,
    RETRIED,
    SOLVED,
    UNSOLVED,
    VARIANCE,
)
from bayesmdp.errors import ArgumentError, BackendError

if TYPE_CHECKING:
    from bayesmdp.engine._rows import Problem

BLOCK = 16  # draws reduced together; part of the definition of a result

# Channels of the per-state sums. V value, R return variance, D occupancy (all minus
# their reference), Y, Z first and second control variate.
# Those that are not wanted at the end of the list are not held.
V, VV, VVV, VVVV, R, RR, VR, VVR, D, DD, Y, YY, Z, ZZ, VY, VZ, YZ = range(17)

# Per-draw results from the start distribution: value, aleatoric variance, controls.
START_VALUE, START_VARIANCE, START_Y, START_Z = range(4)
N_START = 4


def n_channels(want: int) -> int:
    """Count the channels that a sweep needs for what is wanted."""
    if want & CONTROL_STATES:
        return YZ + 1
    if want & (OCCUPANCY | GRADIENT):
        return DD + 1
    return (VVR if want & VARIANCE else VVVV) + 1


@dataclass(frozen=True, eq=False)
class Node:
    """The sum of ``2**level`` blocks, from block ``index * 2**level`` on."""

    level: int
    index: int
    state: FloatArray  # [P, C, S], by channel
    row: FloatArray  # [P, 2, R], gradient and its square; or [P, 2, 0]

    @property
    def start(self) -> int:
        """First block."""
        return self.index << self.level

    @property
    def stop(self) -> int:
        """First block after it."""
        return (self.index + 1) << self.level

    def joins(self, other: Node) -> bool:
        """Whether another node is the right half where this is the left."""
        together = self.level == other.level and self.index + 1 == other.index
        return together and self.index % 2 == 0

    def joined(self, other: Node) -> Node:
        """Return the sum of both halves."""
        return Node(
            self.level + 1,
            self.index // 2,
            self.state + other.state,
            self.row + other.row,
        )


def subtrees(first: int, stop: int) -> Iterator[tuple[int, int]]:
    """Largest subtrees that blocks from ``first`` to before ``stop`` fill, in order.

    Level and index of each, as in `Node`. They define the bits of a sum: whoever adds
    blocks, on whatever device, cuts ranges here.
    """
    at = first
    while at < stop:
        size = 1 << (stop - at).bit_length() - 1
        size = min(size, at & -at) if at else size
        level = size.bit_length() - 1
        yield level, at >> level
        at += size


@dataclass(frozen=True, eq=False)
class Sums:
    """Joined results of a range of draws; `join` adds the next range.

    Where there are several rewards, each policy stands here once for each of them.
    """

    nodes: tuple[Node, ...]
    start: FloatArray  # [P, 4, D]
    status: StatusArray  # [P, D], what became of each draw
    products: IntArray  # [P, D], of iterations
    weights: FloatArray  # [D]
    kept: FloatArray  # [P, 2, D, S], value and variance of every draw; or [P, 2, 0, S]
    #: [P, X, D], covariances of returns of pairs of a policy's rewards; or none.
    cross: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return int(self.weights.size)

    @cached_property
    def ended(self) -> BoolArray:
        """Whether a draw was solved, ``[P, D]``."""
        return np.asarray((self.status == SOLVED) | self.retried)

    @cached_property
    def retried(self) -> BoolArray:
        """Whether iterations failed and elimination did not, ``[P, D]``."""
        return np.asarray(self.status == RETRIED)

    @cached_property
    def unsolved(self) -> BoolArray:
        """Whether no method within reach solved a draw, ``[P, D]``."""
        return np.asarray(self.status == UNSOLVED)

    @cached_property
    def state(self) -> FloatArray:
        """Sums over draws by channel and state, ``[P, C, S]``."""
        return _folded([node.state for node in self.nodes])

    @cached_property
    def row(self) -> FloatArray:
        """Sums of slopes and their squares, ``[P, 2, R]``."""
        return _folded([node.row for node in self.nodes])

    def join(self, after: Sums) -> Sums:
        """Return the results of both ranges; ``after`` begins where this one ends."""
        joiner = Joiner()
        joiner.add(self)
        joiner.add(after)
        return joiner.sums()


class Joiner:
    """Joins ranges that follow each other, all but the last of whole blocks."""

    def __init__(self) -> None:
        self.n_draws = 0
        self._parts: list[Sums] = []  # their nodes are gone into the stack
        self._stack: list[Node] = []

    def add(self, part: Sums) -> None:
        """Add the next range."""
        if self.n_draws % BLOCK:
            raise AssertionError("only the last range may end inside a block")
        for node in part.nodes:
            self.add_node(node)
        self.n_draws += part.n_draws
        self._parts.append(replace(part, nodes=()))

    def add_node(self, node: Node) -> None:
        """Add the next node, and join as far as the tree allows."""
        if self._stack and self._stack[-1].stop != node.start:
            raise AssertionError("a range joins the one that follows it")
        while self._stack and self._stack[-1].joins(node):
            node = self._stack.pop().joined(node)
        self._stack.append(node)

    def add_blocks(self, first: int, state: FloatArray, row: FloatArray) -> None:
        """Add blocks from number ``first`` on, as the largest subtrees they fill.

        ``state`` is [P, B, C, S], ``row`` [P, B, 2, R].
        """
        for level, index in subtrees(first, first + state.shape[1]):
            begin = (index << level) - first
            part = slice(begin, begin + (1 << level))
            sums = (_halved(x[:, part]) for x in (state, row))
            self.add_node(Node(level, index, *sums))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Largest subtrees of what was added."""
        return tuple(self._stack)

    def sums(self) -> Sums:
        """Return everything joined."""
        parts = self._parts
        return Sums(
            nodes=self.nodes,
            start=np.concatenate([part.start for part in parts], axis=2),
            status=np.concatenate([part.status for part in parts], axis=1),
            products=np.concatenate([part.products for part in parts], axis=1),
            weights=np.concatenate([part.weights for part in parts]),
            kept=np.concatenate([part.kept for part in parts], axis=2),
            cross=np.concatenate([part.cross for part in parts], axis=2),
        )


def _halved(blocks: FloatArray) -> FloatArray:
    """Add neighbours, a power of two of them, until one is left."""
    if not blocks.size:
        return blocks[:, 0]
    while blocks.shape[1] > 1:
        blocks = blocks[:, ::2] + blocks[:, 1::2]
    return np.ascontiguousarray(blocks[:, 0])


def _folded(arrays: list[FloatArray]) -> FloatArray:
    """Add the subtrees of a range, the last and smallest ones first."""
    total = arrays[-1]
    for array in arrays[-2::-1]:
        total = array + total
    return total


MAX_INVERSE = 2000


@dataclass(frozen=True, eq=False)
class Nominal:
    """Reference values, how to solve, and what control variates need."""

    reference: FloatArray  # [3, P, S] value, variance, occupancy
    inverse: FloatArray  # [P, N, N], transposes of X; or [P, 0, 0]. P: as in `Sums`
    solver: Any  # of the backend
    controls: bool = False  # whether control variates are formed
    few_digits: tuple[bool, ...] = ()  # [P], see `lacks_digits`; or none
    iterates: bool = False  # see `Backend.iterates`
    device: str = "cpu"  # name of the backend whose solver it is

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
        inverse=np.empty((n_policies, 0, 0)),
        solver=solver,
    )


#: By name; functions make those that nobody has asked for yet.
_BACKENDS: dict[str, Backend | Callable[[], Backend]] = {}


class Backend(ABC):
    """One device, and how it does what a sweep needs.

    Solvers are a backend's own: `choose` returns one, and it is handed back to the
    other methods.
    """

    name: str
    #: Whether tasks wait for each other, so that few large ones are best.
    one_at_a_time = False
    #: Whether sums of rewards of different discounts are known without a horizon.
    mixes_discounts = False

    def solver_for(self, problem: Problem, wanted: str, *, adjoint: bool) -> Any:
        """Choose a solver; refuse sums that only some devices know."""
        if problem.mixes_discounts and not self.mixes_discounts:
            raise BackendError(
                f"`{_checks.argument('device', self.name)}` cannot compute with a sum "
                "of rewards of different discounts: take "
                f"{_checks.argument('device', 'cpu')}."
            )
        return self.choose(problem, wanted, adjoint=adjoint)

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
    def inverses(self, problem: Problem, solver: Any) -> FloatArray:
        """Transposes of ``(I - g T)^-1`` of the mean model, ``[P, N, N]``."""

    @abstractmethod
    def sweep(
        self,
        problem: Problem,
        nominal: Nominal,
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

    def behind(self, solver: Any) -> Backend:
        """Return who works with a solver: another where this one only chooses."""
        return self

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


def register_later(name: str, make: Callable[[], Backend]) -> None:
    """Make a name known whose backend is made when it is first asked for.

    What it needs is imported then, and not with the package.
    """
    _BACKENDS[name] = make


def default_device() -> str:
    """Return what computes where nobody says so."""
    return os.environ.get("BAYESMDP_DEVICE", "").strip() or "cpu"


def backend_of(device: str | None) -> Backend:
    """Return the backend of a device; by default ``BAYESMDP_DEVICE``, else the CPU."""
    name = default_device() if device is None else device
    if not isinstance(name, str) or name not in _BACKENDS:
        hint = _checks.did_you_mean(str(name), _BACKENDS)
        where = "BAYESMDP_DEVICE" if device is None else "device"
        raise ArgumentError(
            f"`{where}` must be one of {', '.join(_BACKENDS)}; got {name!r:.60}{hint}."
        )
    found = _BACKENDS[name]
    if not isinstance(found, Backend):
        try:
            found = _BACKENDS[name] = found()
        except BackendError as problem:
            if device is None:  # nobody said so in this call
                raise BackendError(f"BAYESMDP_DEVICE is {name}: {problem}") from None
            raise
    return found


def make_gpu() -> Backend:
    """Return the GPU; say in a sentence where there is none, before any work."""
    from bayesmdp.engine._gpu import GPU

    gpu_name()
    return GPU()


def make_auto() -> Backend:
    """Return what chooses a device."""
    from bayesmdp.engine._auto import Auto

    return Auto()


def gpu_name() -> str:
    """Return what the GPU is called; say in a sentence where there is none."""
    from bayesmdp.engine._gpu_device import first_device

    return first_device().name
