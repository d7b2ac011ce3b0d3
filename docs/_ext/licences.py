"""Licences of what the package depends on, as installed packages state them."""

import re
from importlib.metadata import PackageNotFoundError, metadata, requires
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList


def stated(name: str) -> tuple[str, str]:
    """Version and licence of an installed package, in its own words."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return "not installed here", ""
    said = about.get("License-Expression") or ""
    kinds = [x for x in about.get_all("Classifier") or [] if x.startswith("License ::")]
    if not said and kinds:
        said = "; ".join(x.rsplit(" :: ", 1)[-1] for x in kinds)
    said = said or (about.get("License") or "not stated").splitlines()[0][:60]
    return about["Version"], said


def needed() -> list[tuple[str, str]]:
    """Name of every dependency, and the extra that asks for it."""
    found = []
    for line in requires("bayesmdp") or []:
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra == ['\"](\w+)", line)
        found.append((name[0] if name else line, extra[1] if extra else ""))
    return found


class Licences(Directive):
    """A table of packages."""

    def run(self) -> list[nodes.Node]:
        """Lay the table out."""
        rows = ["| package | needed for | version | licence |", "|---|---|---|---|"]
        for name, extra in needed():
            version, said = stated(name)
            wanted = f"extra `{extra}`" if extra else "everything"
            rows.append(f"| {name} | {wanted} | {version} | {said} |")
        holder = nodes.container()
        text = StringList(rows, "licences")
        self.state.nested_parse(text, self.content_offset, holder)
        return holder.children


def setup(app: Any) -> dict[str, bool]:
    """Join the build."""
    app.add_directive("licences", Licences)
    return {"parallel_read_safe": True}
