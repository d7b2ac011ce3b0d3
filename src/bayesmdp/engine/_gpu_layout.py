"""How the rows of a problem lie on a GPU, and the chain that a policy makes of them.

All policies over the same rows share one pattern: that of every row. Entries with the
same state and next state share a slot, which a policy fills; slots of rows without
probability stay 0. So a search, whose policy changes with every step, lays nothing out
again.

Slots stand as `engine/cuda/solve.cu` reads them. States are sorted by their number of
slots, and as many of them as a warp has groups of lanes make a slice. A lane takes four
slots at a time, a quad; neighbouring lanes of a state take neighbouring quads. Rows of
a slice are filled up to the longest of them. The slices are dealt out to the warps of a
block, long ones first, each to the warp that has the least.
"""

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayesmdp._typing import IntArray
from bayesmdp.engine._gpu_device import Array, Device
from bayesmdp.engine._rows import SweepRows

_QUAD = 4
_FEW_SLICES = 64  # below, more lanes take a state
IS_DIAGONAL, IS_PAID = 1, 2  # bits of a place, as in solve.cu


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
    slice_of: IntArray  # [slots]
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
        number = np.arange(state.size) - (np.cumsum(length) - length)[state]
        quad, of = number // _QUAD, rank[state]
        slice_of, row = of // n_rows, of % n_rows
        thread = warp_of[slice_of] * block.warp + row * lanes + quad % lanes
        place = (begin[slice_of] + quad // lanes) * block.threads + thread
        renumbered = np.empty(n_slices, dtype=np.int64)
        renumbered[by_warp] = np.arange(n_slices)
        return cls(
            first.astype(np.int32),
            np.ascontiguousarray(quads[by_warp].astype(np.int32)),
            states.reshape(n_slices, n_rows)[by_warp].astype(np.int32),
            place * _QUAD + number % _QUAD,
            renumbered[slice_of],
            block,
            int(quads.max()),
        )

    @property
    def n_positions(self) -> int:
        """Positions of all threads."""
        return self.n_quads * self.block.threads * _QUAD

    def streams(self, slot: IntArray) -> "Streams":
        """Lay out contributions to slots, as `fill` in solve.cu reads them."""
        warp, threads = self.block.warp, self.block.threads
        position, slice_of = self.position[slot], self.slice_of[slot]
        lane = position // _QUAD % threads % warp
        owner = slice_of * warp + lane
        within = position // (_QUAD * threads) * _QUAD + position % _QUAD
        order = np.lexsort((within, owner))  # stable: rising entries within a position
        count = np.bincount(owner, minlength=len(self.quads) * warp)
        fours = -(-count.reshape(-1, warp).max(axis=1) // _QUAD)
        first = np.cumsum(fours * warp) - fours * warp
        rank = np.arange(slot.size) - (np.cumsum(count) - count)[owner[order]]
        at = first[slice_of[order]] + rank // _QUAD * warp + lane[order]
        warp_of = np.repeat(np.arange(self.block.n_warps), np.diff(self.first))
        begin = self.quads[:, :1] * threads + warp_of[:, None] * warp + np.arange(warp)
        last = (begin * _QUAD).ravel()  # where there is nothing, of any position it has
        last[owner[order]] = position[order]
        lanes = np.repeat(np.arange(len(fours)) * warp, fours)[:, None] + np.arange(
            warp
        )
        place = np.repeat(last[lanes.ravel()], _QUAD)
        index = at * _QUAD + rank % _QUAD
        place[index] = position[order]
        return Streams(np.stack([first, fours], axis=1), place, index, order)


@dataclass(frozen=True, eq=False)
class Streams:
    """Contributions of each lane of a slice, filled up to whole fours."""

    begin: IntArray  # [slices, 2], first four, and fours of a lane
    place: IntArray  # [C], position
    index: IntArray  # [E], where contributions stand
    order: IntArray  # [E], which they are

    def spread(self, values: IntArray, otherwise: int) -> IntArray:
        """Put values of contributions ``[E]`` where these stand, ``[C]``."""
        out = np.full(self.place.size, otherwise, dtype=np.int64)
        out[self.index] = values[self.order]
        return out


def _dealt(sizes: IntArray, n_warps: int) -> tuple[IntArray, IntArray]:
    """Deal slices, in falling order of size, to warps; which, and what it has before."""
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
        self.reward, self.terminal_value = put(rows.reward), put(rows.terminal_value)
        first = np.searchsorted(rows.source, np.arange(self.n + 1))
        self.first_row = put(first.astype(np.int32))
        self.every_row = put(np.ones(self.n_rows, dtype=np.uint8))

    @cached_property
    def _slots(self) -> tuple[IntArray, IntArray, IntArray]:
        """State and next state of each slot, and the slot of each entry."""
        rows = self._rows
        state = rows.source[rows.row_of_entry]
        key = state * self.n_states + rows.target
        if (np.diff(key) > 0).all():  # one row a state
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
    def _by_target(self) -> tuple[IntArray, IntArray, int]:
        """Slots in order of next states, the place of each there, and live ones."""
        state, target, _ = self._slots
        by_target = np.lexsort((state, target))
        place = np.empty_like(by_target)
        place[by_target] = np.arange(place.size)
        return by_target, place, int((target < self.n).sum())

    @cached_property
    def _back(self) -> Slices:
        by_target, _, n_live = self._by_target
        return Slices.of(self._slots[1][by_target[:n_live]], self.n, self.block)

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

    def _streamed(self, streams: Streams, bits: IntArray, entry: IntArray) -> Any:
        """Contributions as kernels read them, and the row of each."""
        place = streams.place * 4 + streams.spread(bits, 0)
        of_entry = streams.spread(entry, 0)
        row = streams.spread(self._rows.row_of_entry[entry], self.n_rows)
        given = (x.astype(np.uint32) for x in (streams.begin, place, of_entry))
        return tuple(map(self._device.put, given)), row

    @cached_property
    def _laid(self) -> dict[str, Any]:
        """Patterns of the chain, its transpose and arrivals in terminal states."""
        state, target, slot = self._slots
        by_target, place, n_live = self._by_target
        tail, head = target[by_target], state[by_target]
        every, diagonal = np.arange(slot.size), (state == target)[slot]
        bits = IS_DIAGONAL * diagonal + IS_PAID * (self._rows.reward[every] != 0)
        chain = self._streamed(self._chain.streams(slot), bits, every)
        live = np.flatnonzero(self._rows.target < self.n)
        of_back = self._back.streams(place[slot[live]])
        back = self._streamed(of_back, np.zeros(live.size, dtype=np.int64), live)
        ends = np.flatnonzero(self._rows.target >= self.n)
        ends = ends[np.argsort(self._rows.target[ends], kind="stable")]
        count = np.bincount(self._rows.target[ends], minlength=self.n_states)[self.n :]
        at = np.concatenate([[0], np.cumsum(count)])
        row = self._rows.row_of_entry[ends]
        of_ends = (x.astype(np.uint32) for x in (at, ends, self._rows.source[row]))
        return {
            "chain": self._pattern(self._chain, target, state),
            "of_chain": chain[0],
            "back": self._pattern(self._back, head[:n_live], tail[:n_live]),
            "of_back": back[0],
            "arrivals": tuple(map(self._device.put, of_ends)),
            "row": self._device.put(np.concatenate([chain[1], back[1], row])),
            "sizes": (chain[1].size, back[1].size),
        }

    @cached_property
    def _all_paid(self) -> Array:
        """Places of contributions, all of which are paid for."""
        return self._laid["of_chain"][1] | np.uint32(IS_PAID)

    def patterns(self, policy: Array, *, same_reward: bool) -> tuple[Array, ...]:
        """Arrays of a policy ``[R]`` in the order of the kernel.

        Unless there is one reward, the same in all draws, every entry may be paid for.
        """
        xp, laid = self._device.xp, self._laid
        share = xp.concatenate([policy, xp.zeros(1)])[laid["row"]]
        n, m = laid["sizes"]
        begin, place, entry = laid["of_chain"]
        place = place if same_reward else self._all_paid
        chain = *laid["chain"], begin, place, entry, share[:n]
        back = *laid["back"], *laid["of_back"], share[n : n + m]
        return (*chain, *back, *laid["arrivals"], share[n + m :])


_LAID: WeakKeyDictionary[SweepRows, dict[int, OnDevice]] = WeakKeyDictionary()


def on_device(device: Device, rows: SweepRows) -> OnDevice:
    """Return rows on a device; laid out once."""
    kept = _LAID.setdefault(rows, {})
    if id(device) not in kept:
        kept[id(device)] = OnDevice(device, rows)
    return kept[id(device)]
