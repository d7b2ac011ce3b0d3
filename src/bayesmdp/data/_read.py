"""Transitions from files and dataframes."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bayesmdp import _checks
from bayesmdp.data._censoring import Coding, Labels
from bayesmdp.data._columns import FLAGS, TIMES, Columns
from bayesmdp.data._counts import Counts
from bayesmdp.data._derive import repeated_steps, shared_codes, with_next_state
from bayesmdp.data._faults import (
    IDS,
    Fault,
    faults,
    row_tests,
    said_codes,
    said_open,
    tally,
)
from bayesmdp.data._files import open_files
from bayesmdp.data._frames import (
    FrameTable,
    converted,
    open_frame,
    recognised,
    settled,
)
from bayesmdp.data._grid import Grid, on_grid
from bayesmdp.data._joint_state import with_joint_state
from bayesmdp.data._labels import Levels, numbers_as_text
from bayesmdp.data._paths import is_paths
from bayesmdp.data._queries import lazy
from bayesmdp.data._transitions import Transitions
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError

if TYPE_CHECKING:
    from bayesmdp.data._queries import Frame


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
        text may be packed (``.gz``, ``.zst``). Or a dataframe: pandas, polars (eager
        or lazy), a pyarrow table, a DuckDB relation, an Ibis table.
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
        outcome is empty, that is when the follow-up ended. ``notes`` say how much was
        carried. Without it, a step is a visit, and the spacing is warned of.
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
    source = open_source(source, columns, labels, coding, grid)
    found, origin = source.found, source.origin
    refuse(source.faults)
    n_rows, notes = check_rows(source, labels, n_states, n_actions)
    derive = "next_state" not in found
    frame = settled(source.frame, origin, source.coding, steps=derive)
    if derive:
        refuse([shared_codes(frame, found, origin, source.coding)])
        if grid.time is not None:
            steps = on_grid(frame, found, origin, grid)
            frame, n_rows, found = steps.frame, steps.n_rows, steps.found
            notes = (f"{steps.note}.", *notes)
            source = replace(source, connection=steps.connection)
            if grid.every is None:
                warnings.warn(notes[0], BayesmdpWarning, stacklevel=2)
        refuse([repeated_steps(frame, found, origin, n_rows)])
        derived = with_next_state(frame, found, origin, n_rows, source.coding)
        frame, n_rows = derived.frame, derived.n_rows
        if not n_rows:
            raise CountsError(f"{derived.note}: no transition is left.")
        notes = (f"{derived.note}.", *notes)
        if derived.lost or (derived.gaps and grid.limit is None):
            warnings.warn(notes[0], BayesmdpWarning, stacklevel=2)
    table = FrameTable(
        frame,
        origin,
        n_rows,
        n_states,
        n_actions,
        labels,
        source.levels,
        source.connection,
    )
    if not labels:
        refuse(numbers_as_text(table.names, found, origin))
    for name, size in (("n_states", n_states), ("n_actions", n_actions)):
        names = table.state_labels if name == "n_states" else table.action_labels
        if size is not None and names is not None and len(names) > size:
            raise CountsError(
                f"`{name}` is {size}, but {origin} has {len(names)} of them."
            )
    return Transitions(table, table.state_labels, table.action_labels, notes, found)


def read_frame(
    data: Any, name: str = "data", *, labels: bool = False
) -> Transitions | Counts:
    """Return a log as it is, and a dataframe as `read_transitions` reads it."""
    if isinstance(data, Transitions | Counts):
        return data
    recognised(data, name, "Transitions (`read_transitions` reads files), Counts or ")
    return read_transitions(data, labels=labels)


@dataclass(frozen=True, eq=False)
class Source:
    """A table that can be asked; its columns are named by role, its rows unchecked."""

    frame: "Frame"
    found: dict[str, str]  # the column of each role that has one
    origin: str
    faults: list[Fault]  # of whole columns
    levels: Levels
    connection: object = None  # kept open, for files
    coding: Coding = field(default_factory=Coding)
    grid: Grid = field(default_factory=Grid)


def open_source(
    source: Any,
    columns: Columns | None,
    labels: bool,
    coding: Coding,
    grid: Grid,
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
    frame, found = with_joint_state(frame, found, origin, coding)
    if coding.states and "outcome" not in found:
        raise ArgumentError(
            "`outcome` says what codes mean, but no column holds them: name it with "
            "columns={'outcome': ...}."
        )
    frame, wrong, levels = converted(frame, found, origin, coding)
    return Source(frame, found, origin, wrong, levels, connection, coding, grid)


def check_rows(
    source: Source, labels: bool, n_states: int | None, n_actions: int | None
) -> tuple[int, tuple[str, ...]]:
    """Refuse the first fault of any row, or return how many rows to keep, and notes."""
    known = (*IDS, "reward", "episode", *FLAGS, *TIMES)
    roles = [x for x in known if x in source.found]
    if not {"next_state", "time"} & source.found.keys():
        roles.append("step")
    tests = row_tests(
        source.frame,
        tuple(roles),
        labels=labels,
        n_states=n_states,
        n_actions=n_actions,
        coding=source.coding,
    )
    n_rows, counts = tally(source.frame, tests, source.origin, source.coding)
    sizes = (n_states, n_actions)
    where = (source.found, source.origin)
    refuse(faults(source.frame, tests, counts, *where, sizes, source.coding))
    n_codes = counts.get(("outcome", "code"), 0)
    column = f"Column `{source.found.get('outcome')}` of {source.origin}"
    notes = [
        f"{column} has {said_codes(n_codes, source.coding)}, taken as no value."
    ] * bool(n_codes)
    n_open = counts.get(("next_state", "censored"), 0)
    if n_open:
        notes.append(f"{said_open(n_open, n_rows, source.origin)}.")
    if n_open == n_rows:
        raise CountsError(f"{notes[-1][:-1]}: no transition is left.")
    return n_rows - n_open, tuple(notes)


def refuse(found: Iterable[Fault | None]) -> None:
    """Raise the first fault, if there is one."""
    for fault in found:
        if fault is not None:
            raise fault.refusal()
