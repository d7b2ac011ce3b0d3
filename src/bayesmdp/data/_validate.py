"""Look at a log before believing what comes out of it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray
from bayesmdp.data._censoring import Coding, Labels
from bayesmdp.data._columns import Columns
from bayesmdp.data._derive import shared_codes
from bayesmdp.data._frames import FrameTable
from bayesmdp.data._grid import Grid
from bayesmdp.data._labels import names_in, numbers_as_text
from bayesmdp.data._transitions import ArrayTable, Transitions
from bayesmdp.data._validate_episodes import check_episodes, first_states
from bayesmdp.data._validate_groups import (
    Groups,
    Names,
    check_actions,
    check_columns,
    check_names,
    check_rewards,
    check_states,
    fetch_groups,
)
from bayesmdp.data._validate_open import (
    Subject,
    as_source,
    finding,
    from_fault,
    open_subject,
)
from bayesmdp.data._validate_record import SEVERITIES, Finding, Findings
from bayesmdp.data._validate_task import (
    KnownTask,
    check_flags,
    check_paid,
    check_terminal,
    match_labels,
    terminal_states,
)
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
    """Look for what is wrong, or odd, in a table of transitions.

    What `read_transitions` would refuse is found all at once, with how often and
    where first; the other checks then go on with the rows that are sound. The engine
    that holds the rows does the work, in a few passes.

    Parameters
    ----------
    data
        `Transitions`, or what `read_transitions` takes: paths or a dataframe. What is
        no table at all, such as a file that is not there, is an error as there.
    task
        The task that the data are for, a `bayesmdp.Task`: its sizes, labels, terminal
        states and rewards are then held against the data.
    columns, labels, outcome, censored, missing, time, every, carry, limit
        As for `read_transitions`.
    n_states, n_actions
        Sizes, where there is no task.
    min_count
        Pairs of state and action observed fewer times are told.

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
    source = as_source(data, columns, labels or bool(coding.states), coding, grid)
    labels = labels or bool(coding.states)
    names: tuple[Names, Names] = None, None
    if isinstance(data, Transitions):
        labels, sizes = _as_read(data, task, sizes)
        names = data.state_labels, data.action_labels
    n_rows, told, subject = open_subject(source, labels, sizes)
    if isinstance(data, Transitions):
        told += [_read_note(note) for note in data.notes]
    if subject is not None:
        derived = subject.derived
        whole = n_rows == (subject.n_rows if derived is None else derived.n_rows)
        more = _checks_of(subject, names, task, min_count, whole, source.coding)
        told += more if time is None else map(_unnumbered, more)
    if isinstance(data, Transitions) and data.notes:  # rows are not those of the source
        told = [_unnumbered(x) for x in told]
    if limit is not None:  # gaps are what was asked for
        told = [x for x in told if x.code != "step-gaps"]
    told.sort(key=lambda x: (SEVERITIES.index(x.severity), x.code, x.column or ""))
    return Findings(tuple(told), n_rows, source.origin)


def _sizes(
    task: KnownTask | None, n_states: int | None, n_actions: int | None
) -> tuple[int | None, int | None]:
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
    data: Transitions, task: KnownTask | None, sizes: tuple[int | None, int | None]
) -> tuple[bool, tuple[int | None, int | None]]:
    """Say whether numbers are names, and the sizes, where nothing else says them."""
    table = data.table
    labels = isinstance(table, FrameTable) and table.labels
    if task is None and isinstance(table, FrameTable | ArrayTable):
        said = table.n_states, table.n_actions
        sizes = sizes[0] or said[0], sizes[1] or said[1]
    return labels, sizes


def _unnumbered(found: Finding) -> Finding:
    """Leave out the number of a row, which would be taken for one of the source."""
    where = found.where.removeprefix(f"row {found.first_row}, ")
    return replace(found, first_row=None, where=where)


def _read_note(note: str) -> Finding:
    remedy = "validate the source itself to see which rows"
    return finding("read-with-notes", "note", 1, note.rstrip("."), remedy)


def _checks_of(
    subject: Subject,
    names: tuple[Names, Names],
    task: KnownTask | None,
    min_count: int,
    whole: bool,
    coding: Coding,
) -> Iterator[Finding]:
    """Run every check of sound rows; names are those that the table itself lacks."""
    groups = fetch_groups(subject, names)
    if not subject.labels:
        text = names_in(groups.raw, False, subject.levels)
        for fault in numbers_as_text(text, subject.found, subject.origin):
            yield from_fault(fault, subject.found)
    yield from check_columns(subject, groups, whole)
    yield from check_names(subject, groups)
    if subject.derived is not None:
        shared = shared_codes(subject.rows, subject.found, subject.origin, coding)
        if shared is not None:
            yield from_fault(shared, subject.found)
    yield from check_rewards(subject, groups)
    unknown, groups = match_labels(subject, groups, task)
    yield from unknown
    if not groups.count.size:
        return
    yield from check_actions(subject, groups, min_count)
    terminal = terminal_states(subject, groups, task)
    yield from check_states(subject, groups, terminal, _starts(subject, groups, task))
    yield from check_flags(subject, groups, task)
    if terminal is not None:
        yield from check_terminal(subject, groups, task, terminal)
    if task is not None:
        yield from check_paid(subject, groups, task)
    yield from check_episodes(subject, groups, terminal)


def _starts(
    subject: Subject, groups: Groups, task: KnownTask | None
) -> BoolArray | None:
    """Mask of states in which episodes begin, by the task and by the log; or None."""
    seen = first_states(subject, groups)
    if task is None:
        return seen
    said = np.asarray(task.start) > 0
    if seen is not None:
        said[: seen.size] |= seen
    return said
