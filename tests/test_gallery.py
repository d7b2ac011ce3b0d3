"""Scripts of the gallery: their form here, what they do in the integration tests."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_pages_that_a_script_points_to_are_there(path: Path) -> None:
    pages = re.findall(r":doc:`/([\w/]+)`", path.read_text())
    assert [x for x in pages if not (ROOT / "docs" / f"{x}.md").exists()] == []
