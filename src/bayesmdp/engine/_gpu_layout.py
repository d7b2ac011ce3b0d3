"""How the rows of a problem lie on a GPU, and the chain that a policy makes of them.

All policies over the same rows share one pattern: that of every row. Entries with the
same state and next state share a slot, which a policy fills; slots of rows without
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
from bayesmdp.engine._gpu_device import Array, Device
from bayesmdp.engine._rows import SweepRows

_QUAD = 4
_FEW_SLICES = 32  # below, more lanes take a state
IS_DIAGONAL, IS_PAID = 1, 2  # bits of a mark, as in chain.cu
NOWHERE = np.uint32(0xFFFFFFFF)


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
    order: NDArray[np.int32]  # [slices, rows of one], states; or -1
    position: IntArray  # [slots], where each stands
    begin: IntArray  # [N], where the row of a state begins
    length: IntArray  # [N], places that it has
    block: Block
    n_quads: int  # of the thread that has most

    @classmethod
    def of(cls, state: IntArray, n_live: int, block: Block) -> "Slices":
        """Lay out slots, which stand in order of their live ``state``."""
        n_rows, lanes = block.warp // block.lanes, block.lanes
        length = np.bincount(state, minlength=n_live)
        by_length = np.argsort(-length, kind="stable")
        n_slices = -(-n_live // n_rows)
        states = np.full(n_slices * n_rows, -1, dtype=np.int64)
        states[:n_live] = by_length
        each = -(-length[by_length[::n_rows]] // (_QUAD * lanes))  # quads of slices
        each = np.maximum(each, 1)
        warp_of, begin = _dealt(each, block.n_warps)
        by_warp = np.argsort(warp_of, kind="stable")
        first = np.searchsorted(warp_of[by_warp], np.arange(block.n_warps + 1))
        quads = np.stack([begin, begin + each], axis=1)
        rank = np.empty(n_live, dtype=np.int64)  # of a state in the order of lengths
        rank[by_length] = np.arange(n_live)
        of, row = rank // n_rows, rank % n_rows
        thread = begin[of] * block.threads + warp_of[of] * block.warp + row * lanes
        number = np.arange(state.size) - (np.cumsum(length) - length)[state]
        quad = number // _QUAD
        place = thread[state] + quad // lanes * block.threads + quad % lanes
        return cls(
            first.astype(np.int32),
            np.ascontiguousarray(quads[by_warp].astype(np.int32)),
            states.reshape(n_slices, n_rows)[by_warp].astype(np.int32),
            place * _QUAD + number % _QUAD,
            thread * _QUAD,
            each[of] * _QUAD * lanes,
            block,
            int(quads.max()),
        )

    @property
    def width(self) -> int:
        """Places of a row that lie side by side."""
        return _QUAD * self.block.lanes

    @property
    def pitch(self) -> int:
        """Distance to the next ones."""
        return _QUAD * self.block.threads

    def slot_at(self, first: IntArray) -> tuple[IntArray, IntArray]:
        """Where places of states begin, ``[N + 1]``, and the slot at each; or none.

        Slots are counted within their state, which has its first at ``first`` [N + 1].
        """
        begin = np.concatenate([[0], np.cumsum(self.length)])
        state = np.repeat(np.arange(self.length.size), np.diff(first))
        beyond = self.position - self.begin[state]
        at = beyond // self.pitch * self.width + beyond % self.pitch
        out = np.full(begin[-1], NOWHERE)
        out[begin[state] + at] = np.arange(state.size) - first[state]
        return begin, out

    @property
    def n_positions(self) -> int:
        """Positions of all threads."""
        return self.n_quads * self.block.threads * _QUAD


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
        self.row = put(rows.row_of_entry.astype(np.uint32))
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
    def _slots(self) -> tuple[IntArray, IntArray, IntArray]:
        """State and next state of each slot, and the slot of each entry."""
        rows = self._rows
        state = rows.source[rows.row_of_entry]
        key = state * self.n_states + rows.target
        if (np.diff(key) > 0).all():  # one row per state
            return state, rows.target.astype(np.int64), np.arange(key.size)
        found, slot = np.unique(key, return_inverse=True)
        return found // self.n_states, found % self.n_states, slot

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

    @property
    def column_type(self) -> type[np.unsignedinteger[Any]]:
        """Type that counts states."""
        return np.uint16 if self.n + 1 < 2**16 else np.uint32

    @cached_property
    def _chain(self) -> Slices:
        return Slices.of(self._slots[0], self.n, self.block)

    @cached_property
    def _by_target(self) -> IntArray:
        """Slots that lead to live states, in order of these, ``[L]``."""
        state, target, _ = self._slots
        order = np.lexsort((state, target))
        return order[: int((target < self.n).sum())]

    @cached_property
    def _back(self) -> Slices:
        return Slices.of(self._slots[1][self._by_target], self.n, self.block)

    @property
    def n_quads(self) -> int:
        """Quads of a thread."""
        return self._chain.n_quads

    @property
    def n_back_quads(self) -> int:
        """Quads of a thread in the transpose."""
        return self._back.n_quads

    def _pattern(
        self, made: Slices, head: IntArray, tail: IntArray
    ) -> tuple[Array, ...]:
        """Slices, and columns of all positions: terminal states and diagonals are 0."""
        out = np.full(made.n_positions, self.n, dtype=self.column_type)
        out[made.position] = np.where(
            head == tail, self.n + 1, np.minimum(head, self.n)
        )
        return tuple(map(self._device.put, (made.first, made.quads, made.order, out)))

    @cached_property
    def chain(self) -> tuple[Array, ...]:
        """Pattern of the chain."""
        state, target, _ = self._slots
        return self._pattern(self._chain, target, state)

    @cached_property
    def back(self) -> tuple[Array, ...]:
        """Pattern of the transpose."""
        (state, target, _), order = self._slots, self._by_target
        return self._pattern(self._back, state[order], target[order])

    @cached_property
    def places(self) -> tuple[Any, ...]:
        """Where `fill_chains` writes: rows of the chain, and slots of its transpose."""
        place = np.full(self._slots[0].size, NOWHERE)
        place[self._by_target] = self._back.position
        made, put = self._chain, self._device.put
        begin, slot_at = made.slot_at(self._first_slot)
        given = put(begin.astype(np.int32)), put(slot_at)
        of_rows = *given, put(made.begin.astype(np.int32))
        return (made.width, made.pitch, *of_rows, put(place))

    @cached_property
    def _first_slot(self) -> IntArray:
        """Where slots of states begin, ``[N + 1]``."""
        return np.searchsorted(self._slots[0], np.arange(self.n + 1))

    @cached_property
    def first_slot(self) -> Array:
        """The same on the device."""
        return self._device.put(self._first_slot.astype(np.int32))

    def _marked(self, pays: IntArray) -> Array:
        """Slot of each entry within its state, with two bits."""
        state, target, slot = self._slots
        mark = (slot - self._first_slot[state[slot]]) * 4 + IS_DIAGONAL * (
            state == target
        )[slot]
        return self._device.put((mark + IS_PAID * pays).astype(np.uint32))

    @cached_property
    def mark(self) -> Array:
        """Marks where the reward is that of the rows."""
        return self._marked(self._rows.reward[: self.n_entries] != 0)

    @cached_property
    def mark_all(self) -> Array:
        """Marks where every entry may be paid for."""
        return self._marked(np.ones(self.n_entries, dtype=np.int64))

    @cached_property
    def arrivals(self) -> tuple[Array, Array]:
        """Entries that lead to each terminal state: where they begin, and which."""
        put, rows = self._device.put, self._rows
        ends = np.flatnonzero(rows.target >= self.n)
        ends = ends[np.argsort(rows.target[ends], kind="stable")]
        count = np.bincount(rows.target[ends], minlength=self.n_states)[self.n :]
        at = np.concatenate([[0], np.cumsum(count)])
        return put(at.astype(np.uint32)), put(ends.astype(np.uint32))


def on_device(device: Device, rows: SweepRows) -> OnDevice:
    """Return rows on a device; laid out once, and kept with the rows."""
    kept: dict[int, OnDevice] = vars(rows).setdefault("_on_device", {})
    if id(device) not in kept:
        kept[id(device)] = OnDevice(device, rows)
    return kept[id(device)]
