"""Transitions from files and dataframes."""

import warnings
from collections.abc import Mapping
from typing import Any

from bayesmdp import _checks
from bayesmdp.data._derive import with_next_state
from bayesmdp.data._files import is_paths, open_files
from bayesmdp.data._frames import (
    FrameTable,
    check_frame,
    converted,
    open_frame,
    refuse_numbers_as_text,
    settled,
)
from bayesmdp.data._queries import lazy
from bayesmdp.data._transitions import Transitions
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError


def read_transitions(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    labels: bool = False,
    n_states: int | None = None,
    n_actions: int | None = None,
) -> Transitions:
    """Read logged transitions, however large, from files or a dataframe.

    The engine that holds the rows counts them; only distinct transitions, with how
    often they were seen and what they paid, reach Python. Rows in messages are
    counted from 0, headers aside.

    Parameters
    ----------
    source
        A path, a glob or a list of paths to CSV, Parquet or JSON (lines or an array);
        text may be packed (``.gz``, ``.zst``). Or a dataframe: pandas, polars (eager
        or lazy), a pyarrow table, a DuckDB relation, an Ibis table.
    columns
        Which column is ``state``, ``action``, ``next_state``, ``reward``, ``episode``,
        ``step``, ``terminated``, ``truncated``, where its name does not say so
        (``state``, ``s``, ``obs``; ``next_state``, ``sp``; ``episode``,
        ``icustayid``; ``step``, ``bloc``; and others; case does not matter). Without
        a next state, it is the state of the same episode one step later; rows before
        a gap, and last ones, are dropped, counted in ``notes`` and warned of, unless
        ``outcome`` names a column with the state that the last row led to.
    labels
        Whether whole numbers are names, to be numbered in sorted order, as text
        always is; ``state_labels`` and ``action_labels`` keep them. Otherwise they
        are ids, and a gap is a state that was not visited.
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
    n_states = _checks.size("n_states", n_states, CountsError)
    n_actions = _checks.size("n_actions", n_actions, CountsError)
    if not isinstance(labels, bool):
        raise ArgumentError(f"`labels` must be True or False; got {labels!r:.80}.")
    connection: object = None
    if is_paths(source):
        relation, found, origin, connection = open_files(source, columns, labels)
        frame = lazy(relation)
    else:
        frame, found, origin = open_frame(source, columns)
    frame = converted(frame, found, origin)
    n_rows = check_frame(
        frame, found, origin, labels=labels, n_states=n_states, n_actions=n_actions
    )
    frame = settled(frame, origin)
    notes: tuple[str, ...] = ()
    if "next_state" not in found:
        frame, n_rows, note, dropped = with_next_state(frame, found, origin, n_rows)
        notes = (note,)
        if dropped:
            warnings.warn(note, BayesmdpWarning, stacklevel=2)
    table = FrameTable(frame, origin, n_rows, n_states, n_actions, labels, connection)
    if not labels:
        refuse_numbers_as_text(table, found)
    for name, size in (("n_states", n_states), ("n_actions", n_actions)):
        names = table.state_labels if name == "n_states" else table.action_labels
        if size is not None and names is not None and len(names) > size:
            raise CountsError(
                f"`{name}` is {size}, but {origin} has {len(names)} of them."
            )
    return Transitions(table, table.state_labels, table.action_labels, notes, found)
