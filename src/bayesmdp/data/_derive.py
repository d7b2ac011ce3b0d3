"""Next states from the order of rows, by the engine that holds them; ids of names.

The next state of a row is the state of the row of the same episode one step later: a
join of the table with itself. A row without one stands before a gap, which is not
bridged, or is the last of its episode: censored, or in a state that is never left.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesmdp._checks import argument, column, many
from bayesmdp._typing import IntArray
from bayesmdp.data._columns import CUT, Coding, meaning
from bayesmdp.data._findings import Fault, is_empty, is_true
from bayesmdp.data._queries import (
    FILE,
    ROW,
    capital,
    fetch,
    fetch_one,
    first_bad,
    worded,
)

if TYPE_CHECKING:
    from bayesmdp.data._queries import Frame


#: Ordered names of states and of actions, where the table says their order.
Levels: TypeAlias = Mapping[str, tuple[str, ...]]


def names_in(
    groups: Mapping[str, NDArray[Any]], labels: bool, levels: Levels
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Names of states and of actions in their order, where they have any.

    Levels of ordered categories come first, all of them; then other names.
    """

    def names(what: str, *columns: NDArray[Any]) -> NDArray[Any] | None:
        values = np.concatenate(columns)
        if values.dtype.kind in "iuf":
            return np.unique(values.astype(np.int64)) if labels else None
        known = levels.get(what, ())
        others = {str(x) for x in values}.difference(known)
        return np.array([*known, *sorted(others, key=_place)], dtype=object)

    return (
        names("state", groups["state"], groups["next_state"]),
        names("action", groups["action"]),
    )


def _place(name: str) -> tuple[Any, ...]:
    """Where a name is sorted: numbers first, and w2 before w10."""
    if _WHOLE.fullmatch(name):
        return 0, int(name)
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :].lstrip("0")  # of any length, which int() would refuse
    return 1, stem, len(digits), digits, name


def numbers(values: NDArray[Any], names: NDArray[Any] | None) -> IntArray:
    """Return ids: the values themselves, or their places among names."""
    if names is None:
        return values.astype(np.int64)
    if names.dtype != object:
        return np.searchsorted(names, values.astype(np.int64)).astype(np.int64)
    number = {name: i for i, name in enumerate(names)}
    return np.array([number[str(x)] for x in values], dtype=np.int64)


def numbers_as_text(
    names: tuple[NDArray[Any] | None, NDArray[Any] | None],
    found: Mapping[str, str],
    origin: str,
) -> list[Fault]:
    """Find text that is numbers: they may be ids, and 1 and 1.0 the same one."""
    faults = []
    for role, known in zip(("state", "action"), names, strict=True):
        text = [] if known is None or known.dtype != object else known.tolist()
        times = [name for name in text if _TIME.fullmatch(name)]
        if times:
            said = (
                f"Column `{found[role]}` of {origin} holds times, such as "
                f"{times[0]!r:.42}"
            )
            remedy = (
                f"name the column that holds {role}s with {column(role)}, or "
                f"give {argument('labels')} to take times as names"
            )
            faults.append(
                Fault("times-as-names", role, len(times), None, said, remedy, ": ")
            )
        odd = [name for name in text if _NUMERAL.fullmatch(name)]
        if odd:
            said = (
                f"Column `{found[role]}` of {origin} holds numbers as text, such as "
                f"{odd[0]!r:.42}"
            )
            remedy = (
                f"convert it to whole numbers, or give {argument('labels')} to take "
                "the text as names"
            )
            faults.append(
                Fault("numbers-as-text", role, len(odd), None, said, remedy, ": ")
            )
    return faults


_TIME = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:.*)?")
_NUMERAL = re.compile(r"\s*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)\s*")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")


KEYS = ("episode", "step")
KEPT = ("state", "action", "reward", *KEYS, "terminated", "truncated", ROW, FILE)


_NUMBER = re.compile("-?[0-9]+([.]0)?").fullmatch


class Derived(NamedTuple):
    """Rows that have a next state, and what became of the others."""

    frame: "Frame"
    n_rows: int
    gaps: int  # rows left out because the step after them is missing
    censored: int  # last rows that the log says are censored
    absorbed: int  # last rows in a state that is never left
    lost: int  # other last rows without a next state
    last: "Frame"  # those
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
            last = last.join(marked, **_without("episode"))
            for cut in [x for x in ("truncated", CUT) if x in there]:
                last = last.filter(~nw.col(cut))
            n_cut = n_open - size(last, origin)
            entered = moves.select(nw.col("next_state").alias("state")).unique()
            left = moves.filter(nw.col("state") != nw.col("next_state"))
            absorbing = entered.join(left.select("state").unique(), **_without("state"))
            last = last.join(absorbing, **_without("state"))
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
        note="",
    )
    begun = (
        f"Next states of {origin} were derived from `{found['episode']}` and "
        f"`{found['step']}`: {told.n_rows} of {n_all} rows have one"
    )
    return told._replace(note="; ".join([begun, *_left_out(told)]))


def _without(key: str) -> dict[str, Any]:
    """Say how to keep rows whose key is not in another table."""
    return {"on": key, "how": "anti"}


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


def size(frame: "Frame", origin: str) -> int:
    """Count rows."""
    import narwhals as nw

    return int(fetch_one(frame.select(nw.len().alias("n")), origin)["n"])
