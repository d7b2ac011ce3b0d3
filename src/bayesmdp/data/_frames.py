"""Transitions in a table of some engine: the same queries, run where the rows are.

Only groups reach Python: distinct transitions with how often they occurred and what
they paid. A frame here has one column for each role, under the role's name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import column
from bayesmdp._typing import IntArray
from bayesmdp.data._columns import (
    FLAGS,
    TIMES,
    Coding,
    Columns,
    Levels,
    date_remedy,
    find_columns,
    levels_of,
    meaning,
    names_in,
    numbers,
)
from bayesmdp.data._counts import Counts
from bayesmdp.data._episodes import (
    ORDERED,
    EpisodeBatch,
    Piece,
    batches,
    check_folds,
)
from bayesmdp.data._findings import (
    IDS,
    STATES,
    TRIPLET,
    Fault,
    is_empty,
    is_open,
    is_true,
)
from bayesmdp.data._queries import (
    FILE,
    ROW,
    TEXT,
    capital,
    fetch,
    fetch_one,
    fetch_sorted,
    held_meanwhile,
    how_many,
    numbered,
    scramble,
    sortable,
    tidy_exit,
    worded,
    zero_or_one,
)
from bayesmdp.data._transitions import (
    Endings,
    Label,
    RewardStatistics,
    Starts,
    check_starts,
    endings_of,
)
from bayesmdp.errors import ArgumentError, CountsError

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame


@dataclass(frozen=True, eq=False)
class FrameTable:
    """A frame that was checked; what it is asked, its engine answers."""

    frame: "Frame" = field(repr=False)
    origin: str
    n_rows: int
    n_states: int | None
    n_actions: int | None
    labels: bool  # whole numbers are names
    levels: Levels = field(default_factory=dict)
    connection: object = field(default=None, repr=False)  # kept open, for files

    def counts(self) -> Counts:
        """Count every row, truncated ones included."""
        return self._counts(self._groups)

    def counts_by_fold(self, n_folds: int, seed: int) -> list[Counts]:
        """Count disjoint groups of whole episodes."""
        import narwhals as nw

        if "episode" not in self.roles:
            check_folds(n_folds, None)
        episodes = self._scrambled(self.frame, seed)
        size = fetch_one(episodes.select(nw.len().alias("n")), self.origin)
        check_folds(n_folds, int(size["n"]))
        with worded(self.origin):
            dealt = (
                episodes.sort("__order")
                .with_row_index("__turn", order_by="__order")
                .select("episode", (nw.col("__turn") % n_folds).alias("__fold"))
            )
            rows = self.frame.join(dealt, on="episode", how="inner")
            query = rows.group_by("__fold", *TRIPLET).agg(nw.len().alias("count"))
        groups = self._fetch(query)
        fold = groups.pop("__fold")
        return [
            self._counts({name: x[fold == k] for name, x in groups.items()})
            for k in range(n_folds)
        ]

    def _scrambled(self, frame: "Frame", seed: int) -> "Frame":
        """Give each episode a number that looks random, by its place among them."""
        import narwhals as nw

        number = nw.col("__number").cast(nw.Int64)
        with worded(self.origin):
            # Sorted before, because narwhals 2.28 on pandas 2 numbers unsorted rows
            # wrongly: it writes into the numbers that it reads.
            episodes, key = sortable(frame.select("episode").unique())
            rows = episodes.sort(key).with_row_index("__number", order_by=key)
            return rows.select("episode", scramble(number, seed).alias("__order"))

    def episode_sums(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Sum scrambled numbers of the episodes of each distinct transition."""
        import narwhals as nw

        told = self.connection, self.origin, self.n_rows
        frame = self.frame.select("episode", *TRIPLET)
        with worded(self.origin), held_meanwhile(frame, *told) as frame:
            rows = frame.join(self._scrambled(frame, 0), on="episode", how="inner")
            sums = nw.len().alias("count"), nw.col("__order").sum()
            query = rows.group_by(*TRIPLET).agg(*sums)
            query = query.with_columns(nw.col("__order").cast(nw.Int64))
            groups = self._fetch(query)
        return *self._ids(groups), groups["__order"].astype(np.int64)

    def reward_statistics(self) -> RewardStatistics:
        """Mean and spread of the reward of each distinct transition."""
        import narwhals as nw

        if "reward" not in self.roles:
            raise CountsError("These transitions have no `reward` column.")
        reward = nw.col("reward")
        with worded(self.origin):
            query = self.frame.group_by(*TRIPLET).agg(
                nw.len().alias("count"),
                reward.mean().alias("mean"),
                reward.std(ddof=0).alias("sd"),
                reward.min().alias("low"),
                reward.max().alias("high"),
            )
        groups = self._fetch(query)
        s, a, t = self._ids(groups)
        order = np.lexsort((t, a, s))
        low = groups["low"].astype(np.float64)
        # Engines add in an order of their own; what never varies is exact anyhow.
        fixed = low == groups["high"]
        mean = np.where(fixed, low, groups["mean"].astype(np.float64))
        sd = np.where(fixed, 0.0, groups["sd"].astype(np.float64))
        columns: Any = (s, a, t, groups["count"].astype(np.int64), mean, sd)
        return RewardStatistics(*(_checks.sealed(x[order]) for x in columns))

    @property
    def roles(self) -> frozenset[str]:
        """Roles that the table has a column for."""
        return frozenset(self.frame.collect_schema().names())

    def endings(self) -> Endings:
        """Count how each state was entered and left."""
        flagged = (self._flagged(role) for role in ("terminated", "truncated"))
        return endings_of(self.counts(), *flagged)

    def _flagged(self, role: str) -> Counts | None:
        """Count rows with a flag."""
        import narwhals as nw

        if role not in self.roles:
            return None
        with worded(self.origin):
            rows = self.frame.filter(nw.col(role))
            query = rows.group_by(*TRIPLET).agg(nw.len().alias("count"))
        return self._counts(fetch(query, self.origin))

    def starts(self) -> Starts:
        """Count the episodes that begin in each state."""
        import narwhals as nw

        self._check_steps()
        with worded(self.origin):
            first = self.frame.group_by("episode").agg(nw.col("step").min())
            rows = self.frame.join(first, on=["episode", "step"], how="inner")
            query = rows.group_by("state").agg(nw.len().alias("count"))
            size = first.select(nw.len().alias("n"))
        groups = fetch(query, self.origin)
        state = numbers(groups["state"], self.names[0])
        count = groups["count"].astype(np.int64)
        check_starts(int(count.sum()), int(fetch_one(size, self.origin)["n"]))
        order = np.argsort(state)
        return Starts(_checks.sealed(state[order]), _checks.sealed(count[order]))

    def episodes(self, batch_rows: int) -> Iterator[EpisodeBatch]:
        """Sort rows by episode and step; hand them over in batches."""
        if "step" in self.roles:
            self._check_steps()
        with worded(self.origin):
            frame = self.frame if "step" in self.roles else numbered(self.frame)
            frame, key = sortable(frame)
            names = frame.collect_schema().names()
            keys = [key, *(x for x in ("step", ROW) if x in names)]
            if len(keys) < 2:
                raise CountsError(
                    f"{capital(self.origin)} has no `step` column, and its engine "
                    "keeps no order of rows: number the steps of each episode, or name "
                    f"their column with {column('step')}."
                )
            frame = frame.select(*(x for x in names if x in (*ORDERED, *keys)))
        return batches(self._sorted(frame, keys, batch_rows), batch_rows)

    def _sorted(self, frame: "Frame", keys: list[str], n: int) -> Iterator[Piece]:
        n_rows = 0
        for rows in fetch_sorted(frame, keys, n, self.origin):
            n_rows += rows["state"].size
            ids = dict(zip(TRIPLET, self._ids(rows), strict=True))
            yield {name: rows[name] for name in ORDERED if name in rows} | ids
        self._check_size(n_rows)

    def _check_steps(self) -> None:
        """Refuse rows that have no place in their episode."""
        with worded(self.origin):
            empty = self.frame.select(how_many(is_empty(self.frame, "step")).alias("n"))
        n_empty = int(fetch_one(empty, self.origin)["n"])
        if n_empty:
            raise CountsError(
                f"{capital(self.origin)} has no number for `step` in {n_empty} of its "
                "rows, so the order of rows is not known: fill in the steps."
            )

    @property
    def state_labels(self) -> tuple[Label, ...] | None:
        """What states are called, by id; None where ids are what the table has."""
        return _as_labels(self.names[0])

    @property
    def action_labels(self) -> tuple[Label, ...] | None:
        """What actions are called, by id; None where ids are what the table has."""
        return _as_labels(self.names[1])

    @cached_property
    def _groups(self) -> dict[str, NDArray[Any]]:
        import narwhals as nw

        with worded(self.origin):
            query = self.frame.group_by(*TRIPLET).agg(nw.len().alias("count"))
        return self._fetch(query)

    def _fetch(self, query: "Frame") -> dict[str, NDArray[Any]]:
        """Run a query of groups; every row that was checked must be in one."""
        groups = fetch(query, self.origin)
        self._check_size(int(groups["count"].sum()))
        return groups

    def _check_size(self, n_rows: int) -> None:
        """Refuse to go on with other rows than those that were checked."""
        if n_rows != self.n_rows:
            raise CountsError(
                f"{capital(self.origin)} has changed since it was read: {self.n_rows} "
                f"rows then, {n_rows} now; read it again."
            )

    @cached_property
    def names(self) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Names of states and of actions in their order, where they have any."""
        return names_in(self._groups, self.labels, self.levels)

    def _ids(
        self, groups: Mapping[str, NDArray[Any]]
    ) -> tuple[IntArray, IntArray, IntArray]:
        states, actions = self.names
        return (
            numbers(groups["state"], states),
            numbers(groups["action"], actions),
            numbers(groups["next_state"], states),
        )

    def _counts(self, groups: Mapping[str, NDArray[Any]]) -> Counts:
        return Counts.from_arrays(
            *self._ids(groups),
            groups["count"].astype(np.int64),
            n_states=self.n_states,
            n_actions=self.n_actions,
        )


def _as_labels(names: NDArray[Any] | None) -> tuple[Label, ...] | None:
    return None if names is None else tuple(names.tolist())


def open_frame(
    source: Any, columns: Columns | None
) -> tuple["Frame", dict[str, str], str]:
    """Return a lazy frame with a column for each role, the names there, and whose."""
    import narwhals as nw

    frame, names, origin = recognised(source)
    found = find_columns(dict.fromkeys(names, origin), columns, origin)
    with worded(origin):
        chosen = [nw.col(name).alias(role) for role, name in found.items()]
        return frame.select(*chosen), found, origin


def recognised(
    source: Any, name: str = "source", wanted: str = "a path, a list of paths or "
) -> tuple["Frame", list[str], str]:
    """Return a user's table as a lazy frame, its columns' names, and whose it is."""
    import narwhals as nw

    tidy_exit()
    try:
        frame = nw.from_native(source)
    except TypeError:
        raise ArgumentError(
            f"`{name}` must be {wanted}a dataframe (pandas, polars, pyarrow, DuckDB, "
            f"Ibis); got {type(source).__name__}."
        ) from None
    except Exception as problem:  # narwhals looks at names, and so at their faults
        said = " ".join(str(problem).split()).rstrip(".")
        raise CountsError(f"`{name}` cannot be read: {said:.200}.") from problem
    origin = f"the {frame.implementation.name.lower()} table"
    with worded(origin):
        names = frame.collect_schema().names()
        odd = next((x for x in names if not isinstance(x, str)), None)
        if odd is not None:
            raise CountsError(
                f"Columns of {origin} must have names; one is called {odd!r:.40}."
            )
        twice = next((x for i, x in enumerate(names) if x in names[:i]), None)
        if twice is not None:
            raise CountsError(
                f"{capital(origin)} has two columns named `{twice}`: rename one."
            )
        return frame.lazy(), names, origin


def converted(
    frame: "Frame", found: Mapping[str, str], origin: str, coding: Coding
) -> tuple["Frame", list[Fault], Levels]:
    """Give columns the types that their roles need; tell those that cannot.

    Ordered categories become text; what their levels are is returned with it.
    """
    import narwhals as nw

    with worded(origin):
        schema = frame.collect_schema()
        levels = levels_of(frame, IDS, coding)
    kinds: dict[str, str] = {}  # of ids
    faults: list[Fault] = []
    casts = []
    roles = (*IDS, "step", "reward", "episode", *FLAGS, *TIMES)
    for role in [x for x in roles if x in found]:
        kind = schema[role]
        text = kind in (nw.String, nw.Categorical, nw.Enum)
        flag = kind == nw.Boolean and role == "outcome" and bool(coding.states)
        wanted = "" if flag else _unlike(role, kind, text)
        if wanted:
            said = f"must hold {wanted}; it holds {kind}"
            remedy = date_remedy(role) if kind.is_temporal() else ""
            faults.append(_column_fault("type", role, said, found, origin, remedy))
            continue
        casts += _cast(role, kind, text)
        if role in IDS:
            kinds[role] = "text" if text else "numbers"
    states = STATES[
        : 2 if coding.states else 3
    ]  # codes of outcomes are of their own kind
    for role in states[1:]:
        if role in kinds and "state" in kinds and kinds[role] != kinds["state"]:
            said = (
                f"holds {kinds[role]}, but column `{found['state']}` {kinds['state']}"
            )
            faults.append(_column_fault("named", role, said, found, origin))
    joint = {"state": _longest(levels, states), "action": levels.get("action", ())}
    for role in [x for x in states if x in levels]:
        own = set(levels[role])
        if tuple(x for x in joint["state"] if x in own) != levels[role]:
            said = "has levels that are not those of other columns, in their order"
            faults.append(_column_fault("levels", role, said, found, origin))
    with worded(origin):
        return frame.with_columns(*casts) if casts else frame, faults, joint


def _cast(role: str, kind: Any, text: bool) -> list["nw.Expr"]:
    """Return what makes a column what its role needs, where it is something else."""
    import narwhals as nw

    x = nw.col(role)
    if text:
        return [x.cast(nw.String)]
    if kind == nw.Boolean and role not in FLAGS:  # PostgreSQL has no cast to floats
        return [zero_or_one(x).cast(nw.Float64).alias(role)]
    wide = kind.is_decimal() or kind in (nw.Int128, nw.UInt128)
    return [x.cast(nw.Float64)] if wide or role in ("reward", *TIMES) else []


def _longest(levels: Levels, roles: tuple[str, ...]) -> tuple[str, ...]:
    return max((levels.get(role, ()) for role in roles), key=len)


def _unlike(role: str, kind: Any, text: bool) -> str:
    """Say what a column must hold, where its type cannot."""
    import narwhals as nw

    number = kind.is_numeric()
    if role == "episode":
        # Objects can be neither compared nor grouped everywhere.
        nested = kind.is_nested() or kind in (nw.Object, nw.Unknown)
        return "numbers or text" if nested else ""
    if role in FLAGS:
        return "" if number or text or kind == nw.Boolean else "True and False"
    if role in IDS:
        return "" if number or text else "whole numbers or text"
    fits = number or (role == "reward" and kind == nw.Boolean)
    return "" if fits else "numbers"


def _column_fault(
    kind: str,
    role: str,
    said: str,
    found: Mapping[str, str],
    origin: str,
    remedy: str = "",
) -> Fault:
    message = f"Column `{found[role]}` of {origin} {said}"
    code, usual = _COLUMN_FAULTS[kind]
    remedy = remedy or usual
    if (kind, role) == ("named", "outcome"):
        remedy += f", or {meaning()}"
    return Fault(code, role, 1, None, message, remedy, ": ")


_COLUMN_FAULTS = {
    "type": ("wrong-type", "convert it"),
    "named": ("mixed-types", "states must be named alike"),
    "levels": ("mixed-types", "give all the same levels, or convert them to text"),
}


def settled(
    frame: "Frame",
    origin: str,
    coding: Coding,
    extra: tuple[str, ...] = (),
    *,
    steps: bool = False,
    censored: bool = False,
) -> "Frame":
    """Drop what only messages need, and make ids and flags what they were checked for.

    Steps become whole where next states are derived from them. Where the table has
    next states, rows without one are left out, unless ``censored`` ones are to stay.
    """
    import narwhals as nw

    schema = frame.collect_schema()
    if "next_state" in schema and not censored:
        frame = frame.filter(~is_open(frame, coding))
    whole = TRIPLET[:2] if censored else TRIPLET
    columns = []
    for name, kind in schema.items():
        x = nw.col(name)
        if name == FILE or name.startswith(TEXT):
            if name in extra:
                columns.append(x)
        elif name == "state" and coding.states and kind.is_numeric():
            columns.append(x.cast(nw.Int64).cast(nw.String))
        elif (name in whole and kind.is_numeric()) or (name == "step" and steps):
            columns.append(x.cast(nw.Int64))
        elif name == "episode" and kind.is_float():  # 0.0 and -0.0 are one
            columns.append(nw.when(x == 0).then(nw.lit(0.0)).otherwise(x).alias(name))
        elif name in FLAGS:
            columns.append(is_true(name, kind))
        elif name == "outcome":
            columns += [coding.outcome(frame), coding.is_cut(frame)]
        else:
            columns.append(x)
    with worded(origin):
        return frame.select(*columns)
