"""What the checks of `validate` look at: distinct transitions, and episodes.

The engine counts and groups; only distinct transitions, one row for all episodes, and
first offenders reach Python.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bayesmdp._labelled import Named
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._columns import FLAGS, Levels, names_in, numbers
from bayesmdp.data._findings import CONTEXT, TRIPLET, is_empty
from bayesmdp.data._queries import (
    Offender,
    fetch,
    fetch_one,
    first_bad,
    worded,
    zero_or_one,
)
from bayesmdp.data._read import Prepared, Sizes
from bayesmdp.data._steps import KEYS
from bayesmdp.errors import CountsError

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame

#: What ids are called, if anything.
Names: TypeAlias = Sequence[Any] | None
KIND = {"state": "state", "next_state": "state", "action": "action"}
_MOST = 1000  # values that a query is given


@runtime_checkable
class KnownTask(Named, Protocol):
    """What is asked of a task beside names; `bayesmdp.Task` has it."""

    @property
    def n_states(self) -> int:
        """Number of states."""

    @property
    def start(self) -> FloatArray:
        """Probability to start in each state, ``[S]``."""

    @property
    def is_terminal(self) -> BoolArray:
        """Mask of terminal states, ``[S]``."""

    @property
    def criterion(self) -> str:
        """``"average"`` where episodes have no end."""

    @property
    def is_cost(self) -> bool:
        """Whether rewards are minus a cost."""

    def transition_reward(
        self, state: IntArray, action: IntArray, next_state: IntArray
    ) -> FloatArray:
        """Reward of transitions, ``[K]``."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Distinct transitions; axis K runs over them."""

    state: IntArray  # [K]
    action: IntArray  # [K]
    next_state: IntArray  # [K]
    count: IntArray  # [K]
    low: FloatArray | None  # [K], smallest reward
    high: FloatArray | None  # [K], largest reward
    ended: IntArray | None  # [K], rows that say `terminated`
    raw: dict[str, NDArray[Any]]  # [K] each: ids as the table has them
    names: Mapping[str, Names]  # of states and of actions, by id

    def of(self, mask: BoolArray) -> "Groups":
        """Return some of the transitions."""
        columns = {x.name: getattr(self, x.name) for x in fields(self)[:7]}
        some: dict[str, Any] = {
            x: y if y is None else y[mask] for x, y in columns.items()
        }
        return replace(self, **some, raw={x: y[mask] for x, y in self.raw.items()})

    @property
    def n_states(self) -> int:
        """One more than the largest id of a state."""
        return int(max(self.state.max(), self.next_state.max())) + 1

    def by_state(self, role: str, weight: IntArray | None = None) -> FloatArray:
        """Rows that leave, or enter, each state ``[S]``."""
        rows = self.count if weight is None else weight
        return np.asarray(
            np.bincount(getattr(self, role), rows, self.n_states), dtype=np.float64
        )

    def name(self, role: str, number: int) -> str:
        """How a state or action is called in messages."""
        names = self.names[KIND[role]]
        known = names is not None and number < len(names)
        return str(names[number] if known and names is not None else number)

    def triplet(self, k: int) -> str:
        """How a transition is called in messages."""
        s, a, t = (self.name(x, int(getattr(self, x)[k])) for x in TRIPLET)
        return f"state {s}, action {a}, next state {t}"

    def values(self, role: str, mask: BoolArray) -> list[Any]:
        """Return the ids of some transitions as the table has them."""
        return list(dict.fromkeys(self.raw[role][mask].tolist()))

    def at(self, k: int, roles: Sequence[str] = TRIPLET) -> dict[str, list[Any]]:
        """Return one transition as the table has it."""
        return {role: self.raw[role][k : k + 1].tolist() for role in roles}


def fetch_groups(
    ready: Prepared,
    origin: str,
    labels: bool,
    levels: Levels,
    named: Mapping[str, Names],
) -> Groups:
    """Let the engine count distinct transitions, with rewards and flags.

    ``named`` says what ids are called, where the table has only ids.
    """
    import narwhals as nw

    asked, frame = [nw.len().alias("count")], ready.moves
    if "reward" in ready.found:
        reward = nw.col("reward")
        asked += [reward.min().alias("low"), reward.max().alias("high")]
    with worded(origin):
        if "terminated" in ready.found:
            ended = zero_or_one(nw.col("terminated")).alias("ended")
            frame = frame.with_columns(ended)
            asked.append(nw.col("ended").sum())
        query = frame.group_by(*TRIPLET).agg(*asked)
    found = fetch(query, origin)
    names = dict(zip(("state", "action"), names_in(found, labels, levels), strict=True))
    ids: dict[str, Any] = {x: numbers(found[x], names[KIND[x]]) for x in TRIPLET}
    order = np.lexsort([ids[x] for x in reversed(TRIPLET)])
    kinds = {"low": np.float64, "high": np.float64, "ended": np.int64}
    more: dict[str, Any] = {
        x: found[x].astype(y)[order] for x, y in kinds.items() if x in found
    }
    return Groups(
        **{x: y[order] for x, y in ids.items()},
        count=found["count"].astype(np.int64)[order],
        low=more.get("low"),
        high=more.get("high"),
        ended=more.get("ended"),
        raw={role: found[role][order] for role in TRIPLET},
        names={
            "state": _names("state", names["state"], named, ids),
            "action": _names("action", names["action"], named, ids),
        },
    )


def _names(
    kind: str,
    found: NDArray[Any] | None,
    named: Mapping[str, Names],
    ids: Mapping[str, IntArray],
) -> Names:
    """Return what ids are called, in the table or else where it was read."""
    if found is not None:
        return list(found.tolist())
    names = named.get(kind)
    largest = max(int(ids[x].max()) for x in TRIPLET if KIND[x] == kind)
    if names is not None and largest >= len(names):
        raise CountsError(
            f"`data` has {kind} {largest}, but its `{kind}_labels` are {len(names)}: "
            "name every one from 0."
        )
    return names


@dataclass(frozen=True, eq=False)
class Log:
    """Sound rows and what is known of them; what costs a query is found when asked."""

    ready: Prepared
    origin: str
    sizes: Sizes
    task: KnownTask | None
    min_count: int
    seen: Groups  # with the ids of the table
    whole: bool  # no row was left out
    cut: bool = False  # rows were left out when it was read, which its notes tell

    @property
    def found(self) -> Mapping[str, str]:
        """Name of the column of each role."""
        return self.ready.found

    def size(self, role: str) -> int | None:
        """Return how many states or actions there should be, if that was said."""
        return self.sizes[role == "action"]

    def labels(self, role: str) -> tuple[str, ...] | None:
        """Return what the task calls states or actions."""
        if self.task is None:
            return None
        return self.task.action_labels if role == "action" else self.task.state_labels

    def known(self, role: str) -> BoolArray:
        """Mask ``[K]`` of transitions whose id, or name, there is in the task."""
        return self._matched(role) >= 0

    def _matched(self, role: str) -> IntArray:
        """Return ids ``[K]`` as the task numbers them; -1 where it has no such."""
        ids: IntArray = getattr(self.seen, role)
        names, size = self.seen.names[KIND[role]], self.size(role)
        if names is None or size is None:
            return ids
        labels = self.labels(role)
        if labels is not None:
            place = {name: i for i, name in enumerate(labels)}
            ids = np.array([place.get(str(x), -1) for x in names], dtype=np.int64)[ids]
        return np.where(ids < size, ids, -1)

    @cached_property
    def groups(self) -> Groups:
        """Distinct transitions with the ids of the task; unknown names are left out."""
        ids = {role: self._matched(role) for role in TRIPLET}
        names = {x: self.labels(x) or self.seen.names[x] for x in ("state", "action")}
        known = np.all([x >= 0 for x in ids.values()], axis=0)
        return replace(self.seen, **ids, names=names).of(known)  # type: ignore[arg-type]

    @cached_property
    def terminal(self) -> BoolArray | None:
        """Mask of states that end episodes, by the task or else by flags; or None."""
        if self.task is not None:
            return np.asarray(self.task.is_terminal)
        dropped = self.ready.derived is not None and "outcome" not in self.found
        if self.groups.ended is None or dropped:  # last rows and flags lead nowhere
            return None
        return self.groups.by_state("next_state", self.groups.ended) > 0

    @property
    def endless(self) -> bool:
        """Whether the task has no terminal states, because it asks for averages."""
        return self.task is not None and self.task.criterion == "average"

    @cached_property
    def starts(self) -> BoolArray | None:
        """Mask of states in which episodes begin, as far as it matters; or None.

        By the task and, of states that are never entered, by the log.
        """
        import narwhals as nw

        n = self.groups.n_states
        said = None if self.task is None else np.asarray(self.task.start)[:n] > 0
        if not set(KEYS) <= set(self.found):
            return said
        starts = np.zeros(n, dtype=np.bool_) if said is None else said.copy()
        never = ~np.isin(self.groups.state, self.groups.next_state)
        values = self.groups.values("state", never)
        if not values:
            return starts
        with worded(self.origin):
            begins = self.ready.rows.group_by("episode").agg(nw.col("step").min())
            rows = self.ready.rows.filter(nw.col("state").is_in(values))
            rows = rows.join(begins, on=list(KEYS), how="inner")
            query = rows.select("state").unique()
        first = set(fetch(query, self.origin)["state"].tolist())
        raw = self.groups.raw["state"].tolist()
        starts[self.groups.state[[value in first for value in raw]]] = True
        return starts

    @cached_property
    def ends(self) -> list[Any]:
        """States in which the process is over, as the table has them."""
        over, groups = self.terminal, self.groups
        if over is None:  # those that rows lead to and none leads away from
            over = groups.by_state("next_state") > 0
            over[groups.state[groups.state != groups.next_state]] = False
        values = groups.values("state", over[groups.state])
        values += groups.values("next_state", over[groups.next_state])
        return list(dict.fromkeys(values))

    @cached_property
    def episodes(self) -> "Frame":
        """One row for each episode: rows, steps, when it was said to end, and whether.

        Columns ``missing`` (steps between others), ``end`` (the first step that was
        said to be the last), ``high`` (the last step), ``open`` (nothing said of an
        end).
        """
        import narwhals as nw

        rows = self.ready.rows
        at = nw.col("step") if "step" in self.found else nw.lit(0)
        there = rows.collect_schema().names()
        marks: dict[str, nw.Expr] = {x: nw.col(x) for x in FLAGS if x in there}
        if self.ends:
            # Without next states, the last row may be the terminal state's own.
            where = ["next_state"] if "next_state" in there else ["state", "outcome"]
            tests = [nw.col(x).is_in(self.ends) for x in where if x in there]
            arrived = [test.fill_null(False) for test in tests]
            marks["home"] = nw.any_horizontal(*arrived, ignore_nulls=True)
        if "outcome" in there:
            marks["censored"] = is_empty(rows, "outcome")
        then = [nw.when(y).then(at).alias(f"__{x}") for x, y in marks.items()]
        first, last = (
            {x: getattr(nw.col(f"__{x}"), how)().alias(f"{how}_{x}") for x in marks}
            for how in ("min", "max")
        )
        with worded(self.origin):
            rows = rows.with_columns(at.alias("__at"), *then)
            # Not every engine counts distinct steps of a group: steps are grouped.
            steps = rows.group_by("episode", "__at").agg(
                nw.len().alias("n"), *(nw.col(f"__{name}").max() for name in marks)
            )
            found = steps.group_by("episode").agg(
                nw.col("n").sum(),
                nw.col("__at").min().alias("low"),
                nw.col("__at").max().alias("high"),
                nw.len().alias("steps"),
                *(first[x] for x in marks if x in FLAGS),
                *last.values(),
            )
            ended = [nw.col(f"min_{x}") for x in FLAGS if x in marks]
            high = nw.col("high")
            closed = [(nw.col(f"max_{x}") == high).fill_null(False) for x in marks]
            said = nw.any_horizontal(*closed, nw.lit(False), ignore_nulls=True)
            missing = high - nw.col("low") + 1 - nw.col("steps")
            return found.select(
                "episode",
                "high",
                (nw.col("n") - nw.col("steps")).alias("repeated"),
                missing.alias("missing"),
                zero_or_one(missing > 0).alias("gappy"),
                (nw.min_horizontal(*ended) if ended else high).alias("end"),
                zero_or_one(~said).alias("open"),
            )

    @cached_property
    def tally(self) -> dict[str, int]:
        """Episodes added up, in one pass over the rows."""
        import narwhals as nw

        with worded(self.origin):
            after = zero_or_one(nw.col("end") < nw.col("high")).alias("after")
            names = ("repeated", "missing", "gappy", "after", "open")
            query = self.episodes.with_columns(after).select(
                nw.len().alias("episodes"), *(nw.col(x).sum() for x in names)
            )
        return {name: int(x) for name, x in fetch_one(query, self.origin).items()}

    def first(
        self, bad: "nw.Expr | None" = None, frame: "Frame | None" = None
    ) -> Offender:
        """Look up the first row, or the first where something is true."""
        rows = self.ready.moves if frame is None else frame
        there = rows.collect_schema().names()
        return first_bad(rows, bad, [x for x in CONTEXT if x in there], self.origin)

    def first_with(self, values: Mapping[str, list[Any]]) -> Offender:
        """Look up the first row with one of some values in each of some columns."""
        import narwhals as nw

        some = [nw.col(role).is_in(x[:_MOST]) for role, x in values.items()]
        return self.first(reduce(lambda x, y: x & y, some))

    def first_episode(self, bad: "nw.Expr", *columns: str) -> dict[str, Any]:
        """Look up the first episode for which something is true."""
        with worded(self.origin):
            some = self.episodes.filter(bad).sort("episode").head(1)
            return fetch_one(some.select("episode", *columns), self.origin)

    def row_of(self, episode: Any, step: Any) -> Offender:
        """Look up the row of a step."""
        import narwhals as nw

        here = nw.col("episode") == episode
        if "step" in self.found:
            here &= nw.col("step") == int(step)
        return self.first(here, self.ready.rows)
