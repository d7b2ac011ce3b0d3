"""Scripts of the gallery: their form here, what they do in the integration tests."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_has_a_title_and_says_what_it_is_about(path: Path) -> None:
    lines = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()
    assert len(lines) > 3
    assert re.fullmatch("=+", lines[1])
    assert len(lines[0]) == len(lines[1])
    assert lines[2] == ""


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_pages_that_a_script_points_to_are_there(path: Path) -> None:
    pages = re.findall(r":doc:`/([\w/]+)`", path.read_text())
    assert [x for x in pages if not (ROOT / "docs" / f"{x}.md").exists()] == []
