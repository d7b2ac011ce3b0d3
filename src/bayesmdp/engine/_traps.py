"""Traps: sets of states that an uncertain chain may circle in for very long.

A *trap* is a set ``C`` of live states that is strongly connected by entries inside it,
and in which every row the policy uses has an entry inside: the exits of a row without
one sum to 1, and cannot all be small. ``f(C)`` is the sum of the Dirichlet
concentrations of all entries that leave ``C``, over the rows in use.

**What traps decide.** Let ``M`` be the mean number of times that an episode uses the
entry ``e`` from ``s`` to ``t``, given the dynamics. Then ``E[M^p]`` over the posterior
is infinite if, and only if, ``f(C) <= p`` for some trap ``C`` that holds ``s`` and
``t``. (A self-loop: ``E[1/(1 - theta)]``, ``theta`` Beta.)

*If*: all exits of ``C`` are below ``x`` with probability of order ``x^f(C)``, and ``M``
is then of order ``1 / x``.

*Only if*: let entries be of order ``x^u``, ``u >= 0``, with a 0 in each row; that has
probability of order ``x^(sum alpha u)``. Numbers of visits are ratios of sums over
spanning forests, so ``M`` is of order ``x^(u_e - h)``, where ``h`` is the least weight
``u`` of a forest to the end, less that of one to the end or ``s``. The first is the
largest ``sum y_C`` of any ``y >= 0`` on sets of live states with ``sum y_C <= u`` at
each entry, over the sets it leaves (Fulkerson 1974), and sets with ``y_C > 0`` can be
taken to be traps; without those that hold ``s``, ``y`` bounds the second. Hence ``h -
u_e`` is at most the sum of ``y_C`` over traps that hold ``s`` and ``t``, and ``sum
alpha u`` at least the sum of ``y_C f(C)`` over them. Where all these ``f(C)`` are above
``p``, every order of magnitude adds a finite amount.

**Search.** With ``f`` alone the least trap would be a minimum cut. That every row needs
an entry inside makes it as hard as finding hitting sets, in the worst case:

1. A trap lies in one strongly connected piece. If ``f(C) <= limit``, it holds no state
   of which more than ``limit`` leaves the piece, and none with a row that always does.
   Such states are left out until there are no more, and the pieces fall apart.
2. Rows that may lead to many states have exits far above what matters; a bound on what
   ``k`` states can hold inside shows it without a cut.
3. In what remains, the smallest cut around a state bounds the exits of its traps. Where
   the cut is no trap it breaks a rule that traps obey: "not all of these states, or
   one of those too". Each way to obey it is looked at, with states forced in or left
   out. When none leads to a trap, the state is left out for good.

Most searches need no branch. One that has had ``_MOST_BRANCHES`` is given up, which its
caller is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray

_UNIT = 10**8  # scipy's maximum flow counts in whole numbers
_CAP = 3.0  # a larger concentration is no other to us
_UNCUT = 2**30  # capacity of what must stay inside
_MOST_BRANCHES = 1000  # in the search for one trap: a second or two, mostly
_MOST_BOUNDED = 10**7  # entries of the table that bounds exits


@dataclass(frozen=True, eq=False)
class Chain:
    """Entries of a policy's chain by row; what is left out is the end, state ``N``."""

    state: IntArray  # [N], what callers call the states
    row: IntArray  # [K], ascending, every number from 0
    tail: IntArray  # [K]
    head: IntArray  # [K]
    concentration: FloatArray  # [K], 0 where an exit may be missing from a draw
    pays: BoolArray  # [K], whether it has a reward

    @property
    def n(self) -> int:
        """Number of states."""
        return int(self.state.size)

    @cached_property
    def owner(self) -> IntArray:
        """State of each row, ``[R]``."""
        return self.tail[np.flatnonzero(np.diff(self.row, prepend=-1))]

    @cached_property
    def weight(self) -> IntArray:
        """Concentrations in whole numbers, ``[K]``; only 0 becomes 0."""
        whole = np.minimum(self.concentration, _CAP) * _UNIT
        least = (self.concentration > 0).astype(np.int64)
        return np.maximum(whole.astype(np.int64), least)

    @cached_property
    def bound(self) -> FloatArray:
        """Least exits that a trap with a state can have, without a cut, ``[N]``.

        In a trap of ``k`` states a row has inside, at most, its own state and the ``k -
        1`` largest of its other entries. So exits are at least what the rest sums to,
        in the state itself and in those ``k - 1`` where that is least.
        """
        live = self.head < self.n
        inner, weight = self.row[live], self.weight[live]
        other = self.tail[live] != self.head[live]
        order = np.lexsort((-weight, other, inner))
        inner, weight, other = inner[order], weight[order], other[order]
        n_rows = self.owner.size
        place = np.arange(inner.size) - np.searchsorted(inner, np.arange(n_rows))[inner]
        no_loop = np.bincount(inner[~other], minlength=n_rows) == 0
        place += no_loop[inner]
        width = int(place.max(initial=0)) + 1
        if n_rows * width > _MOST_BOUNDED:
            return np.zeros(self.n)
        stays = np.zeros((n_rows, width))
        stays[inner, place] = weight
        leaves = np.bincount(self.row, self.weight)[:, None] - stays.cumsum(axis=1)
        leaves[no_loop, 0] = np.inf
        of_state = np.zeros((self.n, width))
        np.add.at(of_state, self.owner, leaves)
        least = np.sort(of_state, axis=0)
        k = np.arange(min(width, self.n))  # besides the state
        others = np.where(k > 0, least.cumsum(axis=0)[k - 1, k], 0.0)
        exits = np.maximum(of_state[:, k], least[k, k]) + others
        return np.asarray(exits.min(axis=1, initial=np.inf))

    def within(self, inside: BoolArray) -> "Chain":
        """Return the entries of some states ``[N + 1]``."""
        at = np.flatnonzero(inside)
        number = np.full(self.n + 1, at.size)
        number[at] = np.arange(at.size)
        mine = inside[self.tail]
        return Chain(
            self.state[at],
            np.cumsum(np.diff(self.row[mine], prepend=-1) > 0) - 1,
            number[self.tail[mine]],
            number[self.head[mine]],
            self.concentration[mine],
            self.pays[mine],
        )


@dataclass(frozen=True, eq=False)
class Trap:
    """States of a trap, or of all that there may be one in."""

    state: IntArray
    exits: float  # total concentration; NaN where the search was given up


class _Rule(NamedTuple):
    """Unless one of some states is left out, one of others is in."""

    unless_out: IntArray
    one_of: IntArray


class _GivenUpError(Exception):
    """A search takes too long."""


def find_trap(chain: Chain, limit: float, *, paid: bool) -> Trap | None:
    """Return a trap with exits up to a limit, if there is one; or one that pays.

    Of those around one state it is the smallest.
    """
    most = int(limit * _UNIT)
    branches = iter(range(_MOST_BRANCHES))
    whole = chain if paid else replace(chain, pays=np.ones_like(chain.pays))
    todo = [(whole, np.append(chain.bound <= most, False))]
    while todo:
        for piece in _pieces(*todo.pop(), most):
            if not piece.pays.any():
                continue
            kept = np.append(piece.bound <= most, False)
            if not kept[:-1].all():
                todo.append((piece, kept))
                continue
            root = _root(piece)
            try:
                inside = _search(piece, root, most, branches)
            except _GivenUpError:
                return Trap(piece.state, np.nan)
            if inside is not None:
                leaves = inside[piece.tail] & ~inside[piece.head]
                exits = float(piece.concentration[leaves].sum())
                return Trap(piece.state[inside[:-1]], exits)
            todo.append(_without(piece, root))
    return None


def _all_states(chain: Chain) -> BoolArray:
    """Every state but the end, ``[N + 1]``."""
    return np.arange(chain.n + 1) < chain.n


def _root(chain: Chain) -> int:
    """State to look around: without it, pieces shall fall apart."""
    into = np.bincount(chain.head, chain.weight, chain.n + 1)[:-1]
    into[np.bincount(chain.tail, chain.pays, chain.n) == 0] = -1
    return int(np.argmax(into))


def _without(chain: Chain, state: int) -> tuple[Chain, BoolArray]:
    """Leave out a state, or if traps may hold it unpaid, only what it pays."""
    mine = chain.tail == state
    inner = mine & (chain.head < chain.n)
    unpaid = np.bincount(chain.row[inner & ~chain.pays], minlength=chain.owner.size)
    kept = _all_states(chain)
    kept[state] = (unpaid[chain.owner == state] > 0).all()
    return replace(chain, pays=chain.pays & ~mine), kept


def _pieces(chain: Chain, kept: BoolArray, most: int) -> Iterator[Chain]:
    """Yield what traps of kept states ``[N + 1]`` can lie in."""
    label = _label(chain, kept, most) if kept.any() else np.empty(0)
    for i in np.unique(label[label >= 0]):
        piece = chain.within(label == i)
        yield replace(piece, pays=piece.pays & (piece.head < piece.n))


def _label(chain: Chain, kept: BoolArray, most: int) -> IntArray:
    """Piece of each state, ``[N + 1]``, -1 for those that no trap can hold."""
    label, before = np.where(kept, 0, -1), None
    while True:
        stays = (label[chain.tail] == label[chain.head]) & (label[chain.tail] >= 0)
        lost = np.bincount(chain.tail, chain.weight * ~stays, chain.n) > most
        lost[chain.owner[~_staying(chain, stays)]] = True
        if (lost & (label[:-1] >= 0)).any():
            label[:-1][lost] = -1
        elif before is not None and np.array_equal(stays, before):
            return label
        else:
            label, before = _components(chain, label >= 0), stays


def _staying(chain: Chain, stays: BoolArray) -> BoolArray:
    """Whether a row has an entry ``[K]`` that stays, ``[R]``."""
    return np.bincount(chain.row[stays], minlength=chain.owner.size) > 0


def _components(chain: Chain, inside: BoolArray) -> IntArray:
    """Strongly connected component of states, ``[N + 1]``; -1 for those outside."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    both = inside[chain.tail] & inside[chain.head]
    length = np.bincount(chain.tail[both], minlength=chain.n)
    entries = (np.ones(both.sum()), chain.head[both], np.append(0, length.cumsum()))
    graph = csr_array(entries, shape=(chain.n, chain.n))
    graph.sum_duplicates()  # with them, what follows need not return
    _, label = connected_components(graph, connection="strong")
    return np.where(inside, np.append(label, -1), -1)


def _search(
    chain: Chain, root: int, most: int, branches: Iterator[int]
) -> BoolArray | None:
    """Return a trap ``[N + 1]`` with an entry of a state that pays, if there is one."""
    todo = [(_all_states(chain), np.arange(chain.n + 1) == root)]
    while todo:
        kept, forced = todo.pop()
        label = _label(chain, kept, most)
        if label[root] < 0 or (label[forced] != label[root]).any():
            continue
        piece = label == label[root]
        cut = _cut(chain, piece, forced, most)
        if cut is None:
            continue
        inside, kept = cut
        found, rule = _judged(chain, root, inside, forced)
        if found is not None:
            return found
        more = _branched(kept, forced, rule)
        if len(list(islice(branches, len(more)))) < len(more):
            raise _GivenUpError
        todo += more
    return None


def _branched(
    kept: BoolArray, forced: BoolArray, rule: _Rule
) -> list[tuple[BoolArray, BoolArray]]:
    """Each way to obey a rule, as states kept and forced; the last is the best."""
    without, including = [], []
    for state in rule.unless_out[~forced[rule.unless_out]]:
        without.append((_with(kept, state, False), forced))
        forced = _with(forced, state, True)
    for state in rule.one_of[kept[rule.one_of]]:
        including.append((kept, _with(forced, state, True)))
        kept = _with(kept, state, False)
    return without + including[::-1]


def _with(mask: BoolArray, state: int, value: bool) -> BoolArray:
    other = mask.copy()
    other[state] = value
    return other


def _judged(
    chain: Chain, root: int, inside: BoolArray, forced: BoolArray
) -> tuple[BoolArray | None, _Rule]:
    """Return the trap that a set ``[N + 1]`` holds, or else a rule that it breaks."""
    label = _components(chain, inside)
    stays = inside[chain.tail] & inside[chain.head]
    goes_on = stays & (label[chain.tail] != label[chain.head])
    bottom = inside & ~np.isin(label, label[chain.tail[goes_on]])
    leaving = np.flatnonzero(~_staying(chain, stays) & inside[chain.owner])
    paid = chain.pays & (chain.tail == root)
    if not (paid & stays).any():
        return None, _Rule(np.array([root]), chain.head[paid])
    mine = label == label[root]
    if bottom[root] and not mine[chain.owner[leaving]].any():
        return mine, _Rule(*[np.empty(0, dtype=np.int64)] * 2)
    if leaving.size:
        row = leaving[np.argmax(forced[chain.owner[leaving]])]
        return None, _Rule(chain.owner[[row]], chain.head[chain.row == row])
    around = label == label[np.argmax(bottom)]  # from here, a trap leads to the root
    leaves = around[chain.tail] & ~inside[chain.head]
    return None, _Rule(np.flatnonzero(around), np.unique(chain.head[leaves]))


def _cut(
    chain: Chain, piece: BoolArray, forced: BoolArray, most: int
) -> tuple[BoolArray, BoolArray] | None:
    """Return the set of least exits in a piece around forced states, if these are few.

    And what may be in any set of few exits around them; both are ``[N + 1]``. What is
    in a set takes along the only next state that a row has in the piece.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    end, source, first = chain.n, chain.n + 1, chain.n + 2
    node = np.where(piece, np.arange(chain.n + 1), end)
    node[forced] = source
    stays = piece[chain.tail] & piece[chain.head]
    choices = np.bincount(chain.row[stays], minlength=chain.owner.size)
    only = stays & (choices[chain.row] == 1)
    capacity = np.where(only, _UNCUT, chain.weight)
    tail, head = node[chain.tail], node[chain.head]
    used = (tail != end) & (tail != head)
    tail, head = np.append(tail[used], first), np.append(head[used], source)
    capacity = np.append(capacity[used], most + 1)
    size = (chain.n + 3, chain.n + 3)
    where = tail.astype(np.int32), head.astype(np.int32)  # all that old scipy takes
    network = coo_array((capacity, where), shape=size).tocsr()
    network.data = np.minimum(network.data, _UNCUT).astype(np.int32)
    flow = maximum_flow(network, first, end)
    if flow.flow_value > most:
        return None
    rest = network - flow.flow
    rest.eliminate_zeros()
    reached = np.zeros(chain.n + 3, dtype=np.bool_)
    reached[breadth_first_order(rest, source, return_predecessors=False)] = True
    # Exits of any such set: the flow, and what is left of the capacity to leave it.
    lost = np.arange(chain.n + 3) == end
    while True:
        more = ~lost & (rest @ lost.astype(np.float64) > most - flow.flow_value)
        if not more.any():
            return reached[node], piece & ~lost[node]
        lost |= more
