"""Next states from the order of rows, by the engine that holds them.

The next state of a row is the state of the row of the same episode one step later: a
join of the table with itself. A row without one is either the last of its episode or
stands before a gap; neither is bridged.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bayesmdp.data._queries import capital, fetch_one, worded
from bayesmdp.errors import CountsError

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame

KEYS = ("episode", "step")


def with_next_state(
    frame: "Frame", found: Mapping[str, str], origin: str, n_rows: int
) -> tuple["Frame", int, str, int]:
    """Return rows with a next state, how many, a note, and how many were dropped."""
    import narwhals as nw

    # Unsigned steps have no step before 0.
    frame = frame.with_columns(nw.col("step").cast(nw.Int64))
    _refuse_repeated_steps(frame, found, origin, n_rows)
    with worded(origin):
        kept = ["state", "action", *KEYS, *(["reward"] if "reward" in found else [])]
        following = frame.select(
            "episode",
            (nw.col("step") - 1).alias("step"),
            nw.col("state").alias("next_state"),
        )
        columns = [*kept, "next_state"]
        moves = frame.join(following, on=list(KEYS), how="inner").select(*columns)
        ends = frame.group_by("episode").agg(nw.col("step").max())
        n_moves = _size(moves, origin)
        n_ends = _size(ends, origin)
        n_known = 0
        if "outcome" in found:
            state = frame.collect_schema()["state"]
            outcome = nw.col("outcome")
            known = (
                frame.join(ends, on=list(KEYS), how="inner")
                .filter(~_is_empty(frame, "outcome"))
                .select(*kept, outcome.cast(state).alias("next_state"))
            )
            n_known = _size(known, origin)
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
    if not n_moves + n_known:
        raise CountsError(f"{note}: no transition is left.")
    return moves, n_moves + n_known, f"{note}.", gaps + lost


def _refuse_repeated_steps(
    frame: "Frame", found: Mapping[str, str], origin: str, n_rows: int
) -> None:
    import narwhals as nw

    with worded(origin):
        if _size(frame.select(*KEYS).unique(), origin) == n_rows:
            return
        groups = frame.group_by(*KEYS).agg(nw.len().alias("n"))
        twice = groups.filter(nw.col("n") > 1).sort(*KEYS).head(1)
        first = fetch_one(twice, origin)
    raise CountsError(
        f"{capital(origin)} has several rows with one step: `{found['episode']}` "
        f"{first['episode']} has `{found['step']}` {first['step']} {int(first['n'])} "
        "times; what follows what is not known."
    )


def _is_empty(frame: "Frame", role: str) -> "nw.Expr":
    import narwhals as nw

    x = nw.col(role)
    floats = frame.collect_schema()[role].is_float()
    return x.is_null() | x.is_nan() if floats else x.is_null()


def _size(frame: "Frame", origin: str) -> int:
    import narwhals as nw

    return int(fetch_one(frame.select(nw.len().alias("n")), origin)["n"])
