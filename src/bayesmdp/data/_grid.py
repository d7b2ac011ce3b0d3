r"""Visits at irregular times as steps of one length.

Times of an episode count from its first visit, :math:`t_0`; grid point k lies at
:math:`t_0 + k h`. A visit at t is known from point
:math:`k = \lceil (t - t_0) / h \rceil` on, and its state and action are carried
forward until another visit is known. An episode with an outcome, or whose last state is
never left, ends in it at the first point at or after that time; any other is censored,
and its last point is the one nearest to the end of its follow-up. Ends are counted in
the step in which they happen, so steps that were survived must be counted too: to leave
out those that are not complete would raise the risk of every end, the more so the
longer a step is; half a step is what a life table takes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import argument, column
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._columns import Grid
from bayesmdp.data._findings import Fault, Severity, is_empty
from bayesmdp.data._queries import (
    capital,
    connect,
    fetch_sorted,
    lazy,
    sortable,
    worded,
)
from bayesmdp.errors import TooLargeError

if TYPE_CHECKING:
    from bayesmdp.data._queries import Frame

#: What becomes of visits; other columns say something of visits, not of steps.
VISIT = ("episode", "time", "state", "action", "outcome", "end_time")
NO_ACTION = "none"  # of a log without actions
MAX_POINTS = 10**8
SLACK = 1e-9  # of a step: 0.3 is three times 0.1


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
