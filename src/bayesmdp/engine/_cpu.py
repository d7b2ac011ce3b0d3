"""The CPU: compiled kernels, one range of draws after the other on each thread."""

from dataclasses import replace

import numpy as np

from bayesmdp._checks import read_only, writable
from bayesmdp._resources import available_bytes, gigabytes
from bayesmdp._typing import FloatArray
from bayesmdp.engine import _backend as channels
from bayesmdp.engine._backend import BLOCK, Backend, Joiner, Nominal, Sums, blank
from bayesmdp.engine._chain import Chain, Held, Results, Setting, build_chain
from bayesmdp.engine._choose import choose, direct, quick_direct
from bayesmdp.engine._kernel import (
    ENTRY,
    STATE,
    Method,
    invert,
    room,
    setting,
    solve_draw,
    sweep_policy,
)
from bayesmdp.engine._krylov import N_VECTORS
from bayesmdp.engine._lanes import N_LANES, WIDEST
from bayesmdp.engine._mixed_discounts import (
    Parts,
    add_up,
    fill_direction,
    make_total,
    sweep_sum,
)
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import (
    CROSS,
    GRADIENT,
    KEEP,
    LEFT_OUT,
    OCCUPANCY,
    RETRIED,
    SOLVED,
    UNSOLVED,
    VARIANCE,
    Krylov,
    Solution,
    Space,
)
from bayesmdp.engine._timed import Kernel, Products, Renewals, Timed
from bayesmdp.errors import (
    ArgumentError,
    ConvergenceError,
    EndlessError,
    TooLargeError,
)

SOLVERS = ("auto", "dense", "iterative")
_SMALL = 64  # live states up to which elimination is not worth a thought
_BATCH_BYTES = 1_000_000  # sampled rows of a batch of draws: what stays in the cache
_ENTRY_SECONDS = 15e-9  # to sample one


#: How policies are solved on the CPU.
Way = Method | Timed


def check_solver(wanted: str) -> None:
    """Refuse what is none of the solvers."""
    if wanted not in SOLVERS:
        raise ArgumentError(
            f"`solver` must be one of {', '.join(SOLVERS)}; got {wanted!r:.60}."
        )


def _check_dense(n: int) -> None:
    """Refuse a matrix that does not fit."""
    needed = 8 * n * n
    if needed > (there := available_bytes(needed)):
        raise TooLargeError(
            f"`solver='dense'` needs {gigabytes(needed)} for a matrix of {n} states, "
            f"and {gigabytes(there)} are free: about {int((there / 8) ** 0.5)} states "
            "would fit. solver='iterative' needs far less."
        )


class CPU(Backend):
    """Kernels compiled by numba."""

    name = "cpu"
    mixes_discounts = True

    def choose(self, problem: Problem, wanted: str, *, adjoint: bool) -> Way:
        """Eliminate small chains; for larger ones, choose by counts of operations."""
        check_solver(wanted)
        n = problem.n_live
        if problem.stages is not None:
            return Products(problem.stages)
        if problem.task.criterion == "average":
            _check_dense(n)
            return Renewals(problem.anchors)
        if wanted == "dense" or (wanted == "auto" and n <= _SMALL):
            _check_dense(n)
            return Method()
        return choose(problem, wanted, adjoint=adjoint)

    def solve_mean(self, problem: Problem, solver: Way, bits: int) -> FloatArray:
        """Solve the mean model of every policy."""
        n, m = len(problem.policies), problem.n_columns
        found = np.zeros((3, n, m, problem.rows.start.size))
        for p in range(n):
            if isinstance(solver, Timed):
                found[:, p] = solver.solve_mean(problem, p, bits)
                continue
            each = _solved_mean(problem, p, solver, bits)
            if problem.mixes_discounts:
                out = make_total(found.shape[-1], 0).found
                add_up(np.array(problem.weights), each, out)
                each = out
            found[:, p] = each
        return found.reshape(3, n * m, -1)

    def inverses(self, problem: Problem, solver: Way | None = None) -> FloatArray:
        """Invert by dense elimination, whatever the solver."""
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
            task.sweep([nominal.solver.kernel(task, p) for p in range(task.n)])
            return task.sums()
        task.sweep_with(nominal.solver)
        status = task.out.status
        failed = status == UNSOLVED
        if failed.any() and (method := direct(problem)) is not None:
            status[failed] = LEFT_OUT
            task.sweep_with(method)
            status[failed & (status == SOLVED)] = RETRIED
        return task.sums()

    def bytes_per_thread(self, problem: Problem, solver: Way, bits: int) -> int:
        """Count a batch of models, chains, work space."""
        n_policies, n_states = problem.policies.shape[0], problem.rows.start.size
        entries, n = problem.rows.mean.size, problem.n_live
        taken = 8 * n_states * (N_VECTORS + 12 * len(problem.order))
        if len(problem.order) > 1:
            taken += 8 * n_states * N_LANES * WIDEST
        taken += 8 * entries * _batch(entries)
        if isinstance(solver, Timed):
            return int(taken + solver.n_bytes(problem))
        if _holds(problem, bits):
            taken += 2 * 8 * n_policies * n_states * BLOCK
        if solver.krylov is not None:  # the chain and its transpose, indices and values
            return int(taken + entries * (16 * n_policies + 16))
        return int(taken + 8 * n * solver.columns(n))

    def seconds_per_draw(self, problem: Problem, solver: Way) -> float:
        """Count sampling by entries, solving (three systems) by operations."""
        entries, n = problem.rows.target.size, problem.n_live
        if isinstance(solver, Timed):
            each = solver.seconds(problem)
        elif solver.krylov is not None:
            each = 1e-9 * 100 * (ENTRY * entries + STATE * n)
        else:
            each = 1e-9 * 2 * solver.cost(n)
        solved = problem.policies.shape[0] * each
        return float(solved) + _ENTRY_SECONDS * problem.rows.mean.size

    def iterates(self, solver: Way) -> bool:
        """Krylov methods do."""
        return isinstance(solver, Method) and solver.krylov is not None

    def lighter(self, solver: Way) -> Method | None:
        """Return iterations, which take less than a matrix."""
        if not isinstance(solver, Method) or self.iterates(solver):
            return None
        return Method(krylov=Krylov(False))

    def exact(self, problem: Problem, solver: Way) -> Method | None:
        """Elimination leaves no digit."""
        return quick_direct(problem) if self.iterates(solver) else None


def _batch(entries: int) -> int:
    """Draws that are sampled together."""
    return max(1, _BATCH_BYTES // max(8 * entries, 1))


def _holds(problem: Problem, bits: int) -> bool:
    """Whether gradients of unused rows are found from their means."""
    sampled = problem.stream is not None and problem.stream.independent
    unused = not (problem.policies > 0).all()
    return bool(bits & GRADIENT) and sampled and unused and _is_plain(problem)


def _is_plain(problem: Problem) -> bool:
    """Whether one reward is counted from the start on without end."""
    discounted = problem.stages is None and problem.task.criterion == "discounted"
    return discounted and len(problem.order) == 1 and problem.lost == 0


def _chain(problem: Problem, p: int, method: Method, bits: int) -> Chain | None:
    """Lay out a policy's chain, for iterations."""
    if method.krylov is None:
        return None
    adjoint = bits & (OCCUPANCY | GRADIENT) != 0
    pi = read_only(problem.policies[p])
    return build_chain(pi, problem.rows.layout, problem.n_live, adjoint)


def _solved_mean(problem: Problem, p: int, method: Method, bits: int) -> Solution:
    """Solve the mean model of one policy for each reward, by elimination if need be."""
    status, out = _solve_mean(problem, p, method, bits)
    retry = direct(problem) if status == UNSOLVED else None
    if retry is not None:
        status, out = _solve_mean(problem, p, retry, bits)
    if status == UNSOLVED:
        raise ConvergenceError(
            f"The chain of {problem.n_live} states converges too slowly to be solved "
            "by iterations, and is too large to be solved directly; use a smaller "
            "discount."
        )
    if status != SOLVED:
        raise EndlessError(
            "Episodes of this policy are too long to resolve; use a smaller discount."
        )
    return out


def _solve_mean(
    problem: Problem, p: int, method: Method, bits: int
) -> tuple[int, Solution]:
    """Solve the mean model of one policy; what became of it, and the solution.

    Covariances are solved for where they are part of the variance of a sum.
    """
    n_pairs = problem.n_pairs if problem.mixes_discounts else 0
    problem = problem.apart
    out = room(problem.n_columns, n_pairs, problem.rows.start.size, 0).found
    status, _ = solve_draw(
        method.dense,
        method.band,
        method.krylov,
        _chain(problem, p, method, bits),
        method.space(*problem.sizes),
        setting(problem, p, bits, length=method.length),
        problem.rows.mean.copy(),  # as kernels see the rows of a draw
        read_only(problem.reward),
        read_only(problem.discounts),
        out,
    )
    return status, out


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
        (self.n, n_rows), m, n = problem.policies.shape, problem.n_columns, weights.size
        shape, n_states = (self.n * m, -(-n // BLOCK)), problem.rows.start.size
        n_pairs = m * (m - 1) // 2 if bits & CROSS else 0
        self.out = Results(  # of all policies
            np.zeros((self.n, shape[1], channels.n_channels(bits), m * n_states)),
            np.zeros((*shape, 2, n_rows if bits & GRADIENT else 0)),
            np.zeros((self.n * m, channels.N_START, n)),
            np.zeros((self.n, n), dtype=np.int8),
            np.zeros((self.n, n), dtype=np.int64),
            np.zeros((self.n * m, 2, n if bits & KEEP else 0, n_states)),
            np.zeros((self.n, n_pairs, n)),
        )

    def of(self, p: int, length: FloatArray | None = None) -> tuple[Setting, Results]:
        """Return what the kernel of policy ``p`` reads, and what it fills."""
        given = self.problem, p, self.bits, self.nominal, self.weights, length
        at = self.problem.columns(p)
        state, row, start, status, products, kept, cross = self.out
        own = status[p], products[p], kept[at], cross[p]
        return setting(*given), Results(state[p], row[at], start[at], *own)

    def sums(self) -> Sums:
        """Return what was found, each policy once for each of its columns."""
        total, m, out = Joiner(), self.problem.n_columns, self.out
        n_blocks, n_channels, _ = out.state.shape[1:]
        # policies, then rewards
        state = out.state.reshape(self.n, n_blocks, n_channels, m, -1)
        state = np.moveaxis(state, 3, 1).reshape(self.n * m, n_blocks, n_channels, -1)
        total.add_blocks(self.first // BLOCK, state, out.row)
        status, products = out.status, out.products
        if m > 1:
            status, products = np.repeat(status, m, 0), np.repeat(products, m, 0)
        given = out.start, status, products, self.weights, out.kept, out.cross
        return Sums(total.nodes, *given)

    def sweep_with(self, method: Method) -> None:
        """Sweep the draws that are left out so far with a method."""
        space = method.space(*self.problem.sizes)
        self.sweep([self._kernel(p, method, space) for p in range(self.n)])

    def sweep(self, kernels: list[Kernel]) -> None:
        """Sweep the draws that are left out so far, in batches."""
        problem, rows, stream = self.problem, self.problem.rows, self.problem.stream
        assert stream is not None
        theta = np.empty((_batch(rows.mean.size), rows.mean.size))
        sampled = problem.used
        if self.bits & GRADIENT and not _is_plain(problem):
            sampled = np.ones_like(sampled)
        for begin in range(0, self.weights.size, len(theta)):
            stop = min(begin + len(theta), self.weights.size)
            todo = self.out.status[:, begin:stop] == LEFT_OUT
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

    def _kernel(self, p: int, method: Method, space: Space) -> Kernel:
        """Return the kernel of one policy, ready but for its draws."""
        problem, (given, out) = self.problem, self.of(p, method.length)
        chain, stream = _chain(problem, p, method, self.bits), problem.stream
        if problem.mixes_discounts:
            return self._kernel_of_sum(p, method, chain, space)
        height = problem.rows.start.size if _holds(problem, self.bits) else 0
        shape = height, BLOCK
        held = Held(np.zeros(shape), np.zeros(shape), np.zeros(BLOCK))
        every_row = stream is not None and not stream.independent
        every_row = every_row or not _is_plain(problem)
        dense, discounts = method.dense, read_only(problem.discounts)
        lost = problem.rows.source.size if problem.lost else 0
        sizes = problem.n_columns, len(out.cross), problem.rows.start.size
        draw = room(*sizes, lost)

        def call(
            begin: int, theta: FloatArray, reward: FloatArray, final: FloatArray
        ) -> None:
            sweep_policy(
                begin,
                given,
                discounts,
                problem.lost,
                dense,
                method.band,
                method.krylov,
                chain,
                theta,
                reward,
                final,
                every_row,
                space,
                draw,
                held,
                out,
            )

        return call

    def _kernel_of_sum(
        self, p: int, method: Method, chain: Chain | None, space: Space
    ) -> Kernel:
        """Return that of a sum of rewards of different discounts."""
        problem, (given, out) = self.problem, self.of(p, method.length)
        rows, each = problem.rows, problem.apart
        mean = _solved_mean(problem, p, method, self.bits | VARIANCE | OCCUPANCY)
        reference = mean.value, mean.variance[: each.n_columns], mean.occupancy
        alone = each.with_policies(problem.policies[p : p + 1])
        around = replace(blank(alone, method), reference=np.stack(reference))
        length = None if method.length is None else method.length[:, p : p + 1]
        parts = Parts(
            setting(alone, 0, self.bits, around, self.weights, length),
            read_only(problem.discounts),
            np.array(problem.weights),
            problem.lost,
            fill_direction(problem, p, mean),
        )
        sizes = each.n_columns, problem.n_pairs, rows.start.size
        draw = room(*sizes, rows.source.size if problem.lost else 0)
        total = make_total(rows.start.size, rows.source.size)
        how = method.dense, method.band, method.krylov, chain

        def call(
            begin: int, theta: FloatArray, reward: FloatArray, final: FloatArray
        ) -> None:
            model = theta, reward, final
            sweep_sum(begin, given, parts, *how, *model, space, draw, total, out)

        return call
