"""A GPU: one block of threads works on a draw, all draws share one pattern.

`engine/cuda` has the kernels: they sample the same draws as the CPU, and solve for each
by iterations whose errors are bounded as the CPU's are (`bayesmdp.engine._krylov`).
Chains whose vectors fit into a multiprocessor stay there; those of larger ones, and all
probabilities, are streamed from the device's memory. What comes back are sums, not
models. The order of every sum is fixed, so that the same call gives the same bits.

Draws that iterations do not solve go to the CPU, as do calls for which there is no
kernel (`refuse`): horizons, averages, and a first point of time that counts less.

Why CuPy with one CUDA C++ source, and not numba-cuda, which could compile the CPU's own
sampler: the solver needs vectors in shared memory of a size known at run time, loads of
four entries at once and launch bounds; the same source compiled for a CPU is tested
wherever there is a compiler; and the CPU's sampler rests on operations of LLVM that
numba-cuda does not have.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayesmdp._memory import gigabytes
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.engine import _backend as channels
from bayesmdp.engine._backend import BLOCK, Backend, Joiner, Node, Nominal, Sums
from bayesmdp.engine._cpu import CPU, check_solver
from bayesmdp.engine._gpu_device import Array, Device, first_device
from bayesmdp.engine._gpu_layout import OnDevice, on_device
from bayesmdp.engine._gpu_sampling import sampled
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import (
    CONTROL,
    CONTROL_STATES,
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

_DOUBLES, _SINGLES = 6, 9  # vectors of a block, as in solve.cu
_SHARE = 0.6  # of the free memory that a range of draws may take
_MOST_BYTES = 8e9  # and at most: more draws at once make nothing faster
_REGISTERS = 1024  # threads of a multiprocessor that have the registers they need
_REGISTERS_WIDE = 512  # and where columns stay in them
_MOST_RESIDENT = 16  # blocks of a multiprocessor
_MOST_QUADS = 32  # of a thread that stay: bits of a word
_LOOSE, _TIGHT = 0.5, 0.01  # of weights that bound errors: of a draw, of the mean model
_ROWS_EACH = 32  # rows of a block that adds slopes
_TOGETHER = 256  # draws that are multiplied by an inverse at once; part of a result
_SHARE_SCRATCH = 0.2  # of the free memory that chains of blocks may take
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


@dataclass(frozen=True, eq=False)
class _Found:
    """What was found for each draw of a range, of one policy with K rewards."""

    value: Array  # [K, n, S]
    variance: Array  # [K + X, n, S] or [1]
    occupancy: Array  # [K, n, S] or [1]
    start: Array  # [K, 4, n]
    cross: Array  # [X, n] or [1]
    length: Array  # [2, S] or [1]
    status: Array  # [n]
    products: Array  # [n]


@dataclass(frozen=True)
class _Fit:
    """What of a block's work stays in shared memory, and how many blocks fit."""

    quads: int  # of each thread, whose values stay; or 0
    doubles: bool
    singles: bool
    n_bytes: int
    room: int
    threads: int

    @property
    def resident(self) -> int:
        """Blocks of a multiprocessor."""
        fits = self.room // (self.n_bytes + 4096) if self.n_bytes else _MOST_RESIDENT
        registers = (_REGISTERS_WIDE if self.quads else _REGISTERS) // self.threads
        return max(min(fits, registers, _MOST_RESIDENT), 1)


class GPU(Backend):
    """Kernels in CUDA, on the first device that is visible."""

    def __init__(self, name: str = "cuda", device: Device | None = None) -> None:
        self.name, self._given = name, device

    def __reduce__(self) -> tuple[Any, ...]:
        return GPU, (self.name,)

    @property
    def device(self) -> Device:
        """The device; looked for when it is first needed."""
        return first_device() if self._given is None else self._given

    one_at_a_time = True

    def choose(self, problem: Problem, wanted: str, *, adjoint: bool) -> Iterations:
        """Solve the mean model of every policy."""
        check_solver(wanted)
        self._refuse(problem, wanted)
        n, m = len(problem.policies), problem.n_columns
        n_states = problem.rows.start.size
        length, found = np.zeros((n, 2, n_states)), np.zeros((3, n, m, n_states))
        theta = on_device(self.device, problem.rows).mean[None]
        for p in range(n):
            once = self.device.put(np.ones(1))
            got = self._solve(problem, p, _ALL, theta, once, (None, None), _TIGHT)
            if int(self.device.get(got.status)[0]) != SOLVED:
                one = problem.with_policies(problem.policies[p : p + 1])
                solver = CPU().choose(one, "auto", adjoint=True)
                found[:, p] = CPU().solve_mean(one, solver, _ALL)
                continue
            length[p] = self.device.get(got.length)
            for to, x in zip(found, (got.value, got.variance, got.occupancy)):
                to[p] = self.device.get(x)[:m, 0]
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
                f"`device={self.name!r}` cannot compute with {what}: take device='cpu'."
            )

    def solve_mean(self, problem: Problem, solver: Iterations, bits: int) -> FloatArray:
        """Return what was found when the solver was chosen."""
        found = solver.reference.copy()
        if not bits & VARIANCE:
            found[1] = 0.0
        if not bits & (OCCUPANCY | GRADIENT):
            found[2] = 0.0
        return found

    def inverses(self, problem: Problem) -> FloatArray:
        """Invert on the device."""
        xp, rows, n = self.device.xp, problem.rows, problem.n_live
        live = rows.target < n
        row = rows.row_of_entry
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
        size = self._draws_at_once(problem, bits)
        total, parts = Joiner(), []
        for begin in range(0, weights.size, size):
            part = weights[begin : begin + size]
            parts.append(self._sweep_part(problem, nominal, bits, first + begin, part))
            total.add(parts[-1])
        found = total.sums()
        get = self.device.get
        nodes = tuple(
            Node(x.level, x.index, get(x.state), get(x.row)) for x in total.nodes
        )
        found = replace(found, nodes=nodes)
        if (found.status == UNSOLVED).any():
            return _patched(found, problem, nominal, bits, first)
        return found

    def _draws_at_once(self, problem: Problem, bits: int) -> int:
        """Draws that fit on the device, in whole blocks."""
        n_states, m = problem.rows.start.size, problem.n_columns
        each = 8 * problem.rows.mean.size + 8 * n_states * (4 * m + 4)
        if bits & CONTROL_STATES:
            each += 8 * 3 * n_states
        if bits & CROSS:
            each += 8 * n_states * m * m
        if problem.stream is not None:
            each += 8 * n_states  # latent rows are shorter than rows of all actions
        free = self.device.free_bytes()
        size = int(min(_SHARE * free, _MOST_BYTES) / each) // BLOCK * BLOCK
        if size == 0:
            size = int(_SHARE * free / each) // BLOCK * BLOCK
        if size == 0:
            raise TooLargeError(
                f"`device={self.name!r}` needs {gigabytes(BLOCK * each)} for {BLOCK} "
                f"draws of {problem.rows.target.size} entries, and {gigabytes(free)} "
                "of the device's memory are free: take device='cpu', or a policy and "
                "a prior with fewer next states."
            )
        return size

    def _sweep_part(
        self,
        problem: Problem,
        nominal: Nominal,
        bits: int,
        first: int,
        weights: FloatArray,
    ) -> Sums:
        """Sweep draws that fit; sums of their blocks stay on the device."""
        xp, get, put = self.device.xp, self.device.get, self.device.put
        stream, rows = problem.stream, problem.rows
        assert stream is not None
        draws = np.arange(first, first + weights.size)
        used = problem.used
        every = bool(bits & GRADIENT) and len(problem.order) > 1
        used = np.ones_like(used) if every else used
        theta = sampled(self.device, stream, draws, used, rows.target.size)
        paid, ends = stream.rewards(draws), stream.terminal_values(draws)
        paid = None if paid is None else put(problem.in_order(paid))
        if ends is not None:
            ends = put(problem.in_order(ends)[..., rows.order])
        m, n_states = problem.n_columns, rows.start.size
        n_policies, n_blocks = len(problem.policies) * m, -(-weights.size // BLOCK)
        n_rows = rows.source.size if bits & GRADIENT else 0
        state = xp.zeros((n_policies, n_blocks, channels.n_channels(bits), n_states))
        row = xp.zeros((n_policies, n_blocks, 2, n_rows))
        start, status, products, kept, cross = [], [], [], [], []
        weighed = put(weights)
        for p in range(len(problem.policies)):
            at, of = problem.columns(p), (paid, ends)
            found = self._solve(problem, p, bits, theta, weighed, of, _LOOSE, nominal)
            self._reduce(
                problem, p, bits, theta, weighed, of, nominal, found, state[at]
            )
            if bits & GRADIENT:
                sampled_rows = used if stream.independent else np.ones_like(used)
                given = sampled_rows, theta, weighed, paid, found
                self._add_slopes(problem, *given, row[at])
            start.append(get(found.start))
            status += [get(found.status).astype(np.int8)] * m
            products += [get(found.products).astype(np.int64)] * m
            if bits & CROSS:
                cross.append(get(found.cross))
            if bits & KEEP:
                both = found.value, found.variance[:m]
                kept.append(np.stack([get(x) for x in both], axis=1))
        for k, found_status in enumerate(status):
            start[k // m][k % m][:, found_status != SOLVED] = 0.0
        total = Joiner()
        total.add_blocks(first // BLOCK, state, row)
        no_kept = np.zeros((n_policies, 2, 0, n_states))
        no_pairs = np.zeros((len(problem.policies), 0, weights.size))
        return Sums(
            total.nodes,
            np.concatenate(start),
            np.array(status),
            np.array(products),
            weights,
            np.concatenate(kept) if kept else no_kept,
            np.stack(cross) if cross else no_pairs,
        )

    def _kernel(self, name: str, at: OnDevice, how: "_Fit | None" = None) -> Any:
        """Return a kernel that solves or reduces, for the sizes of a problem."""
        if how is None:
            return self.device.kernel(("common", "reduce"), name)
        kind = "unsigned short" if at.column_type is np.uint16 else "unsigned int"
        constants: dict[str, object] = {"LANES": at.block.lanes, "COLUMN": kind}
        constants |= {"MAX_THREADS": at.block.threads, "MIN_BLOCKS": how.resident}
        constants |= {"QUADS": how.quads, "DOUBLES_SHARED": int(how.doubles)}
        constants |= {"SINGLES_SHARED": int(how.singles)}
        return self.device.kernel(("common", "solve"), name, **constants)

    def _fit(self, at: OnDevice, adjoint: bool) -> "_Fit":
        """Find what of a block's work stays in shared memory: values, then vectors."""
        size, threads = (at.n + 3) & ~1, at.block.threads
        doubles, singles = 8 * _DOUBLES * size, 4 * _SINGLES * size
        quads = max(at.n_quads, at.n_back_quads if adjoint else 0)
        values, room = 16 * quads * threads + 8, self.device.shared_bytes - 4096
        few = quads <= _MOST_QUADS and at.column_type is np.uint16
        if few and doubles + singles + values <= room:
            return _Fit(quads, True, True, doubles + singles + values, room, threads)
        if few and singles + values <= room:
            return _Fit(quads, False, True, singles + values, room, threads)
        if doubles + singles <= room:
            return _Fit(0, True, True, doubles + singles, room, threads)
        return _Fit(0, False, False, 0, room, threads)

    def _solve(
        self,
        problem: Problem,
        p: int,
        bits: int,
        theta: Array,
        weights: Array,
        of_draws: tuple[Array | None, Array | None],
        loose: float,
        nominal: Nominal | None = None,
    ) -> _Found:
        """Solve for draws ``theta`` [n, E] of policy ``p``."""
        device, rows, m = self.device, problem.rows, problem.n_columns
        xp, put, at = device.xp, device.put, on_device(device, rows)
        n, n_states, n_draws = at.n, at.n_states, len(theta)
        adjoint = bool(bits & (OCCUPANCY | GRADIENT))
        how, size = self._fit(at, adjoint), (n + 3) & ~1
        n_back = at.n_back_quads if adjoint else 0
        places = max(at.n_quads, n_back) * at.block.threads * (1 if how.quads else 2)
        n_bytes = 8 * _DOUBLES * size + 4 * _SINGLES * size
        fits = int(_SHARE_SCRATCH * device.free_bytes() // (16 * places + n_bytes))
        blocks = min(n_draws, device.n_processors * how.resident, max(fits, 1))
        in_memory = not (how.doubles and how.singles)
        pairs = m * (m - 1) // 2 if bits & CROSS else 0
        reference, length = np.zeros((3, m, n_states)), np.zeros((2, n_states))
        if nominal is not None:
            reference = nominal.reference[:, problem.columns(p)]
            length = nominal.solver.length[p]
        paid, ends = of_draws
        same = paid is None and len(problem.order) == 1
        if paid is None:
            paid = at.reward if m == 1 else put(problem.reward)
        if ends is None:
            ends = at.terminal_value if m == 1 else put(problem.terminal_value)

        def new(*shape: int, wanted: bool = True, kind: Any = np.float64) -> Array:
            return xp.empty(shape if wanted else (1,), dtype=kind)

        found = _Found(
            new(m, n_draws, n_states),
            new(m + pairs, n_draws, n_states, wanted=bool(bits & VARIANCE)),
            new(m, n_draws, n_states, wanted=adjoint),
            xp.zeros((m, channels.N_START, n_draws)),
            new(pairs, n_draws, wanted=pairs > 0),
            xp.zeros((2, n_states) if nominal is None else (1,)),
            new(n_draws, kind=np.int32),
            new(n_draws, kind=np.int32),
        )
        arguments = (
            *(n_draws, n, n_states, at.n_entries, m, bits, at.n_quads, n_back),
            *(_stride(paid, n_draws), _stride(ends, n_draws), loose),
            *at.patterns(put(problem.policies[p]), same_reward=same),
            *(theta, at.target, paid, ends, put(problem.discounts)),
            *(put(rows.start), weights, put(reference), put(length)),
            new(4 * blocks * places, kind=np.float32),
            new(blocks * n_bytes // 8 if in_memory else 1),
            *(found.value, found.variance, found.occupancy, found.start, found.cross),
            *(found.length, int(nominal is None), found.status, found.products),
        )
        run = self._kernel("solve_draws", at, how)
        run(blocks, at.block.threads, arguments, how.n_bytes)
        return found

    def _reduce(
        self,
        problem: Problem,
        p: int,
        bits: int,
        theta: Array,
        weights: Array,
        of_draws: tuple[Array | None, Array | None],
        nominal: Nominal,
        found: _Found,
        out: Array,
    ) -> None:
        """Add draws to the sums of their blocks ``out`` [K, B, C, S]."""
        put, at = self.device.put, on_device(self.device, problem.rows)
        m, n_states = problem.n_columns, at.n_states
        reference = np.ascontiguousarray(nominal.reference[:, problem.columns(p)])
        run = self._kernel("reduce_states", at)
        on, bars = weights, put(reference)
        for k in range(m):
            y = z = on  # not read
            if bits & CONTROL:
                y, z = self._controls(
                    problem, p, k, bits, theta, of_draws, bars, nominal, found
                )
            arguments = (
                *(len(theta), n_states, at.n, out.shape[2], int(bool(bits & VARIANCE))),
                *(
                    int(bool(bits & (OCCUPANCY | GRADIENT))),
                    int(bool(bits & CONTROL_STATES)),
                ),
                found.value[k],
                found.variance[k] if bits & VARIANCE else on,
                found.occupancy[k] if bits & (OCCUPANCY | GRADIENT) else on,
                *(y, z, bars.reshape(-1)[k * n_states :], m * n_states),
                *(on, found.status, out[k]),
            )
            run(
                out.shape[1],
                min(256, -(-n_states // 32) * self.device.warp),
                arguments,
                0,
            )

    def _controls(
        self,
        problem: Problem,
        p: int,
        k: int,
        bits: int,
        theta: Array,
        of_draws: tuple[Array | None, Array | None],
        bars: Array,
        nominal: Nominal,
        found: _Found,
    ) -> tuple[Array, Array]:
        """Control variates of a reward, ``[n, N]`` both; their start values are set."""
        device, rows = self.device, problem.rows
        xp, put, at = device.xp, device.put, on_device(device, rows)
        n, n_draws = at.n, len(theta)
        paid = at.reward if of_draws[0] is None and len(problem.order) == 1 else None
        if paid is None:
            paid = put(problem.reward) if of_draws[0] is None else of_draws[0]
        stride = _stride(paid, n_draws)
        paid = paid.reshape(-1)[k * at.n_entries :]
        g, pi = float(problem.discounts[k]), put(problem.policies[p])
        run = self._kernel("deviate", at)
        group = 8 if device.warp > 1 else 1
        threads = 128 if device.warp > 1 else 1
        blocks = -(-n_draws * n * group // threads)

        def deviate(counts: float, x: Array, x_stride: int, known: int) -> Array:
            out = xp.empty((n_draws, n))
            given = (n_draws, n, at.n_entries, theta, at.mean, at.first_row, at.indptr)
            given = *given, at.target, pi, paid, stride, counts, g, x, x_stride, known
            run(blocks, threads, (*given, out), 0)
            return out

        def from_start(weight: Array, x: Array, channel: int) -> None:
            out = xp.empty(n_draws)
            warps = 4 if device.warp > 1 else 1
            weigh = self._kernel("weigh", at)
            given = n_draws, n, weight, x, out
            weigh(-(-n_draws // warps), warps * device.warp, given, 0)
            found.start[k, channel] = out

        bar = bars[0, k].copy()
        u = deviate(1.0, bar, 0, at.n_states)
        if not bits & CONTROL_STATES:
            from_start(bars[2, k, :n].copy(), u, channels.START_Y)
            return u, u
        inverse = self._inverse(nominal, p * problem.n_columns + k)
        y = _times(xp, u, inverse)
        z = _times(xp, deviate(0.0, y, n, n), inverse)
        start = put(rows.start)
        from_start(start, y, channels.START_Y)
        from_start(start, z, channels.START_Z)
        return y, z

    def _inverse(self, nominal: Nominal, column: int) -> Array:
        """Transpose of the inverse of a column, kept on the device."""
        kept = nominal.solver.kept
        key = f"inverse {column}"
        if key not in kept:
            kept[key] = self.device.put(nominal.inverse[column])
        return kept[key]

    def _add_slopes(
        self,
        problem: Problem,
        sampled_rows: BoolArray,
        theta: Array,
        weights: Array,
        paid: Array | None,
        found: _Found,
        out: Array,
    ) -> None:
        """Add slopes of rows to the sums of their blocks ``out`` [K, B, 2, R]."""
        device, at, m = (
            self.device,
            on_device(self.device, problem.rows),
            problem.n_columns,
        )
        if paid is None:
            paid = at.reward if m == 1 else device.put(problem.reward)
        run = self._kernel("add_slopes", at)
        threads = 256 if device.warp > 1 else 1
        parts = -(-at.n_rows // _ROWS_EACH)
        mask = device.put(sampled_rows.astype(np.uint8))
        stride = _stride(paid, len(theta))
        for k in range(m):
            arguments = (
                *(len(theta), at.n_rows, _ROWS_EACH, at.n_states, at.n_entries, theta),
                *(at.mean, mask, at.indptr, at.target, at.source),
                *(paid.reshape(-1)[k * at.n_entries :], stride),
                *(float(problem.discounts[k]), found.value[k], found.occupancy[k]),
                *(weights, found.status, out[k]),
            )
            run(out.shape[1] * parts, threads, arguments, 0)

    def bytes_per_thread(self, problem: Problem, solver: Iterations, bits: int) -> int:
        """Count what is put together before it is copied; models stay on the device."""
        return int(8 * (2 * problem.rows.mean.size + problem.policies.size))

    def seconds_per_draw(self, problem: Problem, solver: Iterations) -> float:
        """Count entries: tasks are as large as they may be."""
        return _ENTRY_SECONDS * (problem.rows.mean.size + 100)

    def iterates(self, solver: Iterations) -> bool:
        """All methods of a device do."""
        return True


def _stride(array: Array, n_draws: int) -> int:
    """Distance between draws of an array ``[n, ...]``; 0 where all share one."""
    shared = array.ndim < 3
    return 0 if shared or n_draws == 0 else int(array[0].size)


def _times(xp: Any, x: Array, inverse: Array) -> Array:
    """Multiply rows ``[n, N]``, always as many at once: results depend on no other."""
    n = len(x)
    padded = xp.zeros((-(-n // _TOGETHER) * _TOGETHER, x.shape[1]))
    padded[:n] = x
    for begin in range(0, len(padded), _TOGETHER):
        part = slice(begin, begin + _TOGETHER)
        padded[part] = padded[part] @ inverse
    return padded[:n]


def _patched(
    found: Sums, problem: Problem, nominal: Nominal, bits: int, first: int
) -> Sums:
    """Add what the CPU finds for the draws that the device did not solve."""
    m = problem.n_columns
    start, status, products = (
        found.start.copy(),
        found.status.copy(),
        found.products.copy(),
    )
    kept, cross = found.kept.copy(), found.cross.copy()
    nodes = [Node(x.level, x.index, x.state.copy(), x.row.copy()) for x in found.nodes]
    for p in range(len(problem.policies)):
        at = problem.columns(p)
        failed = found.status[at.start] == UNSOLVED
        if not failed.any():
            continue
        one = problem.with_policies(problem.policies[p : p + 1])
        around = replace(
            nominal,
            reference=nominal.reference[:, at],
            inverse=nominal.inverse[at],
            solver=CPU().choose(one, "auto", adjoint=True),
        )
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
        nodes=tuple(nodes),
        start=start,
        status=status,
        products=products,
        kept=kept,
        cross=cross,
    )
