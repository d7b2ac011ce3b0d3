"""What `validate` found, as a record, as text and as a dict.

The table of checks, ``checks.md``, as records.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from bayesmdp import _checks
from bayesmdp._sheet import Sheet, Table, Tabular

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
