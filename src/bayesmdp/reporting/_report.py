"""`bayesmdp.report`: one record of an analysis, as data and as a page.

From the dict to one HTML file.

Text goes through jinja2 with autoescape on. The data travel as JSON inside a script
element: ``<``, ``>`` and ``&`` are written as escapes, so that no label can end the
element. Plotly's javascript is embedded once, as text that runs only when the
first plot comes into view; the policy in the head forbids every network request.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesmdp import _checks
from bayesmdp._io import check_file, worded, write_atomic
from bayesmdp._sheet import Sheet, exact
from bayesmdp.data import Findings
from bayesmdp.diagnostics import Check, CrossFit, NegativeControl, PriorSensitivity
from bayesmdp.economics import CostEffectiveness
from bayesmdp.errors import ArgumentError, StorageError
from bayesmdp.evaluation import Comparison, OffPolicy, between, rounded, significant
from bayesmdp.information import Information
from bayesmdp.optimisation import Optimisation
from bayesmdp.posterior import Belief, check_belief
from bayesmdp.priors import EvidenceCurve
from bayesmdp.reporting._inputs import Inputs, chance, held_against, in_percent
from bayesmdp.reporting._summary import known, percent

_FOLDER = Path(__file__).parent / "page"
_STYLES = ("report.css",)
_SCRIPTS = ("page.js", "explorer.js")
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
        between=_between,
        exact=lambda column: exact((x["value"], x["mcse"]) for x in column),
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


def _between(ends: tuple[float, float], column: Sequence[float] = ()) -> str:
    """Write an interval."""
    return between(*ends, column).replace("-", "\N{MINUS SIGN}")


def _number(x: dict[str, float | None] | None, column: Sequence[float] = ()) -> str:
    """Write a quantity to the precision of its error."""
    if x is None or x["value"] is None:
        return _NOTHING
    return rounded(x["value"], x["mcse"] or 0.0, column).replace("-", "\N{MINUS SIGN}")


def _significant(x: float | None, digits: int = 3, sign: str = "") -> str:
    """Write a number without an error."""
    if x is None:
        return _NOTHING
    return significant(x + 0.0, digits, sign).replace("-", "\N{MINUS SIGN}")


def _known(x: dict[str, float | None], sd: float | None) -> str:
    """Write a number to a tenth of its sd."""
    return known(x, sd).replace("-", "\N{MINUS SIGN}")


SCHEMA_VERSION = 1
_FIRST = b'{"schema_version":'  # how the data of every report begin


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """An analysis as plain data, and as a page; made by `bayesmdp.report`.

    ``data`` holds dicts, lists, text and numbers only; it is what the page shows.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> casino = bm.worlds.casino()
    >>> table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]}, casino.draws())
    >>> bm.report(casino, table).data["summary"]["recommended"]
    'leave'
    """

    data: dict[str, Any]

    def html(self) -> str:
        """Return the page as text: one file that needs neither network nor server.

        Examples
        --------
        >>> import bayesmdp as bm
        >>> casino = bm.worlds.casino()
        >>> table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]}, casino.draws())
        >>> bm.report(casino, table).html()[:15]
        '<!DOCTYPE html>'
        """
        return page(self.data)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page (``.html``) or the data (``.json``), whole or not at all.

        Parameters
        ----------
        path
            A file in a directory that exists; a file that is there is replaced.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import pathlib, tempfile, bayesmdp as bm
        >>> casino = bm.worlds.casino()
        >>> table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]}, casino.draws())
        >>> path = pathlib.Path(tempfile.mkdtemp(), "casino.json")
        >>> bm.report(casino, table).save(path).name
        'casino.json'
        """
        target = _checked(path)
        if target.suffix.lower() == ".json":
            text = json.dumps(self.data, allow_nan=False) + "\n"
        else:
            text = self.html()
        with worded(target, "written"):
            write_atomic(target, text)
        return target

    def _repr_html_(self) -> str:
        """Show what the first screen says; the page itself is too large for a cell."""
        summary = self.data["summary"]
        lines = [
            *summary["sentences"].values(),
            *(
                f"{x['level']}: {x['topic']}. {x['text']}"
                for x in summary["cautions"]
                if x["level"] != "ok"
            ),
            *(
                f"{x['level']}: {x['title']}. {x['text']} {x['remedy'] or ''}".strip()
                for x in summary["checks"]
                if x["level"] == "warning"
            ),
            'The whole page: save("report.html"), then open that file in a browser.',
        ]
        return Sheet(summary["question"], lines).html()

    def __repr__(self) -> str:
        summary = self.data["summary"]
        return (
            f"Report(recommended={summary['recommended']!r}, "
            f"reference={summary['reference']!r})"
        )


def report(
    posterior: Belief,
    comparison: Comparison,
    *,
    optimisation: Optimisation | None = None,
    findings: Findings | None = None,
    evidence: EvidenceCurve | None = None,
    prior_sensitivity: PriorSensitivity | None = None,
    best_predictor: str | None = None,
    check: Check | None = None,
    negative_control: NegativeControl | None = None,
    cross_fit: CrossFit | None = None,
    off_policy: OffPolicy | None = None,
    cost_effectiveness: CostEffectiveness | None = None,
    information: Information | None = None,
) -> Report:
    """Build a report of an analysis.

    The policy it recommends is the optimised one where that is among the policies
    compared, otherwise the best of them. For a task with a ``cost`` the page shows
    costs, and the lowest is best. For costs, horizons and averages per step, values of
    single actions and the attribution of uncertainty to pairs are left out.

    Parameters
    ----------
    posterior
        What is believed.
    comparison
        From `bayesmdp.compare`, on draws of that belief.
    optimisation
        From `bayesmdp.optimise`.
    findings
        From `bayesmdp.validate`. The finding that states were never left is not shown
        where the task names them as terminal.
    evidence
        From `bayesmdp.priors.evidence_curve`.
    prior_sensitivity
        From `bayesmdp.prior_sensitivity`.
    best_predictor
        Which of its priors predicts best, from `bayesmdp.compare_priors`.
    check, negative_control, cross_fit, off_policy
        From the functions of these names. The page shows what each found, or how to run
        it. A gain that one of them contradicts is not printed large.
    cost_effectiveness
        From the function of that name: a section of its own.
    information
        From `bayesmdp.value_of_information`: where more patients would teach most.

    Returns
    -------
    Report
        Its ``save`` writes one HTML file, or the data as JSON.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> prior = bm.SymmetricPrior(support=world.support)
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task, prior=prior)
    >>> policies = {"logged": bm.policies.behaviour(posterior),
    ...             "nominal": bm.policies.nominal(posterior)}
    >>> table = bm.compare(policies, posterior.draws(500))
    >>> bm.report(posterior, table)
    Report(recommended='nominal', reference='logged')
    """
    check_belief(posterior)
    if posterior.task.reward_names:
        posterior.task.one_reward("report")
    inputs = Inputs(
        posterior,
        comparison,
        optimisation,
        held_against(posterior, findings),
        evidence,
        prior_sensitivity,
        best_predictor,
        check,
        negative_control,
        cross_fit,
        off_policy,
        cost_effectiveness,
        information,
    )
    return Report({"schema_version": SCHEMA_VERSION, **_sections(inputs)})


def _sections(inputs: Inputs) -> dict[str, Any]:
    """Build all sections, in the order a reader meets them."""
    from bayesmdp.reporting._explorer import explorer_section
    from bayesmdp.reporting._sections import (
        attribution_section,
        data_section,
        economics_section,
        information_section,
        policies_section,
        prior_section,
        states_section,
        support_section,
    )
    from bayesmdp.reporting._summary import methods_section, summary_section

    policies, explorer = policies_section(inputs), explorer_section(inputs)
    return {
        "summary": summary_section(inputs, policies, explorer["n_verdicts"]),
        "policies": policies,
        "economics": economics_section(inputs),
        "states": states_section(inputs),
        "attribution": attribution_section(inputs),
        "support": support_section(inputs),
        "prior": prior_section(inputs),
        "information": information_section(inputs),
        "data": data_section(inputs),
        "explorer": explorer,
        "methods": methods_section(inputs),
    }


def check_page(path: str | os.PathLike[str]) -> Path:
    """Say before a long job whether a page can be written, and return where data go.

    What is there under that name is replaced only if it is the data of a report.
    """
    page = Path(path)
    data = page.with_suffix(".json")
    for file, suffix in ((page, ".html"), (data, ".json")):
        check_file(file, suffix)
    if data.exists() and not _is_data(data):
        raise StorageError(
            f"`{data}`, where the data of `{page}` would go, is something else: name "
            "another page."
        )
    return data


def _is_data(path: Path) -> bool:
    """Whether a file begins as the data of a report do."""
    with worded(path, "read"), path.open("rb") as stream:
        return stream.read(len(_FIRST)) == _FIRST


def _checked(path: object) -> Path:
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    _checks.of_type("path", text, str, ArgumentError)
    target = Path(str(text))
    if target.suffix.lower() not in (".html", ".htm", ".json"):
        raise StorageError(
            f"`{target}` must end in .html (the page) or .json (its data)."
        )
    check_file(target)
    return target
