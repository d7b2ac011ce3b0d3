"""Transitions from files and dataframes."""

import warnings
from collections.abc import Mapping
from typing import Any

from bayesmdp import _checks
from bayesmdp.data._censoring import Coding, Labels
from bayesmdp.data._columns import Columns
from bayesmdp.data._counts import Counts
from bayesmdp.data._frames import FrameTable, recognised
from bayesmdp.data._grid import Grid
from bayesmdp.data._labels import numbers_as_text
from bayesmdp.data._prepare import Told, open_source, prepare
from bayesmdp.data._transitions import Transitions
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError


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
    for name, size in (("n_states", n_states), ("n_actions", n_actions)):
        names = table.state_labels if name == "n_states" else table.action_labels
        if size is not None and names is not None and len(names) > size:
            raise CountsError(
                f"`{name}` is {size}, but {origin} has {len(names)} of them."
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
