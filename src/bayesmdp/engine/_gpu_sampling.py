"""Rows of draws on a device: the same draws as the CPU's, up to rounding.

Each kind of stream has a sampler here, which keeps on the device what draws are made
from. A stream of another kind, such as a user's own, fills its rows on the CPU; they
are copied then.

Samplers fill the rows that are used, as `Stream.fill` does.
"""

from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.engine._gpu_device import Array, Device, Launch
from bayesmdp.posterior import (
    DirichletStream,
    HierarchicalStream,
    KeptStream,
    MixtureStream,
    ModelStream,
    RandomSupportStream,
    Stream,
)
from bayesmdp.posterior.sampling import layers

_WARPS = 4  # of a block; each takes a row of as many draws as it has lanes
_SHARE_KEPT = 0.4  # of free memory that draws met again may take


class Sampler(Protocol):
    """Fills rows ``used`` [R] of draws [n] in an array of the device.

    Draws lie in groups, ``[groups, E, lanes]`` (`Device.grouped`).
    """

    def __call__(self, draws: IntArray, used: BoolArray, theta: Array) -> None:
        """Fill."""


class _Kernels:
    """The samplers' kernels and the tables they read."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.tables = tuple(device.put(table) for table in layers())

    def launch(
        self, name: str, n_rows: int, n_draws: int, arguments: tuple[Any, ...]
    ) -> None:
        """Run a sampler over rows and draws."""
        warp = self.device.warp
        warps = _WARPS if warp > 1 else 1
        run: Launch = self.device.kernel(("common", "random", "sample"), name)
        tasks = n_rows * self.device.n_groups(n_draws)
        run(-(-tasks // warps), warps * warp, arguments, 0)


def _longest_first(length: IntArray, used: BoolArray) -> IntArray:
    """Order of the rows that are used: long ones first, so that none is waited for."""
    row = np.flatnonzero(used)
    return np.asarray(row[np.argsort(-length[row], kind="stable")])


class _Rows:
    """What samplers of independent rows and of shared ones read of a layout."""

    def __init__(self, kernels: _Kernels, stream: Any) -> None:
        put, rows = kernels.device.put, stream.layout
        self.kernels, self.put = kernels, put
        self.state, self.action = put(rows.state), put(rows.action)
        self.indptr, self.length = put(rows.indptr), np.diff(rows.indptr)
        self.n_entries = int(rows.indptr[-1])
        self.key = tuple(np.uint64(x) for x in stream.key)
        self._order: dict[bytes, Array] = {}

    def order(self, used: BoolArray) -> Array:
        """Rows that are used, on the device."""
        key = used.tobytes()
        if key not in self._order:
            self._order.clear()
            found = _longest_first(self.length, used).astype(np.int32)
            self._order[key] = self.put(found)
        return self._order[key]


def _dirichlet(kernels: _Kernels, stream: DirichletStream) -> Sampler:
    at, alpha = _Rows(kernels, stream), kernels.device.put(stream.alpha)

    def fill(draws: IntArray, used: BoolArray, theta: Array) -> None:
        order = at.order(used)
        sizes = draws.size, order.size, at.n_entries
        of_rows = at.state, at.action, at.indptr, alpha
        given = (*at.key, *sizes, at.put(draws), order, *of_rows)
        given = *given, *kernels.tables, theta
        kernels.launch("sample_dirichlet", order.size, draws.size, given)

    return fill


def _random_support(kernels: _Kernels, stream: RandomSupportStream) -> Sampler:
    at, sets, put = _Rows(kernels, stream), stream.sets, kernels.device.put
    of_sets = (
        put(stream.alpha),
        put(sets.shape),
        put(np.asarray(sets.group, dtype=np.int64)),
        put(np.asarray(sets.start, dtype=np.int64)),
        put(sets.cumulative),
        put(np.asarray(stream.lump, dtype=np.int64)),
        float(sets.concentration),
    )

    def fill(draws: IntArray, used: BoolArray, theta: Array) -> None:
        order = at.order(used)
        sizes = draws.size, order.size, at.n_entries
        of_rows = at.state, at.action, at.indptr
        given = (*at.key, *sizes, at.put(draws), order, *of_rows, *of_sets)
        given = *given, *kernels.tables, theta
        kernels.launch("sample_random_support", order.size, draws.size, given)

    return fill


def _hierarchical(kernels: _Kernels, stream: HierarchicalStream) -> Sampler:
    """Sample latent rows, then rows around them; chains stay on the device."""
    at, put, rows = _Rows(kernels, stream), kernels.device.put, stream.layout
    chains, n_states = stream.chains, stream.layout.n_states
    first = np.flatnonzero(np.diff(rows.state, prepend=-1))  # rows of a state
    length = np.diff(rows.indptr)[first]
    begin = np.concatenate([[0], np.cumsum(length)])
    which = np.searchsorted(rows.state[first], rows.state)
    latent = put(begin[which])
    n_kept = int(begin[-1])
    of_latent = (
        put(np.argsort(-length, kind="stable").astype(np.int32)),
        put(rows.state[first]),
        put(begin),
        put(stream.cell[first]),
        put(stream.cells.base),
        put(chains.tables),
        put(chains.k),
    )
    count, strength = put(stream.count), put(chains.strength)
    visits = put(rows.row_sums(stream.count))
    every = np.ones(rows.state.size, dtype=np.bool_)

    def fill(draws: IntArray, used: BoolArray, theta: Array) -> None:
        numbers, n = put(draws), draws.size
        members = put(chains.order[draws % chains.order.size])
        groups = kernels.device.n_groups(n)
        mu = kernels.device.xp.empty((groups, n_kept, kernels.device.warp))
        sizes = n, first.size, chains.tables.shape[1], n_states, n_kept
        given = (*at.key, *sizes, rows.n_actions, numbers, members, *of_latent)
        given = *given, *kernels.tables, mu
        kernels.launch("sample_latent", first.size, n, given)
        order, mask = at.order(every), put(used.astype(np.uint8))
        sizes = n, order.size, at.n_entries, n_states, n_kept
        of_rows = at.state, at.action, at.indptr, latent, count, visits, strength
        given = (*at.key, *sizes, numbers, members, order, *of_rows, mask, mu)
        given = *given, *kernels.tables, theta
        kernels.launch("sample_shared", order.size, n, given)

    return fill


def _models(kernels: _Kernels, stream: ModelStream) -> Sampler:
    device, membership = kernels.device, stream.membership
    table = device.put(stream.table)

    def fill(draws: IntArray, used: BoolArray, theta: Array) -> None:
        theta[:] = device.grouped(table[device.put(membership.of(draws))])

    return fill


def _mixture(kernels: _Kernels, stream: MixtureStream) -> Sampler:
    device, membership = kernels.device, stream.membership
    put, xp, parts = device.put, device.xp, []
    for part in stream.parts:
        place = part.place
        place = place if isinstance(place, slice) else put(place)
        parts.append((sampler(kernels, part.stream), put(part.mean), place))

    def fill(draws: IntArray, used: BoolArray, theta: Array) -> None:
        members = membership.of(draws)
        whole = xp.zeros((draws.size, theta.shape[1]))
        for number in np.unique(members):
            of_part, mean, place = parts[number]
            mine = np.flatnonzero(members == number)
            own = device.grouped(xp.tile(mean, (mine.size, 1)))  # rows not used
            of_part(draws[mine], used, own)
            at, own = put(mine), device.by_draw(own, mine.size)
            if isinstance(place, slice):
                whole[at] = own
            else:
                whole[at[:, None], place] = own
        theta[:] = device.grouped(whole)

    return fill


def _room(device: Device, n: int, n_entries: int, share: float = np.inf) -> Array:
    """Room for rows of draws; None where it would take more of what is free."""
    shape = device.n_groups(n), n_entries, device.warp
    if share < np.inf and 8 * np.prod(shape) > share * device.free_bytes():
        return None
    return device.xp.empty(shape)


class _Kept:
    """Rows of draws that are met again, as far as there is room on the device.

    Where rows are independent all of them are sampled, so that the next policy finds
    those that it uses, too. Where they share something, a search meets other used rows
    at nearly every step and seldom the same ones later: of each range of draws only the
    rows that were filled last are kept.
    """

    def __init__(self, kernels: _Kernels, stream: KeptStream) -> None:
        self._device, self._independent = kernels.device, stream.independent
        self._own = sampler(kernels, stream.stream)
        self._kept: dict[bytes, tuple[bytes, Array]] = {}  # by draws; with rows used

    def filled(self, draws: IntArray, used: BoolArray, n_entries: int) -> Array | None:
        """Return rows that are kept, or can be; None where there is no room."""
        used = np.ones_like(used) if self._independent else used
        key, rows = draws.tobytes(), used.tobytes()
        if self._kept.get(key, (b"",))[0] != rows:
            self._kept.pop(key, None)  # first, so that there is room
            theta = _room(self._device, draws.size, n_entries, _SHARE_KEPT)
            if theta is None:
                return None
            self._own(draws, used, theta)
            self._kept[key] = rows, theta
        return self._kept[key][1]

    def __call__(self, draws: IntArray, used: BoolArray, theta: Array) -> None:
        """Fill rows that are not kept."""
        self._own(draws, used, theta)


def _copied(kernels: _Kernels, stream: Stream) -> Sampler:
    """Let a stream fill its rows itself, and copy them."""

    def fill(draws: IntArray, used: BoolArray, theta: Array) -> None:
        rows: FloatArray = np.zeros((draws.size, theta.shape[1]))
        stream.fill(draws, used, rows)
        theta[:] = kernels.device.grouped(kernels.device.put(rows))

    return fill


_MAKERS: dict[type[Stream], Callable[[_Kernels, Any], Sampler]] = {
    DirichletStream: _dirichlet,
    RandomSupportStream: _random_support,
    HierarchicalStream: _hierarchical,
    ModelStream: _models,
    MixtureStream: _mixture,
    KeptStream: _Kept,
}
_MADE: WeakKeyDictionary[Stream, dict[int, Sampler]] = WeakKeyDictionary()
_KERNELS: dict[int, _Kernels] = {}


def kernels_of(device: Device) -> _Kernels:
    """Return the samplers' kernels of a device."""
    if id(device) not in _KERNELS:
        _KERNELS[id(device)] = _Kernels(device)
    return _KERNELS[id(device)]


def sampler(kernels: _Kernels, stream: Stream) -> Sampler:
    """Return what fills rows of a stream on the device; made once.

    It must not hold the stream, which would then never be forgotten.
    """
    if type(stream) not in _MAKERS:
        return _copied(kernels, stream)
    made = _MADE.setdefault(stream, {})
    key = id(kernels)
    if key not in made:
        made[key] = _MAKERS[type(stream)](kernels, stream)
    return made[key]


def sampled(
    device: Device, stream: Stream, draws: IntArray, used: BoolArray, n_entries: int
) -> Array:
    """Rows of some draws, ``[groups, E, lanes]``.

    Those that are not used, and lanes without a draw, may hold anything.
    """
    fill = sampler(kernels_of(device), stream)
    if isinstance(fill, _Kept):
        found = fill.filled(draws, used, n_entries)
        if found is not None:
            return found
    theta = _room(device, draws.size, n_entries)
    fill(draws, used, theta)
    return theta
