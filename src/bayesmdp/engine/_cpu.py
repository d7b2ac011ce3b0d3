"""The CPU: compiled kernels, one range of draws after the other on each thread."""

from collections.abc import Callable

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._typing import FloatArray, StatusArray
from bayesmdp.engine import _reduce as channels
from bayesmdp.engine import _solve as solving
from bayesmdp.engine._backend import Backend, Nominal, blank
from bayesmdp.engine._chain import Chain, build_chain
from bayesmdp.engine._choose import Solver, choose, direct, quick_direct, rough_cost
from bayesmdp.engine._dense import invert
from bayesmdp.engine._join import BLOCK, Joiner, Sums
from bayesmdp.engine._kernel import solve_draw, sweep_policy
from bayesmdp.engine._krylov import N_VECTORS
from bayesmdp.engine._layout import Held, References
from bayesmdp.engine._rows import Problem
from bayesmdp.errors import ConvergenceError, EndlessError

_BATCH_BYTES = 1_000_000  # sampled rows of a batch of draws: what stays in the cache
_ENTRY_SECONDS = 15e-9  # to sample one
_ITERATIVE = solving.Method(krylov=solving.Krylov(False))


class CPU(Backend):
    """Kernels compiled by numba."""

    name = "cpu"

    def choose(self, problem: Problem, wanted: str, *, adjoint: bool) -> Solver:
        """Choose by counts of operations on the mean model."""
        return choose(problem, wanted, adjoint=adjoint)

    def solve_mean(self, problem: Problem, solver: Solver, bits: int) -> FloatArray:
        """Solve the mean model of every policy."""
        found = np.zeros((3, len(problem.policies), problem.rows.start.size))
        for p in range(len(problem.policies)):
            status, out = _solve_mean(problem, p, solver.method, solver.length, bits)
            retry = direct(problem) if status == solving.UNSOLVED else None
            if retry is not None:
                status, out = _solve_mean(problem, p, retry, solver.length, bits)
            _check_solved(status, problem.n_live)
            found[:, p] = out
        return found

    def inverses(self, problem: Problem) -> FloatArray:
        """Invert by dense elimination."""
        n, rows = problem.n_live, problem.rows
        out = np.empty((problem.policies.shape[0], n, n))
        for policy, transposed in zip(problem.policies, out, strict=True):
            given = writable(rows.mean), read_only(policy), rows.layout
            invert(*given, problem.task.discount, transposed)
        return out

    def sweep(
        self,
        problem: Problem,
        nominal: Nominal,
        bits: int,
        first: int,
        weights: FloatArray,
    ) -> Sums:
        """Sweep one range; what iterations do not solve, elimination may."""
        task = _Range(problem, nominal, bits, first, weights)
        task.sweep_with(nominal.solver.method)
        failed = task.status == solving.UNSOLVED
        if failed.any() and (method := direct(problem)) is not None:
            task.status[failed] = solving.LEFT_OUT
            task.sweep_with(method)
            task.status[failed & (task.status == solving.SOLVED)] = solving.RETRIED
        total = Joiner()
        total.add_blocks(first // BLOCK, task.state, task.row)
        return Sums(
            total.nodes, task.start, task.status, task.products, weights, task.kept
        )

    def bytes_per_thread(self, problem: Problem, solver: Solver, bits: int) -> int:
        """Count a batch of models, chains, work space."""
        n_policies, n_states = problem.policies.shape[0], problem.rows.start.size
        entries, n = problem.rows.target.size, problem.n_live
        vectors = 8 * n_states * (N_VECTORS + 12)
        held = 0
        if _holds(problem, bits):
            held = 2 * 8 * n_policies * n_states * BLOCK
        method = solver.method
        if method.krylov is not None:  # the chain and its transpose, indices and values
            solving_bytes = entries * (16 * n_policies + 16)
        else:
            columns = n if method.band is None else 2 * method.band.width + 1
            solving_bytes = 8 * n * columns
        batch = 8 * entries * _batch(entries)
        return int(batch + vectors + held + solving_bytes)

    def seconds_per_draw(self, problem: Problem, solver: Solver) -> float:
        """Count sampling by entries, solving by operations."""
        solved = 1e-9 * problem.policies.shape[0] * rough_cost(problem, solver.method)
        return float(solved) + _ENTRY_SECONDS * problem.rows.target.size

    def iterates(self, solver: Solver) -> bool:
        """Krylov methods do."""
        return solver.method.krylov is not None

    def lighter(self, solver: Solver) -> Solver | None:
        """Return iterations, which take less than a matrix."""
        return None if self.iterates(solver) else Solver(_ITERATIVE, solver.length)

    def exact(self, problem: Problem, solver: Solver) -> Solver | None:
        """Elimination leaves no digit."""
        return quick_direct(problem) if self.iterates(solver) else None


def _batch(entries: int) -> int:
    """Draws that are sampled together."""
    return max(1, _BATCH_BYTES // max(8 * entries, 1))


def _holds(problem: Problem, bits: int) -> bool:
    """Whether gradients of unused rows are found from their means."""
    sampled = problem.stream is not None and problem.stream.independent
    unused = not (problem.policies > 0).all()
    return bool(bits & solving.GRADIENT) and sampled and unused


def _chain(problem: Problem, p: int, method: solving.Method, bits: int) -> Chain | None:
    """Lay out a policy's chain, for iterations."""
    if method.krylov is None:
        return None
    adjoint = bits & (solving.OCCUPANCY | solving.GRADIENT) != 0
    pi = read_only(problem.policies[p])
    return build_chain(pi, problem.rows.layout, problem.n_live, adjoint)


def _solve_mean(
    problem: Problem, p: int, method: solving.Method, length: FloatArray, bits: int
) -> tuple[int, solving.Solution]:
    """Solve the mean model of one policy; what became of it, and the solution."""
    rows, n_states = problem.rows, problem.rows.start.size
    out = solving.Solution(np.zeros(n_states), np.zeros(n_states), np.zeros(n_states))
    status, _ = solve_draw(
        method.dense,
        method.band,
        method.krylov,
        _chain(problem, p, method, bits),
        solving.make_space(method, problem.n_live, n_states, rows.target.size),
        bits,
        rows.mean.copy(),  # as kernels see the rows of a draw
        read_only(problem.policies[p]),
        rows.layout,
        read_only(rows.reward),
        problem.task.discount,
        writable(rows.start),
        _references(problem, blank(problem, Solver(method, length)), p),
        out,
    )
    return status, out


def _references(problem: Problem, nominal: Nominal, p: int) -> References:
    """Return what kernels read about the nominal model of one policy."""
    return References(
        problem.n_live,
        writable(nominal.reference[:, p]),
        writable(nominal.solver.length[:, p]),
        read_only(nominal.theta_bar),
        read_only(nominal.inverse[p]),
    )


def _check_solved(status: int, n_live: int) -> None:
    if status == solving.UNSOLVED:
        raise ConvergenceError(
            f"The chain of {n_live} states converges too slowly to be solved by "
            "iterations, and is too large to be solved directly; use a smaller "
            "discount."
        )
    if status != solving.SOLVED:
        raise EndlessError(
            "Episodes of this policy are too long to resolve; use a smaller discount."
        )


class _Range:
    """One range of draws at work: its sums, and how far they are."""

    def __init__(
        self,
        problem: Problem,
        nominal: Nominal,
        bits: int,
        first: int,
        weights: FloatArray,
    ) -> None:
        self.problem, self.nominal, self.bits = problem, nominal, bits
        self.first, self.weights = first, weights
        n, n_blocks = weights.size, -(-weights.size // BLOCK)
        n_policies, n_rows = problem.policies.shape
        n_slopes = n_rows if bits & solving.GRADIENT else 0
        n_channels = channels.n_channels(bits)
        shape = (n_policies, n_blocks)
        self.state = np.zeros((*shape, n_channels, problem.rows.start.size))
        self.row = np.zeros((*shape, 2, n_slopes))
        self.start = np.zeros((n_policies, channels.N_START, n))
        self.status: StatusArray = np.zeros((n_policies, n), dtype=np.int8)
        self.products = np.zeros((n_policies, n), dtype=np.int64)
        n_kept = n if bits & solving.KEEP else 0
        self.kept = np.zeros((n_policies, 2, n_kept, problem.rows.start.size))

    def sweep_with(self, method: solving.Method) -> None:
        """Sweep the draws that are left out so far, in batches."""
        problem, rows, stream = self.problem, self.problem.rows, self.problem.stream
        assert stream is not None
        theta = np.empty((_batch(rows.target.size), rows.target.size))
        space = solving.make_space(
            method, problem.n_live, rows.start.size, rows.target.size
        )
        kernels = [self._kernel(p, method, space) for p in range(len(self.status))]
        for begin in range(0, self.weights.size, len(theta)):
            stop = min(begin + len(theta), self.weights.size)
            todo = self.status[:, begin:stop] == solving.LEFT_OUT
            if not (todo & (self.weights[begin:stop] != 0)).any():
                continue
            draws = np.arange(self.first + begin, self.first + stop)
            part = theta[: stop - begin]
            stream.fill(draws, problem.used, part)
            reward, final = stream.rewards(draws), stream.terminal_values(draws)
            for kernel in kernels:
                kernel(
                    begin,
                    part,
                    read_only(rows.reward[None] if reward is None else reward),
                    writable(
                        rows.terminal_value[None]
                        if final is None
                        else final[:, rows.order]
                    ),
                )

    def _kernel(
        self, p: int, method: solving.Method, space: solving.Space
    ) -> Callable[..., None]:
        """Return the kernel of one policy, ready but for its draws."""
        problem, rows = self.problem, self.problem.rows
        policy = read_only(problem.policies[p])
        chain = _chain(problem, p, method, self.bits)
        task = problem.task
        height = rows.start.size if _holds(problem, self.bits) else 0
        held = Held(
            np.zeros((height, BLOCK)), np.zeros((height, BLOCK)), np.zeros(BLOCK)
        )
        stream = problem.stream
        every_row = stream is not None and not stream.independent
        start, weights = writable(rows.start), read_only(self.weights)
        about = _references(problem, self.nominal, p)

        def call(
            begin: int, theta: FloatArray, reward: FloatArray, final: FloatArray
        ) -> None:
            sweep_policy(
                begin,
                BLOCK,
                self.bits,
                task.discount,
                method.dense,
                method.band,
                method.krylov,
                chain,
                rows.layout,
                theta,
                reward,
                final,
                policy,
                start,
                weights,
                about,
                every_row,
                space,
                held,
                self.state[p],
                self.row[p],
                self.start[p],
                self.status[p],
                self.products[p],
                self.kept[p],
            )

        return call
