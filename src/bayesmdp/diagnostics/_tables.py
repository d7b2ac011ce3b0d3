"""Cells of tables: numbers with their errors, shares, and what is not there."""

import math
from collections.abc import Sequence

from bayesmdp._sheet import Table
from bayesmdp.evaluation import rounded


def table(
    names: Sequence[str], header: Sequence[str], cells: Sequence[Sequence[str]]
) -> Table:
    """Return a table with one line a name, below the header."""
    rows = [[name, *row] for name, row in zip(names, cells, strict=True)]
    return Table(["", *header], rows)


def number(value: float | None, error: float | None = None) -> str:
    """Write a number to the precision of its error; nothing if it is not known."""
    if value is None or math.isnan(value):
        return ""
    return rounded(value, 0.0 if error is None else error)


def percent(share: float | None, error: float | None = None) -> str:
    """Write a share in per cent."""
    if share is None or math.isnan(share):
        return ""
    if error is None or not error > 0:
        return f"{100 * share:.3g} %"
    return f"{rounded(100 * share, 100 * error)} %"
