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
from bayesmdp.engine._gpu_layout import MOST_QUADS, OnDevice, on_device
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import CROSS, GRADIENT, OCCUPANCY, VARIANCE

_DOUBLES, _SINGLES = 6, 9  # vectors of a block, as in matrix.cu
_STATIC = 3584  # bytes of shared memory that kernels and the system take besides
_REGISTERS = 1024  # threads of a multiprocessor that have the registers they need
_REGISTERS_WIDE = 512  # and where columns stay in them
_MOST_RESIDENT = 16  # blocks of a multiprocessor
_WARPS, _WARPS_ADDING = 4, 16  # of a block that works on chains, or adds up
LOOSE, TIGHT = 0.5, 0.01  # of weights that bound errors: of a draw, of the mean model
NULL = 0
_KINDS = {2: "unsigned short", 4: "unsigned int"}


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
    def of(cls, device: Device, at: OnDevice, adjoint: bool) -> "Fit":
        """Fit a chain, and perhaps its transpose; ``size`` has few distinct values."""
        back = at.n_back_quads if adjoint else 0
        quads = max(at.n_quads, back)
        step = 64 if at.n >= 254 else 16
        size, threads = -(-(at.n + 1) // step) * step, at.block.threads
        doubles, singles = 8 * _DOUBLES * size, 4 * _SINGLES * size
        values = 16 * quads * threads + 2 * (at.n + device.warp) + 8
        room = device.shared_bytes - _STATIC
        few = quads <= MOST_QUADS and at.chain[3].itemsize == 2
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
        return {
            "LANES": at.block.lanes,
            "COLUMN_BYTES": at.chain[3].itemsize,
            "POSITION": _KINDS[at.turned.itemsize],
            "QUADS": self.quads,
            "SIZE": self.size,
            "DOUBLES_SHARED": int(self.doubles),
            "SINGLES_SHARED": int(self.singles),
            "MAX_THREADS": at.block.threads,
            "MIN_BLOCKS": self.resident,
        }


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
    """What was found for each draw of a range, of one policy with K rewards.

    Values, variances and visits lie in groups of draws, ``[K, groups, S, lanes]``.
    """

    value: Array
    start: Array  # [K, 4, n]
    status: Array  # [n]
    products: Array  # [n]
    told: Array  # what is told of each draw, in one piece: bytes of the three
    variance: Array | None = None
    occupancy: Array | None = None
    cross: Array | None = None  # [X, n]
    first_length: Array | None = None  # [n, N], weights of bounds of the chain
    back_length: Array | None = None  # of its transpose

    @classmethod
    def of(cls, device: Device, m: int, n: int, n_states: int) -> "Found":
        """Make room; what is told of each draw lies together, to be copied at once."""
        size = 8 * m * channels.N_START * n
        told = device.xp.zeros(size + 8 * n, dtype=np.uint8)
        shape = m, device.n_groups(n), n_states, device.warp
        value = device.xp.empty(shape)
        return cls(value, *cls.parts(told, m, n), told)

    @staticmethod
    def parts(told: Any, m: int, n: int) -> tuple[Any, Any, Any]:
        """Take apart what is told: results of starts, status, products."""
        size = 8 * m * channels.N_START * n
        start = told[:size].view(np.float64).reshape(m, channels.N_START, n)
        status = told[size : size + 4 * n].view(np.int32)
        return start, status, told[size + 4 * n :].view(np.int32)


class Solver:
    """Solves for draws ``theta`` [groups, E, lanes] of policy ``p``."""

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
        self.n_draws, self.m = int(weights.size), problem.n_columns

    def launch(
        self, name: str, n: int, arguments: tuple[Any, ...], *, blocks: bool = False
    ) -> None:
        """Run a kernel of chains, a warp for each part of the work, or a block."""
        run: Launch = self.device.kernel(("common", "chain"), name)
        warps = (_WARPS_ADDING if blocks else _WARPS) if self.device.warp > 1 else 1
        run(n if blocks else -(-n // warps), warps * self.device.warp, arguments, 0)

    def solve(self, bits: int, nominal: Nominal | None, p: int) -> Found:
        """Find values, and what else is wanted, from the nominal solution."""
        at, m, put = self.at, self.m, self.device.put
        n_draws, discounts = self.n_draws, self.problem.discounts
        adjoint, tight = bool(bits & (OCCUPANCY | GRADIENT)), nominal is None
        if nominal is None:
            guess, trial = put(np.zeros((3, m, at.n_states))), put(np.zeros((2, at.n)))
        else:
            guess, trial = self.bars(nominal, p)
        found = Found.of(self.device, m, n_draws, at.n_states)
        if tight or bits & VARIANCE:
            found.first_length = self.device.xp.empty((n_draws, at.n))
        chains, (rest, expected) = self._chains(), self._expected()
        loose = TIGHT if tight else LOOSE
        systems = _Systems(self, found, chains, rest, adjoint, loose)
        systems.run(discounts, expected, guess[0], trial[0], found.value)
        self._starts(found, None)
        if bits & VARIANCE:
            self._variances(found, systems, guess[1], trial[0], bits & CROSS)
        if adjoint:
            found.occupancy = self.new(m)
            if tight:
                found.back_length = self.device.xp.empty((n_draws, at.n))
            self._visits(found, systems, guess[2], trial[1])
        return found

    def bars(self, nominal: Nominal, p: int) -> tuple[Array, Array]:
        """Nominal solutions of a policy, and weights of bounds, kept on the device."""
        kept, key = nominal.solver.kept, f"bars {p}"
        if key not in kept:
            reference = nominal.reference[:, self.problem.columns(p)]
            kept[key] = self.device.put(reference)
            kept[f"length {p}"] = self.device.put(nominal.solver.length[p])
        return kept[key], kept[f"length {p}"]

    def new(self, n: int, length: int | None = None) -> Array:
        """Room for ``n`` vectors over states of all draws, which lie in groups."""
        groups, lanes = self.device.n_groups(self.n_draws), self.device.warp
        shape = n, groups, self.at.n_states if length is None else length, lanes
        return self.device.xp.empty(shape)

    def _chains(self) -> tuple[Array, Array]:
        """Fill the chains of all draws, ``[n, places]`` twice."""
        at, xp, n_draws = self.at, self.device.xp, self.n_draws
        begin, entry, row, place = at.filling
        shape = n_draws, at.n_places
        high, low = (xp.empty(shape, dtype=np.float32) for _ in range(2))
        given = begin, entry, place, self.pi[row], self.theta, high, low
        parts = self.device.n_groups(n_draws) * (at.n_places // self.device.warp)
        self.launch("fill_chains", parts, (n_draws, at.n_entries, at.n_places, *given))
        return high, low

    def _expected(self) -> tuple[Array, Array]:
        """Find sums of rows off the diagonal, and expected rewards."""
        at, rewards = self.at, self.rewards
        begin, entry, row = at.edges if rewards.same else at.all_edges
        rest, expected = self.new(1, at.n), self.new(self.m, at.n)
        arguments = (
            *(self.n_draws, at.n, at.n_entries, self.m, rewards.stride, begin, entry),
            *(self.pi[row], at.target, self.theta, rewards.paid, rest, expected),
        )
        self.launch("expect", self.device.n_groups(self.n_draws) * at.n, arguments)
        return rest, expected

    def _variances(
        self, found: Found, systems: "_Systems", guess: Array, trial: Array, cross: int
    ) -> None:
        """Find variances, and covariances of pairs of rewards."""
        at, m, xp, g = self.at, self.m, self.device.xp, self.problem.discounts
        pairs = [(k, k) for k in range(m)]
        if cross:
            pairs += [(i, j) for i in range(m) for j in range(i + 1, m)]
        rhs, out = self.new(len(pairs), at.n), self.new(len(pairs))
        for (i, j), to in zip(pairs, rhs, strict=True):
            arguments = (
                *(self.n_draws, at.n, at.n_states, at.n_entries, self.rewards.stride),
                *(at.first_row, at.indptr, at.target, self.pi, self.theta),
                *(self.rewards.of_column(i), float(g[i]), found.value[i]),
                *(self.rewards.of_column(j), float(g[j]), found.value[j], to),
            )
            n_warps = self.device.n_groups(self.n_draws) * at.n
            self.launch("spread", n_warps, arguments)
        both = np.array([g[i] * g[j] for i, j in pairs])
        if len(pairs) > m:
            more = xp.zeros((len(pairs) - m, at.n_states))
            guess = xp.concatenate([guess, more])
        systems.run(both, rhs, guess, trial, out, squares=m, continues=True)
        found.variance = out[:m]
        self._starts(found, out[:m])
        if cross:
            found.cross = xp.zeros((len(pairs) - m, self.n_draws))
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
            *(found.status, out),
        )
        groups = self.device.n_groups(self.n_draws)
        self.launch("from_start", groups, arguments, blocks=True)

    def _visits(
        self, found: Found, systems: "_Systems", guess: Array, trial: Array
    ) -> None:
        """Discounted visits, once for each discount, and arrivals at ends."""
        at, g = self.at, self.problem.discounts
        assert found.occupancy is not None
        for k in range(self.m):
            if k and g[k] == g[k - 1]:
                found.occupancy[k] = found.occupancy[k - 1]
                continue
            out = found.occupancy[k : k + 1]
            given = g[k : k + 1], at.start, guess[k:], trial, out
            systems.run(*given, continues=True, back=True)
            if at.n_states > at.n:
                begin, entry, row, source = at.arrivals
                arguments = (
                    *(self.n_draws, at.n, at.n_states, at.n_entries, float(g[k])),
                    *(begin, entry, self.pi[row], source, self.theta, at.start, out),
                )
                n = self.device.n_groups(self.n_draws) * (at.n_states - at.n)
                self.launch("arrive", n, arguments, blocks=True)


class _Systems:
    """Launches of `solve_systems` on the draws of a solver."""

    def __init__(
        self,
        of: Solver,
        found: Found,
        chains: tuple[Array, Array],
        rest: Array,
        adjoint: bool,
        loose: float,
    ) -> None:
        self.of, self.found, self.chains, self.rest = of, found, chains, rest
        self.how, self.loose = Fit.of(of.device, of.at, adjoint), loose
        at, xp = of.at, of.device.xp
        self.blocks = min(of.n_draws, of.device.n_processors * self.how.resident)
        self.memory = self.turned = NULL
        if not (self.how.doubles and self.how.singles):
            size = self.how.size
            self.memory = xp.empty(
                self.blocks * (size * _DOUBLES + size * _SINGLES // 2)
            )
        if adjoint:
            self.turned = xp.empty(self.blocks * 2 * at.n_back_places, np.float32)

    def run(
        self,
        discounts: FloatArray,
        rhs: Array,
        guess: Array,
        trial: Array,
        out: Array,
        *,
        squares: int = 0,
        continues: bool = False,
        back: bool = False,
    ) -> None:
        """Solve for right-hand sides of systems, or ``back`` for that of visits.

        Guesses are ``[systems, S]``. Trial weights of bounds are those left by an
        earlier system of the same chain, if this one ``continues`` with it.
        """
        solver, at, how = self.of, self.of.at, self.how
        length = self.found.back_length if back else self.found.first_length
        arguments = (
            *(solver.n_draws, at.n, at.n_states, discounts.size, squares),
            *(int(continues), self.loose, *(at.back if back else at.chain)),
            *(*self.chains, at.n_quads, at.turned if back else NULL, self.turned),
            *(self.rest, at.discounts(discounts), rhs, guess, trial),
            *(solver.weights, self.memory, NULL if length is None else length, out),
            *(self.found.status, self.found.products),
        )
        sources = "common", "matrix", "solve", "systems"
        run = solver.device.kernel(sources, "solve_systems", **how.constants(at))
        run(self.blocks, at.block.threads, arguments, how.n_bytes)
