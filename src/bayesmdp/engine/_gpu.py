"""A GPU: one block of threads works on a draw, all draws share one pattern.

`engine/cuda` has the kernels: they sample the same draws as the CPU, and solve for each
by iterations whose errors are bounded as the CPU's are (`bayesmdp.engine._krylov`).
Chains that fit into a multiprocessor stay there while they are solved, larger ones are
streamed from the device's memory. What comes back are sums, not models. The order of
every sum is fixed, so that the same call gives the same bits.

Draws that iterations do not solve go to the CPU. Calls for which there is no kernel are
refused: horizons, averages, a first point of time that counts less, sums of rewards
with different discounts, elimination, and rows of more than 2**31 entries.

Why CuPy with CUDA C++, and not numba-cuda, which could compile the CPU's own sampler:
the solver needs vectors in shared memory of a size known when it is compiled, loads of
four entries at once and launch bounds; the same source compiled for a CPU is tested
wherever there is a compiler; and the CPU's sampler rests on operations of LLVM that
numba-cuda does not have.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayesmdp._checks import argument
from bayesmdp._resources import gigabytes
from bayesmdp._typing import BoolArray, FloatArray
from bayesmdp.engine._backend import BLOCK, Backend, Joiner, Node, Nominal, Sums
from bayesmdp.engine._cpu import CPU, check_solver
from bayesmdp.engine._gpu_device import Array, Device, first_device
from bayesmdp.engine._gpu_layout import on_device
from bayesmdp.engine._gpu_sampling import sampled
from bayesmdp.engine._gpu_solve import Fit, Found, Rewards, Solver
from bayesmdp.engine._gpu_sums import BlockSums, count_bytes
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import (
    CROSS,
    GRADIENT,
    KEEP,
    OCCUPANCY,
    RETRIED,
    SOLVED,
    UNSOLVED,
    VARIANCE,
)
from bayesmdp.errors import BackendError, TooLargeError

_SHARE = 0.6  # of the free memory that a range of draws may take
_MOST_BYTES = 1.6e10  # and at most: more draws at once make nothing faster
_ENTRY_SECONDS = 2e-11
_ALL = VARIANCE | OCCUPANCY


@dataclass(frozen=True, eq=False)
class Iterations:
    """How policies are solved on a device, with what their mean model told."""

    length: FloatArray  # [P, 2, S], weights of bounds
    reference: FloatArray  # [3, P * K, S], of the mean model
    name: str = "iterative"
    kept: dict[str, Array] = field(default_factory=dict)  # on the device

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what is on a device."""
        return {**vars(self), "kept": {}}


class GPU(Backend):
    """Kernels in CUDA, on the first device that is visible."""

    one_at_a_time = True

    def __init__(self, name: str = "cuda", device: Device | None = None) -> None:
        self.name, self._given = name, device

    def __reduce__(self) -> tuple[Any, ...]:
        return GPU, (self.name,)

    @property
    def device(self) -> Device:
        """The device; looked for when it is first needed."""
        return first_device() if self._given is None else self._given

    def choose(self, problem: Problem, wanted: str, *, adjoint: bool) -> Iterations:
        """Solve the mean model of every policy."""
        check_solver(wanted)
        self._refuse(problem, wanted)
        n, m = len(problem.policies), problem.n_columns
        n_states, live = problem.rows.start.size, problem.n_live
        length, found = np.zeros((n, 2, n_states)), np.zeros((3, n, m, n_states))
        device, get = self.device, self.device.get
        with device.at_work(self.name):
            self._draws_at_once(problem, _ALL)  # asked now, before anything is begun
            theta = device.grouped(on_device(device, problem.rows).mean[None])
            once = device.put(np.ones(1))
            rewards = Rewards.of(device, problem, None, None)
            for p in range(n):
                solver = Solver(device, problem, p, theta, once, rewards)
                got = solver.solve(_ALL, None, p)
                if int(get(got.status)[0]) != SOLVED:
                    one = problem.with_policies(problem.policies[p : p + 1])
                    found[:, p] = CPU().solve_mean(one, _of_cpu(one), _ALL)
                    continue
                lengths = got.first_length, got.back_length
                for to, x in zip(length[p], lengths, strict=True):
                    to[:live] = get(x)[0]
                of = got.value, got.variance, got.occupancy
                for to, x in zip(found[:, p], of, strict=True):
                    to[:] = get(x)[:, 0, :, 0]
        return Iterations(length, found.reshape(3, n * m, -1))

    def _refuse(self, problem: Problem, wanted: str) -> None:
        """Say what this device cannot do."""
        what = None
        if problem.stages is not None:
            what = "a task with a horizon"
        elif problem.task.criterion == "average":
            what = "averages per step"
        elif problem.lost:
            what = f"`cycle={problem.task.cycle!r}`"
        elif wanted == "dense":
            what = "`solver='dense'`"
        elif problem.rows.target.size >= 2**31:
            what = "rows with more than 2**31 entries"
        if what is not None:
            raise BackendError(
                f"`{argument('device', self.name)}` cannot compute with {what}: take "
                f"{argument('device', 'cpu')}."
            )

    def solve_mean(self, problem: Problem, solver: Iterations, bits: int) -> FloatArray:
        """Return what was found when the solver was chosen."""
        found = solver.reference.copy()
        if not bits & VARIANCE:
            found[1] = 0.0
        if not bits & (OCCUPANCY | GRADIENT):
            found[2] = 0.0
        return found

    def inverses(self, problem: Problem, solver: Iterations) -> FloatArray:
        """Invert on the device."""
        with self.device.at_work(self.name):
            return self._inverses(problem)

    def _inverses(self, problem: Problem) -> FloatArray:
        xp, rows, n = self.device.xp, problem.rows, problem.n_live
        live, row = rows.target < n, rows.row_of_entry
        key = (rows.source[row] * n + rows.target)[live]
        out = np.empty((len(problem.policies), problem.discounts.size, n, n))
        for policy, each in zip(problem.policies, out, strict=True):
            flow = (policy[row] * rows.mean)[live]
            chain = np.bincount(key, flow, n * n).reshape(n, n)
            for k, g in enumerate(problem.discounts):
                if k and g == problem.discounts[k - 1]:
                    each[k] = each[k - 1]
                else:
                    matrix = self.device.put(np.eye(n) - g * chain)
                    each[k] = self.device.get(xp.linalg.inv(matrix)).T
        return out.reshape(-1, n, n)

    def sweep(
        self,
        problem: Problem,
        nominal: Nominal,
        bits: int,
        first: int,
        weights: FloatArray,
    ) -> Sums:
        """Sweep one range, in parts that fit; what fails is left to the CPU."""
        total = Joiner()
        with self.device.at_work(self.name):
            size = self._draws_at_once(problem, bits)
            for begin in range(0, weights.size, size):
                part = weights[begin : begin + size]
                total.add(self._sweep(problem, nominal, bits, first + begin, part))
            found, get = total.sums(), self.device.get
            nodes = tuple(
                Node(x.level, x.index, get(x.state), get(x.row)) for x in found.nodes
            )
        found = replace(found, nodes=nodes)
        if (found.status == UNSOLVED).any():
            return _patched(found, problem, nominal, bits, first)
        return found

    def _draws_at_once(self, problem: Problem, bits: int) -> int:
        """Draws that fit on the device, in whole blocks."""
        at, free = on_device(self.device, problem.rows), self.device.free_bytes()
        each = 8 * at.n_places + count_bytes(problem, bits)
        if bits & (OCCUPANCY | GRADIENT):
            blocks = self.device.n_processors * Fit.of(self.device, at, True).resident
            free = max(free - 8 * blocks * at.n_back_places, 0)
        most = max(min(_SHARE * free, _MOST_BYTES), BLOCK * each)
        if most > _SHARE * free:
            raise TooLargeError(
                f"`{argument('device', self.name)}` needs {gigabytes(BLOCK * each)} "
                f"for {BLOCK} draws of {problem.rows.target.size} entries, and "
                f"{gigabytes(free)} of the device's memory are free: take "
                f"{argument('device', 'cpu')}, or a policy and a prior with fewer next "
                "states."
            )
        return int(most / each) // BLOCK * BLOCK

    def _sweep(
        self,
        problem: Problem,
        nominal: Nominal,
        bits: int,
        first: int,
        weights: FloatArray,
    ) -> Sums:
        """Sweep draws that fit; sums of their blocks stay on the device."""
        device, stream, rows = self.device, problem.stream, problem.rows
        assert stream is not None
        draws, used = np.arange(first, first + weights.size), problem.used
        if bits & GRADIENT and len(problem.order) > 1:
            used = np.ones_like(used)
        theta = sampled(device, stream, draws, used, rows.target.size)
        paid, ends = stream.rewards(draws), stream.terminal_values(draws)
        if paid is not None:
            paid = device.put(problem.in_order(paid))
        if ends is not None:
            ends = device.put(problem.in_order(ends)[..., rows.order])
        rewards, weighed = Rewards.of(device, problem, paid, ends), device.put(weights)
        sampled_rows = used if stream.independent else np.ones_like(used)
        sums = BlockSums(device, problem, bits, weights.size)
        found = [
            self._one(
                problem, nominal, bits, p, theta, weighed, rewards, sampled_rows, sums
            )
            for p in range(len(problem.policies))
        ]
        return self._joined(problem, bits, first, weights, found, sums)

    def _one(
        self,
        problem: Problem,
        nominal: Nominal,
        bits: int,
        p: int,
        theta: Array,
        weights: Array,
        rewards: Rewards,
        sampled_rows: BoolArray,
        sums: BlockSums,
    ) -> Found:
        """Solve for one policy, and add draws to the sums of their blocks."""
        solver = Solver(self.device, problem, p, theta, weights, rewards)
        found = solver.solve(bits, nominal, p)
        sums.add(solver, found, nominal, p)
        if bits & GRADIENT:
            sums.add_slopes(solver, found, p, sampled_rows)
        if not bits & KEEP:  # memory for the next policy
            return replace(found, value=None, variance=None, occupancy=None)
        return found

    def _joined(
        self,
        problem: Problem,
        bits: int,
        first: int,
        weights: FloatArray,
        found: list[Found],
        sums: BlockSums,
    ) -> Sums:
        """Copy what is told of each draw, and join sums of blocks on the device."""
        get, m, n = self.device.get, problem.n_columns, weights.size
        told = [Found.parts(get(x.told), m, n) for x in found]
        start = np.concatenate([x[0] for x in told])
        status = np.repeat([x[1] for x in told], m, 0).astype(np.int8)
        products = np.repeat([x[2] for x in told], m, 0).astype(np.int64)
        start[np.broadcast_to((status != SOLVED)[:, None], start.shape)] = 0.0
        kept = np.zeros((m * len(found), 2, n if bits & KEEP else 0, sums.n_states))
        for p, x in enumerate(found if bits & KEEP else []):
            at = problem.columns(p)
            kept[at, 0] = get(self.device.by_draw(x.value, n))
            if x.variance is not None:
                kept[at, 1] = get(self.device.by_draw(x.variance, n))
            kept[at][:, :, told[p][1] != SOLVED] = 0.0
        cross = np.zeros((len(found), 0, n))
        if bits & CROSS:
            cross = np.array([get(x.cross) for x in found])
        nodes = sums.nodes(first // BLOCK)
        return Sums(nodes, start, status, products, weights, kept, cross)

    def bytes_per_thread(self, problem: Problem, solver: Iterations, bits: int) -> int:
        """Count what is put together before it is copied; models stay on the device."""
        return int(8 * (2 * problem.rows.mean.size + problem.policies.size))

    def seconds_per_draw(self, problem: Problem, solver: Iterations) -> float:
        """Count entries: tasks are as large as they may be."""
        return _ENTRY_SECONDS * (problem.rows.mean.size + 100)

    def iterates(self, solver: Iterations) -> bool:
        """All methods of a device do."""
        return True


def _of_cpu(problem: Problem) -> Any:
    return CPU().choose(problem, "auto", adjoint=True)


def _patched(
    found: Sums, problem: Problem, nominal: Nominal, bits: int, first: int
) -> Sums:
    """Add what the CPU finds for the draws that the device did not solve."""
    start, kept, cross = found.start.copy(), found.kept.copy(), found.cross.copy()
    status, products = found.status.copy(), found.products.copy()
    nodes = tuple(
        replace(x, state=x.state.copy(), row=x.row.copy()) for x in found.nodes
    )
    for p in range(len(problem.policies)):
        at = problem.columns(p)
        failed = found.status[at.start] == UNSOLVED
        if not failed.any():
            continue
        one = problem.with_policies(problem.policies[p : p + 1])
        of_one = nominal.reference[:, at], nominal.inverse[at], _of_cpu(one)
        around = Nominal(*of_one, nominal.controls)
        weights = np.where(failed, found.weights, 0.0)
        more = CPU().sweep(one, around, bits, first, weights)
        for node, other in zip(nodes, more.nodes, strict=True):
            node.state[at] += other.state
            node.row[at] += other.row
        start[at][..., failed] = more.start[..., failed]
        again = np.where(more.status == SOLVED, RETRIED, more.status)
        status[at][:, failed] = again[:, failed]
        products[at][:, failed] += more.products[:, failed]
        if kept.shape[2]:
            kept[at][:, :, failed] = more.kept[:, :, failed]
        if cross.shape[1]:
            cross[p][:, failed] = more.cross[0][:, failed]
    return replace(
        found,
        nodes=nodes,
        start=start,
        status=status,
        products=products,
        kept=kept,
        cross=cross,
    )
