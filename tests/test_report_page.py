"""The page as text: nothing from users is markup, nothing is fetched; and errors."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesmdp as bm
from bayesmdp.reporting._report import embedded

EVIL = "</script><script>alert(1)</script>"


class Page(HTMLParser):
    """Elements, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[dict[str, str | None]] = []
        self.texts: list[str] = []
        self.headings: list[str] = []
        self.inside = ""
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        if tag == "script":
            self.scripts.append(dict(attrs))
            self.texts.append("")
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.texts[-1] += data
        if self.inside == "h1":
            self.headings.append(data)


@pytest.fixture(scope="module")
def report() -> bm.Report:
    task = bm.Task(
        3,
        2,
        reward=[0, 1, 0],
        discount=0.9,
        terminal=[1, 2],
        state_labels=[EVIL, "<b>home</b>", "death & <!--\nof a line"],
        action_labels=["<img src=x onerror=alert(2)>", "\u2028 wait"],
    )
    counts = bm.Counts.from_arrays([0, 0, 0], [0, 0, 1], [1, 2, 1], [9, 6, 7])
    posterior = bm.fit(counts, task, prior=bm.SymmetricPrior())
    policies = {EVIL: np.array([0, 0, 0]), "{{ 7 * 7 }}": np.array([1, 0, 0])}
    return bm.report(posterior, bm.compare(policies, posterior.draws(100)))


@pytest.fixture(scope="module")
def page(report: bm.Report) -> Page:
    return Page(report.html())


def test_labels_are_text_and_never_markup(report: bm.Report, page: Page) -> None:
    assert [x.get("type") for x in page.scripts] == [
        "application/json",
        "text/plain",
        None,
    ]
    assert json.loads(page.texts[0]) == report.data
    assert EVIL in "".join(page.headings)
    assert "49" not in "".join(page.headings)
    assert "<img src=x" not in report.html()
    assert "<b>home" not in report.html()


def test_nothing_is_fetched(page: Page) -> None:
    assert all(x.startswith(("#", "data:,")) for x in page.addresses)


def test_embedded_data_cannot_end_its_element() -> None:
    data: dict[str, Any] = {"a": EVIL, "b": "<!--", "c": "\u2028&"}
    text = embedded(data)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == data


def test_the_page_is_small(report: bm.Report) -> None:
    assert len(report.html().encode()) < 5_500_000  # Plotly is 4.8 of it


def test_the_wrong_records_are_refused(report: bm.Report) -> None:
    casino = bm.worlds.casino()
    table = bm.compare({"play": [0, 0, 0], "leave": [1, 0, 0]}, casino.draws())
    with pytest.raises(bm.BayesmdpError, match="`posterior` must be"):
        bm.report(table, table)  # type: ignore[arg-type]
    with pytest.raises(bm.BayesmdpError, match="`comparison` must be of type Comp"):
        bm.report(casino, casino)  # type: ignore[arg-type]
    with pytest.raises(bm.BayesmdpError, match="`findings` must be of type Findings"):
        bm.report(casino, table, findings=[])  # type: ignore[arg-type]
    models = [casino.draws().dynamics(0)] * 3
    with pytest.raises(bm.BayesmdpError, match="is not that ensemble"):
        bm.report(bm.Ensemble(models, casino.task), table)
    task = bm.Task(3, 2, casino.task.reward, discount=0.5, terminal=[2])
    other = bm.fit(
        bm.Counts.from_arrays([0], [0], [2]), task, prior=bm.SymmetricPrior()
    )
    with pytest.raises(bm.BayesmdpError, match="task with another `discount`"):
        bm.report(other, table)
    world = bm.worlds.gridworld()
    posterior = bm.fit(world.sample(50, seed=0), world.task, prior=bm.SymmetricPrior())
    with pytest.raises(bm.BayesmdpError, match="about 3 states and 2 actions, `post"):
        bm.report(posterior, table)


def test_files_that_cannot_be_written(report: bm.Report, tmp_path: Path) -> None:
    with pytest.raises(bm.BayesmdpError, match=r"must end in \.html"):
        report.save(tmp_path / "x.pdf")
    with pytest.raises(bm.BayesmdpError, match="there is no directory"):
        report.save(tmp_path / "no" / "x.html")
    with pytest.raises(bm.BayesmdpError, match="`path` must be of type"):
        report.save(3)  # type: ignore[arg-type]
    with pytest.raises(bm.BayesmdpError, match=r"holds '\\ud800', half a character"):
        bm.Report({**report.data, "schema_version": "\ud800"}).save(tmp_path / "x.html")
    (tmp_path / "x.json").mkdir()
    with pytest.raises(bm.BayesmdpError, match="is not a plain file") as caught:
        report.save(tmp_path / "x.json")
    assert "\n" not in str(caught.value)
    assert [x.name for x in tmp_path.iterdir()] == ["x.json"]
