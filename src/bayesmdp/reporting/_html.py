"""From the dict to one HTML file.

Text goes through jinja2 with autoescape on. The data travel as JSON inside a script
element: ``<``, ``>`` and ``&`` are written as escapes, so that no label can end the
element. Plotly's javascript is embedded once, as text that runs only when the
first plot comes into view; the policy in the head forbids every network request.
"""

import json
from pathlib import Path
from typing import Any

from bayesmdp.evaluation import between, rounded
from bayesmdp.reporting._numbers import chance, in_percent
from bayesmdp.reporting._summary import known, percent

_FOLDER = Path(__file__).parent / "page"
_STYLES = ("report.css",)
_SCRIPTS = ("core.js", "tables.js", "plots.js", "explorer.js")
_NOTHING = "\N{EN DASH}"
_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def page(data: dict[str, Any]) -> str:
    """Return the page that shows a report's data."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        num=_number,
        chance=chance,
        percent=percent,
        share=in_percent,
        sig=_significant,
        between=lambda ends: between(*ends).replace("-", "\N{MINUS SIGN}"),
        known=_known,
    )
    return environment.get_template("report.html.j2").render(
        **data,
        styles=Markup(_joined(_STYLES)),
        scripts=Markup(_joined(_SCRIPTS)),
        plotly=Markup(_script_text(get_plotlyjs())),
        payload=Markup(embedded(data)),
    )


def embedded(data: dict[str, Any]) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


def _script_text(source: str) -> str:
    """Keep a script from ending its element early."""
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _number(x: dict[str, float | None] | None) -> str:
    """Write a quantity to the precision of its error."""
    if x is None or x["value"] is None:
        return _NOTHING
    return rounded(x["value"], x["mcse"] or 0.0).replace("-", "\N{MINUS SIGN}")


def _significant(x: float | None, digits: int = 3) -> str:
    """Write a number without an error."""
    return (
        _NOTHING
        if x is None
        else f"{x + 0.0:.{digits}g}".replace("-", "\N{MINUS SIGN}")
    )


def _known(x: dict[str, float | None], sd: float | None) -> str:
    """Write a number to a tenth of its sd."""
    return known(x, sd).replace("-", "\N{MINUS SIGN}")
