"""Tables as the AI Clinician writes them: ids from 1, time as blocs, a flag for death.

Komorowski et al., *The Artificial Intelligence Clinician learns optimal treatment
strategies for sepsis in intensive care*, Nature Medicine 24:1716, 2018. A row is four
hours of a stay. The last row of a stay leads to one of two states that are appended,
death before survival, as in the published code.
"""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayesmdp import _checks
from bayesmdp.data._censoring import Coding
from bayesmdp.data._derive import repeated_steps, with_next_state
from bayesmdp.data._files import open_files
from bayesmdp.data._frames import FrameTable, converted, open_frame, settled
from bayesmdp.data._paths import is_paths
from bayesmdp.data._queries import (
    fetch,
    fetch_one,
    first_bad,
    how_many,
    lazy,
    worded,
    zero_or_one,
)
from bayesmdp.data._read import Source, check_rows, refuse
from bayesmdp.data._transitions import Transitions
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError

if TYPE_CHECKING:
    from bayesmdp.data._queries import Frame


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
    n_states = _checks.size_or_none("n_states", n_states, ArgumentError)
    n_actions = _checks.size_or_none("n_actions", n_actions, ArgumentError)
    check_ends(death, survival)
    frame, found, origin, connection = _opened(source, outcome, columns)
    frame, wrong, _ = converted(
        _as_numbers(frame, found, origin), found, origin, Coding()
    )
    refuse(wrong)
    table = Source(frame, found, origin, wrong, {}, connection)
    n_rows, _ = check_rows(table, labels=False, n_states=None, n_actions=None)
    frame = settled(frame, origin, table.coding, steps=True)
    refuse([repeated_steps(frame, found, origin, n_rows)])
    sizes = {
        "state": _size(frame, "state", n_states, found, origin),
        "action": _size(frame, "action", n_actions, found, origin),
    }
    _check_outcome(frame, found, origin)
    _refuse_changes(frame, found, origin)
    died, late = _tally(frame, origin)
    n_live = sizes["state"]
    zeroed = _from_zero(frame, n_live)
    derived = with_next_state(zeroed, found, origin, n_rows, table.coding)
    note = f"{derived.note}."
    if derived.gaps:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    said = (
        f"States and actions of {origin} count from 1, here from 0: its numbers are "
        f"kept as names. {death!r} is state {n_live} ({died[1]} stays), {survival!r} "
        f"state {n_live + 1} ({died[0]} stays)."
    )
    begun = [f"{late} stays do not begin with `{found['step']}` 1."] if late else []
    rows = FrameTable(
        _with_ends(derived.frame, n_live),
        origin,
        derived.n_rows,
        n_live + 2,
        sizes["action"],
        False,
        connection=connection,
    )
    states, actions = (tuple(str(i + 1) for i in range(sizes[x])) for x in sizes)
    notes = (note, said, *begun)
    return Transitions(rows, (*states, death, survival), actions, notes, found)


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


def _opened(
    source: Any, outcome: object, columns: Mapping[str, str] | None
) -> tuple["Frame", dict[str, str], str, object]:
    """Open files or a frame, with the outcome as one of the roles."""
    if not isinstance(outcome, str):
        raise ArgumentError(f"`outcome` must name a column; got {outcome!r:.40}.")
    named = columns
    if columns is None or isinstance(columns, Mapping):
        named = {"outcome": outcome, **(columns or {})}
    if is_paths(source):
        relation, found, origin, connection = open_files(source, named, False, Coding())
        return lazy(relation), found, origin, connection
    return (*open_frame(source, named), None)


def _as_numbers(frame: "Frame", found: Mapping[str, str], origin: str) -> "Frame":
    """Refuse names, and take flags of an outcome as 0 and 1."""
    import narwhals as nw

    with worded(origin):
        schema = frame.collect_schema()
    for role, wanted in (
        ("state", "whole numbers from 1"),
        ("action", "whole numbers from 1"),
        ("outcome", "1 for death and 0 for survival"),
    ):
        kind = schema[role]
        if not (kind.is_numeric() or (role == "outcome" and kind == nw.Boolean)):
            raise CountsError(
                f"Column `{found[role]}` of {origin} must hold {wanted}; it holds "
                f"{kind}: convert it (`read_transitions` reads names)."
            )
    if schema["outcome"] != nw.Boolean:
        return frame
    return frame.with_columns(zero_or_one(nw.col("outcome")).alias("outcome"))


def _size(
    frame: "Frame", role: str, given: int | None, found: Mapping[str, str], origin: str
) -> int:
    """Return the largest id, or the size given, after checking that ids fit it."""
    import narwhals as nw

    column = f"Column `{found[role]}` of {origin}"
    x = nw.col(role)
    with worded(origin):
        query = frame.select(x.min().alias("low"), x.max().alias("high"))
    limits = fetch_one(query, origin)
    if limits["low"] < 1:
        first = first_bad(frame, x < 1, [role], origin)
        raise CountsError(
            f"{column} must count from 1: {first.where} has "
            f"{int(first.values[role])}; add 1 to a table "
            "that counts from 0."
        )
    if given is not None and limits["high"] > given:
        first = first_bad(frame, x > given, [role], origin)
        raise CountsError(
            f"{column} must be at most {given}, the number given as `n_{role}s`: "
            f"{first.where} has {int(first.values[role])}."
        )
    return int(limits["high"]) if given is None else given


def _check_outcome(frame: "Frame", found: Mapping[str, str], origin: str) -> None:
    """Refuse an outcome that is not a flag."""
    import narwhals as nw

    column = f"Column `{found['outcome']}` of {origin}"
    x = nw.col("outcome")
    missing = x.is_null()
    if frame.collect_schema()["outcome"].is_float():
        missing = missing | x.is_nan()
    odd = ~missing & (x != 0) & (x != 1)
    with worded(origin):
        query = frame.select(
            how_many(missing).alias("missing"), how_many(odd).alias("odd")
        )
    tally = fetch_one(query, origin)
    for name, bad in (("missing", missing), ("odd", odd)):
        if int(tally[name] or 0):
            first = first_bad(frame, bad, ["outcome"], origin)
            value = first.values["outcome"]
            said = "no value" if name == "missing" else f"{value:g}"
            raise CountsError(
                f"{column} must be 1 for death and 0 for survival: {first.where} has "
                f"{said} "
                f"(one of {int(tally[name])} such rows); fix or drop these stays."
            )


def _refuse_changes(frame: "Frame", found: Mapping[str, str], origin: str) -> None:
    import narwhals as nw

    x = nw.col("outcome")
    with worded(origin):
        stays = frame.group_by("episode").agg(
            x.min().alias("low"), x.max().alias("high")
        )
        mixed = stays.filter(nw.col("low") != nw.col("high"))
        query = mixed.select(
            nw.len().alias("n"), nw.col("episode").min().alias("first")
        )
    changing = fetch_one(query, origin)
    if int(changing["n"]):
        raise CountsError(
            f"Column `{found['outcome']}` of {origin} must not change within a "
            f"stay: `{found['episode']}` {changing['first']} has 0 and 1 (one of "
            f"{int(changing['n'])} such stays)."
        )


def _tally(frame: "Frame", origin: str) -> tuple[list[int], int]:
    """Count stays that ended in survival, in death, and that begin late."""
    import narwhals as nw

    with worded(origin):
        stays = frame.group_by("episode").agg(
            nw.col("outcome").max(), nw.col("step").min()
        )
        late = zero_or_one(nw.col("step") != 1)
        query = (
            stays.select("outcome", late.alias("late"))
            .group_by("outcome")
            .agg(nw.len().alias("n"), nw.col("late").sum())
        )
    groups = fetch(query, origin)
    died = [0, 0]
    for flag, n in zip(groups["outcome"], groups["n"], strict=True):
        died[int(flag)] = int(n)
    return died, int(groups["late"].sum())


def _from_zero(frame: "Frame", n_live: int) -> "Frame":
    """Count from 0, and turn the flag into the state that a stay ends in."""
    import narwhals as nw

    ends = n_live + 1 - nw.col("outcome").cast(nw.Int64)
    return frame.with_columns(
        nw.col("state") - 1, nw.col("action") - 1, ends.alias("outcome")
    )


def _with_ends(frame: "Frame", n_live: int) -> "Frame":
    """Flag the rows that a stay ends with."""
    import narwhals as nw

    return frame.with_columns((nw.col("next_state") >= n_live).alias("terminated"))
