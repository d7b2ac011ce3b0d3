"""A record as people see it: lines of text, or a small page for a notebook.

A sheet is written once and shown twice, so that ``summary()`` and what a notebook shows
(``_repr_html_``) cannot differ in what they say. Colours are those of the notebook, so
that light and dark themes work alike; everything from users is escaped: for HTML, and
for terminals, which labels could otherwise drive.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LINE = "1px solid rgba(128, 128, 128, 0.4)"
_CELL = "padding: 0.15em 0.7em"
_CORNER = "<td></td>"
_TITLE = (
    "caption-side: top; text-align: left; font-weight: bold; color: inherit; "
    "padding: 0.3em 0; margin: 0"
)
# Control characters, those that turn the direction of text or end a line, and halves of
# characters, which no stream can write.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


_MINUS_ZERO = re.compile(r"(?<![\w.])-(?=0(\.0*)?(?![\w.]))")


def visible(text: str) -> str:
    r"""Show control characters escaped, as in ``\\x1b``; twice is the same as once."""
    return _UNSEEN.sub(lambda x: x[0].encode("unicode_escape").decode("ascii"), text)


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
    """Makes a notebook show what the sheet of a record says."""

    def _sheet(self) -> Sheet:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._sheet().html()


def _cell(tag: str, text: str, side: str, scope: str = "", more: str = "") -> str:
    style = "; ".join(filter(None, (_CELL, f"text-align: {side}", more)))
    start = " ".join(filter(None, (tag, scope)))
    return f'<{start} style="{style}">{escape(text)}</{tag}>'
