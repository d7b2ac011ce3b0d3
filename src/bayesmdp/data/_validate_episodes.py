"""Checks of the order of rows: gaps, repeats, ends, what follows what.

The engine groups rows by episode, then adds up episodes: one row reaches Python.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp._checks import many
from bayesmdp._typing import BoolArray
from bayesmdp.data._columns import FLAGS
from bayesmdp.data._derive import KEYS, repeated_steps, size
from bayesmdp.data._faults import is_empty
from bayesmdp.data._queries import Offender, fetch, fetch_one, worded, zero_or_one
from bayesmdp.data._validate_groups import Groups
from bayesmdp.data._validate_open import Subject, finding, repeats
from bayesmdp.data._validate_record import Finding

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame


def check_episodes(
    subject: Subject, groups: Groups, terminal: BoolArray | None
) -> Iterator[Finding]:
    """Find what is wrong with the order of rows."""
    if "episode" not in subject.found:
        return
    over = groups.never_left() if terminal is None else terminal
    ends = _terminal_values(groups, over)
    episodes = _episodes(subject, ends)
    tally = _tally(subject, episodes)
    if "step" in subject.found:
        yield from _steps(subject, episodes, tally)
        yield from _order(subject)
    yield from _after_ends(subject, episodes, tally)
    if terminal is not None or set(FLAGS) & set(subject.found):
        yield from _unfinished(subject, episodes, tally)
    yield from _last_rows(subject, ends)
    yield from _arms(subject, groups)


def _arms(subject: Subject, groups: Groups) -> Iterator[Finding]:
    """Tell that no episode ever changes its action, as in a trial of arms."""
    if np.unique(groups.action).size < 2:
        return
    with worded(subject.origin):
        pairs = subject.moves.select("episode", "action").unique()
        episodes = subject.moves.select("episode").unique()
    n, n_moves = size(episodes, subject.origin), size(subject.moves, subject.origin)
    if size(pairs, subject.origin) == n < n_moves:
        yield finding(
            "fixed-arms",
            "note",
            n,
            f"Each of {n} episodes keeps its action in {subject.of('action')}: an arm, "
            "as of a trial",
            "compare policies that keep one, always:ACTION or bm.policies.constant; "
            "one that changes with the state was never observed, and rests on the "
            "Markov property alone",
            column=subject.found.get("action"),
        )


def first_states(subject: Subject, groups: Groups) -> BoolArray | None:
    """Mask of states, of those never entered, in which an episode begins; or None."""
    import narwhals as nw

    if not set(KEYS) <= set(subject.found):
        return None
    n = int(max(groups.state.max(), groups.next_state.max())) + 1
    starts = np.zeros(n, dtype=np.bool_)
    candidates = ~np.isin(groups.state, groups.next_state)
    values = groups.values("state", candidates)
    if not values:
        return starts
    with worded(subject.origin):
        begins = subject.rows.group_by("episode").agg(nw.col("step").min())
        rows = subject.rows.filter(nw.col("state").is_in(values))
        found = rows.join(begins, on=list(KEYS), how="inner").select("state").unique()
    first = set(fetch(found, subject.origin)["state"].tolist())
    raw = groups.raw["state"].tolist()
    starts[groups.state[[value in first for value in raw]]] = True
    return starts


def _terminal_values(groups: Groups, terminal: BoolArray) -> list[Any]:
    """Return terminal states as the table has them."""
    values = groups.values("state", terminal[groups.state])
    values += groups.values("next_state", terminal[groups.next_state])
    return list(dict.fromkeys(values))


def _episodes(subject: Subject, ends: list[Any]) -> "Frame":
    """Describe each episode: rows, steps, and when it was said to end."""
    import narwhals as nw

    rows = subject.rows
    at = nw.col("step") if "step" in subject.found else nw.lit(0)
    there = rows.collect_schema().names()
    marks: dict[str, nw.Expr] = {x: nw.col(x) for x in FLAGS if x in there}
    if ends:
        # Without next states, the last row may be the terminal state's own.
        where = ["next_state"] if "next_state" in there else ["state", "outcome"]
        arrived = [nw.col(x).is_in(ends).fill_null(False) for x in where if x in there]
        marks["home"] = nw.any_horizontal(*arrived, ignore_nulls=True)
    if "outcome" in there:
        marks["censored"] = is_empty(rows, "outcome")
    then = {f"__{name}": nw.when(mark).then(at) for name, mark in marks.items()}
    asked = [
        nw.col("n").sum(),
        nw.col("__at").min().alias("low"),
        nw.col("__at").max().alias("high"),
        nw.len().alias("steps"),
        *(nw.col(f"__{name}").min().alias(f"first_{name}") for name in marks),
        *(nw.col(f"__{name}").max().alias(f"last_{name}") for name in marks),
    ]
    with worded(subject.origin):
        rows = rows.with_columns(
            at.alias("__at"), *(x.alias(name) for name, x in then.items())
        )
        # Not every engine counts distinct steps of a group: steps are grouped first.
        steps = rows.group_by("episode", "__at").agg(
            nw.len().alias("n"), *(nw.col(name).max() for name in then)
        )
        return steps.group_by("episode").agg(*asked)


def _said_end(episodes: "Frame") -> "nw.Expr":
    """Return the first step that was said to end its episode, if any was."""
    import narwhals as nw

    there = episodes.collect_schema().names()
    steps = [nw.col(f"first_{x}") for x in FLAGS if f"first_{x}" in there]
    return nw.min_horizontal(*steps) if steps else nw.col("high")


def _open_end(episodes: "Frame") -> "nw.Expr":
    """Tell episodes whose last row says nothing of an end."""
    import narwhals as nw

    there = episodes.collect_schema().names()
    tests = [
        (nw.col(f"last_{x}") == nw.col("high")).fill_null(False)
        for x in (*FLAGS, "home", "censored")
        if f"last_{x}" in there
    ]
    return ~nw.any_horizontal(*tests, nw.lit(False), ignore_nulls=True)


def _missing() -> "nw.Expr":
    import narwhals as nw

    return nw.col("high") - nw.col("low") + 1 - nw.col("steps")


def _tally(subject: Subject, episodes: "Frame") -> dict[str, int]:
    """Add up episodes, in one pass over the rows."""
    import narwhals as nw

    with worded(subject.origin):
        flagged = episodes.with_columns(
            (nw.col("n") - nw.col("steps")).alias("repeated"),
            _missing().alias("missing"),
            zero_or_one(_missing() > 0).alias("gappy"),
            zero_or_one(_said_end(episodes) < nw.col("high")).alias("after"),
            zero_or_one(_open_end(episodes)).alias("open"),
        )
        names = ("repeated", "missing", "gappy", "after", "open")
        query = flagged.select(
            nw.len().alias("episodes"), *(nw.col(x).sum() for x in names)
        )
    return {name: int(x) for name, x in fetch_one(query, subject.origin).items()}


def _first_episode(
    subject: Subject, episodes: "Frame", bad: "nw.Expr"
) -> dict[str, Any]:
    with worded(subject.origin):
        return fetch_one(episodes.filter(bad).sort("episode").head(1), subject.origin)


def _row_of(subject: Subject, episode: Any, step: Any) -> Offender:
    import narwhals as nw

    here = nw.col("episode") == episode
    if "step" in subject.found:
        here &= nw.col("step") == int(step)
    return subject.first(here, subject.rows)


def _steps(
    subject: Subject, episodes: "Frame", tally: dict[str, int]
) -> Iterator[Finding]:
    """Find steps that are there twice, or not at all."""
    if tally["repeated"]:
        args = (subject.rows, subject.found, subject.origin, subject.n_rows)
        fault = repeated_steps(*args)
        if fault is not None:
            yield from repeats(*args, fault, "warning")
    if tally["missing"]:
        dropped = ""
        if subject.derived is not None:
            dropped = (
                f"; {many(subject.derived.gaps, 'row')} before them would be left out "
                "because no next state is recorded"
            )
        yield finding(
            "step-gaps",
            "warning",
            tally["missing"],
            f"{many(tally['missing'], 'step')} missing between others in "
            f"{subject.of('step')}, in {tally['gappy']} of {tally['episodes']} episodes"
            f"{dropped}",
            "look for the missing rows; gaps are not bridged",
            column=subject.found["step"],
            first=_first_gap(subject, episodes),
        )
    if tally["episodes"] == subject.n_rows > 1:
        yield finding(
            "one-row-episodes",
            "warning",
            tally["episodes"],
            f"Every episode in {subject.of('episode')} has a single row",
            "check that it is the column of episodes, not of rows",
            column=subject.found["episode"],
        )


def _first_gap(subject: Subject, episodes: "Frame") -> Offender:
    """Look up the row before the first gap of the first episode that has one."""
    import narwhals as nw

    first = _first_episode(subject, episodes, _missing() > 0)
    with worded(subject.origin):
        rows = subject.rows.filter(nw.col("episode") == first["episode"])
        before = rows.select((nw.col("step") - 1).alias("step")).unique()
        last = rows.join(before, on="step", how="anti").select(nw.col("step").min())
    step = fetch_one(last, subject.origin)["step"]
    return _row_of(subject, first["episode"], step)


def _order(subject: Subject) -> Iterator[Finding]:
    """Find next states that are not where the next step is."""
    import narwhals as nw

    if subject.derived is not None:
        return
    with worded(subject.origin):
        moves = subject.moves
        for flag in FLAGS:
            if flag in subject.found:  # what comes after an end is told apart
                moves = moves.filter(~nw.col(flag))
        step = (nw.col("step") - 1).alias("step")
        there = subject.rows.select(
            "episode", step, nw.col("state").alias("next_state")
        )
        # Nobody is where the row led to, but somebody is there at that step.
        odd = moves.join(there, on=[*KEYS, "next_state"], how="anti")
        odd = odd.join(there.select(*KEYS).unique(), on=list(KEYS), how="inner")
    n = size(odd, subject.origin)
    if n:
        yield finding(
            "next-states-differ",
            "warning",
            n,
            f"{many(n, 'row')} with another next state in {subject.of('next_state')} "
            f"than the state of the following step in {subject.of('state')}",
            "check the order of steps and which column is which",
            column=subject.found["next_state"],
            first=subject.first(frame=odd),
        )


def _after_ends(
    subject: Subject, episodes: "Frame", tally: dict[str, int]
) -> Iterator[Finding]:
    import narwhals as nw

    if not tally["after"]:
        return
    # In the engine: what is empty has no value once it is fetched.
    ends = episodes.select("episode", "high", _said_end(episodes).alias("end"))
    first = _first_episode(subject, ends, nw.col("end") < nw.col("high"))
    yield finding(
        "rows-after-end",
        "warning",
        tally["after"],
        f"{tally['after']} of {tally['episodes']} episodes with rows after one that is "
        "terminated or truncated",
        "check the flags, and whether several episodes share an id",
        column=subject.found.get("terminated", subject.found.get("truncated")),
        first=_row_of(subject, first["episode"], first["end"]),
    )


def _unfinished(
    subject: Subject, episodes: "Frame", tally: dict[str, int]
) -> Iterator[Finding]:
    if not tally["open"]:
        return
    first = _first_episode(subject, episodes, _open_end(episodes))
    yield finding(
        "unfinished-episodes",
        "warning",
        tally["open"],
        f"{tally['open']} of {tally['episodes']} episodes without an end: the last row "
        "is neither terminated nor truncated, nor does it lead to a terminal state",
        "look for the missing rows, or flag rows with which only the follow-up ended "
        "in a column `truncated`",
        column=subject.found["episode"],
        first=_row_of(subject, first["episode"], first["high"]),
    )


def _last_rows(subject: Subject, ends: list[Any]) -> Iterator[Finding]:
    """Tell last rows that lead nowhere, unless the process is over there."""
    import narwhals as nw

    if subject.derived is None or not subject.derived.lost:
        return
    with worded(subject.origin):
        rows = subject.derived.last
        rows = rows.filter(~nw.col("state").is_in(ends)) if ends else rows
    n = size(rows, subject.origin)
    if n:
        yield finding(
            "missing-next-states",
            "warning",
            n,
            f"{many(n, 'last row')} of an episode without a next state, which would be "
            "left out of the counts as if censored",
            "where the process ended, give the state it ended in as "
            "columns={'outcome': ...}; where only the follow-up did, flag the row in a "
            "column `truncated`, or leave its outcome empty",
            first=subject.first(frame=rows),
        )
