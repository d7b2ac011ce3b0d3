"""How the rows of a problem lie on a GPU, and the chain that a policy makes of them.

All policies over the same rows share one pattern: that of every row. Entries that lead
from one live state to another share a slot, which a policy fills; slots of rows without
probability stay 0. So a search, whose policy changes with every step, lays nothing out
again.

Slots stand as `engine/cuda/matrix.cu` reads them. States are sorted by their number of
slots, and as many of them as a warp has groups of lanes make a slice. A lane takes four
slots at a time, a quad; neighbouring lanes of a state take neighbouring quads. Rows of
a slice are filled up to the longest of them. The slices are dealt out to the warps of a
block, long ones first, each to the warp that has the least.
"""

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._gpu_banks import fill_up, spread_over_banks
from bayesmdp.engine._gpu_device import Array, Device
from bayesmdp.engine._rows import SweepRows

_QUAD = 4
_FEW_SLICES = 32  # below, more lanes take a state
MOST_QUADS = 32  # of a thread whose values stay in shared memory: bits of a word


@dataclass(frozen=True)
class Block:
    """Threads of a block, in warps, and how many lanes share a state."""

    warp: int
    n_warps: int
    lanes: int

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return self.warp * self.n_warps


@dataclass(frozen=True, eq=False)
class Slices:
    """Slots of the live states in the order in which a block reads them."""

    first: NDArray[np.int32]  # [warps + 1], slices of each warp
    quads: NDArray[np.int32]  # [slices, 2], those of a thread
    order: NDArray[np.int32]  # [slices, rows of one], states; or N
    position: IntArray  # [slots], where each stands
    column: NDArray[np.unsignedinteger[Any]]  # of all positions
    block: Block
    n_quads: int  # of the thread that has most

    @classmethod
    def of(
        cls, state: IntArray, target: IntArray, n_live: int, block: Block, most: int
    ) -> "Slices":
        """Lay out slots, which stand in order of their live ``state``.

        Up to ``most`` quads of a thread stay in shared memory, where the order of
        slots counts.
        """
        n_rows, lanes = block.warp // block.lanes, block.lanes
        length = np.bincount(state, minlength=n_live)
        by_length = np.argsort(-length, kind="stable")
        n_slices = -(-n_live // n_rows)
        states = np.full((n_slices, n_rows), -1, dtype=np.int64)
        states.reshape(-1)[:n_live] = by_length
        each = -(-length[by_length[::n_rows]] // (_QUAD * lanes))  # quads of slices
        each = np.maximum(each, 1)
        warp_of, begin = _dealt(each, block.n_warps)
        by_warp = np.argsort(warp_of, kind="stable")
        first = np.searchsorted(warp_of[by_warp], np.arange(block.n_warps + 1))
        quads = np.stack([begin, begin + each], axis=1)
        n_quads = int(quads.max())
        before, near = np.cumsum(length) - length, block.warp > 1 and n_quads <= most
        if near:
            given = states, _QUAD * each, lanes, before, length, target
            step, lane = spread_over_banks(*given)
        else:
            number = np.arange(state.size) - before[state]
            step = number // (_QUAD * lanes) * _QUAD + number % _QUAD
            lane = number // _QUAD % lanes
        rank = np.empty(n_live, dtype=np.int64)  # of a state in the order of lengths
        rank[by_length] = np.arange(n_live)
        of, row = rank // n_rows, rank % n_rows
        thread = warp_of[of] * block.warp + row * lanes
        quad = begin[of][state] + step // _QUAD
        place = quad * block.threads + thread[state] + lane
        position = place * _QUAD + step % _QUAD
        kind = np.uint16 if n_live < 2**16 else np.uint32
        column = np.full((n_quads, block.threads, _QUAD), n_live, dtype=kind)
        column.reshape(-1)[position] = target
        if near:
            empty = np.ones(column.size, dtype=np.bool_)
            empty[position] = False
            fill_up(column, empty, block.warp)
        return cls(
            first.astype(np.int32),
            np.ascontiguousarray(quads[by_warp].astype(np.int32)),
            np.where(states < 0, n_live, states)[by_warp].astype(np.int32),
            position,
            column,
            block,
            n_quads,
        )

    @property
    def n_positions(self) -> int:
        """Positions of all threads."""
        return self.column.size


def _dealt(sizes: IntArray, n_warps: int) -> tuple[IntArray, IntArray]:
    """Deal slices, which fall in size, to warps: which one, and what it has before."""
    warp_of, begin = np.empty_like(sizes), np.empty_like(sizes)
    loads = [(0, warp) for warp in range(n_warps)]
    for number, size in enumerate(sizes.tolist()):
        load, warp = heapq.heappop(loads)
        warp_of[number], begin[number] = warp, load
        heapq.heappush(loads, (load + size, warp))
    return warp_of, begin


class OnDevice:
    """Rows on a device, and the pattern of their chains."""

    def __init__(self, device: Device, rows: SweepRows) -> None:
        self._device, self._rows = device, rows
        put = device.put
        self.n, self.n_states = rows.n_live, rows.start.size
        self.n_entries, self.n_rows = rows.target.size, rows.source.size
        self.indptr, self.source = put(rows.indptr), put(rows.source)
        self.target, self.mean = put(rows.target), put(rows.mean)
        self.reward, self.start = put(rows.reward), put(rows.start)
        self.terminal_value = put(rows.terminal_value)
        self.every_row = put(np.ones(self.n_rows, dtype=np.uint8))
        self._discounts: dict[bytes, Array] = {}
        first = np.searchsorted(rows.source, np.arange(self.n + 1))
        self.first_row = put(first.astype(np.int32))

    def discounts(self, given: FloatArray) -> Array:
        """Discounts on the device."""
        key = given.tobytes()
        if key not in self._discounts:
            self._discounts[key] = self._device.put(given)
        return self._discounts[key]

    @cached_property
    def _inner(self) -> IntArray:
        """Entries that lead from a live state to another."""
        target, state = self._rows.target, self._rows.source[self._rows.row_of_entry]
        return np.flatnonzero((target < self.n) & (target != state))

    @cached_property
    def _slots(self) -> tuple[IntArray, IntArray, IntArray]:
        """State and next state of each slot, and the slot of each inner entry."""
        rows, inner = self._rows, self._inner
        state = rows.source[rows.row_of_entry[inner]]
        key = state * self.n + rows.target[inner]
        if (np.diff(key) > 0).all():  # one row per state
            return state, key % self.n, np.arange(key.size)
        found, slot = np.unique(key, return_inverse=True)
        return found // self.n, found % self.n, slot

    @cached_property
    def block(self) -> Block:
        """More lanes for a state where there are few states; as many warps as pay."""
        state, _, _ = self._slots
        warp, lanes = self._device.warp, 1
        longest = max(state.size / max(self.n, 1) / _QUAD, 1.0)
        while lanes < min(warp, longest) and self.n * lanes < warp * _FEW_SLICES:
            lanes *= 2
        slices = -(-self.n * lanes // warp)
        n_warps = 1 << max(int(np.ceil(np.log2(max(slices / 4, 1)))), 0)
        return Block(warp, min(n_warps, self._device.most_threads // warp), lanes)

    @cached_property
    def _chain(self) -> Slices:
        state, target, _ = self._slots
        return Slices.of(state, target, self.n, self.block, MOST_QUADS)

    @cached_property
    def _by_target(self) -> IntArray:
        """Slots in the order of the states that they lead to."""
        state, target, _ = self._slots
        return np.lexsort((state, target))

    @cached_property
    def _back(self) -> Slices:
        (state, target, _), order = self._slots, self._by_target
        head, tail = target[order], state[order]
        return Slices.of(head, tail, self.n, self.block, MOST_QUADS)

    @property
    def n_quads(self) -> int:
        """Quads of a thread."""
        return self._chain.n_quads

    @property
    def n_back_quads(self) -> int:
        """Quads of a thread in the transpose."""
        return self._back.n_quads

    @property
    def n_places(self) -> int:
        """Places of a chain, with those that fill rows up."""
        return self._chain.n_positions

    @property
    def n_back_places(self) -> int:
        """Places of its transpose."""
        return self._back.n_positions

    def _pattern(self, made: Slices) -> tuple[Any, ...]:
        put = self._device.put
        arrays = made.first, made.quads, made.order, made.column
        return (*map(put, arrays), made.n_quads)

    @cached_property
    def chain(self) -> tuple[Any, ...]:
        """Pattern of the chain: slices, columns of all positions, and quads."""
        return self._pattern(self._chain)

    @cached_property
    def back(self) -> tuple[Any, ...]:
        """Pattern of the transpose."""
        return self._pattern(self._back)

    @cached_property
    def turned(self) -> Array:
        """Position in the transpose of each position of the chain."""
        most = max(self._chain.n_positions, self._back.n_positions)
        kind = np.uint16 if most < 2**16 else np.uint32
        out = np.full(self._chain.n_positions, -1).astype(kind)
        out[self._chain.position[self._by_target]] = self._back.position
        return self._device.put(out)

    @cached_property
    def filling(self) -> tuple[Array, Array, Array, Array]:
        """What fills places of a chain, listed for as many as a warp has lanes.

        Where the entries of each part begin, which they are, their rows, and which of
        these places each is added to.
        """
        warp, position = self._device.warp, self._chain.position[self._slots[2]]
        order = np.argsort(position, kind="stable")
        count = np.bincount(position // warp, minlength=self.n_places // warp)
        place = self._device.put((position[order] % warp).astype(np.uint8))
        return (*self._listed(count, self._inner[order]), place)

    @cached_property
    def edges(self) -> tuple[Array, Array, Array]:
        """Entries of each state that are paid for, or stay there."""
        rows = self._rows
        paid = rows.reward[: self.n_entries] != 0
        return self._edges(paid | (rows.target == rows.source[rows.row_of_entry]))

    @cached_property
    def all_edges(self) -> tuple[Array, Array, Array]:
        """The same where every entry may be paid for."""
        return self._edges(np.ones(self.n_entries, dtype=np.bool_))

    def _edges(self, wanted: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        entry = np.flatnonzero(wanted)
        state = self._rows.source[self._rows.row_of_entry[entry]]
        return self._listed(np.bincount(state, minlength=self.n), entry)

    def _listed(self, count: IntArray, entry: IntArray) -> tuple[Array, Array, Array]:
        begin, row = np.concatenate([[0], np.cumsum(count)]), self._rows.row_of_entry
        put = self._device.put
        return (
            put(begin.astype(np.uint32)),
            put(entry.astype(np.uint32)),
            put(row[entry].astype(np.int64)),
        )

    @cached_property
    def arrivals(self) -> tuple[Array, Array, Array, Array]:
        """Entries that lead to each terminal state, and the states that they leave."""
        rows = self._rows
        ends = np.flatnonzero(rows.target >= self.n)
        ends = ends[np.argsort(rows.target[ends], kind="stable")]
        count = np.bincount(rows.target[ends], minlength=self.n_states)[self.n :]
        state = rows.source[rows.row_of_entry[ends]].astype(np.uint32)
        return (*self._listed(count, ends), self._device.put(state))


def on_device(device: Device, rows: SweepRows) -> OnDevice:
    """Return rows on a device; laid out once, and kept with the rows."""
    kept: dict[int, OnDevice] = vars(rows).setdefault("_on_device", {})
    if id(device) not in kept:
        kept[id(device)] = OnDevice(device, rows)
    return kept[id(device)]
