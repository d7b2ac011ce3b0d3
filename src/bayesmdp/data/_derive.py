"""Next states from the order of rows, by the engine that holds them.

The next state of a row is the state of the row of the same episode one step later: a
join of the table with itself. A row without one is either the last of its episode or
stands before a gap; neither is bridged.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from bayesmdp.data._faults import Fault, has_value
from bayesmdp.data._queries import FILE, ROW, capital, fetch_one, first_bad, worded

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame

KEYS = ("episode", "step")
KEPT = ("state", "action", "reward", *KEYS, "terminated", "truncated", ROW, FILE)


FLAG_REMEDY = (
    "Name the state that a row led to instead, or read the table with "
    "data.read_ai_clinician, which takes a flag for death"
)


class Derived(NamedTuple):
    """Rows that have a next state, and what became of the others."""

    frame: "Frame"
    n_rows: int
    gaps: int  # rows dropped because the step after them is missing
    lost: int  # because they are the last of their episode
    note: str  # without a full stop


def with_next_state(
    frame: "Frame", found: Mapping[str, str], origin: str, n_rows: int
) -> Derived:
    """Find next states; no step may be there twice."""
    import narwhals as nw

    with worded(origin):
        there = frame.collect_schema().names()
        kept = [x for x in KEPT if x in there]
        following = frame.select(
            "episode",
            (nw.col("step") - 1).alias("step"),
            nw.col("state").alias("next_state"),
        )
        columns = [*kept, "next_state"]
        moves = frame.join(following, on=list(KEYS), how="inner").select(*columns)
        ends = frame.group_by("episode").agg(nw.col("step").max())
        n_moves = size(moves, origin)
        n_ends = size(ends, origin)
        n_known = 0
        if "outcome" in there:
            state = frame.collect_schema()["state"]
            outcome = nw.col("outcome")
            known = (
                frame.join(ends, on=list(KEYS), how="inner")
                .filter(~is_empty(frame, "outcome"))
                .select(*kept, outcome.cast(state).alias("next_state"))
            )
            n_known = size(known, origin)
            moves = nw.concat([moves, known], how="vertical")
    gaps = n_rows - n_moves - n_ends
    lost = n_ends - n_known
    note = (
        f"Next states of {origin} were derived from `{found['episode']}` and "
        f"`{found['step']}`: {n_moves + n_known} of {n_rows} rows have one; {gaps} "
        f"were dropped because the step after them is missing, {lost} because they are "
        "the last of their episode"
    )
    if lost:
        note += " (the state it ended in can be given as columns={'outcome': ...})"
    return Derived(moves, n_moves + n_known, gaps, lost, note)


def outcome_as_flag(
    frame: "Frame", found: Mapping[str, str], origin: str
) -> str | None:
    """Say so where an outcome looks like a flag, not like a state that was led to."""
    import narwhals as nw

    if "outcome" not in found or not frame.collect_schema()["outcome"].is_numeric():
        return None
    known = frame.filter(~is_empty(frame, "outcome"))
    x = nw.col("outcome")
    with worded(origin):
        ends = known.select(x.min().alias("low"), x.max().alias("high"))
        found_ends = fetch_one(ends, origin) if size(known, origin) else {"low": None}
    if found_ends["low"] is None or (found_ends["low"], found_ends["high"]) != (0, 1):
        return None
    left = frame.filter((nw.col("state") == 0) | (nw.col("state") == 1))
    if not size(left, origin):
        return None
    return (
        f"Column `{found['outcome']}` of {origin} holds only 0 and 1, and is taken for "
        "states 0 and 1, which are also left: is it a flag"
    )


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
    place = first_bad(frame, here, list(KEYS), origin)
    remedy = "number the steps, for what follows what is not known"
    return Fault("repeated", "step", more, place, said, remedy)


def is_empty(frame: "Frame", role: str) -> "nw.Expr":
    """Tell rows without a value."""
    return ~has_value(role, frame.collect_schema()[role])


def size(frame: "Frame", origin: str) -> int:
    """Count rows."""
    import narwhals as nw

    return int(fetch_one(frame.select(nw.len().alias("n")), origin)["n"])
