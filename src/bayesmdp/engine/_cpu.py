"""The CPU: compiled kernels, one range of draws after the other on each thread."""

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._typing import BoolArray, FloatArray, StatusArray
from bayesmdp.engine import _reduce as channels
from bayesmdp.engine import _solve as solving
from bayesmdp.engine._backend import BLOCK, Backend, Joiner, Nominal, Sums, blank
from bayesmdp.engine._chain import Chain, Held, References, build_chain
from bayesmdp.engine._choose import (
    Solver,
    check_dense,
    check_solver,
    choose,
    direct,
    quick_direct,
    rough_cost,
)
from bayesmdp.engine._dense import invert
from bayesmdp.engine._kernel import solve_draw, sweep_policy
from bayesmdp.engine._krylov import N_VECTORS
from bayesmdp.engine._lanes import N_LANES, WIDEST
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._timed import Kernel, Products, Renewals, Timed
from bayesmdp.errors import ConvergenceError, EndlessError

_BATCH_BYTES = 1_000_000  # sampled rows of a batch of draws: what stays in the cache
_ENTRY_SECONDS = 15e-9  # to sample one
_ITERATIVE = solving.Method(krylov=solving.Krylov(False))


#: How policies are solved on the CPU.
Way = Solver | Timed


class CPU(Backend):
    """Kernels compiled by numba."""

    name = "cpu"

    def choose(self, problem: Problem, wanted: str, *, adjoint: bool) -> Way:
        """Choose by counts of operations on the mean model."""
        if problem.stages is not None:
            check_solver(wanted)
            return Products(problem.stages)
        if problem.task.criterion == "average":
            check_solver(wanted)
            check_dense(problem.n_live)
            return Renewals(problem.anchors)
        return choose(problem, wanted, adjoint=adjoint)

    def solve_mean(self, problem: Problem, solver: Way, bits: int) -> FloatArray:
        """Solve the mean model of every policy."""
        n, m = len(problem.policies), problem.n_columns
        found = np.zeros((3, n, m, problem.rows.start.size))
        for p in range(n):
            if isinstance(solver, Timed):
                found[:, p] = solver.solve_mean(problem, p, bits)
                continue
            status, out = _solve_mean(problem, p, solver.method, solver.length, bits)
            retry = direct(problem) if status == solving.UNSOLVED else None
            if retry is not None:
                status, out = _solve_mean(problem, p, retry, solver.length, bits)
            _check_solved(status, problem.n_live)
            found[:, p] = out
        return found.reshape(3, n * m, -1)

    def inverses(self, problem: Problem) -> FloatArray:
        """Invert by dense elimination."""
        n, rows, discounts = problem.n_live, problem.rows, problem.discounts
        out = np.empty((problem.policies.shape[0], discounts.size, n, n))
        for policy, each in zip(problem.policies, out, strict=True):
            given = writable(rows.mean), read_only(policy), rows.layout
            for k, g in enumerate(discounts):
                if k and g == discounts[k - 1]:
                    each[k] = each[k - 1]
                else:
                    invert(*given, g, each[k])
        return out.reshape(-1, n, n)

    def sweep(
        self,
        problem: Problem,
        nominal: Nominal,
        bits: int,
        first: int,
        weights: FloatArray,
    ) -> Sums:
        """Sweep one range; what iterations do not solve, elimination may."""
        task = Range(problem, nominal, bits, first, weights)
        if isinstance(nominal.solver, Timed):
            task.sweep_by([nominal.solver.kernel(task, p) for p in range(task.n)])
            return task.sums()
        task.sweep_with(nominal.solver.method)
        failed = task.status == solving.UNSOLVED
        if failed.any() and (method := direct(problem)) is not None:
            task.status[failed] = solving.LEFT_OUT
            task.sweep_with(method)
            task.status[failed & (task.status == solving.SOLVED)] = solving.RETRIED
        return task.sums()

    def bytes_per_thread(self, problem: Problem, solver: Way, bits: int) -> int:
        """Count a batch of models, chains, work space."""
        n_policies, n_states = problem.policies.shape[0], problem.rows.start.size
        entries, n = problem.rows.mean.size, problem.n_live
        vectors = 8 * n_states * (N_VECTORS + 12 * problem.n_columns)
        if problem.n_columns > 1:
            vectors += 8 * n_states * N_LANES * WIDEST
        batch = 8 * entries * _batch(entries)
        if isinstance(solver, Timed):
            return int(batch + vectors + solver.n_bytes(problem))
        held = 0
        if _holds(problem, bits):
            held = 2 * 8 * n_policies * n_states * BLOCK
        method = solver.method
        if method.krylov is not None:  # the chain and its transpose, indices and values
            solving_bytes = entries * (16 * n_policies + 16)
        else:
            columns = n if method.band is None else 2 * method.band.width + 1
            solving_bytes = 8 * n * columns
        return int(batch + vectors + held + solving_bytes)

    def seconds_per_draw(self, problem: Problem, solver: Way) -> float:
        """Count sampling by entries, solving by operations."""
        if isinstance(solver, Timed):
            each = solver.seconds(problem)
        else:
            each = 1e-9 * rough_cost(problem, solver.method)
        solved = problem.policies.shape[0] * each
        return float(solved) + _ENTRY_SECONDS * problem.rows.mean.size

    def iterates(self, solver: Way) -> bool:
        """Krylov methods do."""
        return isinstance(solver, Solver) and solver.method.krylov is not None

    def lighter(self, solver: Way) -> Solver | None:
        """Return iterations, which take less than a matrix."""
        if not isinstance(solver, Solver) or self.iterates(solver):
            return None
        return Solver(_ITERATIVE, solver.length)

    def exact(self, problem: Problem, solver: Way) -> Solver | None:
        """Elimination leaves no digit."""
        return quick_direct(problem) if self.iterates(solver) else None


def _batch(entries: int) -> int:
    """Draws that are sampled together."""
    return max(1, _BATCH_BYTES // max(8 * entries, 1))


def _holds(problem: Problem, bits: int) -> bool:
    """Whether gradients of unused rows are found from their means."""
    sampled = problem.stream is not None and problem.stream.independent
    unused = not (problem.policies > 0).all()
    return bool(bits & solving.GRADIENT) and sampled and unused and _is_plain(problem)


def _is_plain(problem: Problem) -> bool:
    """Whether one reward is counted from the start on without end."""
    discounted = problem.stages is None and problem.task.criterion == "discounted"
    return discounted and len(problem.order) == 1 and problem.lost == 0


def _sampled(problem: Problem, bits: int) -> BoolArray:
    """Which rows are sampled ``[R]``: those used, or all."""
    every = bits & solving.GRADIENT and not _is_plain(problem)
    return np.ones_like(problem.used) if every else problem.used


def _solution(problem: Problem) -> solving.Solution:
    return solving.Solution(*np.zeros((3, problem.n_columns, problem.rows.start.size)))


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
    out = _solution(problem)
    status, _ = solve_draw(
        method.dense,
        method.band,
        method.krylov,
        _chain(problem, p, method, bits),
        solving.make_space(
            method, problem.n_live, n_states, rows.target.size, problem.n_columns
        ),
        bits,
        rows.mean.copy(),  # as kernels see the rows of a draw
        read_only(problem.policies[p]),
        rows.layout,
        read_only(problem.reward),
        read_only(problem.discounts),
        writable(rows.start),
        _references(problem, blank(problem, Solver(method, length)), p),
        out,
    )
    return status, out


def _references(problem: Problem, nominal: Nominal, p: int) -> References:
    """Return what kernels read about the nominal model of one policy."""
    return References(
        problem.n_live,
        writable(nominal.reference[:, problem.columns(p)]),
        writable(nominal.solver.length[:, p]),
        read_only(nominal.theta_bar),
        read_only(nominal.inverse[problem.columns(p)]),
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


class Range:
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
        self.n, n_rows = problem.policies.shape
        n_slopes = n_rows if bits & solving.GRADIENT else 0
        n_channels, m = channels.n_channels(bits), problem.n_columns
        n_policies = self.n * m
        shape = (n_policies, n_blocks)
        self.state = np.zeros((*shape, n_channels, problem.rows.start.size))
        self.row = np.zeros((*shape, 2, n_slopes))
        self.start = np.zeros((n_policies, channels.N_START, n))
        self.status: StatusArray = np.zeros((self.n, n), dtype=np.int8)
        self.products = np.zeros((self.n, n), dtype=np.int64)
        n_pairs = m * (m - 1) // 2 if bits & solving.CROSS else 0
        self.cross = np.zeros((self.n, n_pairs, n))
        n_kept = n if bits & solving.KEEP else 0
        self.kept = np.zeros((n_policies, 2, n_kept, problem.rows.start.size))

    def sums(self) -> Sums:
        """Return what was found, each policy once for each of its columns."""
        total, m = Joiner(), self.problem.n_columns
        total.add_blocks(self.first // BLOCK, self.state, self.row)
        status, products = self.status, self.products
        if m > 1:
            status, products = np.repeat(status, m, 0), np.repeat(products, m, 0)
        given = self.start, status, products, self.weights, self.kept, self.cross
        return Sums(total.nodes, *given)

    def sweep_with(self, method: solving.Method) -> None:
        """Sweep the draws that are left out so far with a method."""
        problem, rows = self.problem, self.problem.rows
        space = solving.make_space(
            method,
            problem.n_live,
            rows.start.size,
            rows.target.size,
            problem.n_columns,
        )
        self.sweep_by([self._kernel(p, method, space) for p in range(self.n)])

    def sweep_by(self, kernels: list[Kernel]) -> None:
        """Sweep the draws that are left out so far, in batches."""
        problem, rows, stream = self.problem, self.problem.rows, self.problem.stream
        assert stream is not None
        theta = np.empty((_batch(rows.mean.size), rows.mean.size))
        sampled = _sampled(problem, self.bits)
        for begin in range(0, self.weights.size, len(theta)):
            stop = min(begin + len(theta), self.weights.size)
            todo = self.status[:, begin:stop] == solving.LEFT_OUT
            if not (todo & (self.weights[begin:stop] != 0)).any():
                continue
            draws = np.arange(self.first + begin, self.first + stop)
            part = theta[: stop - begin]
            stream.fill(draws, sampled, part)
            paid, ends = stream.rewards(draws), stream.terminal_values(draws)
            reward, final = problem.reward[None], problem.terminal_value[None]
            if paid is not None:
                reward = problem.in_order(paid)
            if ends is not None:
                final = problem.in_order(ends)[..., rows.order]
            for kernel in kernels:
                kernel(begin, part, read_only(reward), writable(final))

    def _kernel(self, p: int, method: solving.Method, space: solving.Space) -> Kernel:
        """Return the kernel of one policy, ready but for its draws."""
        problem, rows = self.problem, self.problem.rows
        policy = read_only(problem.policies[p])
        chain = _chain(problem, p, method, self.bits)
        height = rows.start.size if _holds(problem, self.bits) else 0
        held = Held(
            np.zeros((height, BLOCK)), np.zeros((height, BLOCK)), np.zeros(BLOCK)
        )
        stream, columns = problem.stream, problem.columns(p)
        every_row = stream is not None and not stream.independent
        every_row = every_row or not _is_plain(problem)
        start, weights = writable(rows.start), read_only(self.weights)
        about = _references(problem, self.nominal, p)

        def call(
            begin: int, theta: FloatArray, reward: FloatArray, final: FloatArray
        ) -> None:
            sweep_policy(
                begin,
                BLOCK,
                self.bits,
                read_only(problem.discounts),
                problem.lost,
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
                self.state[columns],
                self.row[columns],
                self.start[columns],
                self.status[p],
                self.products[p],
                self.kept[columns],
                self.cross[p],
            )

        return call
