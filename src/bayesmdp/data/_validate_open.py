"""The table that `validate` looks at: what readers refuse is found, the rest kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from bayesmdp._checks import many
from bayesmdp.data._censoring import Coding
from bayesmdp.data._columns import Columns
from bayesmdp.data._derive import (
    KEYS,
    Derived,
    repeated_steps,
    shared_codes,
    size,
    with_next_state,
)
from bayesmdp.data._faults import (
    TRIPLET,
    Fault,
    faults,
    row_tests,
    said_codes,
    said_open,
    tally,
)
from bayesmdp.data._files import connect
from bayesmdp.data._frames import FrameTable, settled
from bayesmdp.data._grid import Grid, Gridded, on_grid
from bayesmdp.data._labels import Levels
from bayesmdp.data._queries import FILE, Offender, first_bad, lazy, numbered, worded
from bayesmdp.data._read import Source, open_source
from bayesmdp.data._transitions import ArrayTable, Transitions
from bayesmdp.data._validate_record import Finding, Severity
from bayesmdp.errors import ArgumentError, CountsError

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame

CONTEXT = ("episode", "step", "state", "action", "next_state")
#: What a fault is called as a finding.
CODES = {
    "type": "wrong-type",
    "named": "mixed-types",
    "levels": "mixed-types",
    "text": "mixed-types",
    "text id": "mixed-types",
    "empty": "missing-values",
    "infinite": "not-finite",
    "fraction": "fractions",
    "negative": "negative-ids",
    "large": "large-ids",
    "wide": "large-ids",
    "beyond": "ids-beyond-sizes",
    "flag": "bad-flags",
    "unmapped": "outcome-codes",
    "shared": "outcome-codes",
    "repeated": "repeated-steps",
    "digits": "numbers-as-text",
    "times": "times-as-names",
}


@dataclass(frozen=True, eq=False)
class Subject:
    """Sound rows, with a column for each role; where they stand is kept."""

    rows: "Frame"
    moves: "Frame"  # those with a next state
    found: Mapping[str, str]  # the name of each role's column
    origin: str
    n_rows: int  # sound ones
    labels: bool
    sizes: tuple[int | None, int | None]
    derived: Derived | None  # None where the table has next states
    levels: Levels
    connection: object  # kept open

    def first(
        self, bad: "nw.Expr | None" = None, frame: "Frame | None" = None
    ) -> Offender:
        """Look up the first row, or the first where something is true."""
        rows = self.moves if frame is None else frame
        there = rows.collect_schema().names()
        return first_bad(rows, bad, [x for x in CONTEXT if x in there], self.origin)

    def first_with(self, values: Mapping[str, list[Any]]) -> Offender:
        """Look up the first row with one of some values in each of some columns."""
        import narwhals as nw

        some = [nw.col(role).is_in(x[:1000]) for role, x in values.items()]
        return self.first(reduce(lambda x, y: x & y, some))

    def of(self, role: str) -> str:
        """Name the column of a role in a message."""
        return f"`{self.found.get(role, role)}`"


def finding(
    code: str,
    severity: Severity,
    count: int,
    message: str,
    remedy: str,
    *,
    column: str | None = None,
    first: Offender | None = None,
) -> Finding:
    """Make a finding; sentences come without their full stop."""
    where, row = "", None
    if first is not None:
        row = first.row
        place = [] if row is None else [first.where]
        known = [f"{x} {first.values[x]}" for x in CONTEXT if x in first.values]
        where = ", ".join(place + known)
    remedy = remedy[:1].upper() + remedy[1:]
    return Finding(
        code, severity, column, count, row, where, f"{message}.", f"{remedy}."
    )


def from_fault(
    fault: Fault, found: Mapping[str, str], severity: Severity = "error"
) -> Finding:
    """Word what a reader would refuse as a finding."""
    code = CODES[fault.kind]
    if fault.kind == "empty" and fault.role == "next_state":
        code = "missing-next-states"
    return finding(
        code,
        severity,
        fault.count,
        fault.message,
        fault.remedy,
        column=found.get(fault.role) if fault.role else None,
        first=fault.first and fault.first._replace(values={}),  # in the message
    )


def as_source(
    data: Any,
    columns: Columns | None,
    labels: bool,
    coding: Coding,
    grid: Grid,
) -> Source:
    """Open whatever `validate` was given."""
    if not isinstance(data, Transitions):
        return open_source(data, columns, labels, coding, grid)
    if columns is not None or labels or coding != Coding() or grid != Grid():
        raise ArgumentError(
            "`columns`, `labels`, `outcome`, `censored`, `missing` and `time` are for "
            "reading; `data` has been read already."
        )
    table = data.table
    levels: Levels = {}
    if isinstance(table, FrameTable):
        frame, origin, connection = table.frame, table.origin, table.connection
        levels = table.levels
    elif isinstance(table, ArrayTable):
        link = connect()
        link.register("log", table.columns)  # arrays are looked at where they are
        frame, origin = lazy(link.sql("from log")), "the arrays in memory"
        connection = link
    else:
        raise ArgumentError(
            f"`data` holds a {type(table).__name__}, whose rows cannot be looked at: "
            "give files, a dataframe or arrays."
        )
    found = {role: role for role in frame.collect_schema().names()}
    return Source(frame, found, origin, [], levels, connection)


def open_subject(
    source: Source, labels: bool, sizes: tuple[int | None, int | None]
) -> tuple[int, list[Finding], Subject | None]:
    """Find what readers refuse; return all rows' number, findings, and sound rows."""
    derive = "next_state" not in source.found
    unfit = {fault.role for fault in source.faults}
    roles = tuple(role for role in source.found if role not in unfit)
    tests = row_tests(
        source.frame,
        roles,
        labels=labels,
        n_states=sizes[0],
        n_actions=sizes[1],
        coding=source.coding,
    )
    n_rows, counts = tally(source.frame, tests, source.origin, source.coding)
    loose = not derive  # then nothing depends on steps, and readers let them be
    told = [from_fault(x, source.found) for x in source.faults]
    named = (source.found, source.origin)
    told += [
        from_fault(
            x, source.found, "warning" if loose and x.role == "step" else "error"
        )
        for x in faults(source.frame, tests, counts, *named, sizes, source.coding)
    ]
    odd_steps = any(n for (role, _), n in counts.items() if role == "step")
    if loose and odd_steps:
        roles = tuple(role for role in roles if role != "step")
    n_codes = counts.get(("outcome", "code"), 0)
    if n_codes:
        told.append(_codes(n_codes, source))
    bad = [x for key, x in tests.items() if counts[key] and key[0] in roles]
    keys = KEYS if source.grid.time is None else (KEYS[0], "time")
    needed = [*TRIPLET[:2], *(keys if derive else TRIPLET[2:])]
    if unfit.intersection(needed):
        return n_rows, [*told, _unchecked("a column that they need is unfit")], None
    sound, n_sound = _sound(source, roles, bad, n_rows)
    if n_sound < n_rows:
        told.append(_left_out(n_rows - n_sound, n_rows))
    origin, coding = source.origin, source.coding
    frame = settled(sound, origin, coding, (FILE,), steps="step" in roles)
    n_kept = n_sound if derive else size(frame, origin)
    rows = frame
    if n_kept < n_sound:
        rows = settled(sound, origin, coding, (FILE,), censored=True)
        n, said = n_sound - n_kept, said_open(n_sound - n_kept, n_sound, origin)
        told.append(finding("censored-rows", "note", n, said, _CENSORED_REMEDY))
    if not n_kept:
        return n_rows, told, None
    found = {role: source.found[role] for role in roles}
    if not derive:
        kept = (source.levels, source.connection)
        subject = Subject(
            rows, frame, found, origin, n_kept, labels, sizes, None, *kept
        )
        return n_rows, told, subject
    more, derived = _derive(frame, found, source, n_sound, labels, sizes)
    return n_rows, told + more, derived


_CENSORED_REMEDY = "nothing: what came after them is not known"


def _sound(
    source: Source, roles: tuple[str, ...], bad: list["nw.Expr"], n_rows: int
) -> tuple["Frame", int]:
    """Keep rows without a fault, under numbers that count all."""
    with worded(source.origin):
        frame = numbered(source.frame)
        if bad:
            frame = frame.filter(~reduce(or_, bad))
            n_rows = size(frame, source.origin)
        unused = [x for x in source.found if x not in roles]
        there = frame.collect_schema().names()
        return frame.select(*(x for x in there if x not in unused)), n_rows


def _derive(
    frame: "Frame",
    found: dict[str, str],
    source: Source,
    n_rows: int,
    labels: bool,
    sizes: tuple[int | None, int | None],
) -> tuple[list[Finding], Subject | None]:
    """Find next states, in episodes where what follows what is known."""
    import narwhals as nw

    origin = source.origin
    told: list[Finding] = []
    if source.grid.time is not None:
        shared = shared_codes(frame, found, origin, source.coding)
        told += [from_fault(shared, found)] if shared is not None else []
        try:
            steps = on_grid(frame, found, origin, source.grid)
        except CountsError as problem:
            said, remedy = str(problem).removesuffix(".").rsplit("; ", 1)
            return [*told, finding("visit-times", "error", 1, said, remedy)], None
        told.append(_of_grid(steps, source))
        frame, n_rows, found = steps.frame, steps.n_rows, steps.found
        source = replace(source, connection=steps.connection)
    repeated = repeated_steps(frame, found, origin, n_rows)
    if repeated:
        told += repeats(frame, found, origin, n_rows, repeated)
        with worded(origin):
            groups = frame.group_by(*KEYS).agg(nw.len().alias("n"))
            twice = groups.filter(nw.col("n") > 1).select("episode").unique()
            frame = frame.join(twice, on="episode", how="anti")
        left = size(frame, origin)
        told.append(_left_out(n_rows - left, n_rows, "in episodes with such steps"))
        n_rows = left
    derived = with_next_state(frame, found, origin, n_rows, source.coding)
    if not derived.n_rows:
        message = f"{derived.note}: no transition is left"
        remedy = "name the column of next states, or of outcomes"
        told.append(finding("no-transitions", "error", n_rows, message, remedy))
        return told, None
    if derived.censored:
        n, of = derived.censored, many(derived.censored, "last row")
        said = f"{of} of an episode censored, with no next state recorded"
        told.append(finding("censored-rows", "note", n, said, _CENSORED_REMEDY))
    moves, kept = derived.frame, (source.levels, source.connection)
    return told, Subject(
        frame, moves, found, origin, n_rows, labels, sizes, derived, *kept
    )


def _of_grid(steps: Gridded, source: Source) -> Finding:
    said, even = steps.note, source.grid.every is not None
    column = source.found["time"]
    if even:
        remedy = "look whether so much may be carried"
        return finding("carried-forward", "note", 1, said, remedy, column=column)
    said, remedy = said.rsplit("; ", 1)
    return finding("irregular-times", "warning", 1, said, remedy, column=column)


def repeats(
    frame: "Frame",
    found: Mapping[str, str],
    origin: str,
    n_rows: int,
    fault: Fault,
    severity: Severity = "error",
) -> Iterable[Finding]:
    """Tell rows that are there twice from steps with different rows."""
    import narwhals as nw

    columns = [x for x in frame.collect_schema().names() if x in found]
    copies = n_rows - size(frame.select(*columns).unique(), origin)
    if copies:
        with worded(origin):
            groups = frame.group_by(*columns).agg(nw.len().alias("n"))
            twice = groups.filter(nw.col("n") > 1).select(*KEYS).unique()
            rows = frame.join(twice, on=list(KEYS), how="inner")
        first = first_bad(rows, None, [*KEYS, "state"], origin)
        yield finding(
            "duplicate-rows",
            "error",
            copies,
            f"{copies} of {n_rows} rows are there before, whole, and would be counted "
            "again",
            "drop copies",
            first=first,
        )
    if fault.count > copies:
        yield from_fault(fault, found, severity)


def _codes(n: int, source: Source) -> Finding:
    column = source.found["outcome"]
    codes = said_codes(n, source.coding)
    said = f"Column `{column}` of {source.origin} has {codes}, taken as no value"
    remedy = "name codes that stand for no value as missing=[...], if others do"
    return finding("missing-values", "note", n, said, remedy, column=column)


def _unchecked(why: str) -> Finding:
    return finding(
        "unchecked", "note", 1, f"Other checks were left out: {why}", "fix it first"
    )


def _left_out(n: int, n_rows: int, which: str = "with errors") -> Finding:
    return finding(
        "rows-left-out",
        "note",
        n,
        f"The other checks left out {n} of {n_rows} rows, those {which}, which may "
        "look like gaps",
        "fix them and validate again",
    )
