"""The table of checks, ``checks.md``, as records."""

from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

from bayesmdp.data._findings import Severity

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
