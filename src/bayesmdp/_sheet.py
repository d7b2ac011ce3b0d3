"""A record as people see it: lines of text, a small page for a notebook, plain data.

A sheet is written once and shown twice, so that ``summary()`` and what a notebook shows
(``_repr_html_``) cannot differ in what they say. Colours are those of the notebook, so
that light and dark themes work alike; everything from users is escaped: for HTML, and
for terminals, which labels could otherwise drive.

Numbers are written to the precision that their errors allow.

For data frames a record says its rows once, as plain dicts; pandas and polars are
needed for nothing else. An interval becomes two columns.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError, visible

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Tabular:
    """Gives the rows of a record as a data frame."""

    _index: ClassVar[str] = ""  # column that names the rows of a pandas frame

    def _rows(self) -> Iterable[dict[str, Any]]:
        raise NotImplementedError

    def to_pandas(self) -> "pd.DataFrame":
        """Return the record's table as a data frame; needs pandas.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.evaluate([1, 0, 0], bm.worlds.casino()).to_pandas()["value"].tolist()
        [-1.0, 10.0, 0.0]
        """
        try:
            import pandas as pd
        except ImportError:
            raise _missing("to_pandas", "pandas") from None
        frame = pd.DataFrame([_flat(row) for row in self._rows()])
        return frame.set_index(self._index) if self._index else frame

    def to_polars(self) -> "pl.DataFrame":
        """Return the record's table as a data frame; needs polars.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> bm.evaluate([1, 0, 0], bm.worlds.casino()).to_polars()["value"].to_list()
        [-1.0, 10.0, 0.0]
        """
        try:
            import polars as pl
        except ImportError:
            raise _missing("to_polars", "polars") from None
        return pl.DataFrame(
            [_flat(row) for row in self._rows()], infer_schema_length=None
        )


def _missing(method: str, package: str) -> ArgumentError:
    return ArgumentError(
        f"`{method}` needs {package}, which is not installed; `to_dict` does not."
    )


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Make two columns of what is an interval, or missing where others have one."""
    found: dict[str, Any] = {}
    for name, x in row.items():
        if name.endswith("interval"):
            found[f"{name}_low"], found[f"{name}_high"] = x or (None, None)
        else:
            found[name] = x
    return found


_LINE = "1px solid rgba(128, 128, 128, 0.4)"
_CELL = "padding: 0.15em 0.7em"
_CORNER = "<td></td>"
_TITLE = (
    "caption-side: top; text-align: left; font-weight: bold; color: inherit; "
    "padding: 0.3em 0; margin: 0"
)
_MINUS_ZERO = re.compile(r"(?<![\w.])-(?=0(\.0*)?(?![\w.]))")


def unsigned_zero(text: str) -> str:
    """Take the sign off a number that was rounded to zero.

    Examples
    --------
    >>> unsigned_zero("-0.00 ± 0.02"), unsigned_zero("-0.01 to -0.0")
    ('0.00 ± 0.02', '-0.01 to 0.0')
    """
    return _MINUS_ZERO.sub("", text)


@dataclass(frozen=True)
class Table:
    """Names of rows in the first column, and a header over the others."""

    header: Sequence[str]  # of every column; the first may be empty
    rows: Sequence[Sequence[str]]
    prose: bool = False  # cells are words, not numbers

    def _cells(self) -> list[list[str]]:
        """Rows, with no minus before a zero."""
        if self.prose:
            return [list(row) for row in self.rows]
        return [[row[0], *map(unsigned_zero, row[1:])] for row in self.rows]

    def lines(self) -> list[str]:
        """Align cells: the first to the left, the others to the right."""
        rows = (self.header, *self._cells())
        table = [[visible(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return [
            "  ".join(
                [row[0].ljust(widths[0])]
                + [
                    cell.rjust(width)
                    for cell, width in zip(row[1:], widths[1:], strict=True)
                ]
            ).rstrip()
            for row in table
        ]

    def html(self, caption: str = "") -> str:
        """Return a table with scopes, which screen readers need."""
        side = "left" if self.prose else "right"
        head = "".join(
            _cell("th", x, "left" if i == 0 else side, 'scope="col"') if x else _CORNER
            for i, x in enumerate(self.header)
        )
        body = "".join(
            f'<tr style="border-top: {_LINE}">'
            + _cell("th", row[0], "left", 'scope="row"', "font-weight: normal")
            + "".join(_cell("td", x, side) for x in row[1:])
            + "</tr>"
            for row in self._cells()
        )
        said = f'<caption style="{_TITLE}">{escape(caption)}</caption>' * bool(caption)
        return (
            '<div style="overflow-x: auto"><table style="border-collapse: collapse; '
            f'font-variant-numeric: tabular-nums">{said}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )


def table(
    names: Sequence[str], header: Sequence[str], cells: Sequence[Sequence[str]]
) -> Table:
    """Return a table with one line a name, below the header."""
    rows = [[name, *row] for name, row in zip(names, cells, strict=True)]
    return Table(["", *header], rows)


@dataclass(frozen=True)
class Sheet:
    """A title, then lines and tables."""

    title: str
    body: Sequence[Table | str]
    indent: str = ""  # of the body, as text

    def text(self) -> str:
        """Return lines of text."""
        lines = [visible(self.title)]
        for part in self.body:
            lines += part.lines() if isinstance(part, Table) else [visible(part)]
        return f"\n{self.indent}".join(lines)

    def html(self) -> str:
        """Return HTML that stands by itself, without script and without style rules.

        The title is the caption of a table that comes first.
        """
        body = [x for x in self.body if x]
        first = bool(body) and isinstance(body[0], Table)
        parts = [] if first else [f'<p style="{_TITLE}">{escape(self.title)}</p>']
        for i, part in enumerate(body):
            if isinstance(part, Table):
                parts.append(part.html(self.title if i == 0 else ""))
            else:
                parts.append(f'<p style="margin: 0.2em 0">{escape(part)}</p>')
        return f"<div>{''.join(parts)}</div>"


class Shown:
    """What people look at, alike everywhere: as text, and in a notebook.

    A class says what is on its sheet; ``shown`` is how many lines a long table has.
    """

    def _sheet(self, shown: int = 10) -> Sheet:
        raise NotImplementedError

    def summary(self, max_rows: int = 10) -> str:
        """Say what the record holds, in lines of text.

        Parameters
        ----------
        max_rows
            How many lines a table of states, pairs or changes has at most.
        """
        shown = _checks.integer("max_rows", max_rows, 0, ArgumentError)
        return self._sheet(shown).text()

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return self._sheet().html()


class Record(Tabular, Shown):
    """A result: shown like everything, plain data for programs, and a data frame."""

    _table_of: ClassVar[str] = ""  # field of records that are the rows of the frame
    _left_out: ClassVar[tuple[str, ...]] = ()  # fields that plain data do not hold
    _derived: ClassVar[tuple[str, ...]] = ()  # properties that they hold besides

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, text, lists and dicts, for JSON; None if not finite."""
        return _fields(self)

    def _rows(self) -> Iterable[dict[str, Any]]:
        if not self._table_of:
            return [self.to_dict()]
        return [_fields(row) for row in getattr(self, self._table_of)]


def as_plain(value: Any) -> Any:
    """Return a value as JSON holds it; of records, the fields that are their own.

    Examples
    --------
    >>> as_plain({"value": np.float64("nan"), "sizes": (1, 2)})
    {'value': None, 'sizes': [1, 2]}
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return str(value)  # of an enumeration, too
    if isinstance(value, Mapping):
        return {name: as_plain(x) for name, x in value.items()}
    if isinstance(value, tuple | list):
        return [as_plain(x) for x in value]
    if isinstance(value, Record):
        return value.to_dict()
    return _fields(value) if is_dataclass(value) else value


def _fields(value: Any) -> dict[str, Any]:
    own = [x.name for x in fields(value) if x.name != "task"]
    kept = [x for x in own if x not in getattr(value, "_left_out", ())]
    kept += getattr(value, "_derived", ())
    return {name: as_plain(getattr(value, name)) for name in kept}


def _cell(tag: str, text: str, side: str, scope: str = "", more: str = "") -> str:
    style = "; ".join(filter(None, (_CELL, f"text-align: {side}", more)))
    start = " ".join(filter(None, (tag, scope)))
    return f'<{start} style="{style}">{escape(text)}</{tag}>'


_ROUNDING = 1e-14  # of a value; what is smaller is the machine's, not that of draws


def rounded(value: float, error: float, column: Sequence[float] = ()) -> str:
    """Write a number to the precision its error allows.

    Without an error it has as many decimals as the rest of ``column``, which has none.

    Examples
    --------
    >>> [rounded(x, 0, [72987.6, 125764]) for x in (72987.6, 125764)]
    ['72988', '125764']
    >>> rounded(0.123456, 0.0021), rounded(1234.5, 30), rounded(0.25, 0)
    ('0.123 ± 0.002', '1230 ± 30', '0.25')
    >>> rounded(-0.0003, 0.0021)
    '0.000 ± 0.002'
    """
    if not (math.isfinite(value) and math.isfinite(error)):
        return f"{value:.6g}"
    value += 0.0  # no minus before a zero
    if error <= _ROUNDING * abs(value):
        return _in_column(value, column)
    digits = -math.floor(math.log10(error))
    if digits > 12 or abs(value) >= 1e12:
        return f"{value:.10g} ± {error:.0e}"
    return (
        f"{round(value, digits) + 0.0:.{max(digits, 0)}f} ± "
        f"{round(error, digits):.{max(digits, 0)}f}"
    )


def exact(
    column: Iterable[tuple[float | None, float | None]],
) -> list[float]:
    """Return the values of a column that have no error, among those with their errors.

    Examples
    --------
    >>> exact([(500.0, 0.0), (1234.5, 30.0), (None, None)])
    [500.0]
    """
    return [
        value
        for value, error in column
        if value is not None and (error or 0.0) <= _ROUNDING * abs(value)
    ]


def _in_column(value: float, column: Sequence[float]) -> str:
    """Write a number to six digits, of its column's largest if it stands in one.

    Examples
    --------
    >>> [_in_column(x, [0.5, 125764.25]) for x in (0.5, 125764.25)]
    ['0.5', '125764']
    """
    most = max(map(abs, column), default=0.0)
    if not 1e-4 <= most < 1e12:
        return f"{value:.6g}"
    digits = max(5 - math.floor(math.log10(most)), 0)
    texts = [f"{x:.{digits}f}".rstrip("0").partition(".")[2] for x in column]
    decimals = max(map(len, texts))
    shown = round(value, decimals) + 0.0  # no minus before a zero
    if abs(shown - value) > max(0.01 * abs(value), 1e-12 * most):
        return f"{value:.3g}"  # far smaller than others: not 0 where it is not
    return f"{shown:.{decimals}f}"


def significant(value: float, digits: int = 3, sign: str = "") -> str:
    """Write a number to so many significant digits, large ones without an exponent.

    Examples
    --------
    >>> significant(9241.3), significant(0.012345), significant(127_651.0, 2)
    ('9240', '0.0123', '130000')
    >>> significant(-1e5), significant(2022.4, sign="+"), significant(float("nan"))
    ('-100000', '+2020', 'nan')
    """
    if not 1 <= abs(value) < 1e12:
        return f"{value:{sign}.{digits}g}"
    return f"{float(f'{value:.{digits}g}'):{sign}.12g}"


def between(low: float, high: float, column: Sequence[float] = ()) -> str:
    """Write an interval, rounded to a fiftieth of its width or finer.

    Examples
    --------
    >>> between(0.77312, 0.78291), between(-1234.5, 678), between(2.0, 2.0)
    ('0.7731 to 0.7829', '-1230 to 680', '2 to 2')
    """
    width = high - low
    if column and width <= _ROUNDING * abs(high):
        return f"{_in_column(low, column)} to {_in_column(high, column)}"
    digits = -math.floor(math.log10(width / 50)) if width > 0 else 99
    if digits > 12 or max(abs(low), abs(high)) >= 1e12:
        return f"{low:.6g} to {high:.6g}"
    ends = (round(end, digits) + 0.0 for end in (low, high))  # no minus before a zero
    return " to ".join(f"{end:.{max(digits, 0)}f}" for end in ends)


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
