r"""Steps of episodes: next states from the order of rows, and visits put on a grid.

The next state of a row is the state of the row of the same episode one step later: a
join of the table with itself, by the engine that holds it. A row without one stands
before a gap, which is not bridged, or is the last of its episode: censored, or in a
state that is never left.

**Visits at irregular times** become steps of one length. Times of an episode count from
its first visit, :math:`t_0`; grid point k lies at :math:`t_0 + k h`. A visit at t is
known from point :math:`k = \lceil (t - t_0) / h \rceil` on, and its state and action
are carried forward until another visit is known. An episode with an outcome, or whose
last state is never left, ends in it at the first point at or after that time; any other
is censored, and its last point is the one nearest to the end of its follow-up. Ends are
counted in the step in which they happen, so steps that were survived must be counted
too: to leave out those that are not complete would raise the risk of every end, the
more so the longer a step is; half a step is what a life table takes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import argument, column, many
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._columns import CUT, Coding, Grid, meaning
from bayesmdp.data._findings import Fault, Severity, is_empty, is_true
from bayesmdp.data._queries import (
    FILE,
    ROW,
    capital,
    connect,
    fetch,
    fetch_one,
    fetch_sorted,
    first_bad,
    lazy,
    size,
    sortable,
    worded,
)
from bayesmdp.errors import TooLargeError

if TYPE_CHECKING:
    from bayesmdp.data._queries import Frame

KEYS = ("episode", "step")
KEPT = ("state", "action", "reward", *KEYS, "terminated", "truncated", ROW, FILE)
_NUMBER = re.compile("-?[0-9]+([.]0)?").fullmatch
#: What becomes of visits; other columns say something of visits, not of steps.
VISIT = ("episode", "time", "state", "action", "outcome", "end_time")
NO_ACTION = "none"  # of a log without actions
MAX_POINTS = 10**8
SLACK = 1e-9  # of a step: 0.3 is three times 0.1


class Derived(NamedTuple):
    """Rows that have a next state, and what became of the others."""

    frame: "Frame"
    n_rows: int
    gaps: int  # rows left out because the step after them is missing
    censored: int  # last rows that the log says are censored
    absorbed: int  # last rows in a state that is never left
    lost: int  # other last rows without a next state
    last: "Frame"  # those
    known: "Frame"  # all rows with a state, which a label of censoring is not
    note: str  # without a full stop


def with_next_state(
    frame: "Frame", found: Mapping[str, str], origin: str, n_rows: int, coding: Coding
) -> Derived:
    """Find next states; no step may be there twice."""
    import narwhals as nw

    with worded(origin):
        there = frame.collect_schema().names()
        kept = [x for x in KEPT if x in there]
        no_state = coding.is_censored(frame, "state") | is_empty(frame, "state")
        all_rows, frame = frame, frame.filter(~no_state)
        n_all, n_rows = n_rows, size(frame, origin)
        following = frame.select(
            "episode",
            (nw.col("step") - 1).alias("step"),
            nw.col("state").alias("next_state"),
        )
        columns = [*kept, "next_state"]
        moves = frame.join(following, on=list(KEYS), how="inner").select(*columns)
        ends = frame.group_by("episode").agg(nw.col("step").max())
        last = frame.join(ends, on=list(KEYS), how="inner")
        n_moves, n_ends, n_known = size(moves, origin), size(ends, origin), 0
        if "outcome" in there:
            state = frame.collect_schema()["state"]
            outcome = nw.col("outcome").cast(state).alias("next_state")
            known = last.filter(~is_empty(last, "outcome")).select(*kept, outcome)
            n_known = size(known, origin)
            moves = nw.concat([moves, known], how="vertical")
            last = last.filter(is_empty(last, "outcome"))
        n_open, n_cut, n_here, n_lost = n_ends - n_known, 0, 0, 0
        if n_open:  # said to be censored; else over; else censored, if outcomes are
            marked = all_rows.filter(no_state).select("episode").unique()
            last = last.join(marked, on="episode", how="anti")
            for cut in [x for x in ("truncated", CUT) if x in there]:
                last = last.filter(~nw.col(cut))
            n_cut = n_open - size(last, origin)
            if never := _never_left(moves, origin):
                last = last.filter(~nw.col("state").is_in(never))
            n_here = size(last, origin)
            if "outcome" in there:
                ended = nw.col("terminated" if "terminated" in there else "episode")
                last = last.filter(ended if "terminated" in there else ended.is_null())
            n_lost = size(last, origin)
    gaps = n_rows - n_moves - n_ends
    told = Derived(
        frame=moves,
        n_rows=n_moves + n_known,
        gaps=gaps,
        censored=n_cut + n_here - n_lost,
        absorbed=n_open - n_cut - n_here,
        lost=n_lost,
        last=last,
        known=frame,
        note="",
    )
    begun = (
        f"Next states of {origin} were derived from `{found['episode']}` and "
        f"`{found['step']}`: {told.n_rows} of {n_all} rows have one"
    )
    return told._replace(note="; ".join([begun, *_left_out(told)]))


def _never_left(moves: "Frame", origin: str) -> list[Any]:
    """Return states that are entered and never left.

    They are few. Asked for here, they keep a join of the moves with themselves out of
    the queries that follow, where engines would work it out over and over.
    """
    import narwhals as nw

    goes = nw.col("state") != nw.col("next_state")
    left = moves.filter(goes).select("state", nw.lit(1).alias("left"))
    entered = moves.select(nw.col("next_state").alias("state"), nw.lit(0).alias("left"))
    states = nw.concat([entered, left], how="vertical").group_by("state")
    never = states.agg(nw.col("left").max()).filter(nw.col("left") == 0)
    found: list[Any] = fetch(never.select("state"), origin)["state"].tolist()
    return found


def _left_out(derived: Derived) -> Iterator[str]:
    """Say what became of rows without a next state."""
    if derived.gaps:
        yield f"{derived.gaps} were dropped because the step after them is missing"
    if derived.censored:
        yield (
            f"{many(derived.censored, 'last row')} censored, with no next state "
            "recorded, and left out of the counts"
        )
    if derived.absorbed:
        yield f"{many(derived.absorbed, 'last row')} in a state that is never left"
    if derived.lost:
        yield (
            f"{many(derived.lost, 'last row')} without a next state, left out of the "
            "counts as if censored (where the process ended, as by death, give the "
            f"state it ended in as {column('outcome')}, empty for censored ones)"
        )


def shared_codes(
    frame: "Frame", found: Mapping[str, str], origin: str, coding: Coding
) -> Fault | None:
    """Find outcomes that are spelled as states are numbered: codes, most likely.

    With a row that is truncated a state is meant, the one the log ended in.
    """
    import narwhals as nw

    if "outcome" not in found or coding.states:
        return None
    with worded(origin):
        schema = frame.collect_schema()
        known = frame.filter(~is_empty(frame, "outcome"))
        known = known.filter(~coding.is_censored(known, "outcome"))
        if "truncated" in schema:
            known = known.filter(~is_true("truncated", schema["truncated"]))
        outcome = nw.col("outcome").cast(schema["state"]).alias("state")
        states = frame.select("state").unique()
        both = known.select(outcome).unique().join(states, on="state", how="inner")
    values = [x for x in fetch(both, origin)["state"].tolist() if _NUMBER(str(x))]
    if not values:
        return None
    code = min(values, key=str) if isinstance(values[0], str) else int(min(values))
    said = (
        f"Column `{found['outcome']}` of {origin} holds {code}, which is also a state "
        f"in `{found['state']}`: is it a code, such as of death"
    )
    remedy = f"{capital(meaning())}, or {str(code)!r} where that state is meant"
    return Fault("outcome-codes", "outcome", len(values), None, said, remedy, "? ")


def repeated_steps(
    frame: "Frame", found: Mapping[str, str], origin: str, n_rows: int
) -> Fault | None:
    """Find steps of an episode that have several rows."""
    import narwhals as nw

    with worded(origin):
        more = n_rows - size(frame.select(*KEYS).unique(), origin)
        if not more:
            return None
        groups = frame.group_by(*KEYS).agg(nw.len().alias("n"))
        twice = groups.filter(nw.col("n") > 1).sort(*KEYS).head(1)
        first = fetch_one(twice, origin)
        here = (nw.col("episode") == first["episode"]) & (
            nw.col("step") == first["step"]
        )
    said = (
        f"{capital(origin)} has several rows with one step: `{found['episode']}` "
        f"{first['episode']} has `{found['step']}` {first['step']} {int(first['n'])} "
        "times"
    )
    place = first_bad(frame, here, list(KEYS), origin)._replace(values={})
    remedy = "number the steps, for what follows what is not known"
    return Fault("repeated-steps", "step", more, place, said, remedy)


def repeats(
    frame: "Frame", found: Mapping[str, str], origin: str, n_rows: int
) -> Iterator[Fault]:
    """Tell rows that are there twice from steps with different rows."""
    import narwhals as nw

    fault = repeated_steps(frame, found, origin, n_rows)
    if fault is None:
        return
    columns = [x for x in frame.collect_schema().names() if x in found]
    copies = n_rows - size(frame.select(*columns).unique(), origin)
    if copies:
        with worded(origin):
            groups = frame.group_by(*columns).agg(nw.len().alias("n"))
            twice = groups.filter(nw.col("n") > 1).select(*KEYS).unique()
            rows = frame.join(twice, on=list(KEYS), how="inner")
        first = first_bad(rows, None, [*KEYS, "state"], origin)
        said = f"{copies} of {n_rows} rows are copies of others and would count again"
        yield Fault("duplicate-rows", None, copies, first, said, "drop copies")
    if fault.count > copies:
        yield fault


class Gridded(NamedTuple):
    """Steps, one row each, as the readers derive next states from them."""

    frame: "Frame"
    n_rows: int
    found: dict[str, str]  # the column of each role
    note: Fault  # how far visits lie apart, or how much was carried
    connection: object  # kept open


def on_grid(
    frame: "Frame", found: Mapping[str, str], origin: str, grid: Grid
) -> Gridded | Fault:
    """Turn visits that were checked into steps; they are held in memory."""
    visits = _Visits(_fetch(frame, origin), found, origin)
    fault = visits.fault(grid)
    if fault is not None:
        return fault
    if grid.every is None:
        k = visits.order()
        size = np.ones(k.size, dtype=np.int64)
        held, stop = size, np.bincount(visits.number)
        note = _spacing(visits)
    else:
        k, stop = visits.points(grid.every)
        size = visits.points_held(k, stop)
        held = size if grid.limit is None else np.minimum(size, grid.limit + 1)
        _check_total(int(held.sum()), visits, grid)
        note = _carried(visits, size, held, grid)
    row = np.repeat(np.arange(k.size), held)
    step = k[row] + np.arange(row.size) - (np.cumsum(held) - held)[row]
    columns = visits.rows(row)
    # Where the points before the outcome were cut, it follows no step.
    over = step == stop[visits.number[row]] - 1
    text = columns["state"].dtype == object
    outcome = np.full(row.size, None if text else np.nan, "O" if text else "f8")
    if visits.outcome is not None:
        over &= visits.outcome[visits.last][visits.number[row]] != ""
        outcome[over] = visits.outcome[visits.last][visits.number[row]][over]
    connection = connect()
    connection.register("steps", {**columns, "step": step, "outcome": outcome})
    roles = {"action": "action"} | {x: found[x] for x in VISIT[:4] if x in found}
    roles["step"] = roles.pop("time")
    unused = [f"`{name}`" for role, name in found.items() if role not in VISIT]
    if unused:
        said = f"{note.message}; of visits, not of steps, and not read: "
        note = replace(note, message=said + ", ".join(unused))
    frame = lazy(connection.sql("from steps"))
    return Gridded(frame, row.size, roles, note, connection)


class _Visits:
    """Visits in order, as arrays [V]; ``number`` is that of their episode."""

    def __init__(
        self, columns: dict[str, NDArray[Any]], found: Mapping[str, str], origin: str
    ) -> None:
        numeric = "biuf"
        self.columns = {
            name: x if x.dtype.kind in numeric else x.astype(object)
            for name, x in columns.items()
        }
        self.found, self.origin = found, origin
        self.time: FloatArray = columns["time"].astype(np.float64)
        episode = columns["episode"]
        self.first: BoolArray = np.append(True, episode[1:] != episode[:-1])
        self.last: BoolArray = np.append(self.first[1:], True)
        self.number: IntArray = np.cumsum(self.first) - 1
        self.spacing = np.diff(self.time)[~self.first[1:]]
        self.outcome = self.columns.get("outcome")  # as text, empty where censored

    def rows(self, row: IntArray) -> dict[str, NDArray[Any]]:
        """Repeat what was observed."""
        columns = {x: self.columns[x][row] for x in ("episode", "state")}
        action = self.columns.get("action")
        none = np.full(row.size, NO_ACTION, dtype=object)
        return {**columns, "action": none if action is None else action[row]}

    def order(self) -> IntArray:
        """Count the visits of each episode from 0."""
        return np.arange(self.time.size) - np.flatnonzero(self.first)[self.number]

    def fault(self, grid: Grid) -> Fault | None:
        """Find visits whose order is not known, and ends before the last visit."""
        twice = ~self.first[1:] & (np.diff(self.time) == 0)
        if twice.any():
            i = int(np.argmax(twice))
            return _fault(
                f"{capital(self.origin)} has several rows at one time: "
                f"{self._whose(i)} has `{self.found['time']}` {self.time[i]:g} more "
                "than once",
                "keep the end where one is an end, such as a death, else the later one",
            )
        if grid.every is None:
            return None
        if "end_time" not in self.columns:
            said = (
                "`every` needs the time of the outcome, for the last visit is earlier",
                f"name its column with {column('end_time')}, or make the outcome a "
                "visit of its own, with its time and state",
            )
            return None if self.outcome is None else _fault(*said)
        last, end = self.time[self.last], self._ends()
        if (end < last).any():
            i = int(np.argmax(end < last))
            return _fault(
                f"{capital(self.origin)} has an end before a visit: "
                f"{self._whose(np.flatnonzero(self.last)[i])} ends at "
                f"`{self.found['end_time']}` {end[i]:g}, but has a visit at "
                f"{last[i]:g}",
                "fix or drop it",
            )
        return None

    def points(self, every: float) -> tuple[IntArray, IntArray]:
        """Return the point from which each visit is known, and each episode's number.

        Shapes [V] and [E]; an episode's points are 0 to one less than its number, and
        an outcome stands at the next.
        """
        start = self.time[self.first][self.number]
        k = np.ceil((self.time - start) / every - SLACK).astype(np.int64)
        length = (self._ends() - self.time[self.first]) / every
        last = np.floor(length + 0.5 + SLACK) + 1
        if self.outcome is None:  # an end is a state that is never left
            known, ended = self._is_never_left()[self.last], k[self.last] + 1.0
        else:
            known = self.outcome[self.last] != ""
            ended = np.maximum(np.ceil(length - SLACK), 1)
        return k, np.where(known, ended, last).astype(np.int64)

    def points_held(self, k: IntArray, stop: IntArray) -> IntArray:
        """Return at how many points each visit is the last that is known."""
        until = np.where(self.last, stop[self.number], np.append(k[1:], 0))
        return np.maximum(np.minimum(until, stop[self.number]) - k, 0)

    def _is_never_left(self) -> BoolArray:
        """Tell visits in states that are entered and that no later visit leaves."""
        _, state = np.unique(self.columns["state"], return_inverse=True)
        moves = ~self.first[1:] & (state[1:] != state[:-1])
        entered, left = set(state[1:][moves]), set(state[:-1][moves])
        return np.isin(state, list(entered - left))

    def _ends(self) -> FloatArray:
        """Return when the follow-up of each episode ends, if not with a visit."""
        ends = self.columns.get("end_time", self.time)
        return ends[self.last].astype(np.float64)

    def _whose(self, i: int) -> str:
        return f"`{self.found['episode']}` {self.columns['episode'][i]}"


def _fetch(frame: "Frame", origin: str) -> dict[str, NDArray[Any]]:
    """Fetch visits by episode and time."""
    import narwhals as nw

    with worded(origin):
        there = frame.collect_schema().names()
        if "outcome" in there:  # as text, for numbers that are missing are lost
            text, none = nw.col("outcome").cast(nw.String), is_empty(frame, "outcome")
            known = nw.when(~none).then(text).otherwise(nw.lit(""))
            frame = frame.with_columns(known.alias("outcome"))
        frame, key = sortable(frame)
        frame = frame.select(*dict.fromkeys([key, *(x for x in VISIT if x in there)]))
    parts = list(fetch_sorted(frame, [key, "time"], MAX_POINTS, origin))
    return {x: np.concatenate([part[x] for part in parts]) for x in parts[0]}


def _fault(said: str, remedy: str) -> Fault:
    return Fault("visit-times", None, 1, None, said, remedy)


def _note(code: str, severity: Severity, said: str, remedy: str) -> Fault:
    return Fault(code, "time", 1, None, said, remedy, severity=severity)


def _check_total(n: int, visits: _Visits, grid: Grid) -> None:
    if n > MAX_POINTS:
        raise TooLargeError(
            f"`every` is {grid.every:g}, which makes {n} steps of {visits.time.size} "
            f"visits: is it in the unit of `{visits.found['time']}`?"
        )


def _spacing(visits: _Visits) -> Fault:
    """Say how far visits lie apart."""
    remedy = f"give the length of a step, {argument('every')}, for a regular grid"
    said = f"No episode of {visits.origin} has a second visit"
    if visits.spacing.size:
        low, *quartiles, high = np.quantile(visits.spacing, [0, 0.25, 0.5, 0.75, 1])
        said = (
            f"Visits in `{visits.found['time']}` lie {low:.3g} to {high:.3g} apart "
            f"(quartiles {', '.join(f'{x:.3g}' for x in quartiles)}), and a step is "
            "from one visit to the next, however long: per step is per visit"
        )
    return _note("irregular-times", "warning", said, remedy)


def _carried(visits: _Visits, size: IntArray, held: IntArray, grid: Grid) -> Fault:
    """Say how much of a grid was observed."""
    n_points = int(held.sum())
    carried = n_points - int((held > 0).sum())
    unused = int((size == 0).sum())
    said = (
        f"Visits of {visits.origin} were put on a grid, a step every {grid.every:g} of "
        f"`{visits.found['time']}`: {_checks.many(n_points, 'grid point')}, of which "
        f"{100 * carried / max(n_points, 1):.1f} % carry the last observation forward, "
        "with no visit since the point before"
    )
    if unused:
        said += (
            f"; {_checks.many(unused, 'visit')} of {visits.time.size} not used, with "
            "a later one or the end before the next point"
        )
    cut = int((size - held).sum())
    if cut:
        said += (
            f"; {_checks.many(cut, 'grid point')} left out, more than {grid.limit} "
            "steps after a visit"
        )
    return _note("carried-forward", "note", said, "look whether so much may be carried")
