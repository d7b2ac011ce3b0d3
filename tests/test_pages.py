"""Pages of the documentation run from top to bottom, and print what they show."""

import contextlib
import io
import re
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import bayesmdp as bm

DOCS = Path(__file__).parents[1] / "docs"
# blocks of code, and of output
PAGES = {"clinical.md": (8, 6), "data.md": (9, 8)}
PAGES |= {"pictures.md": (3, 1), "report.md": (2, 2), "off_policy.md": (1, 1)}
PAGES |= {"follow_up.md": (1, 1), "cost_effectiveness.md": (5, 5)}
PAGES |= {"information.md": (4, 4)}
PAGES |= {"first_steps.md": (4, 2), "index.md": (1, 0)}
PAGES |= {"rewards.md": (6, 6)}


@pytest.mark.parametrize("name", PAGES)
def test_code_runs_and_prints_what_is_shown(name: str) -> None:
    run_page(name, *PAGES[name])


def run_page(name: str, n_blocks: int, n_shown: int) -> None:
    """Run the code of a page; it must print what the page shows."""
    blocks = re.findall(
        r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?",
        (DOCS / name).read_text(),
        re.S,
    )
    found = len(blocks), sum(bool(shown) for _, shown in blocks)
    assert found == (n_blocks, n_shown)
    names: dict[str, object] = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), names)
        if shown:
            assert printed.getvalue() == shown


def test_task_files_of_pages_are_read() -> None:
    ends = {"next_state": ["ward", "icu", "home", "death"], "action": ["treat"] * 4}
    log = bm.read_transitions(pd.DataFrame({"state": ["icu", "ward"] * 2, **ends}))
    tasks = {}
    for name, data in (("data.md", log), ("cost_effectiveness.md", None)):
        text = (DOCS / name).read_text()
        (block,) = re.findall(r"```toml\n(.*?)```", text, re.S)
        tasks[name] = bm.storage.read_task(tomllib.loads(block), data)
    assert tasks.popitem()[1].reward_names == ("cost", "qaly")
    names: dict[str, Any] = {}
    code = re.findall(r"```python\n(.*?)^posterior", text, re.S | re.M)[0]
    exec(code, names)  # the task of which the page says that it is the same
    file, known = bm.storage.read_task(tomllib.loads(block)), names["task"]
    assert (file.horizon, file.cycle) == (known.horizon, known.cycle)
    assert file.terminal.tolist() == known.terminal.tolist()
    for name in ("cost", "qaly"):
        one, other = file.parts[name], known.parts[name]
        assert one.reward.tolist() == other.reward.tolist()
        assert one.discount == pytest.approx(other.discount, abs=1e-6)


ROOT = DOCS.parent
WRITTEN = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("doors/*.md")]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    made = "https?:|gallery/|api/"  # the site writes these folders
    links = re.findall(rf"\]\((?!{made})([^)#\s]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []
