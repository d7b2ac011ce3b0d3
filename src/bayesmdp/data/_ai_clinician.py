"""Tables as the AI Clinician writes them: ids from 1, time as blocs, a flag for death.

Komorowski et al., *The Artificial Intelligence Clinician learns optimal treatment
strategies for sepsis in intensive care*, Nature Medicine 24:1716, 2018. A row is four
hours of a stay. The last row of a stay leads to one of two states that are appended,
death before survival, as in the published code.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bayesmdp import _checks
from bayesmdp.data._columns import Coding, Grid
from bayesmdp.data._frames import FrameTable
from bayesmdp.data._queries import fetch_one, first_bad, how_many, worded
from bayesmdp.data._read import Source, Told, open_source, prepare, sound_rows
from bayesmdp.data._transitions import Transitions
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError

if TYPE_CHECKING:
    import narwhals as nw


def read_ai_clinician(
    source: Any,
    *,
    outcome: str = "outcome",
    death: str = "death",
    survival: str = "survival",
    columns: Mapping[str, str] | None = None,
    n_states: int | None = None,
    n_actions: int | None = None,
) -> Transitions:
    """Read a table of the AI Clinician: ``bloc, icustayid, state, action, outcome``.

    States and actions count from 1 there, and from 0 in the result; their numbers in
    the table stay as ``state_labels`` and ``action_labels``. The next state is the
    state of the same stay one bloc later; a gap is a missing row and is not bridged;
    the last row of a stay leads to ``death`` or ``survival``. ``notes`` says what was
    done, in figures. The engine that holds the rows does all of it.

    Parameters
    ----------
    source
        Files or a dataframe, as for `read_transitions`.
    outcome
        The column that is 1 in every row of those who died, and 0 in all others:
        ``outcome``, ``mortality_90d``, ``died_in_hosp``, ...
    death, survival
        Names of the two terminal states that are appended, in this order.
    columns
        Which column is ``state``, ``action``, ``episode``, ``step``, ``reward``, where
        it is not called ``state``, ``action``, ``icustayid``, ``bloc``, ``reward``.
    n_states, n_actions
        How many states (the terminal ones apart) and actions the table knows, 750 and
        25 in the publication; where not given, the largest number in it.

    Examples
    --------
    >>> import duckdb, bayesmdp as bm
    >>> stays = duckdb.sql(
    ...     "select * from (values (1, 7, 2, 5, 0), (2, 7, 3, 1, 0), (1, 8, 3, 1, 1))"
    ...     " v(bloc, icustayid, state, action, died)"
    ... )
    >>> log = bm.data.read_ai_clinician(stays, outcome="died")
    >>> log.state_labels
    ('1', '2', '3', 'death', 'survival')
    >>> counts = log.counts()
    >>> counts.state.tolist(), counts.action.tolist(), counts.next_state.tolist()
    ([1, 2, 2], [4, 0, 0], [2, 3, 4])
    """
    given = {
        "state": _checks.size_or_none("n_states", n_states, ArgumentError),
        "action": _checks.size_or_none("n_actions", n_actions, ArgumentError),
    }
    check_ends(death, survival)
    if not isinstance(outcome, str):
        raise ArgumentError(f"`outcome` must name a column; got {outcome!r:.40}.")
    named = columns
    if columns is None or isinstance(columns, Mapping):
        named = {"outcome": outcome, **(columns or {})}
    ends = Coding.of((), {1: death, 0: survival})
    table = open_source(source, named, False, ends, Grid())
    told = Told(reader=True)
    found, origin = table.found, table.origin
    sizes, stays = _looked_at(table, given, told)
    ready = prepare(table, False, (None, None), told)[1]
    assert ready is not None
    assert ready.derived is not None
    n_live = sizes["state"]
    notes = [
        f"{ready.derived.note}.",
        f"States and actions of {origin} count from 1, here from 0: its numbers are "
        f"kept as names. {death!r} is state {n_live} ({stays['died']} stays), "
        f"{survival!r} state {n_live + 1} ({stays['n'] - stays['died']} stays).",
    ]
    if ready.derived.gaps:
        warnings.warn(notes[0], BayesmdpWarning, stacklevel=2)
    if stays["late"]:
        notes.append(f"{stays['late']} stays do not begin with `{found['step']}` 1.")
    live, actions = (tuple(str(i + 1) for i in range(n)) for n in sizes.values())
    states = (*live, death, survival)
    rows = FrameTable(
        _with_ends(ready.moves, death, survival),
        origin,
        ready.n_moves,
        len(states),
        sizes["action"],
        False,
        {"state": states},
        ready.connection,
    )
    return Transitions(rows, states, actions, tuple(notes), found)


def check_ends(death: object, survival: object) -> None:
    """Refuse names of terminal states that cannot be told from others."""
    for name, value in (("death", death), ("survival", survival)):
        if not isinstance(value, str) or not value.strip() or value.strip().isdigit():
            raise ArgumentError(
                f"`{name}` must name a terminal state, and not by a number; got "
                f"{value!r:.40}."
            )
    if death == survival:
        raise ArgumentError(f"`death` and `survival` are both called {death!r}.")


def _with_ends(frame: nw.LazyFrame[Any], *ends: str) -> nw.LazyFrame[Any]:
    """Count actions from 0, and flag the rows that a stay ends with."""
    import narwhals as nw

    ended = nw.col("next_state").is_in(ends).alias("terminated")
    return frame.with_columns(nw.col("action") - 1, ended)


def _looked_at(
    table: Source, given: Mapping[str, int | None], told: Told
) -> tuple[dict[str, int], dict[str, int]]:
    """Refuse what such a table may not hold; return sizes, and figures of stays."""
    import narwhals as nw

    frame, found, origin = table.frame, table.found, table.origin
    schema = frame.collect_schema()
    flags = "1 for death and 0 for survival"
    for role in ("state", "action", "outcome"):
        wanted = flags if role == "outcome" else "whole numbers from 1"
        if not schema[role].is_numeric():
            raise CountsError(
                f"Column `{found[role]}` of {origin} must hold {wanted}; it holds "
                f"{schema[role]}: convert it (`read_transitions` reads names)."
            )
    sound_rows(replace(table, coding=Coding()), False, (None, None), told)
    x = nw.col("outcome")
    odd = x.is_null() | ((x != 0) & (x != 1))
    odd = odd | x.is_nan() if schema["outcome"].is_float() else odd
    _refuse(table, "outcome", odd, f"must be {flags}", "fix or drop these stays")
    sizes = {}
    for role, most in given.items():
        x = nw.col(role)
        remedy = "add 1 to a table that counts from 0"
        _refuse(table, role, x < 1, "must count from 1", remedy)
        if most is not None:
            said = f"must be at most {most}, the number given as `n_{role}s`"
            _refuse(table, role, x > most, said, "give the size that they need")
        largest = fetch_one(frame.select(x.max().alias("n")), origin)
        sizes[role] = most or int(largest["n"])
    return sizes, _stays(table)


def _refuse(table: Source, role: str, bad: nw.Expr, said: str, remedy: str) -> None:
    """Refuse rows, with how many there are and the first."""
    origin = table.origin
    with worded(origin):
        query = table.frame.select(how_many(bad.fill_null(True)).alias("n"))
    n = int(fetch_one(query, origin)["n"])
    if n:
        first = first_bad(table.frame, bad, [role], origin)
        value = first.values[role]
        none = value is None or value != value
        raise CountsError(
            f"Column `{table.found[role]}` of {origin} {said}: {first.where} has "
            f"{'no value' if none else f'{value:g}'} (one of {n} such rows); {remedy}."
        )


def _stays(table: Source) -> dict[str, int]:
    """Count stays, those that ended in death, and those that do not begin with 1."""
    import narwhals as nw

    found, origin = table.found, table.origin
    x = nw.col("outcome")
    with worded(origin):
        stays = table.frame.group_by("episode").agg(
            x.min().alias("low"), x.max().alias("high"), nw.col("step").min()
        )
        mixed = nw.col("low") != nw.col("high")
        first = nw.when(mixed).then(nw.col("episode")).alias("first")
        query = stays.with_columns(first).select(
            nw.len().alias("n"),
            how_many(nw.col("high") == 1).alias("died"),
            how_many(nw.col("step") != 1).alias("late"),
            how_many(mixed).alias("mixed"),
            nw.col("first").min(),  # a float beside what is missing
        )
    told = fetch_one(query, origin)
    if told["mixed"]:
        raise CountsError(
            f"Column `{found['outcome']}` of {origin} must not change within a stay: "
            f"`{found['episode']}` {_plain(told['first'])} has 0 and 1 (one of "
            f"{int(told['mixed'])} such stays)."
        )
    return {name: int(told[name]) for name in ("n", "died", "late")}


def _plain(value: Any) -> Any:
    """Say a whole number without its point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
