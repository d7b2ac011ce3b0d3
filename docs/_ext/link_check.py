"""Check links of the built pages among themselves: files, and places in them.

Sphinx warns of pages that are not there; this also sees what the gallery, the theme and
raw HTML link to, and every anchor. Nothing outside the site is asked for.
"""

import html
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

from sphinx.util.logging import getLogger

LINK = re.compile(r'\s(?:href|src)="([^"]+)"')
PLACE = re.compile(r'\s(?:id|name)="([^"]+)"')
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//")


def broken(root: Path) -> list[str]:
    """Links to files or places that the site does not have."""
    pages = {
        path: path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*.html"))
        if "_static" not in path.parts
    }
    places = {path: set(PLACE.findall(text)) for path, text in pages.items()}
    found = []
    for path, text in pages.items():
        for link in dict.fromkeys(LINK.findall(text)):
            if ELSEWHERE.match(link):
                continue
            to, place = urldefrag(html.unescape(link))
            file = unquote(to.split("?")[0])
            there = (path.parent / file).resolve() if file else path
            known = places.get(there)
            missed = place and known is not None and unquote(place) not in known
            if missed or not there.exists():
                found.append(f"{path.relative_to(root)}: {link}")
    return found


def check(app: Any, exception: Exception | None) -> None:
    """Warn of each broken link, which ``-W`` makes an error."""
    if exception is None and app.builder.name == "html":
        for link in broken(Path(app.outdir).resolve()):
            getLogger(__name__).warning("link leads nowhere: %s", link)


def setup(app: Any) -> dict[str, bool]:
    """Join the build."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True}
