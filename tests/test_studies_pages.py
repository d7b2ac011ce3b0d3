"""Tables of studies in pages of the documentation."""

from pathlib import Path

import pytest

from bayesmdp.errors import ArgumentError
from studies import STUDIES, pages


def test_pages_are_filled_between_their_marks(tmp_path: Path) -> None:
    docs, out = tmp_path / "docs", tmp_path / "out"
    (docs / "pictures").mkdir(parents=True)
    (out / "sbc").mkdir(parents=True)
    page = docs / "no_effect.md"
    page.write_text("A\n<!-- sbc -->\nold\n\nold\n<!-- /sbc -->\nB\n")
    with pytest.raises(ArgumentError, match="holds no finished study of no_effect"):
        pages.fill(out, docs)
    (out / "sbc" / "summary.md").write_text("# Title\n\n| new |\n\nverdict\n")
    (out / "sbc" / "sbc.png").write_bytes(b"png")
    assert pages.fill(out, docs) == ("sbc",)
    new = "A\n<!-- sbc -->\n| new |\n\nverdict\n<!-- /sbc -->\nB\n"
    assert page.read_text() == new
    assert (docs / "pictures" / "sbc.png").read_bytes() == b"png"
    assert pages.fill(out, docs) == ("sbc",)  # again, and nothing changes
    assert page.read_text() == new
    page.write_text("A\n")
    with pytest.raises(ArgumentError, match="no marks `<!-- sbc -->`"):
        pages.fill(out, docs)


@pytest.mark.parametrize("name", pages.PAGES)
def test_pages_have_marks_for_studies_that_exist(name: str) -> None:
    assert name in STUDIES
    text = (pages.DOCS / pages.PAGES[name]).read_text()
    assert text.count(f"<!-- {name} -->\n") == text.count(f"\n<!-- /{name} -->") == 1
