"""Rows of draws: pure functions of their address, for as many draws as are asked for.

The row ``theta[draw, s, a, :]`` depends on (purpose, seed, draw, s, a) and on what is
believed of the row, on nothing else. So every policy meets the same draws, any subset
can be made without the others, on any number of threads or machines, and nothing needs
to be stored.

A stream fills the rows that are asked for. How is its own business: independent
Dirichlet rows, rows on random supports, given models, a mixture of these; another
belief brings a stream of its own.

`Draws` are lazy: they name an address. Its purpose keeps streams apart: draws a policy
was chosen on are never those it is scored on, whatever the seed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import read_only
from bayesmdp._resources import check_draws
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Dynamics, Rows
from bayesmdp.priors import Sets

if TYPE_CHECKING:
    from bayesmdp.posterior._belief import Belief


class Stream(ABC):
    """The draws of one seed and purpose."""

    #: Whether rows are independent of each other. A row that no policy uses may then
    #: be replaced by its mean, and `fill` leaves it alone.
    independent: bool = False

    @abstractmethod
    def of_rows(self, row: IntArray) -> Stream:
        """Keep some rows of the layout, in rising order ``[R]``."""

    @abstractmethod
    def fill(self, draws: IntArray, used: BoolArray, theta: FloatArray) -> None:
        """Fill the rows ``used`` [R] of some draws [n] in ``theta`` [n, E].

        Unless rows are `independent`, the others are filled too: with the row of the
        draw, or with its mean given what the draw's used rows depend on.
        """

    def weights(self, n_draws: int) -> FloatArray:
        """Weight of each draw, ``[D]``; 1 where all count the same."""
        return np.ones(n_draws)

    def members(self, draws: IntArray) -> IntArray:
        """Model or component of some draws, ``[n]``; empty where there is no choice."""
        return np.empty(0, dtype=np.int64)

    def rewards(self, draws: IntArray) -> FloatArray | None:
        """Reward of each entry in some draws, ``[n, E]``; None: the belief's rows'."""
        return None

    def terminal_values(self, draws: IntArray) -> FloatArray | None:
        """Value of terminal states in some draws, ``[n, S]``; None: the belief's."""
        return None

    def keeping(self, room: int) -> Stream:
        """Return the same draws, which remember up to ``room`` bytes of rows."""
        return KeptStream(self, room)


class KeptStream(Stream):
    """Rows of another stream, kept once they were filled, as far as there is room.

    For whoever passes over the same draws many times; workers elsewhere keep nothing of
    what was kept here.
    """

    def __init__(self, stream: Stream, room: int) -> None:
        self.stream, self._room = stream, room
        self._left = [room]  # bytes; streams of some rows share them
        self._kept: dict[bytes, dict[int, FloatArray]] = {}  # by rows used, by draw
        self._parts: dict[bytes, KeptStream] = {}
        self.independent = stream.independent

    def __reduce__(self) -> tuple[type, tuple[Stream, int]]:
        return KeptStream, (self.stream, self._room)

    def of_rows(self, row: IntArray) -> Stream:
        """Return the stream of some rows; the same one for the same rows."""
        key = row.tobytes()
        if key not in self._parts:
            part = KeptStream(self.stream.of_rows(row), self._room)
            part._left = self._left
            self._parts[key] = part
        return self._parts[key]

    def fill(self, draws: IntArray, used: BoolArray, theta: FloatArray) -> None:
        """Fill rows, or copy them if all of these draws were filled."""
        kept = self._kept.setdefault(used.tobytes(), {})
        numbers = draws.tolist()
        if all(map(kept.__contains__, numbers)):
            for row, number in zip(theta, numbers, strict=True):
                row[:] = kept[number]
            return
        self.stream.fill(draws, used, theta)
        if theta.nbytes <= self._left[0]:
            self._left[0] -= theta.nbytes
            kept.update(zip(numbers, theta.copy(), strict=True))

    def weights(self, n_draws: int) -> FloatArray:
        """Weight of each draw."""
        return self.stream.weights(n_draws)

    def members(self, draws: IntArray) -> IntArray:
        """Model or component of some draws."""
        return self.stream.members(draws)

    def rewards(self, draws: IntArray) -> FloatArray | None:
        """Rewards of some draws."""
        return self.stream.rewards(draws)

    def terminal_values(self, draws: IntArray) -> FloatArray | None:
        """Terminal values of some draws."""
        return self.stream.terminal_values(draws)


@dataclass(frozen=True, eq=False)
class DirichletStream(Stream):
    """Independent Dirichlet rows."""

    key: NDArray[np.uint64]  # [2]
    layout: Rows
    alpha: FloatArray  # [E]
    independent = True

    def of_rows(self, row: IntArray) -> DirichletStream:
        """Keep some rows."""
        alpha = np.ascontiguousarray(self.alpha[self.layout.entries_of(row)])
        return replace(self, layout=self.layout.take(row), alpha=alpha)

    def fill(self, draws: IntArray, used: BoolArray, theta: FloatArray) -> None:
        """Sample the rows that are used."""
        from bayesmdp.posterior.sampling import sample_dirichlet  # numba

        rows = self.layout
        sample_dirichlet(
            self.key,
            read_only(draws),
            read_only(rows.state),
            read_only(rows.action),
            read_only(rows.indptr),
            read_only(self.alpha),
            read_only(used),
            theta,
        )


@dataclass(frozen=True, eq=False)
class RandomSupportStream(Stream):
    """Independent rows, each Dirichlet on a random set of next states."""

    key: NDArray[np.uint64]  # [2]
    layout: Rows
    alpha: FloatArray  # [E], above 0 where a next state may be possible
    sets: Sets
    independent = True

    def of_rows(self, row: IntArray) -> RandomSupportStream:
        """Keep some rows."""
        entries = self.layout.entries_of(row)
        sets = self.sets._replace(
            shape=np.ascontiguousarray(self.sets.shape[entries]),
            group=np.ascontiguousarray(self.sets.group[row]),
        )
        alpha = np.ascontiguousarray(self.alpha[entries])
        return replace(self, layout=self.layout.take(row), alpha=alpha, sets=sets)

    @cached_property
    def lump(self) -> IntArray:
        """Entry in its row that takes the mass of all unseen states; -1: none, [R]."""
        rows = self.layout
        if self.sets.fallback < 0:
            return np.full(rows.pair.size, -1)
        return np.flatnonzero(rows.next_state == self.sets.fallback) - rows.indptr[:-1]

    def fill(self, draws: IntArray, used: BoolArray, theta: FloatArray) -> None:
        """Sample the rows that are used."""
        from bayesmdp.posterior.sampling import sample_random_support  # numba

        rows, sets = self.layout, self.sets
        sample_random_support(
            self.key,
            read_only(draws),
            read_only(rows.state),
            read_only(rows.action),
            read_only(rows.indptr),
            read_only(self.alpha),
            read_only(sets.shape),
            read_only(sets.group),
            read_only(sets.start),
            read_only(sets.cumulative),
            read_only(self.lump),
            read_only(used),
            sets.concentration,
            theta,
        )


@dataclass(frozen=True, eq=False)
class Membership:
    """Which of several a draw is: by its number, or at random by weights."""

    key: NDArray[np.uint64] | None  # [2]; None: every one once, in order
    weights: FloatArray  # [M], probabilities

    def of(self, draws: IntArray) -> IntArray:
        """Return the member of each draw, ``[n]``."""
        if self.key is None:
            return draws
        from bayesmdp.posterior.sampling import sample_members  # numba

        members = np.empty(draws.size, dtype=np.int64)
        cumulative = np.cumsum(self.weights)
        sample_members(self.key, read_only(cumulative), read_only(draws), members)
        return members


@dataclass(frozen=True, eq=False)
class ModelStream(Stream):
    """Given models."""

    membership: Membership
    layout: Rows
    table: FloatArray  # [M, E]
    reward: FloatArray  # [1, E] or [M, E]
    terminal_value: FloatArray  # [1, S] or [M, S]

    def of_rows(self, row: IntArray) -> ModelStream:
        """Keep some rows."""
        entries = self.layout.entries_of(row)
        return replace(
            self,
            layout=self.layout.take(row),
            table=np.ascontiguousarray(self.table[:, entries]),
            reward=np.ascontiguousarray(self.reward[..., entries]),
        )

    def members(self, draws: IntArray) -> IntArray:
        """Model of each draw."""
        return self.membership.of(draws)

    def fill(self, draws: IntArray, used: BoolArray, theta: FloatArray) -> None:
        """Copy the models of the draws."""
        np.take(self.table, self.members(draws), axis=0, out=theta)

    def weights(self, n_draws: int) -> FloatArray:
        """Weight of each draw: probability times number, where each is met once."""
        if self.membership.key is None:
            return self.membership.weights * self.membership.weights.size
        return np.ones(n_draws)

    def rewards(self, draws: IntArray) -> FloatArray | None:
        """Rewards of the draws' models, where they differ."""
        if self.reward.shape[0] == 1:
            return None
        return np.asarray(self.reward[self.members(draws)])

    def terminal_values(self, draws: IntArray) -> FloatArray | None:
        """Terminal values of the draws' models, where they differ."""
        if self.terminal_value.shape[0] == 1:
            return None
        return np.asarray(self.terminal_value[self.members(draws)])


@dataclass(frozen=True, eq=False)
class Part:
    """One component of a mixture: its own stream, means, and place in wider rows."""

    stream: Stream
    layout: Rows
    mean: FloatArray  # [E'], of the component's own rows
    place: IntArray | slice  # [E'], entry of the wider rows


@dataclass(frozen=True, eq=False)
class MixtureStream(Stream):
    """Draws that belong to one component each, as a whole.

    A draw is the draw of that number of its component, to the bit.
    """

    membership: Membership
    layout: Rows  # holds the rows of all components
    parts: Sequence[Part]

    def of_rows(self, row: IntArray) -> MixtureStream:
        """Keep some rows."""
        position = np.full(self.layout.next_state.size, -1)
        kept = self.layout.entries_of(row)
        position[kept] = np.arange(position[kept].size)
        parts = []
        for part in self.parts:
            own = part.layout.entries_of(row)
            place = part.place
            if not isinstance(place, slice):
                place = position[place[own]]
            parts.append(
                Part(
                    part.stream.of_rows(row),
                    part.layout.take(row),
                    np.ascontiguousarray(part.mean[own]),
                    place,
                )
            )
        return replace(self, layout=self.layout.take(row), parts=tuple(parts))

    def members(self, draws: IntArray) -> IntArray:
        """Component of each draw."""
        return self.membership.of(draws)

    def fill(self, draws: IntArray, used: BoolArray, theta: FloatArray) -> None:
        """Sample each draw as its component would."""
        members = self.members(draws)
        theta[:] = 0.0
        for number in np.unique(members):
            part, mine = self.parts[number], np.flatnonzero(members == number)
            own = np.tile(part.mean, (mine.size, 1))  # rows that are not used
            part.stream.fill(draws[mine], used, own)
            if isinstance(part.place, slice):
                theta[mine] = own
            else:
                theta[mine[:, None], part.place] = own


@dataclass(frozen=True, eq=False)
class Draws:
    """A number of draws from a posterior; nothing is sampled until it is used.

    Get one from ``posterior.draws(n, seed)``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(100, seed=0), world.task)
    >>> posterior.draws(1000, seed=0)
    Draws(1000 draws, seed 0)
    """

    belief: Belief
    n_draws: int
    seed: int
    purpose: str = "evaluate"
    exact: bool = False  # every model of an ensemble once, with its weight
    room: int = 0  # bytes of rows to remember, for several passes over the same draws

    @cached_property
    def stream(self) -> Stream:
        """The rows of these draws."""
        n = None if self.exact else self.n_draws
        made = self.belief.stream(n, self.seed, self.purpose)
        return made.keeping(self.room) if self.room else made

    @property
    def weights(self) -> FloatArray:
        """Weight of each draw, ``[D]``: 1, or probability times number of models."""
        check_draws(self.n_draws)
        return self.stream.weights(self.n_draws)

    @cached_property
    def members(self) -> IntArray:
        """Model or component of each draw ``[D]``; empty where there is no choice."""
        check_draws(self.n_draws)
        return self.stream.members(np.arange(self.n_draws))

    def dynamics(self, draw: int) -> Dynamics:
        """Show one draw.

        Parameters
        ----------
        draw
            Which, from 0.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> world = bm.worlds.gridworld()
        >>> draws = bm.fit(world.sample(100, seed=0), world.task).draws(10, seed=0)
        >>> draws.dynamics(3)
        Dynamics(25 states, 4 actions, 80 pairs, 2000 entries)
        """
        number = _checks.integer("draw", draw, 0, ArgumentError)
        if number >= self.n_draws:
            raise ArgumentError(
                f"`draw` must be in 0..{self.n_draws - 1}; got {number}."
            )
        if self.belief.rows().until:
            raise ArgumentError(
                "Rows that change with time are no single model: take draws of one of "
                "`beliefs`."
            )
        layout = self.belief.rows().layout
        theta = np.zeros((1, layout.next_state.size))
        every = np.ones(layout.pair.size, dtype=np.bool_)
        self.stream.fill(np.array([number]), every, theta)
        return Dynamics(layout, _checks.sealed(theta[0]))

    def __repr__(self) -> str:
        if self.exact:
            how = "sampled" if self.belief.chain_noise else "exact"
            return f"Draws({_checks.many(self.n_draws, 'model')}, {how})"
        return f"Draws({_checks.many(self.n_draws, 'draw')}, seed {self.seed})"
