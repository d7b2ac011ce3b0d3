"""Put tables and pictures of finished studies into pages of the documentation.

``python -m studies.pages reproduced`` copies ``reproduced/NAME/summary.md``, without
its title, between the marks of NAME in the pages of `PAGES`, and the picture beside it
into ``docs/pictures``. Studies that were not run stay as they are.
"""

import re
import shutil
import sys
from pathlib import Path

from bayesmdp.errors import ArgumentError

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {"no_effect": "no_effect.md", "sbc": "no_effect.md"}
PAGES |= {x: f"{x}.md" for x in ("controls", "markov_tests", "off_policy", "risk")}
PAGES |= {"safe": "safe_improvement.md", "next_trial": "information.md"}


def fill(out: Path, docs: Path = DOCS) -> tuple[str, ...]:
    """Renew pages from what lies in ``out``; return the names of studies found."""
    found = [name for name in PAGES if (out / name / "summary.md").exists()]
    if not found:
        raise ArgumentError(
            f"`{out}` holds no finished study of {', '.join(PAGES)}; run "
            f"`python -m studies {next(iter(PAGES))} --out {out}` first."
        )
    for name in found:
        page = docs / PAGES[name]
        summary = (out / name / "summary.md").read_text(encoding="utf-8")
        tables = summary.split("\n", 1)[1].strip()
        marks = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.S)
        text = page.read_text(encoding="utf-8")
        parts = marks.split(text)
        if len(parts) != 4:
            raise ArgumentError(f"`{page}` has no marks `<!-- {name} -->` to fill.")
        before, first, last, after = parts
        page.write_text(before + first + tables + last + after, encoding="utf-8")
        picture = out / name / f"{name}.png"
        if picture.exists():
            shutil.copy(picture, docs / "pictures" / picture.name)
    return tuple(found)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m studies.pages DIRECTORY (`--out` of the studies)")
    try:
        fill(Path(sys.argv[1]))
    except ArgumentError as problem:
        sys.exit(str(problem))
