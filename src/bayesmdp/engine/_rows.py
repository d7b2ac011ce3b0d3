"""The rows of a belief that policies use, in the form kernels read.

States stand in *sweep order*: live ones first, terminal ones after. A vector of values
then simply continues with zeros, and no inner loop asks where an episode ends.

Averages per step are one number where a policy's chain has one closed class. That is a
set of states that is never left, and in which every state leads to every other. With
two of them the average depends on where the chain begins. What counts are next states
that are possible in every draw (`Exits.sure`): where one state is reached from all
others by these, no draw has a second class.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesmdp._checks import read_only, sealed
from bayesmdp._typing import BoolArray, FloatArray, IndexArray, IntArray
from bayesmdp.engine._chain import Layout
from bayesmdp.engine._stages import Stages
from bayesmdp.errors import EndlessError, TooLargeError
from bayesmdp.model import Dynamics, Rewards, Task
from bayesmdp.posterior import Belief, BeliefRows, Draws, Stream

UsedRows = tuple[IntArray, BeliefRows]  # as `Belief.used_rows` returns them


def closed_classes(source: IntArray, target: IntArray, n_states: int) -> list[IntArray]:
    """Find the closed classes of a chain with these entries ``[E]``."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    entries = coo_array((np.ones(source.size), (source, target)), (n_states, n_states))
    n, label = connected_components(entries.tocsr(), connection="strong")
    leaves = np.zeros(n, dtype=np.bool_)
    leaves[label[source[label[source] != label[target]]]] = True
    return [np.flatnonzero(label == c) for c in np.flatnonzero(~leaves)]


def anchor_of(
    source: IntArray,
    target: IntArray,
    possible: Sequence[BoolArray],
    weight: FloatArray,
    names: Sequence[str],
) -> int:
    """Return a state that is reached from all others in every model or component.

    ``possible`` says of each which entries ``[E]`` it has; ``weight`` [S] which state
    is preferred. Several closed classes are refused by name.
    """
    common = np.ones(len(names), dtype=np.bool_)
    for has in possible:
        found = closed_classes(source[has], target[has], len(names))
        if len(found) > 1:
            one, other = (names[int(part[0])] for part in found[:2])
            raise EndlessError(
                "`criterion='average'` needs one closed class of states under a "
                f"policy, and this one has {len(found)}: from state {one} it never "
                f"comes to state {other}, nor back, so that the average depends on the "
                "start; choose another policy, a prior that allows more next states, "
                "or criterion='discounted' with a discount below 1."
            )
        inside = np.zeros(len(names), dtype=np.bool_)
        inside[found[0]] = True
        common &= inside
    if not common.any():
        raise EndlessError(
            "`criterion='average'` needs a state that this policy visits again and "
            "again in every model, and there is none: choose another policy, or "
            "criterion='discounted' with a discount below 1."
        )
    return int(np.argmax(np.where(common, weight, -1.0)))


@dataclass(frozen=True, eq=False)
class SweepRows:
    """What is the same in every draw: where rows lead, means, rewards."""

    task: Task
    order: IntArray  # [S], sweep order -> state
    row: IntArray  # [R], rows of the belief's layout that are used
    row_id: IntArray  # [R, 2], state and action
    source: IntArray  # [R]
    indptr: IntArray  # [R + 1]
    target: IndexArray  # [E]
    mean: FloatArray  # [E], mean probability
    reward: FloatArray  # [E], mean reward
    terminal_value: FloatArray  # [S], mean value of terminal states
    start: FloatArray  # [S]
    total: FloatArray | None  # [R], as in `BeliefRows`
    until: tuple[int, ...] = ()  # as in `BeliefRows`; mean and reward are then [F * E]

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what is derived: it would arrive in another form."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def layout(self) -> Layout:
        """Where rows lead, as kernels read it."""
        source, indptr = read_only(self.source), read_only(self.indptr)
        return Layout(source, indptr, read_only(self.target))

    @property
    def n_live(self) -> int:
        """Number of live states."""
        return int(self.task.live.size)

    def row_sums(self, values: FloatArray) -> FloatArray:
        """Sum values ``[E]`` over each row, ``[R]``."""
        return np.add.reduceat(values, self.indptr[:-1])

    @property
    def row_of_entry(self) -> IntArray:
        """Row each entry belongs to, ``[E]``."""
        return np.repeat(np.arange(self.source.size), np.diff(self.indptr))

    def of_rows(self, policy: FloatArray) -> FloatArray:
        """Policies ``[..., S, A]`` as probabilities of rows, ``[..., R]``."""
        return np.ascontiguousarray(policy[..., self.row_id[:, 0], self.row_id[:, 1]])

    def as_policy(self, rows: FloatArray) -> FloatArray:
        """Probabilities of rows ``[R]`` as a policy ``[S, A]``."""
        out = np.zeros((self.task.n_states, self.task.n_actions))
        out[self.row_id[:, 0], self.row_id[:, 1]] = rows
        return out

    def of_choice(self, choice: IntArray) -> FloatArray:
        """Rows ``[N]``, one for each live state, as a policy ``[S, A]``; read-only."""
        rows = np.zeros(self.source.size)
        rows[choice] = 1.0
        return sealed(self.as_policy(rows))

    def paying(self, rows: BeliefRows, task: Task) -> "SweepRows":
        """Return the same rows with another reward."""
        ends = np.ascontiguousarray(rows.terminal_value[self.order])
        return replace(self, task=task, reward=rows.reward, terminal_value=ends)

    @classmethod
    def of(cls, row: IntArray, rows: BeliefRows, task: Task) -> "SweepRows":
        """Put rows of live states in order, ``row`` [R] of the belief's layout."""
        kept, n_entries = rows.layout, rows.layout.next_state.size
        if n_entries >= 2**32:  # kernels count entries with 32 bits
            raise TooLargeError(
                f"The policies use {n_entries} entries; 2**32 would not fit. Take a "
                "policy or a prior with fewer next states."
            )
        order = np.concatenate([task.live, task.terminal])
        position = np.empty(task.n_states, dtype=np.int64)
        position[order] = np.arange(task.n_states)
        row_id = np.stack([kept.state, kept.action], axis=1)
        return cls(
            task=task,
            order=order,
            row=row,
            row_id=np.ascontiguousarray(row_id),
            source=position[kept.state],
            indptr=np.asarray(kept.indptr, dtype=np.int64),
            target=position[kept.next_state].astype(np.uint32),
            mean=rows.mean,
            reward=rows.reward,
            terminal_value=np.ascontiguousarray(rows.terminal_value[order]),
            start=np.ascontiguousarray(task.start[order]),
            total=rows.total,
            until=rows.until,
        )


def _phases(until: tuple[int, ...], task: Task) -> tuple[IntArray, IntArray, IntArray]:
    """Which rows and whose rewards hold at each point of time, ``[T + 1]`` both.

    Rewards go with the cycle they are counted for: at its start, at its end, or half at
    both, where two sets are then mixed (``[X, 2]``).
    """
    assert task.horizon is not None
    change = np.array(until, dtype=np.int64)
    phase = np.searchsorted(change, np.arange(task.horizon + 1), side="right")
    before = np.concatenate([phase[:1], phase[:-1]])
    last = phase.copy()
    last[-1] = before[-1]  # no cycle begins at the end
    mixed = {"end": (before, before), "half": (before, last)}
    one, two = mixed.get(task.cycle if task.of_states else "start", (phase, phase))
    differ = np.flatnonzero(one != two)
    paid = one.copy()
    paid[differ] = len(until) + 1 + np.arange(differ.size)
    mixes = np.stack([one[differ], two[differ]], axis=1)
    return phase, paid, np.ascontiguousarray(mixes)


def _by_discount(several: Rewards) -> tuple[int, ...]:
    """Rewards that count, those of the same discount side by side.

    In a sum what is discounted least comes first: its visits, which tell searches where
    a policy matters, reach furthest.
    """
    g, weights = several.discounts, several.weights
    kept = [k for k in range(len(g)) if weights is None or weights[k]]
    if weights is not None:
        return tuple(sorted(kept, key=lambda k: -g[k]))
    return tuple(sorted(kept, key=lambda k: g.index(g[k])))


@dataclass(frozen=True, eq=False)
class Problem:
    """What a sweep reads: rows, policies over them, and which draws."""

    rows: SweepRows
    policies: FloatArray  # [P, R]
    stream: Stream | None = None  # None: the mean model alone
    more: tuple[SweepRows, ...] = ()  # the same rows with further rewards
    #: [K], number of each reward among the task's; those of one discount side by side.
    order: tuple[int, ...] = (0,)
    weights: tuple[float, ...] | None = None  # [K], of a sum of values; else each alone
    possible: tuple[BoolArray, ...] = ()  # [E] of each component, for averages alone

    @property
    def task(self) -> Task:
        """The known part, with the first reward."""
        return self.rows.task

    @property
    def n_columns(self) -> int:
        """Results of a policy: one for each reward, or one for a sum of them."""
        return 1 if self.weights is not None else len(self.order)

    def columns(self, p: int) -> slice:
        """Where results of policy ``p`` stand among those of all."""
        return slice(p * self.n_columns, (p + 1) * self.n_columns)

    @cached_property
    def reward(self) -> FloatArray:
        """Mean rewards, ``[K, E]``."""
        return np.stack([rows.reward for rows in (self.rows, *self.more)])

    @cached_property
    def terminal_value(self) -> FloatArray:
        """Mean values of terminal states, ``[K, S]``."""
        return np.stack([rows.terminal_value for rows in (self.rows, *self.more)])

    @cached_property
    def discounts(self) -> FloatArray:
        """Discount of each reward, ``[K]``."""
        return np.array([rows.task.discount for rows in (self.rows, *self.more)])

    def of_columns(self, values: FloatArray) -> FloatArray:
        """Values ``[..., K, S]`` of terminal states as those of columns, at the start.

        The first point of time may count less than others.
        """
        scaled = self.task.time_weights[0] * values
        if self.weights is None:
            return np.asarray(scaled)
        return np.tensordot(scaled, self.weights, axes=(-2, 0))[..., None, :]

    def ends_of(self, draws: IntArray | None) -> FloatArray | None:
        """Values of terminal states by column, ``[n, M, S]`` in the states' order.

        None: the same in all draws; without draws their mean, ``[1, M, S]``.
        """
        if draws is None:
            out = np.empty_like(self.terminal_value)
            out[:, self.rows.order] = self.terminal_value
            return self.of_columns(out[None])
        found = None if self.stream is None else self.stream.terminal_values(draws)
        return None if found is None else self.of_columns(self.in_order(found))

    def in_order(self, of_draws: FloatArray) -> FloatArray:
        """Rewards or terminal values of draws as columns stand, ``[n, K, .]``."""
        if of_draws.ndim == 2:
            return of_draws[:, None]
        return of_draws[:, np.array(self.order)]

    @property
    def must_end(self) -> bool:
        """Whether episodes must end: with a discount of 1 and no horizon."""
        ends = self.task.horizon is None and self.task.criterion == "discounted"
        return ends and bool((self.discounts == 1.0).any())

    @cached_property
    def anchors(self) -> tuple[int, ...]:
        """A state that each policy comes back to, for averages; none for others.

        A policy with several closed classes is refused.
        """
        if self.task.criterion != "average":
            return ()
        rows, row = self.rows, self.rows.row_of_entry
        names = [self.task.state_name(int(s)) for s in rows.order]
        every = self.possible or (rows.mean > 0,)
        found = []
        for policy in self.policies:
            used = policy[row] > 0
            arrivals = np.bincount(
                rows.target[used], (policy[row] * rows.mean)[used], len(names)
            )
            target = rows.target.astype(np.int64)
            has = [used & x for x in every]
            share = np.asarray(arrivals, dtype=np.float64)
            found.append(anchor_of(rows.source[row], target, has, share, names))
        return tuple(found)

    @property
    def lost(self) -> float:
        """By how much the first point of time counts less than 1, without a horizon."""
        unending = self.task.horizon is None
        return 1.0 - float(self.task.time_weights[0]) if unending else 0.0

    @cached_property
    def stages(self) -> Stages | None:
        """Weights of rewards at each point of time; None without a horizon."""
        task = self.task
        if task.horizon is None:
            return None
        n, weight = task.horizon + 1, task.time_weights
        fade = self.discounts[:, None] ** np.arange(n)  # [K, T + 1]
        own, arrival, ends = weight * fade, np.zeros_like(fade), np.zeros_like(fade)
        arrival[:, :-1] = own[:, 1:]
        ends[:, :-1] = arrival[:, :-1] if task.of_states else fade[:, 1:]
        share = np.eye(len(self.order))
        if self.weights is not None:
            share = np.array([self.weights])
        phase, paid, mixes = _phases(self.rows.until, task)
        return Stages(
            np.ascontiguousarray(share[:, :, None] * own),
            np.ascontiguousarray(share[:, :, None] * arrival),
            np.ascontiguousarray(own[: self.n_columns]),
            np.ascontiguousarray(ends[: self.n_columns]),
            phase,
            paid,
            mixes,
            np.ascontiguousarray(self.discounts),
            not task.of_states,
        )

    @property
    def n_live(self) -> int:
        """Number of live states."""
        return self.rows.n_live

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Live states, states, entries and rewards: what work space depends on."""
        rows = self.rows
        return self.n_live, rows.start.size, rows.target.size, len(self.order)

    @property
    def mixes_discounts(self) -> bool:
        """Whether it is a sum of values of several chains (`_mixed_discounts`)."""
        return self.weights is not None and self.task.horizon is None

    @property
    def n_pairs(self) -> int:
        """Pairs of rewards, which have a covariance each."""
        return len(self.order) * (len(self.order) - 1) // 2

    @property
    def apart(self) -> "Problem":
        """Return the same problem with a column for each reward of a sum."""
        return self if self.weights is None else replace(self, weights=None)

    @cached_property
    def used(self) -> BoolArray:
        """Whether some policy uses a row, ``[R]``."""
        return np.asarray((self.policies > 0).any(axis=0))

    def with_policies(self, policies: FloatArray) -> "Problem":
        """Return the same rows and draws for other policies ``[P, R]``."""
        return replace(self, policies=policies)

    def with_stream(self, stream: Stream) -> "Problem":
        """Return the same rows and policies on other draws of the belief."""
        return replace(self, stream=stream.of_rows(self.rows.row))

    @classmethod
    def of_draws(
        cls, draws: Draws, policies: FloatArray, *, every_row: bool = False
    ) -> "Problem":
        """Rows of a belief that policies ``[P, S, A]`` use (or all), and its draws."""
        if every_row:
            problem = cls.of_belief(draws.belief)
            problem = problem.with_policies(problem.rows.of_rows(policies))
        else:
            problem = cls.of_belief(draws.belief, policies)
        return problem.with_stream(draws.stream)

    @classmethod
    def of_belief(cls, belief: Belief, policies: FloatArray | None = None) -> "Problem":
        """Rows that policies ``[P, S, A]`` use, or every available one; no draws."""
        named = {part: name for name, part in belief.task.parts.items()}

        def rows(task: Task, used: BoolArray) -> UsedRows:
            name = named[task]
            return (belief.with_reward(name) if name else belief).used_rows(used)

        found = cls._of_each(belief.task, rows, belief.available, policies)
        if belief.task.criterion != "average":
            return found
        entries = belief.rows().layout.entries_of(found.rows.row)
        possible = tuple(x.sure[entries] > 0 for x in belief.exits())
        return replace(found, possible=possible)

    @classmethod
    def of_dynamics(
        cls, dynamics: Dynamics, task: Task, policies: FloatArray | None = None
    ) -> "Problem":
        """One known model: rows that policies ``[P, S, A]`` use, or every one."""
        layout = dynamics.rows

        def rows(task: Task, used: BoolArray) -> UsedRows:
            row = layout.of_pairs(used)
            part, theta = layout.take(row), dynamics.probability
            paid = task.transition_reward(
                part.state, part.action, part.next_state, np.diff(part.indptr)
            )
            mean = np.ascontiguousarray(theta[layout.entries_of(row)])
            return row, BeliefRows(part, mean, paid, task.terminal_value, None)

        return cls._of_each(task, rows, layout.available, policies)

    @classmethod
    def _of_each(
        cls,
        task: Task,
        rows: Callable[[Task, BoolArray], UsedRows],
        available: BoolArray,
        policies: FloatArray | None,
    ) -> "Problem":
        """Make the problem of one reward, and add the others, if there are some."""
        several, parts = task.reward, list(task.parts.values())
        order = _by_discount(several) if isinstance(several, Rewards) else (0,)
        used = available
        if policies is not None:
            used = np.asarray((policies > 0).any(axis=0))
        used = used & ~task.is_terminal[:, None]
        first = SweepRows.of(*rows(parts[order[0]], used), parts[order[0]])
        more = (
            first.paying(rows(part, used)[1], part)
            for part in (parts[k] for k in order[1:])
        )
        over = np.zeros((1, first.row.size))
        problem = cls(first, over if policies is None else first.of_rows(policies))
        if not isinstance(several, Rewards):
            return problem
        weights = several.weights and tuple(several.weights[k] for k in order)
        return replace(problem, more=tuple(more), order=order, weights=weights)
