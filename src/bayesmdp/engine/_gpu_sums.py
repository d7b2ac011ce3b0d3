"""Sums over draws on a device: powers and products, control variates, slopes.

They are those of `bayesmdp.engine._reduce`, block by block of draws; blocks are joined
as the tree that `bayesmdp.engine._backend` describes.
"""

from typing import Any

import numpy as np

from bayesmdp._typing import BoolArray
from bayesmdp.engine import _backend as channels
from bayesmdp.engine._backend import BLOCK, Node, Nominal
from bayesmdp.engine._gpu_device import Array, Device
from bayesmdp.engine._gpu_solve import Found, Solver
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import (
    CONTROL,
    CONTROL_STATES,
    CROSS,
    GRADIENT,
    KEEP,
    OCCUPANCY,
    VARIANCE,
)

_WARPS = 4  # of a block
_TOGETHER = 256  # draws that are multiplied by an inverse at once; part of a result


def count_bytes(problem: Problem, bits: int) -> int:
    """Memory per draw: its rows, solutions, controls, and its part of sums."""
    n_states, m, n = problem.rows.start.size, problem.n_columns, len(problem.policies)
    vectors = 4 * m + 8 + (m * m if bits & CROSS else 0)
    vectors += 3 * m * (n - 1) if bits & KEEP else 0
    n_sums = channels.n_channels(bits) * n_states
    n_sums += 2 * problem.rows.source.size if bits & GRADIENT else 0
    of_draw = 2 * problem.rows.mean.size + n_states * vectors
    return int(8 * (of_draw + n * m * n_sums / BLOCK))


class BlockSums:
    """Sums of the blocks of a range of draws."""

    def __init__(
        self, device: Device, problem: Problem, bits: int, n_draws: int
    ) -> None:
        self.device, self.problem, self.bits = device, problem, bits
        self.n_states, n_blocks = problem.rows.start.size, -(-n_draws // BLOCK)
        n = len(problem.policies) * problem.n_columns
        n_rows = problem.rows.source.size if bits & GRADIENT else 0
        shape = n, n_blocks, channels.n_channels(bits), self.n_states
        self.state = device.xp.empty(shape)
        self.row = device.xp.empty((n, n_blocks, 2, n_rows))

    def _launch(self, name: str, n_warps: int, arguments: tuple[Any, ...]) -> None:
        warps = _WARPS if self.device.warp > 1 else 1
        self.device.kernel(("common", "reduce"), name, BLOCK_OF_DRAWS=BLOCK)(
            -(-n_warps // warps), warps * self.device.warp, arguments, 0
        )

    def _units(self, n_draws: int) -> int:
        """Warps that work on sums of blocks: of one block at least."""
        return -(-n_draws // max(self.device.warp, BLOCK))

    def add(self, solver: Solver, found: Found, nominal: Nominal, p: int) -> None:
        """Add draws of policy ``p`` to the sums of states."""
        at, bits, m, n = solver.at, self.bits, solver.m, self.n_states
        columns = self.problem.columns(p)
        bars, _ = solver.bars(nominal, p)
        visits = bool(bits & (OCCUPANCY | GRADIENT))
        for k, out in enumerate(self.state[columns]):
            y = z = found.value  # not read
            if bits & CONTROL:
                y, z = self._controls(solver, found, nominal, p, k, bars)
            spread = found.value if found.variance is None else found.variance
            of_visits = found.value if found.occupancy is None else found.occupancy
            arguments = (
                *(solver.n_draws, n, at.n, out.shape[1], int(bool(bits & VARIANCE))),
                *(int(visits), int(bool(bits & CONTROL_STATES))),
                *(found.value[k], spread[k], of_visits[k], y, z),
                *(bars.reshape(-1)[k * n :], m * n, solver.weights, found.status, out),
            )
            self._launch("reduce_states", self._units(solver.n_draws) * n, arguments)

    def _controls(
        self,
        solver: Solver,
        found: Found,
        nominal: Nominal,
        p: int,
        k: int,
        bars: Array,
    ) -> tuple[Array, Array]:
        """Control variates of a reward, ``[n, N]`` both; their start values are set."""
        xp, at, n_draws, m = self.device.xp, solver.at, solver.n_draws, solver.m
        n, g, rewards = at.n, float(self.problem.discounts[k]), solver.rewards

        def deviate(counts: float, x: Array, stride: int, known: int) -> Array:
            out = xp.empty((n_draws, n))
            arguments = (
                *(n_draws, n, at.n_entries, solver.theta, at.mean, at.first_row),
                *(at.indptr, at.target, solver.pi, rewards.of_column(k)),
                *(rewards.stride, counts, g, x, stride, known, out),
            )
            self._launch("deviate", self.device.n_groups(n_draws) * n, arguments)
            return out

        def weigh(weight: Array, x: Array, channel: int) -> None:
            given = n_draws, n, weight, x, found.start[k, channel]
            self._launch("weigh", n_draws, given)

        u = deviate(1.0, bars[0, k], 0, at.n_states)
        if not self.bits & CONTROL_STATES:
            weigh(bars[2, k], u, channels.START_Y)
            return u, u
        inverse = self._inverse(nominal, p * m + k)
        y = _times(xp, u, inverse)
        z = _times(xp, deviate(0.0, y, n, n), inverse)
        weigh(at.start, y, channels.START_Y)
        weigh(at.start, z, channels.START_Z)
        return y, z

    def _inverse(self, nominal: Nominal, column: int) -> Array:
        """Transpose of the inverse of a column, kept on the device."""
        kept, key = nominal.solver.kept, f"inverse {column}"
        if key not in kept:
            kept[key] = self.device.put(nominal.inverse[column])
        return kept[key]

    def add_slopes(
        self, solver: Solver, found: Found, p: int, sampled_rows: BoolArray
    ) -> None:
        """Add slopes of rows ``[R]``; those that were not sampled have their mean."""
        at, rewards = solver.at, solver.rewards
        mask = at.every_row
        if not sampled_rows.all():
            mask = self.device.put(sampled_rows.astype(np.uint8))
        assert found.occupancy is not None
        for k, out in enumerate(self.row[self.problem.columns(p)]):
            arguments = (
                *(solver.n_draws, at.n_rows, at.n_states, at.n_entries),
                *(solver.theta, at.mean, mask, at.indptr, at.target, at.source),
                *(rewards.of_column(k), rewards.stride),
                *(float(self.problem.discounts[k]), found.value[k]),
                *(found.occupancy[k], solver.weights, found.status, out),
            )
            n_warps = self._units(solver.n_draws) * at.n_rows
            self._launch("add_slopes", n_warps, arguments)

    def nodes(self, first: int) -> tuple[Node, ...]:
        """Join blocks from number ``first`` on, as the largest subtrees they fill."""
        found = []
        for level, index in channels.subtrees(first, first + self.state.shape[1]):
            part = (index << level) - first, 1 << level
            both = (self._tree(x, *part) for x in (self.state, self.row))
            found.append(Node(level, index, *both))
        return tuple(found)

    def _tree(self, blocks: Array, first: int, n_blocks: int) -> Array:
        """Sum some blocks of ``[P, B, ...]``."""
        n, n_of_all, *rest = blocks.shape
        out = self.device.xp.empty((n, *rest))
        if out.size:
            arguments = out.size, out[0].size, n_of_all, first, n_blocks, blocks, out
            self._launch("add_tree", -(-out.size // self.device.warp), arguments)
        return out


def _times(xp: Any, x: Array, inverse: Array) -> Array:
    """Multiply rows ``[n, N]``, always as many at once: results depend on no other."""
    n = len(x)
    padded = xp.zeros((-(-n // _TOGETHER) * _TOGETHER, x.shape[1]))
    padded[:n] = x
    for begin in range(0, len(padded), _TOGETHER):
        part = slice(begin, begin + _TOGETHER)
        padded[part] = padded[part] @ inverse
    return padded[:n]
