"""What is wrong or odd in a table, found once, for readers and for reports.

A reader refuses a table for its first fault; `validate` tells all of them, as a record
with text and a dict. What it looks for stands in a table of checks, ``checks.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import MAX_ID, argument, column, many
from bayesmdp._sheet import Sheet, Table, Tabular
from bayesmdp.data._columns import DATE, FLAGS, TIMES, Coding, remedy_of_text
from bayesmdp.data._queries import (
    TEXT,
    Offender,
    capital,
    fetch_one,
    first_bad,
    how_many,
    worded,
)
from bayesmdp.errors import CountsError

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame

    Tests: TypeAlias = Mapping[tuple[str, str], nw.Expr]


Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Finding:
    """One thing that `validate` found in a table.

    An error makes an analysis wrong or is refused by readers; a warning is probably a
    mistake; a note is good to know.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.Transitions.from_arrays([0, 1, 1], [0, 0, 1], [1, 0, 0])
    >>> finding = bm.validate(log)[0]
    >>> finding.severity, finding.code, finding.count
    ('note', 'rare-pairs', 3)
    """

    code: str  # a short name that stays, such as "step-gaps"
    severity: Severity
    column: str | None
    count: int  # of what the message says
    first_row: int | None  # from 0, headers aside; None: not one row, or no order
    where: str  # row, file, episode, state, as far as known
    message: str
    remedy: str


@dataclass(frozen=True)
class Findings(Tabular):
    """What `validate` found, the worst first.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> log = bm.Transitions.from_arrays([0, 1, 1], [0, 0, 1], [1, 0, 0])
    >>> found = bm.validate(log)
    >>> len(found), found.worst, found.exit_code
    (1, 'note', 0)
    """

    findings: tuple[Finding, ...]
    n_rows: int  # of the table, unsound ones too
    origin: str

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, index: int) -> Finding:
        return self.findings[index]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What makes an analysis wrong, or is refused."""
        return self._of("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is probably a mistake."""
        return self._of("warning")

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is good to know."""
        return self._of("note")

    @property
    def worst(self) -> Severity | None:
        """The worst severity; None where nothing was found."""
        return self.findings[0].severity if self.findings else None

    @property
    def exit_code(self) -> int:
        """Return 2 with errors, 1 with warnings, otherwise 0."""
        return {"error": 2, "warning": 1}.get(self.worst or "", 0)

    def headline(self) -> str:
        """Tell in one sentence what was looked at and how much was found."""
        return f"{_checks.many(self.n_rows, 'row')} of {self.origin}: {self._tally()}."

    def summary(self) -> str:
        """Tell what was found, a paragraph a finding.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> log = bm.Transitions.from_arrays([0, 1, 1], [0, 0, 1], [1, 0, 0])
        >>> print(bm.validate(log, min_count=1).summary())
        3 rows of the arrays in memory: nothing found.
        """
        said = []
        for x in self.findings:
            at = f" [{x.where}]" if x.where else ""
            said += [f"{x.severity:<8} {x.code}{at}", f"    {x.message}"]
            said += [f"    {x.remedy}"]
        return Sheet(self.headline(), said).text()

    def _rows(self) -> list[dict[str, Any]]:
        return [asdict(finding) for finding in self.findings]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> log = bm.Transitions.from_arrays([0], [0], [0])
        >>> sorted(bm.validate(log).to_dict())
        ['findings', 'n_rows', 'origin', 'schema_version', 'worst']
        """
        return {
            "schema_version": SCHEMA_VERSION,
            "origin": self.origin,
            "n_rows": self.n_rows,
            "worst": self.worst,
            "findings": self._rows(),
        }

    def _of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(x for x in self.findings if x.severity == severity)

    def _tally(self) -> str:
        counts = {severity: len(self._of(severity)) for severity in SEVERITIES}
        said = [_checks.many(n, name) for name, n in counts.items() if n]
        return ", ".join(said) or "nothing found"

    def _repr_html_(self) -> str:
        header = ["", "code", "where", "what", "remedy"]
        rows = [[x.severity, x.code, x.where, x.message, x.remedy] for x in self]
        body = [Table(header, rows, prose=True)] if rows else []
        return Sheet(self.headline(), body).html()

    def __repr__(self) -> str:
        return f"Findings({_checks.many(self.n_rows, 'row')}: {self._tally()})"


ROWS, LOG = 1, 2  # parts of the table


class Check(NamedTuple):
    """One line of the table; sentences are formats."""

    code: str
    severity: Severity
    roles: tuple[str | None, ...]  # columns it is about
    find: str  # what looks for it
    case: str
    said: str
    remedy: str


@cache
def checks(part: int) -> tuple[Check, ...]:
    """Read one part of the table."""
    text = Path(__file__).with_name("checks.md").read_text(encoding="utf-8")
    lines = [x for x in text.split("\n## ")[part].splitlines() if x[:1] == "|"]
    return tuple(_check(line) for line in lines[2:])


def _check(line: str) -> Check:
    code, severity, columns, how, said, remedy = map(str.strip, line[1:-1].split("|"))
    roles = tuple(x or None for x in columns.split(", "))
    find, _, case = how.partition(": ")
    return Check(code, cast("Severity", severity), roles, find, case, said, remedy)


TRIPLET = ("state", "action", "next_state")
IDS = (*TRIPLET, "outcome")
STATES = ("state", "next_state", "outcome")  # one set of ids or labels
LABELLED = (*IDS, "episode")
EXACT = 2**53  # from here on floats skip whole numbers
MAX_WHOLE = 2**63 - 1  # what ids are held in
TRUE = ("true", "1")
FALSE = ("false", "0")
CONTEXT = ("episode", "step", "state", "action", "next_state")  # told of a row
UNKNOWN = (
    "nothing, if they were last seen at the start of that step; if they survived it, "
    "record its next state or an `end_time`: deaths in such steps count, and without "
    "those who survived them their risk is overestimated"
)


@dataclass(frozen=True)
class Fault:
    """Something that a table may not hold, or that one should know of it."""

    code: str  # what `validate` calls it
    role: str | None
    count: int
    first: Offender | None
    message: str  # a sentence without its full stop
    remedy: str  # likewise
    join: str = "; "  # between them in a refusal
    severity: Severity = "error"

    @property
    def sentence(self) -> str:
        """What is wrong, and the remedy."""
        return f"{self.message}{self.join}{self.remedy}."

    def finding(self, found: Mapping[str, str]) -> Finding:
        """Say it as `validate` does; ``found`` names the column of each role."""
        where, row = "", None
        if self.first is not None:
            row = self.first.row
            place = [] if row is None else [self.first.where]
            values = self.first.values
            known = [f"{x} {values[x]}" for x in CONTEXT if x in values]
            where = ", ".join(place + known)
        column = found.get(self.role) if self.role else None
        said = f"{self.message}.", f"{capital(self.remedy)}."
        return Finding(self.code, self.severity, column, self.count, row, where, *said)


_OPEN_REMEDY = (
    "fill them in, or flag rows with which only the follow-up ended in a column "
    "`truncated`, which leaves them out of the counts as censored"
)


def row_tests(
    frame: Frame,
    roles: tuple[str, ...],
    *,
    labels: bool,
    n_states: int | None,
    n_actions: int | None,
    coding: Coding,
) -> Tests:
    """Return what is asked of each row; an expression is true where it is bad."""
    import narwhals as nw

    schema = frame.collect_schema()
    tests: dict[tuple[str, str], nw.Expr] = {}
    for role in roles:
        known = has_value(frame, role, coding)
        asked = {"empty": ~known} | _column_tests(role, schema[role], known)
        if f"{TEXT}{role}" in schema:
            text = has_value(frame, role, coding, TEXT)
            asked["empty"] = asked["empty"] & ~text
            if role in STATES:
                text = text & ~coding.is_censored(frame, f"{TEXT}{role}")
            asked = {"text id" if role in IDS else "text": text} | asked
        if role in IDS and schema[role].is_numeric() and not labels:
            upper = n_actions if role == "action" else n_states
            x = nw.col(role)
            for kind in ("fraction", "wide"):  # told already
                known = known & ~asked[kind] if kind in asked else known
            asked |= {"negative": known & (x < 0), "large": known & (x > MAX_ID)}
            if upper is not None:
                asked["beyond"] = known & (x >= upper) & (x <= MAX_ID)
        if role == "outcome":  # empty: the row is not the last, or it is censored
            del asked["empty"]
            if coding.states:
                asked["unmapped"] = known & ~coding.is_known(frame)
        if role == "next_state" and "truncated" in roles:
            cut = is_true("truncated", schema["truncated"]).fill_null(False)
            asked["empty"] = asked["empty"] & ~cut
        tests |= {(role, kind): test for kind, test in asked.items()}
    return tests


def _column_tests(role: str, kind: Any, known: nw.Expr) -> dict[str, nw.Expr]:
    """Return what is asked whatever the ids mean, of rows with a value."""
    import narwhals as nw

    x = nw.col(role)
    asked = {}
    if role in FLAGS:
        if kind.is_numeric():
            asked["flag"] = known & (x != 0) & (x != 1)
        elif kind == nw.String:
            asked["flag"] = known & ~x.str.to_lowercase().is_in([*TRUE, *FALSE])
    elif kind == nw.UInt64 and role in (*IDS, "step"):
        asked["wide"] = known & (x > MAX_WHOLE)
    elif kind.is_float() and role in ("reward", *TIMES):
        asked["infinite"] = known & ~x.is_finite()
    elif kind.is_float() and role in (*IDS, "step"):
        wide = x.is_finite() & (x.abs() >= EXACT)
        # Not x % 1, by which some engines take 1e-16 for 0; Ibis floors to integers.
        small = nw.when(x.is_finite() & ~wide).then(x).otherwise(nw.lit(0.0))
        asked["fraction"] = known & (~x.is_finite() | (small != small.floor()))
        asked["wide"] = known & wide
    return asked


_SETTLED = Coding(missing=())


def has_value(frame: Frame, role: str, coding: Coding, prefix: str = "") -> nw.Expr:
    """Tell rows with a value; a missing-value code is none in a column of labels."""
    import narwhals as nw

    column = f"{prefix}{role}"
    x, kind = nw.col(column), frame.collect_schema()[column]
    known = ~x.is_null()
    if kind.is_float():
        known = known & ~x.is_nan()
    if role not in LABELLED:
        return known
    known = known & (x != "") if kind == nw.String else known
    return known & ~coding.is_code(frame, column) if coding.missing else known


def is_empty(frame: Frame, role: str, coding: Coding = _SETTLED) -> nw.Expr:
    """Tell rows without a value; in a table that is settled, codes are gone."""
    return ~has_value(frame, role, coding)


def is_open(frame: Frame, coding: Coding) -> nw.Expr:
    """Tell censored rows of a table of next states: they have none recorded."""
    labels = [coding.is_censored(frame, x) for x in ("state", "next_state")]
    return labels[0] | labels[1] | is_empty(frame, "next_state", coding)


def is_true(role: str, kind: Any) -> nw.Expr:
    """Tell rows with a flag, however it is spelled."""
    import narwhals as nw

    x = nw.col(role)
    if kind.is_numeric():
        return (x == 1).alias(role)
    if kind == nw.String:
        return x.str.to_lowercase().is_in(list(TRUE)).alias(role)
    return x


def tally(
    frame: Frame, tests: Tests, origin: str, coding: Coding
) -> tuple[int, dict[tuple[str, str], int]]:
    """Look at every row once, by the engine: count rows, and those with each fault.

    Counts of the kinds ``code`` and ``censored`` are of missing-value codes and of
    censored rows without a next state, which are no fault.
    """
    import narwhals as nw

    schema = frame.collect_schema()
    tests = dict(tests)
    for role in [x for x in LABELLED if x in schema]:
        column = f"{TEXT}{role}" if f"{TEXT}{role}" in schema else role
        if coding.missing:
            tests[role, "code"] = coding.is_code(frame, column)
    if "next_state" in schema:
        tests["next_state", "censored"] = is_open(frame, coding)
    asked = [how_many(test).alias("/".join(key)) for key, test in tests.items()]
    with worded(origin):
        query = frame.select(nw.len().alias("n"), *asked)
    found = fetch_one(query, origin)
    if not found["n"]:
        raise CountsError(f"{capital(origin)} holds no rows.")
    counts = {key: found["/".join(key)] for key in tests}
    # Of no rows at all, some engines' sum is empty.
    return int(found["n"]), {k: 0 if n is None else int(n) for k, n in counts.items()}


def faults(
    frame: Frame,
    tests: Tests,
    counts: Mapping[tuple[str, str], int],
    found: Mapping[str, str],
    origin: str,
    sizes: tuple[int | None, int | None],
    coding: Coding,
) -> Iterator[Fault]:
    """Word what was found, and look up the first row of each only when asked."""
    or_names = (
        f", or give {argument('labels')} and the numbers as text, to take them as names"
    )
    words_of = {check.find: check for check in checks(ROWS)}
    for role, kind in tests:
        n, n_codes = counts[role, kind], counts.get((role, "code"), 0)
        if not n:
            continue
        column = f"{TEXT}{role}" if kind.startswith("text") else role
        first = first_bad(frame, tests[role, kind], [column], origin)
        code, _, _, _, _, said, remedy = words_of[kind]
        if (role, kind) == ("next_state", "empty"):
            code, remedy = "missing-next-states", _OPEN_REMEDY
        value = first.values[column]
        if kind == "text":
            remedy = remedy_of_text(role, value) or remedy
        floats = frame.collect_schema()[role].is_float()
        words = {
            "rows": "1 row" if n == 1 else f"{n} rows",
            "codes": f", with {said_codes(n_codes, coding)}" if n_codes else "",
            "more": "" if n == 1 else f" (one of {n} such rows)",
            "where": first.where,
            "first": first.first,
            "value": value.item() if isinstance(value, np.generic) else value,
            "role": role,
            "limit": "2**53" if floats else "2**63",
            "or_names": or_names if role in IDS else "",
            "labels": argument("labels"),
            "upper": sizes[role == "action"],
        }
        said = f"Column `{found[role]}` of {origin} {said.format(**words)}"
        join = ": " if kind == "empty" else "; "
        first = first._replace(values={})  # they are in the message
        yield Fault(code, role, n, first, said, remedy.format(**words), join)


def said_codes(n: int, coding: Coding) -> str:
    """Say how many missing-value codes there are."""
    *others, last = coding.missing or ("",)
    either = f"{', '.join(others)} or {last}" if others else last
    return f"{many(n, 'missing-value code')} ({either})"


def open_rows(n: int, n_rows: int, origin: str) -> Fault:
    """Say how many censored rows a table of next states has."""
    said = (
        f"{n} of {n_rows} rows of {origin} censored, with no next state recorded, and "
        "left out of the counts"
    )
    return Fault("censored-rows", None, n, None, said, UNKNOWN, severity="note")


_NUMERAL = re.compile(r"\s*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)\s*")


def numbers_as_text(
    names: tuple[NDArray[Any] | None, NDArray[Any] | None],
    found: Mapping[str, str],
    origin: str,
) -> Iterator[Fault]:
    """Find text that is numbers: they may be ids, and 1 and 1.0 the same one."""
    labels = argument("labels")
    for role, known in zip(("state", "action"), names, strict=True):
        text = [] if known is None or known.dtype != object else known.tolist()
        convert = "convert it to whole numbers"
        named = f"name the column that holds {role}s with {column(role)}"
        for form, code, what, (first, taken) in (
            (DATE, "times-as-names", "times", (named, "times")),
            (_NUMERAL, "numbers-as-text", "numbers as text", (convert, "the text")),
        ):
            odd = [name for name in text if form.fullmatch(name)]
            if odd:
                said = (
                    f"Column `{found[role]}` of {origin} holds {what}, such as "
                    f"{odd[0]!r:.42}"
                )
                remedy = f"{first}, or give {labels} to take {taken} as names"
                yield Fault(code, role, len(odd), None, said, remedy, ": ")
