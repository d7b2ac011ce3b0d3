"""Transitions from files and dataframes: one way, for readers and for `validate`.

A reader stops at the first error and raises it. `validate` is told every fault, leaves
out the rows that have one, and goes on with the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from bayesmdp import _checks
from bayesmdp._checks import argument, column, many
from bayesmdp.data._columns import (
    FLAGS,
    PART,
    TIMES,
    Coding,
    Columns,
    Grid,
    Labels,
    Levels,
)
from bayesmdp.data._counts import Counts
from bayesmdp.data._files import is_paths, open_files
from bayesmdp.data._findings import (
    IDS,
    TRIPLET,
    UNKNOWN,
    Fault,
    faults,
    numbers_as_text,
    open_rows,
    row_tests,
    said_codes,
    tally,
)
from bayesmdp.data._frames import FrameTable, converted, open_frame, recognised, settled
from bayesmdp.data._queries import (
    FILE,
    fetch_one,
    held,
    how_many,
    lazy,
    numbered,
    size,
    worded,
)
from bayesmdp.data._steps import (
    KEYS,
    Derived,
    on_grid,
    repeated_steps,
    repeats,
    shared_codes,
    with_next_state,
)
from bayesmdp.data._transitions import Transitions
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError

if TYPE_CHECKING:
    from bayesmdp.data._queries import Frame


ROLES = (*IDS, "reward", "episode", *FLAGS, *TIMES, "step")
#: Number of states and of actions, where they are known.
Sizes = tuple[int | None, int | None]


@dataclass(frozen=True, eq=False)
class Source:
    """A table that can be asked; its columns are named by role, its rows unchecked."""

    frame: Frame
    found: dict[str, str]  # the column of each role that has one
    origin: str
    faults: list[Fault]  # of whole columns
    levels: Levels
    connection: object = None  # kept open, for files
    coding: Coding = field(default_factory=Coding)
    grid: Grid = field(default_factory=Grid)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows that were checked, and those of them that have a next state."""

    rows: Frame
    moves: Frame
    found: dict[str, str]
    n_rows: int  # that are sound
    n_moves: int
    derived: Derived | None  # None where the table has next states
    connection: object


class Told(list[Fault]):
    """What was found on the way; a reader's raises the first error."""

    def __init__(self, *, reader: bool) -> None:
        self.reader = reader

    def tell(self, *found: Fault | None) -> None:
        """Take note of faults."""
        for fault in found:
            if fault is not None and self.reader and fault.severity == "error":
                raise CountsError(fault.sentence)
            self += [] if fault is None else [fault]


def open_source(
    source: Any, columns: Columns | None, labels: bool, coding: Coding, grid: Grid
) -> Source:
    """Open files or a dataframe; what cannot be a table of transitions is refused."""
    connection: object = None
    columns = grid.columns(columns)
    if is_paths(source):
        files = open_files(source, columns, labels, coding)
        relation, found, origin, connection = files
        frame = lazy(relation)
    else:
        frame, found, origin = open_frame(source, columns)
    frame, found = _with_joint_state(frame, found, origin, coding)
    if coding.states and "outcome" not in found:
        raise ArgumentError(
            "`outcome` says what codes mean, but no column holds them: name it with "
            f"{column('outcome')}."
        )
    frame, wrong, levels = converted(frame, found, origin, coding)
    return Source(frame, found, origin, wrong, levels, connection, coding, grid)


def _with_joint_state(
    frame: Frame, found: dict[str, str], origin: str, coding: Coding
) -> tuple[Frame, dict[str, str]]:
    """Join the parts of a state, if it has any: 3 and f are 3/f."""
    import narwhals as nw

    parts = [role for role in found if role.startswith(PART)]
    if not parts:
        return frame, found
    with worded(origin):
        schema = frame.collect_schema()
        texts = []
        for part in parts:
            x, text = nw.col(part), nw.col(part).cast(nw.String)
            if schema[part].is_float():  # tables with gaps hold floats
                whole = x.cast(nw.Int64).cast(nw.String)
                text = nw.when(x == x.floor()).then(whole).otherwise(text)
            gone = ["", *coding.missing]
            texts.append(nw.when(~text.is_in(gone)).then(text).alias(part))
        frame = frame.with_columns(*texts)
        slashed = [how_many(nw.col(x).str.contains("/", literal=True)) for x in parts]
        asked = [n.alias(part) for n, part in zip(slashed, parts, strict=True)]
        for part, n in fetch_one(frame.select(*asked), origin).items():
            if n:
                raise CountsError(
                    f"Column `{found[part]}` of {origin} has the sign / in {int(n)} of "
                    "its rows, which joins columns to states: replace it there."
                )
        state = nw.concat_str(*parts, separator="/").alias("state")
        frame = frame.with_columns(state).drop(parts)
    joint = "/".join(found[x] for x in parts)
    others = {role: name for role, name in found.items() if role not in parts}
    return frame, {"state": joint, **others}


def prepare(
    source: Source, labels: bool, sizes: Sizes, told: Told
) -> tuple[int, Prepared | None]:
    """Return how many rows there are, and those that can be used; None: not any."""
    n_rows, roles, sound, n_sound, n_open = sound_rows(source, labels, sizes, told)
    if sound is None:
        return n_rows, None
    origin, coding = source.origin, source.coding
    where = () if told.reader else (FILE,)
    derive = "next_state" not in source.found
    frame = settled(sound, origin, coding, where, steps=derive or "step" in roles)
    found = {role: source.found[role] for role in roles}
    if derive or not told.reader:  # which both ask much of the same rows
        frame = held(frame, source.connection, origin, n_sound)
    if derive:
        return n_rows, _derived(frame, found, source, n_sound, told)
    if n_sound < n_rows:
        n_open = n_sound - size(frame, origin)
    rows = frame
    if n_open:
        rows = settled(sound, origin, coding, where, censored=True)
        told.tell(open_rows(n_open, n_sound, origin))
    if n_open == n_sound:
        if told.reader:
            raise CountsError(f"{told[-1].message}: no transition is left.")
        return n_rows, None
    n_kept = n_sound - n_open
    link = source.connection
    return n_rows, Prepared(rows, frame, found, n_kept, n_kept, None, link)


def sound_rows(
    source: Source, labels: bool, sizes: Sizes, told: Told
) -> tuple[int, list[str], Frame | None, int, int]:
    """Tell faults of columns and of rows, and keep what has none.

    Returns the number of rows, roles that can be used, sound rows and their number,
    and how many of all rows are censored.
    """
    told.tell(*source.faults)
    visits = source.grid.time is not None
    ordered = "next_state" not in source.found and not visits
    keys = (KEYS[0], "time") if visits else KEYS
    needed = TRIPLET if "next_state" in source.found else (*TRIPLET[:2], *keys)
    unfit = {fault.role for fault in source.faults}
    roles = [x for x in ROLES if x in source.found and x not in unfit]
    if told.reader and not ordered:  # then nothing depends on steps
        roles = [x for x in roles if x != "step"]
    frame, origin, coding = source.frame, source.origin, source.coding
    tests = row_tests(
        frame,
        tuple(roles),
        labels=labels,
        n_states=sizes[0],
        n_actions=sizes[1],
        coding=coding,
    )
    n_rows, counts = tally(frame, tests, origin, coding)
    for fault in faults(frame, tests, counts, source.found, origin, sizes, coding):
        loose = fault.role == "step" and not ordered
        told.tell(replace(fault, severity="warning") if loose else fault)
    n_codes = counts.get(("outcome", "code"), 0)
    told.tell(_codes(n_codes, source) if n_codes else None)
    n_open = counts.get(("next_state", "censored"), 0)
    if told.reader:
        return n_rows, roles, frame, n_rows, n_open
    if not ordered and any(n for (role, _), n in counts.items() if role == "step"):
        roles = [x for x in roles if x != "step"]
    if unfit.intersection(needed):
        told.tell(_UNCHECKED)
        return n_rows, roles, None, 0, 0
    bad = [x for key, x in tests.items() if counts[key] and key[0] in roles]
    n_sound = n_rows
    with worded(origin):
        frame = numbered(frame)
        if bad:
            frame = frame.filter(~reduce(or_, bad))
            n_sound = size(frame, origin)
        unused = [x for x in source.found if x not in roles]
        there = frame.collect_schema().names()
        frame = frame.select(*(x for x in there if x not in unused))
    if n_sound < n_rows:
        told.tell(_left_out(n_rows - n_sound, n_rows, "with errors"))
    return n_rows, roles, frame if n_sound else None, n_sound, n_open


def _derived(
    frame: Frame, found: dict[str, str], source: Source, n_rows: int, told: Told
) -> Prepared | None:
    """Find next states, in episodes where what follows what is known."""
    import narwhals as nw

    origin, link = source.origin, source.connection
    told.tell(shared_codes(frame, found, origin, source.coding))
    if source.grid.time is not None:
        steps = on_grid(frame, found, origin, source.grid)
        if isinstance(steps, Fault):
            told.tell(steps)
            return None
        told.tell(steps.note)
        frame, n_rows, found = steps.frame, steps.n_rows, steps.found
        link = steps.connection
    if told.reader:
        told.tell(repeated_steps(frame, found, origin, n_rows))
    elif some := list(repeats(frame, found, origin, n_rows)):
        with worded(origin):
            groups = frame.group_by(*KEYS).agg(nw.len().alias("n"))
            twice = groups.filter(nw.col("n") > 1).select("episode").unique()
            frame = frame.join(twice, on="episode", how="anti")
        left = size(frame, origin)
        which = "in episodes with such steps"
        told.tell(*some, _left_out(n_rows - left, n_rows, which))
        n_rows = left
    made = with_next_state(frame, found, origin, n_rows, source.coding)
    if not made.n_rows:
        if told.reader:
            raise CountsError(f"{made.note}: no transition is left.")
        said = f"{made.note}: no transition is left"
        remedy = "name the column of next states, or of outcomes"
        told.tell(Fault("no-transitions", None, n_rows, None, said, remedy))
        return None
    if made.censored and not told.reader:
        of = many(made.censored, "last row")
        said = f"{of} of an episode censored, with no next state recorded"
        told.tell(_note("censored-rows", made.censored, said, UNKNOWN))
    return Prepared(frame, made.frame, found, n_rows, made.n_rows, made, link)


def _note(code: str, n: int, said: str, remedy: str, role: str | None = None) -> Fault:
    return Fault(code, role, n, None, said, remedy, severity="note")


def _codes(n: int, source: Source) -> Fault:
    codes = said_codes(n, source.coding)
    column = f"Column `{source.found['outcome']}` of {source.origin}"
    codes_too = argument("missing")
    remedy = f"name codes that stand for no value as {codes_too}, if others do"
    said = f"{column} has {codes}, taken as no value"
    return _note("missing-values", n, said, remedy, "outcome")


def _left_out(n: int, n_rows: int, which: str) -> Fault:
    said = (
        f"The other checks left out {n} of {n_rows} rows, those {which}, which may "
        "look like gaps"
    )
    return _note("rows-left-out", n, said, "fix them and validate again")


_UNCHECKED = _note(
    "unchecked",
    1,
    "Other checks were left out: a column that they need is unfit",
    "fix it first",
)


def read_transitions(
    source: Any,
    *,
    columns: Columns | None = None,
    labels: bool = False,
    outcome: Mapping[Any, str | int] | None = None,
    censored: Labels = (),
    missing: Labels | None = None,
    time: str | None = None,
    every: float | None = None,
    carry: str = "last",
    limit: int | None = None,
    n_states: int | None = None,
    n_actions: int | None = None,
) -> Transitions:
    """Read logged transitions, however large, from files or a dataframe.

    The engine that holds the rows counts them; only distinct transitions, with how
    often they were observed and what they paid, reach Python. Rows in messages are
    counted from 0, headers aside.

    Parameters
    ----------
    source
        A path, a glob or a list of paths to CSV, Parquet or JSON (lines or an array);
        text may be compressed (``.gz``, ``.zst``). Or a dataframe: pandas, polars
        (eager or lazy), a pyarrow table, a DuckDB relation, an Ibis table.
    columns
        Which column is ``state`` (several are joined, ``{"state": ["stage", "sex"]}``,
        to states such as ``3/f``), ``action``, ``next_state``, ``reward``, ``episode``,
        ``step``, ``terminated``, ``truncated``, where its name does not say so
        (``state``, ``s``, ``obs``; ``next_state``, ``sp``; ``episode``,
        ``icustayid``; ``step``, ``bloc``; and others; case does not matter). Without
        a next state, it is the state of the same episode one step later, and of the
        last row the one in the column ``outcome``, empty where it is censored. Rows
        before a gap, and last ones without a next state, are left out of the counts and
        counted in ``notes``. Flags are True and False, or 0 and 1.
    labels
        Whether whole numbers are names, to be numbered in sorted order, as text
        always is (``w2`` before ``w10``; ordered categories as they are ordered);
        ``state_labels`` and ``action_labels`` keep them. Otherwise they are ids, and a
        gap is a state that was not visited. In text files, ``3E1``, ``1_2`` and ``007``
        are names, never numbers.
    outcome
        What the codes in the column ``outcome`` mean, such as ``{"2": "death", "0":
        "censored"}``: a state, or that the row is censored. Whole numbers are then
        names, as with ``labels``. Not needed where the column holds states itself.
    censored
        Labels in columns of states and outcomes that say that only the follow-up ended,
        such as ``["alive", "lost"]``; ``censored`` always does. They are no states: a
        row that leads to one is left out of the counts, as one that is ``truncated``
        and has no next state.
    missing
        Codes in columns of states, actions, outcomes and episodes that stand for no
        value, in place of ``NA``, ``NaN``, ``NULL`` and ``.``; an empty cell always
        does. ``()`` where those are names.
    time
        Column with the time of each visit, a number, where rows are visits and not
        steps; an action column is then not needed. Visits are held in memory.
    every
        Length of a step in the unit of ``time``: states and actions are carried forward
        to a grid that begins at the first visit of each episode. An ``outcome`` needs
        its time, ``columns={"outcome": "status", "end_time": "futime"}``; where the
        outcome is empty, or there is none, that is when the follow-up ended. ``notes``
        say how much was carried. Without it, a step is a visit, and the spacing is
        warned of.
    carry
        ``"last"``: between visits, the last observation is carried forward.
    limit
        Steps for which a visit is carried at most; later ones are left out until the
        next visit.
    n_states, n_actions
        Sizes; where not given, the task's sizes rule.

    Examples
    --------
    >>> import duckdb, bayesmdp as bm
    >>> ward = duckdb.sql(
    ...     "select * from (values ('icu', 'treat', 'ward'), ('icu', 'wait', 'icu'))"
    ...     " v(state, action, next_state)"
    ... )
    >>> log = bm.read_transitions(ward)  # or "ward.parquet", "logs/*.csv.gz", ...
    >>> log.n_rows, log.state_labels, log.action_labels
    (2, ('icu', 'ward'), ('treat', 'wait'))
    >>> log.counts().next_state.tolist()
    [1, 0]
    """
    n_states = _checks.size_or_none("n_states", n_states, CountsError)
    n_actions = _checks.size_or_none("n_actions", n_actions, CountsError)
    if not isinstance(labels, bool):
        raise ArgumentError(f"`labels` must be True or False; got {labels!r:.80}.")
    coding = Coding.of(censored, outcome, missing)
    labels = labels or bool(coding.states)
    grid = Grid.of(time, every, carry, limit)
    opened = open_source(source, columns, labels, coding, grid)
    told = Told(reader=True)
    ready = prepare(opened, labels, (n_states, n_actions), told)[1]
    assert ready is not None
    notes = [x.sentence if x.severity == "warning" else f"{x.message}." for x in told]
    loud = [x.sentence for x in told if x.severity == "warning"]
    if ready.derived is not None:
        notes.insert(0, f"{ready.derived.note}.")
        if ready.derived.lost or (ready.derived.gaps and limit is None):
            loud.append(notes[0])
    for note in loud:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    found, origin = ready.found, opened.origin
    table = FrameTable(
        ready.moves,
        origin,
        ready.n_moves,
        n_states,
        n_actions,
        labels,
        opened.levels,
        ready.connection,
    )
    if not labels:
        told.tell(*numbers_as_text(table.names, found, origin))
    for name, most in (("n_states", n_states), ("n_actions", n_actions)):
        names = table.state_labels if name == "n_states" else table.action_labels
        if most is not None and names is not None and len(names) > most:
            raise CountsError(
                f"`{name}` is {most}, but {origin} has {len(names)} of them."
            )
    labelled = table.state_labels, table.action_labels
    return Transitions(table, *labelled, tuple(notes), found)


def read_frame(
    data: Any, name: str = "data", *, labels: bool = False
) -> Transitions | Counts:
    """Return a log as it is, and a dataframe as `read_transitions` reads it."""
    if isinstance(data, Transitions | Counts):
        return data
    recognised(data, name, "Transitions (`read_transitions` reads files), Counts or ")
    return read_transitions(data, labels=labels)
