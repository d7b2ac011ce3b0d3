"""Launches of kernels that solve for the draws of one policy.

What of a block's work stays in shared memory depends on sizes: values of the chain
where they fit, then vectors in single precision, then those in double precision.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import _backend as channels
from bayesmdp.engine._backend import Nominal
from bayesmdp.engine._gpu_device import Array, Device, Launch
from bayesmdp.engine._gpu_layout import OnDevice, on_device
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import CROSS, GRADIENT, OCCUPANCY, VARIANCE

_DOUBLES, _SINGLES = 6, 9  # vectors of a block, as in matrix.cu
_STATIC = 3072  # bytes of shared memory that kernels and the system take besides
_REGISTERS = 1024  # threads of a multiprocessor that have the registers they need
_REGISTERS_WIDE = 512  # and where columns stay in them
_MOST_RESIDENT = 16  # blocks of a multiprocessor
_MOST_QUADS = 32  # of a thread that stay: bits of a word
_WARPS = 8  # of a block that works on chains; each takes a state
LOOSE, TIGHT = 0.5, 0.01  # of weights that bound errors: of a draw, of the mean model
NULL = 0


@dataclass(frozen=True)
class Fit:
    """What of a block's work stays in shared memory, and how many blocks fit."""

    size: int  # of vectors
    quads: int  # of each thread, whose values stay; or 0
    doubles: bool
    singles: bool
    n_bytes: int
    resident: int  # blocks of a multiprocessor

    @classmethod
    def of(cls, device: Device, at: OnDevice, quads: int) -> "Fit":
        """Fit a matrix of ``quads`` per thread; ``size`` has few distinct values."""
        step = 64 if at.n >= 254 else 16
        size, threads = -(-(at.n + 2) // step) * step, at.block.threads
        doubles, singles = 8 * _DOUBLES * size, 4 * _SINGLES * size
        values = 16 * quads * threads + 2 * (at.n + device.warp) + 8
        room = device.shared_bytes - _STATIC
        few = quads <= _MOST_QUADS and at.column_type is np.uint16
        for used, given in (
            (doubles + singles + values, (quads, True, True)),
            (singles + values, (quads, False, True)),
            (doubles + singles, (0, True, True)),
            (0, (0, False, False)),
        ):
            if used <= room and (few or not given[0]):
                break
        registers = _REGISTERS_WIDE if given[0] else _REGISTERS
        fits = (room + _STATIC) // (used + _STATIC) if used else _MOST_RESIDENT
        resident = min(fits, registers // threads, _MOST_RESIDENT)
        return cls(size, *given, used, max(resident, 1))

    def constants(self, at: OnDevice) -> dict[str, object]:
        """Return what kernels are compiled with."""
        kind = "unsigned short" if at.column_type is np.uint16 else "unsigned int"
        return {
            "LANES": at.block.lanes,
            "COLUMN": kind,
            "QUADS": self.quads,
            "SIZE": self.size,
            "DOUBLES_SHARED": int(self.doubles),
            "SINGLES_SHARED": int(self.singles),
            "MAX_THREADS": at.block.threads,
            "MIN_BLOCKS": self.resident,
        }


def chain_bytes(at: OnDevice, adjoint: bool) -> int:
    """Memory that the chain of a draw takes, and its transpose."""
    quads = at.n_quads + (at.n_back_quads if adjoint else 0)
    return int(2 * 16 * quads * at.block.threads)


@dataclass(frozen=True, eq=False)
class Rewards:
    """Rewards and values of terminal states of a problem, for a range of draws."""

    paid: Array  # [K, E] or [n, K, E]
    ends: Array  # [K, S] or [n, K, S]
    same: bool  # one reward, the same in all draws

    @classmethod
    def of(
        cls, device: Device, problem: Problem, paid: Array | None, ends: Array | None
    ) -> "Rewards":
        """Take those of the draws, or else of the problem."""
        at, m = on_device(device, problem.rows), problem.n_columns
        same = paid is None and m == 1
        if paid is None:
            paid = at.reward[None] if m == 1 else device.put(problem.reward)
        if ends is None:
            ends = at.terminal_value[None]
            if m > 1:
                ends = device.put(problem.terminal_value)
        return cls(paid, ends, same)

    @property
    def stride(self) -> int:
        """Distance between draws of rewards; 0 where all share one."""
        return 0 if self.paid.ndim < 3 else int(self.paid[0].size)

    @property
    def ends_stride(self) -> int:
        """The same of terminal values."""
        return 0 if self.ends.ndim < 3 else int(self.ends[0].size)

    def of_column(self, k: int) -> Array:
        """Rewards ``k`` of the first draw, and what follows in memory."""
        return self.paid.reshape(-1)[k * self.paid.shape[-1] :]

    def ends_of(self, k: int) -> Array:
        """Terminal values ``k`` of the first draw, and what follows."""
        return self.ends.reshape(-1)[k * self.ends.shape[-1] :]


@dataclass(eq=False)
class Found:
    """What was found for each draw of a range, of one policy with K rewards."""

    value: Array  # [K, n, S]
    start: Array  # [K, 4, n]
    status: Array  # [n]
    products: Array  # [n]
    told: Array  # what is told of each draw, in one piece: bytes of the three
    variance: Array | None = None  # [K, n, S]
    occupancy: Array | None = None  # [K, n, S]
    cross: Array | None = None  # [X, n]
    length: Array | None = None  # [n, N], weights of bounds of the chain at hand
    first_length: Array | None = None  # of the chain
    back_length: Array | None = None  # of its transpose

    @classmethod
    def of(cls, device: Device, m: int, n: int, n_states: int) -> "Found":
        """Make room; what is told of each draw lies together, to be copied at once."""
        size = 8 * m * channels.N_START * n
        told = device.xp.zeros(size + 8 * n, dtype=np.uint8)
        value = device.xp.empty((m, n, n_states))
        return cls(value, *cls.parts(told, m, n), told)

    @staticmethod
    def parts(told: Any, m: int, n: int) -> tuple[Any, Any, Any]:
        """Take apart what is told: results of starts, status, products."""
        size = 8 * m * channels.N_START * n
        start = told[:size].view(np.float64).reshape(m, channels.N_START, n)
        status = told[size : size + 4 * n].view(np.int32)
        return start, status, told[size + 4 * n :].view(np.int32)


class Solver:
    """Solves for draws ``theta`` [n, E] of policy ``p``."""

    def __init__(
        self,
        device: Device,
        problem: Problem,
        p: int,
        theta: Array,
        weights: Array,
        rewards: Rewards,
    ) -> None:
        self.device, self.problem, self.theta = device, problem, theta
        self.at, self.rewards = on_device(device, problem.rows), rewards
        self.pi, self.weights = device.put(problem.policies[p]), weights
        self.n_draws, self.m = len(theta), problem.n_columns

    def _new(self, *shape: int, kind: Any = np.float64) -> Array:
        return self.device.xp.empty(shape, dtype=kind)

    def launch(self, name: str, n_warps: int, arguments: tuple[Any, ...]) -> None:
        """Run a kernel of chains, a warp for each part of the work."""
        run: Launch = self.device.kernel(("common", "chain"), name)
        warps = _WARPS if self.device.warp > 1 else 1
        run(-(-n_warps // warps), warps * self.device.warp, arguments, 0)

    def solve(self, bits: int, nominal: Nominal | None, p: int) -> Found:
        """Find values, and what else is wanted, from the nominal solution."""
        at, m, put = self.at, self.m, self.device.put
        n, n_draws, discounts = at.n, self.n_draws, self.problem.discounts
        adjoint, tight = bool(bits & (OCCUPANCY | GRADIENT)), nominal is None
        if nominal is None:
            guess, trial = put(np.zeros((3, m, at.n_states))), put(np.zeros((2, at.n)))
        else:
            guess, trial = self.bars(nominal, p)
        chain, back, rest, expected = self._chains(adjoint)
        found = Found.of(self.device, m, n_draws, at.n_states)
        if tight or bits & VARIANCE:
            found.length = self._new(n_draws, n)
        systems = _Systems(self, found, rest, TIGHT if tight else LOOSE)
        systems.run(chain, discounts, expected, n, guess[0], trial[0], found.value)
        self._starts(found, None)
        if bits & VARIANCE:
            self._variances(found, systems, chain, guess[1], bits & CROSS)
        if adjoint:
            found.occupancy = self._new(m, n_draws, at.n_states)
            found.first_length = found.length
            found.back_length = self._new(n_draws, n) if tight else None
            self._visits(found, systems, back, guess[2], trial[1])
        return found

    def bars(self, nominal: Nominal, p: int) -> tuple[Array, Array]:
        """Nominal solutions of a policy, and weights of bounds, kept on the device."""
        kept, key = nominal.solver.kept, f"bars {p}"
        if key not in kept:
            reference = nominal.reference[:, self.problem.columns(p)]
            kept[key] = self.device.put(reference)
            kept[f"length {p}"] = self.device.put(nominal.solver.length[p])
        return kept[key], kept[f"length {p}"]

    def _chains(self, adjoint: bool) -> tuple[Any, Any, Array, Array]:
        """Fill the chains of all draws, and expected rewards."""
        at, n_draws, device = self.at, self.n_draws, self.device
        size = 4 * at.n_quads * at.block.threads
        back_size = 4 * at.n_back_quads * at.block.threads if adjoint else 0
        made = device.scratch("chains", 2 * n_draws * (size + back_size))
        parts = []
        for begin, each in ((0, size), (2 * n_draws * size, back_size)):
            half = n_draws * each
            parts += [made[begin : begin + half], made[begin + half :][:half]]
        rest, expected = self._new(n_draws, at.n), self._new(self.m, n_draws, at.n)
        arguments = (
            *(n_draws, at.n, at.n_entries, self.m, int(adjoint), size, back_size),
            *(self.rewards.stride, at.first_row, at.first_slot, at.indptr, at.row),
            *(at.mark if self.rewards.same else at.mark_all, *at.places, self.pi),
            *(self.theta, self.rewards.paid, self.weights, *parts, rest, expected),
        )
        self.launch("fill_chains", n_draws * at.n, arguments)
        return (
            (at.chain, at.n_quads, *parts[:2]),
            ((at.back, at.n_back_quads, *parts[2:]) if adjoint else None),
            rest,
            expected,
        )

    def _variances(
        self, found: Found, systems: "_Systems", chain: Any, guess: Array, cross: int
    ) -> None:
        """Find variances, and covariances of pairs of rewards."""
        at, m, n_draws, g = self.at, self.m, self.n_draws, self.problem.discounts
        pairs = [(k, k) for k in range(m)]
        if cross:
            pairs += [(i, j) for i in range(m) for j in range(i + 1, m)]
        rhs = self._new(len(pairs), n_draws, at.n)
        for (i, j), out in zip(pairs, rhs, strict=True):
            arguments = (
                *(n_draws, at.n, at.n_states, at.n_entries, self.rewards.stride),
                *(at.first_row, at.indptr, at.row, at.target, self.pi, self.theta),
                *(self.weights, found.status),
                *(self.rewards.of_column(i), float(g[i]), found.value[i]),
                *(self.rewards.of_column(j), float(g[j]), found.value[j], out),
            )
            self.launch("spread", n_draws * at.n, arguments)
        out = self._new(len(pairs), n_draws, at.n_states)
        both = np.array([g[i] * g[j] for i, j in pairs])
        if len(pairs) > m:
            more = self.device.xp.zeros((len(pairs) - m, at.n_states))
            guess = self.device.xp.concatenate([guess, more])
        systems.run(
            chain, both, rhs, at.n, guess, guess, out, squares=m, continues=True
        )
        found.variance = out[:m]
        self._starts(found, out[:m])
        if cross:
            found.cross = self.device.xp.zeros((len(pairs) - m, n_draws))
            for x, (i, j) in enumerate(pairs[m:]):
                self._covariance(found, i, j, out[m + x], found.cross[x])

    def _starts(self, found: Found, spread: Array | None) -> None:
        """Values of starts, or variances where those of states are given."""
        for k in range(self.m):
            if spread is None:
                self._covariance(found, k, k, None, found.start[k, 0])
            else:
                to = found.start[k, channels.START_VARIANCE]
                self._covariance(found, k, k, spread[k], to)

    def _covariance(
        self, found: Found, i: int, j: int, of_states: Array | None, out: Array
    ) -> None:
        """Find the covariance of returns from the start, or the mean without one."""
        at, ends = self.at, self.rewards
        arguments = (
            *(self.n_draws, at.n_states, ends.ends_stride, at.start),
            *(found.value[i], ends.ends_of(i), found.value[j], ends.ends_of(j)),
            *(int(of_states is not None), out if of_states is None else of_states),
            *(found.status, out, out),
        )
        self.launch("from_start", self.n_draws, arguments)

    def _visits(
        self, found: Found, systems: "_Systems", back: Any, guess: Array, trial: Array
    ) -> None:
        """Discounted visits, once for each discount, and arrivals at ends."""
        at, n_draws, g = self.at, self.n_draws, self.problem.discounts
        assert found.occupancy is not None
        for k in range(self.m):
            if k and g[k] == g[k - 1]:
                found.occupancy[k] = found.occupancy[k - 1]
                continue
            out = found.occupancy[k : k + 1]
            found.length = found.back_length if k == 0 else None
            given = back, g[k : k + 1], at.start, 0, guess[k:], trial, out
            systems.run(*given, continues=True, fresh=True)
            if at.n_states > at.n:
                arguments = (
                    *(n_draws, at.n, at.n_states, at.n_entries, float(g[k])),
                    *(*at.arrivals, at.row, at.source, self.pi, self.theta),
                    *(at.start, found.status, out),
                )
                self.launch("arrive", n_draws * (at.n_states - at.n), arguments)


@dataclass(frozen=True, eq=False)
class _Systems:
    """Launches of `solve_systems` on the draws of a solver."""

    of: Solver
    found: Found
    rest: Array
    loose: float

    def run(
        self,
        matrix: Any,
        discounts: FloatArray,
        rhs: Array,
        stride: int,
        guess: Array,
        trial: Array,
        out: Array,
        *,
        squares: int = 0,
        continues: bool = False,
        fresh: bool = False,
    ) -> None:
        """Solve for right-hand sides ``[systems, n, N]`` from guesses [systems, S].

        Trial weights are those left by an earlier system of the same chain, if this one
        ``continues`` and is not to have ``fresh`` ones.
        """
        solver, at, device = self.of, self.of.at, self.of.device
        (first, quads, order, column), n_quads, high, low = matrix
        how = Fit.of(device, at, n_quads)
        blocks = min(solver.n_draws, device.n_processors * how.resident)
        memory: Array = NULL
        if not (how.doubles and how.singles):
            words = how.size * _DOUBLES + how.size * _SINGLES // 2
            memory = device.xp.empty(blocks * words)
        length = self.found.length
        reads = continues and not fresh and length is not None
        arguments = (
            *(solver.n_draws, at.n, at.n_states, discounts.size, n_quads, squares),
            *(int(continues), int(reads), self.loose, first, quads, order, column),
            *(high, low, self.rest, at.discounts(discounts), rhs, stride, guess, trial),
            *(solver.weights, memory, NULL if length is None else length, out),
            *(self.found.status, self.found.products),
        )
        constants = how.constants(at)
        run = device.kernel(("common", "matrix", "solve"), "solve_systems", **constants)
        run(blocks, at.block.threads, arguments, how.n_bytes)
