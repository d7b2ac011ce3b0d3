"""Rows that change with time: one belief after the other, for tasks with a horizon.

A draw is one draw of each. Posteriors of the same counts and prior are one belief,
whatever their rewards, and share their rows; ensembles share the number of the model:
model ``m`` of each belongs together. Others are independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Sheet, Shown
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.errors import BeliefError
from bayesmdp.model import Dynamics, Rewards, Rows, Task
from bayesmdp.posterior._belief import Belief, BeliefRows, Exits, place, union
from bayesmdp.posterior._posterior import Fitted
from bayesmdp.posterior._stream import Stream


@dataclass(frozen=True, init=False, eq=False, repr=False)
class BeliefsByCycle(Belief, Shown):
    """Beliefs that hold one after the other, cycle by cycle.

    For rows or rewards that change at known times, such as a drug that is given for two
    years. `evaluate`, `compare`, `optimise` and `improve` know it.

    Parameters
    ----------
    beliefs
        Two or more posteriors or ensembles on tasks that differ in their rewards at
        most, with a horizon. The policy is the same at all times.
    until
        Numbers of cycles after which the next one holds: ``[2]`` is for the first in
        cycles 0 and 1, and for the second from then on. Rewards go with the cycle:
        with ``cycle="end"`` those at the end of cycle 1 are of the first.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> task = bm.Task(2, 1, [1, 0], discount=1, terminal=[1], start=0, horizon=3)
    >>> drug, none = (np.array([[[p, 1 - p]], [[0, 1]]]) for p in (0.9, 0.5))
    >>> parts = [bm.Ensemble([model], task) for model in (drug, none)]
    >>> both = bm.posterior.BeliefsByCycle(parts, until=[1])
    >>> bm.evaluate([0, 0], both).start_value  # 1 + 0.9 + 0.9 * 0.5
    2.35
    """

    task: Task
    beliefs: tuple[Belief, ...]
    until: tuple[int, ...]
    counts = None
    n_models: int | None

    def __init__(self, beliefs: Sequence[Belief], until: Sequence[int]) -> None:
        found = tuple(beliefs) if isinstance(beliefs, Sequence) else ()
        if len(found) < 2 or not all(isinstance(x, Belief) for x in found):
            raise BeliefError(
                "`beliefs` must be a list of two or more posteriors or ensembles; got "
                f"{beliefs!r:.60}."
            )
        task = found[0].task
        if task.horizon is None:
            raise BeliefError(
                "`beliefs` by cycle need a task with a `horizon`: without one there is "
                "no last cycle."
            )
        for i, belief in enumerate(found):
            _check_alike(i, belief, found[0])
        put = object.__setattr__
        put(self, "task", task)
        put(self, "beliefs", found)
        put(self, "until", _read_until(until, len(found), task.horizon))
        put(self, "n_models", found[0].n_models)

    @property
    def chain_noise(self) -> float:
        """Noise of finite chains and samples: the largest of the beliefs'."""
        return max(x.chain_noise for x in self.beliefs)

    @cached_property
    def available(self) -> BoolArray:
        """Pairs a policy may use, ``[S, A]``: those of all beliefs."""
        return _checks.sealed(np.all([x.available for x in self.beliefs], axis=0))

    @cached_property
    def _parts(self) -> list[BeliefRows]:
        """Rows of each belief, of the pairs that all have."""
        usable = self.available.ravel()
        found = []
        for belief in self.beliefs:
            rows = belief.rows()
            kept = np.flatnonzero(usable[rows.layout.pair])
            entries = rows.layout.entries_of(kept)
            found.append(
                replace(
                    rows,
                    layout=rows.layout.take(kept),
                    mean=rows.mean[entries],
                    reward=rows.reward[entries],
                )
            )
        return found

    @cached_property
    def _rows(self) -> BeliefRows:
        wide = union([x.layout for x in self._parts])
        size = wide.next_state.size
        mean, reward = np.zeros((2, len(self._parts), size))
        for f, (belief, part) in enumerate(zip(self.beliefs, self._parts, strict=True)):
            at = place(part.layout, wide)
            mean[f, at] = part.mean
            reward[f] = _paid(belief, wide)
            reward[f, at] = part.reward
        return BeliefRows(
            wide,
            _checks.sealed(mean.ravel()),
            _checks.sealed(reward.ravel()),
            self._parts[0].terminal_value,
            None,
            self.until,
        )

    def rows(self) -> BeliefRows:
        """Return what is the same in every draw, one set of rows after the other."""
        return self._rows

    def stream(self, n_draws: int | None, seed: int, purpose: str) -> CycleStream:
        """Return the draws of a seed and a purpose."""
        streams: list[Stream] = []
        usable = self.available.ravel()
        for belief in self.beliefs:
            first = next(i for i, x in enumerate(self.beliefs) if _same(x, belief))
            shared = self.n_models is not None or first == 0
            own = purpose if shared else f"{purpose}: cycles {first}"
            kept = np.flatnonzero(usable[belief.rows().layout.pair])
            streams.append(belief.stream(n_draws, seed, own).of_rows(kept))
        layouts = tuple(x.layout for x in self._parts)
        return CycleStream(tuple(streams), layouts, self._rows.layout)

    def exits(self) -> Iterator[Exits]:
        """With a horizon every episode ends."""
        return iter(())

    def with_reward(self, reward: str | Mapping[str, float]) -> BeliefsByCycle:
        """Return the same beliefs with one of the rewards, or a sum of them."""
        each = {id(x): x.with_reward(reward) for x in self.beliefs}
        return BeliefsByCycle([each[id(x)] for x in self.beliefs], self.until)

    def mean(self) -> Dynamics:
        """Refuse: there is a mean for each cycle."""
        raise BeliefError(
            "Rows that change with time have no single mean: ask one of `beliefs`."
        )

    def describe(self) -> str:
        """Say what the belief is made of."""
        parts = " Then: ".join(x.describe() for x in self.beliefs)
        return (
            f"Rows change with time, after cycle {listed(self.until)}. First: {parts}"
        )

    def _sheet(self, shown: int = 10) -> Sheet:
        lines = [f"from cycle {at}: {x!r}" for at, x in self._each()]
        return Sheet("Beliefs by cycle", lines, indent="  ")

    def _each(self) -> list[tuple[int, Belief]]:
        return list(zip((0, *self.until), self.beliefs, strict=True))

    def __repr__(self) -> str:
        return (
            f"BeliefsByCycle({len(self.beliefs)} beliefs, until {listed(self.until)})"
        )


def listed(until: tuple[int, ...]) -> str:
    """Write the cycles after which the next belief holds."""
    return ", ".join(str(x) for x in until)


def _paid(belief: Belief, wide: Rows) -> FloatArray:
    """Reward of wider rows ``[E]``; what is not possible has no other."""
    task = belief.task
    if isinstance(task.reward, Rewards):
        return np.full(wide.next_state.size, np.nan)
    length = np.diff(wide.indptr)
    return task.transition_reward(wide.state, wide.action, wide.next_state, length)


def _read_until(until: object, n: int, horizon: int) -> tuple[int, ...]:
    found = np.asarray(until)
    if found.ndim != 1 or found.size != n - 1 or found.dtype.kind not in "iu":
        raise BeliefError(
            f"`until` must list {n - 1} whole number(s), one less than there are "
            f"beliefs; got {until!r:.60}."
        )
    if (np.diff(found, prepend=0) <= 0).any() or found[-1] >= horizon:
        raise BeliefError(
            f"`until` must hold cycles in 1..{horizon - 1}, each later than the one "
            f"before, as beliefs change within the horizon; got {until!r:.60}."
        )
    return tuple(found.tolist())


def _check_alike(i: int, belief: Belief, first: Belief) -> None:
    """Refuse beliefs on tasks that differ in more than rewards."""
    if (first.n_models is None) != (belief.n_models is None):
        raise BeliefError(
            "`beliefs` must be all posteriors or all ensembles, whose models belong "
            f"together by number: `beliefs[0]` is of type {type(first).__name__}, "
            f"`beliefs[{i}]` of type {type(belief).__name__}."
        )
    if first.n_models != belief.n_models:
        raise BeliefError(
            f"`beliefs[0]` has {_checks.many(first.n_models or 0, 'model')} and "
            f"`beliefs[{i}]` {belief.n_models}: models belong together by number, so "
            "give as many in each."
        )
    task, other = first.task, belief.task
    same = {
        "sizes": task.n_states == other.n_states and task.n_actions == other.n_actions,
        "`start`": np.array_equal(task.start, other.start),
        "`terminal`": np.array_equal(task.terminal, other.terminal),
        "`horizon` or `cycle`": (task.horizon, task.cycle)
        == (other.horizon, other.cycle),
        "`cost` or `reward`": task.is_cost == other.is_cost,
        "names of rewards": tuple(task.parts) == tuple(other.parts),
        "`discount`": [x.discount for x in task.parts.values()]
        == [x.discount for x in other.parts.values()],
        "the form of rewards": task.of_states == other.of_states,
        "rewards of terminal states": all(
            np.array_equal(x.terminal_value, y.terminal_value)
            for x, y in zip(task.parts.values(), other.parts.values(), strict=True)
        ),
        "rewards of terminal states by model": np.array_equal(
            getattr(first, "terminal_values", 0), getattr(belief, "terminal_values", 0)
        ),
        "names of states or actions": (task.state_labels, task.action_labels)
        == (other.state_labels, other.action_labels),
        "weights of models": np.array_equal(_weights(first), _weights(belief)),
    }
    wrong = next((name for name, fine in same.items() if not fine), None)
    if wrong is not None:
        raise BeliefError(
            f"`beliefs[{i}]` and `beliefs[0]` differ in {wrong}: only probabilities "
            "and rewards may change with time."
        )


def _same(one: Belief, other: Belief) -> bool:
    """Whether two are one belief about the rows, whatever their rewards.

    Compared by value: who fits the same counts twice believes one thing twice.
    """
    if one is other or not (isinstance(one, Fitted) and isinstance(other, Fitted)):
        return one is other
    mine, its = _identity(one), _identity(other)
    return len(mine) == len(its) and all(map(np.array_equal, mine, its))


def _identity(belief: Fitted) -> list[Any]:
    """Return counts, rows, and what draws of them are made from: the prior decides."""
    counts, layout = belief.counts, belief.rows().layout
    logged = [counts.state, counts.action, counts.next_state, counts.count]
    rows = [layout.pair, layout.indptr, layout.next_state]
    return [*logged, *rows, *belief.parameters()]


def _weights(belief: Belief) -> FloatArray:
    found = getattr(belief, "weights", None) if belief.n_models is not None else None
    return np.empty(0) if found is None else np.asarray(found)


@dataclass(frozen=True, eq=False)
class CycleStream(Stream):
    """Draws of one belief after the other, rows ``[F * E]``."""

    streams: tuple[Stream, ...]
    layouts: tuple[Rows, ...]
    layout: Rows  # holds the rows of all

    @property
    def independent(self) -> bool:  # type: ignore[override]
        """Whether rows are independent of each other."""
        return all(x.independent for x in self.streams)

    @cached_property
    def _places(self) -> list[IntArray | slice]:
        return [place(x, self.layout) for x in self.layouts]

    def of_rows(self, row: IntArray) -> CycleStream:
        """Keep some rows."""
        streams = tuple(x.of_rows(row) for x in self.streams)
        layouts = tuple(x.take(row) for x in self.layouts)
        return CycleStream(streams, layouts, self.layout.take(row))

    def _spread(self, parts: Sequence[FloatArray], default: FloatArray) -> FloatArray:
        """Lay parts ``[..., E']`` out in ``default`` [..., F, E], and join the two."""
        for f, (part, at) in enumerate(zip(parts, self._places, strict=True)):
            default[..., f, at] = part
        return default.reshape(*default.shape[:-2], -1)

    def fill(self, draws: IntArray, used: BoolArray, theta: FloatArray) -> None:
        """Sample each part."""
        parts = []
        for stream, rows in zip(self.streams, self.layouts, strict=True):
            own = np.zeros((draws.size, rows.next_state.size))
            stream.fill(draws, used, own)
            parts.append(own)
        size = len(parts), self.layout.next_state.size
        theta[:] = self._spread(parts, np.zeros((draws.size, *size)))

    def members(self, draws: IntArray) -> IntArray:
        """Model of each draw."""
        return self.streams[0].members(draws)

    def weights(self, n_draws: int) -> FloatArray:
        """Weight of each draw."""
        return self.streams[0].weights(n_draws)

    def rewards(self, draws: IntArray) -> FloatArray | None:
        """Rewards of the draws' models, where they differ."""
        found = [x.rewards(draws) for x in self.streams]
        if all(x is None for x in found):
            return None
        if any(x is None for x in found):
            raise BeliefError(
                "`beliefs` by cycle must all have rewards by model, or none: give "
                "`rewards` to each ensemble."
            )
        parts = [x for x in found if x is not None]
        size = len(parts), self.layout.next_state.size
        # what a model does not allow has no probability, whatever it pays
        return self._spread(parts, np.zeros((*parts[0].shape[:-1], *size)))

    def terminal_values(self, draws: IntArray) -> FloatArray | None:
        """Terminal values of the draws' models, where they differ."""
        return self.streams[0].terminal_values(draws)
