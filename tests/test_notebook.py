"""Records in notebooks: what summaries say, and nothing from users as markup."""

import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import bayesmdp as bm
from bayesmdp._sheet import Sheet, Table

EVIL = "</td><script>alert('x')</script>&amp;"
KNOWN = {"div", "p", "table", "caption", "thead", "tbody", "tr", "th", "td"}


class Page(HTMLParser):
    """Elements in order, whether they are closed in order, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.text += " "

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Main records, whose every label is hostile."""
    task = bm.Task(
        3,
        2,
        reward=[0, 1, 0],
        discount=0.9,
        terminal=[1, 2],
        state_labels=[EVIL, f"home {EVIL}", f"death {EVIL}"],
        action_labels=[f"treat {EVIL}", f"wait {EVIL}"],
    )
    log = bm.Transitions.from_arrays(
        [0] * 8,
        [0, 0, 0, 0, 1, 1, 1, 1],
        [1, 1, 2, 0, 2, 2, 1, 0],
        episode=list(range(8)),
    )
    posterior = bm.fit(log, task, prior=bm.SymmetricPrior())
    policies = {EVIL: [0, 0, 0], f"other {EVIL}": [1, 0, 0]}
    comparison = bm.compare(policies, posterior.draws(50))
    priors = {EVIL: bm.SparsePrior(0.1), f"flat {EVIL}": bm.SymmetricPrior()}
    parts = [bm.SymmetricPrior(0.5), bm.SymmetricPrior()]
    mixture = bm.fit(log, task, prior=bm.MixturePrior(parts))
    evaluation = replace(comparison.evaluations[EVIL], notes=(EVIL,))
    optimisation = bm.optimise(bm.worlds.casino(), seed=0)
    folder = tmp_path_factory.mktemp("run") / "<script>"
    run = bm.storage.save(posterior, folder)
    return {
        "Task": task,
        "Transitions": replace(
            log,
            state_labels=(EVIL, "x"),
            action_labels=(EVIL,),
            notes=(EVIL,),
        ),
        "Findings": replace(bm.validate(log), origin=EVIL),
        "Posterior": posterior,
        "MixturePosterior": mixture,
        "Evaluation": evaluation,
        "AnalyticEvaluation": bm.evaluate_analytic([0, 0, 0], posterior),
        "Comparison": comparison,
        "ActionValues": bm.action_values([0, 0, 0], posterior, n_draws=20),
        "Ensemble": bm.Ensemble([posterior.mean()], task),
        "Optimisation": replace(
            optimisation, evaluation=evaluation, chosen_start=EVIL, left_out=(EVIL,)
        ),
        "PriorSensitivity": bm.prior_sensitivity(
            [0, 0, 0], log, task, priors, n_draws=20
        ),
        "Check": bm.check(posterior, log, n_draws=20),
        "MarkovOrder": bm.diagnostics.markov_order(list("abaab")),
        "PriorComparison": bm.compare_priors(priors, log, task, n_folds=0),
        "Calibration": replace(
            bm.check_calibration(
                task, bm.SymmetricPrior(), n_datasets=10, levels=[0.5]
            ),
            prior=EVIL,
        ),
        "EvidenceCurve": bm.priors.evidence_curve(log, task),
        "Run": bm.storage.load(run),
        "Report": bm.report(posterior, comparison),
    }


RECORDS = ["Task", "Transitions", "Findings", "Posterior", "MixturePosterior"]
RECORDS += ["Evaluation", "AnalyticEvaluation", "Comparison", "Optimisation"]
RECORDS += ["PriorSensitivity", "PriorComparison", "Calibration", "EvidenceCurve"]
RECORDS += ["Run", "Report", "Check", "MarkovOrder", "ActionValues", "Ensemble"]
NAMELESS = {"MarkovOrder", "Posterior", "MixturePosterior", "EvidenceCurve", "Run"}
NAMELESS |= {"Ensemble"}
TERSE = {"Transitions", "Report"}  # no summary() to compare with


@pytest.mark.parametrize("name", RECORDS)
def test_labels_are_text_and_tables_can_be_read_aloud(
    name: str, records: Mapping[str, Any]
) -> None:
    page = Page(records[name]._repr_html_())
    assert page.open == []
    assert {tag for tag, _ in page.elements} <= KNOWN
    assert all("scope" in more for tag, more in page.elements if tag == "th")
    assert (EVIL in page.text) == (name not in NAMELESS)
    assert len(page.text) > 20


@pytest.mark.parametrize("name", sorted(set(RECORDS) - TERSE))
def test_a_notebook_says_all_that_the_summary_says(
    name: str, records: Mapping[str, Any]
) -> None:
    said = records[name].summary()
    shown = Page(records[name]._repr_html_()).text
    words = set(re.findall(r"[\w.%-]+", said.replace(EVIL, "")))
    words -= {"-"}
    missing = {x for x in words if x.strip(".") and x.strip(".") not in shown}
    assert missing <= ({"covered"} if name == "Calibration" else set())


def test_a_report_shows_its_sentences_and_how_to_save(
    records: Mapping[str, Any],
) -> None:
    report = records["Report"]
    text = report._repr_html_()
    assert len(text) < 10_000
    shown = Page(text).text
    assert all(x in shown for x in report.data["summary"]["sentences"].values())
    assert 'save("report.html")' in shown


def test_one_sheet_is_text_and_html() -> None:
    table = Table(["", "value"], [["a", "1.5"], ["longer", "10"]])
    sheet = Sheet("Title", [table, "a < b"])
    assert sheet.text() == "Title\n        value\na         1.5\nlonger     10\na < b"
    bare = re.sub(r' (style|scope)="[^"]*"', "", sheet.html())
    assert bare == (
        "<div><div><table><caption>Title</caption><thead><tr><td></td><th>value</th>"
        "</tr></thead><tbody><tr><th>a</th><td>1.5</td></tr><tr><th>longer</th>"
        "<td>10</td></tr></tbody></table></div><p>a &lt; b</p></div>"
    )
    zero = Table(["", "gain"], [["-0.0 mg", "-0.00"], ["b", "-0.02 to -0.0"]])
    for shown in ("\n".join(zero.lines()), Page(zero.html()).text):  # names stay
        assert "-0.0 mg" in shown
        assert "-0.00" not in shown
        assert "-0.02 to 0.0" in shown
    assert Sheet("Title", ["x", "y"], indent="  ").text() == "Title\n  x\n  y"
    assert Sheet("Title", []).html().count("<p") == 1


def test_a_run_shows_its_path(records: Mapping[str, Any]) -> None:
    run = records["Run"]
    assert str(Path(run.path).name) in Page(run._repr_html_()).text
