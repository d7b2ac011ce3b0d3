"""Look at a log before believing what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bayesmdp import _checks
from bayesmdp.data._columns import Coding, Columns, Grid, Labels, Levels, names_in
from bayesmdp.data._findings import (
    SEVERITIES,
    Fault,
    Finding,
    Findings,
    numbers_as_text,
)
from bayesmdp.data._frames import FrameTable
from bayesmdp.data._log_checks import run_checks
from bayesmdp.data._log_facts import KnownTask, Log, fetch_groups
from bayesmdp.data._queries import connect, lazy
from bayesmdp.data._read import Sizes, Source, Told, open_source, prepare
from bayesmdp.data._transitions import ArrayTable, Transitions
from bayesmdp.errors import ArgumentError


def validate(
    data: Any,
    task: KnownTask | None = None,
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
    min_count: int = 5,
) -> Findings:
    """Look for errors and oddities in a table of transitions.

    Everything that `read_transitions` would refuse is reported at once, with how often
    and where first; the other checks then use the remaining rows. The engine that holds
    the rows does the work, in a few passes.

    Parameters
    ----------
    data
        `Transitions`, or what `read_transitions` takes: paths or a dataframe. Data that
        cannot be read as a table, such as a missing file, raise an error as there.
    task
        The task that the data are for, a `bayesmdp.Task`: its sizes, labels, terminal
        states and rewards are then compared with the data.
    columns, labels, outcome, censored, missing, time, every, carry, limit
        As for `read_transitions`.
    n_states, n_actions
        Sizes, where there is no task.
    min_count
        Pairs of state and action observed fewer times are reported.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.Transitions.from_arrays(
    ...     [0, 1, 0], [0, 1, 0], [1, 0, 1], episode=[0, 0, 0], step=[0, 1, 3]
    ... )
    >>> found = bm.validate(log, min_count=1)
    >>> [(x.severity, x.code, x.where) for x in found]
    [('warning', 'step-gaps', 'row 1, episode 0, step 1, state 1, action 1, ...
    """
    min_count = _checks.integer("min_count", min_count, 0, ArgumentError)
    if not isinstance(labels, bool):
        raise ArgumentError(f"`labels` must be True or False; got {labels!r:.80}.")
    sizes = _sizes(task, n_states, n_actions)
    coding = Coding.of(censored, outcome, missing)
    grid = Grid.of(time, every, carry, limit)
    names: dict[str, Any] = {}
    told = Told(reader=False)
    if isinstance(data, Transitions):
        if columns is not None or labels or coding != Coding() or grid != Grid():
            raise ArgumentError(
                "`columns`, `labels`, `outcome`, `censored`, `missing` and `time` are "
                "for reading; `data` has been read already."
            )
        source, labels, sizes = _as_read(data, task, sizes)
        names = {"state": data.state_labels, "action": data.action_labels}
        told.tell(*map(_read_note, data.notes))
    else:
        labels = labels or bool(coding.states)
        source = open_source(data, columns, labels, coding, grid)
    n_rows, ready = prepare(source, labels, sizes, told)
    findings = [fault.finding(source.found) for fault in told]
    if ready is not None:
        groups = fetch_groups(ready, source.origin, labels, source.levels, names)
        whole = n_rows == ready.n_moves
        cut = isinstance(data, Transitions) and bool(data.notes)
        log = Log(ready, source.origin, sizes, task, min_count, groups, whole, cut)
        text = (None, None) if labels else names_in(groups.raw, False, source.levels)
        more = [*numbers_as_text(text, ready.found, source.origin), *run_checks(log)]
        made = [fault.finding(ready.found) for fault in more]
        findings += made if time is None else map(_unnumbered, made)
    if isinstance(data, Transitions) and data.notes:  # rows are not those of the source
        findings = [_unnumbered(x) for x in findings]
    if limit is not None:  # gaps are what was asked for
        findings = [x for x in findings if x.code != "step-gaps"]
    findings.sort(key=lambda x: (SEVERITIES.index(x.severity), x.code, x.column or ""))
    return Findings(tuple(findings), n_rows, source.origin)


def _sizes(
    task: KnownTask | None, n_states: int | None, n_actions: int | None
) -> Sizes:
    n_states = _checks.size_or_none("n_states", n_states, ArgumentError)
    n_actions = _checks.size_or_none("n_actions", n_actions, ArgumentError)
    if task is None:
        return n_states, n_actions
    if not isinstance(task, KnownTask):
        raise ArgumentError(f"`task` must be a Task; got {type(task).__name__}.")
    if n_states is not None or n_actions is not None:
        raise ArgumentError(
            "`n_states` and `n_actions` are for tables without a task; `task` has its "
            "own."
        )
    return task.n_states, task.n_actions


def _as_read(
    data: Transitions, task: KnownTask | None, sizes: Sizes
) -> tuple[Source, bool, Sizes]:
    """Open what was read before, with what is known of its names and sizes."""
    table, labels = data.table, False
    levels: Levels = {}
    if isinstance(table, FrameTable):
        frame, origin, link = table.frame, table.origin, table.connection
        labels, levels = table.labels, table.levels
    elif isinstance(table, ArrayTable):
        connection = connect()
        connection.register("log", table.columns)  # arrays are looked at where they are
        frame, origin = lazy(connection.sql("from log")), "the arrays in memory"
        link = connection
    else:
        raise ArgumentError(
            f"`data` holds a {type(table).__name__}, whose rows cannot be looked at: "
            "give files, a dataframe or arrays."
        )
    if task is None:
        sizes = sizes[0] or table.n_states, sizes[1] or table.n_actions
    found = {role: role for role in frame.collect_schema().names()}
    return Source(frame, found, origin, [], levels, link), labels, sizes


def _unnumbered(found: Finding) -> Finding:
    """Leave out the number of a row, which would be taken for one of the source."""
    where = found.where.removeprefix(f"row {found.first_row}, ")
    return replace(found, first_row=None, where=where)


def _read_note(note: str) -> Fault:
    remedy = "validate the source itself to see which rows"
    said = note.rstrip(".")
    return Fault("read-with-notes", None, 1, None, said, remedy, severity="note")
