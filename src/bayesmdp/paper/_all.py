"""Every study, one after the other, and one page that shows what they came to.

The page is written anew after each study, so that there is something to look at long
before the end. It needs no network and no script; every picture is in it, as PNG or
SVG, whichever is smaller.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bayesmdp._io import write_atomic
from bayesmdp._version import __version__
from bayesmdp.errors import BayesmdpError, ExecutorError
from bayesmdp.paper._study import (
    Effort,
    Outcome,
    Study,
    open_places,
    run_study,
    workers,
)

PAGE = "index.html"
_TEMPLATE = Path(__file__).parent / "page" / "all.html.j2"
_WORDS = re.compile("not confirmed|confirmed with a caveat|confirmed")
_KINDS = {".png": "image/png", ".svg": "image/svg+xml"}
#: Studies that take long: they come last, the longest at the very end.
_LONG = (
    *("uncertainty", "bounds", "scaling", "resampling", "fig5", "priors", "ensemble"),
    *("fig3", "fig4", "relative", "fig2", "msbi"),
)


@dataclass(frozen=True)
class Part:
    """What became of one study."""

    name: str
    title: str
    outcome: Outcome | None  # None where it could not run
    problem: str | None  # why

    @property
    def verdicts(self) -> list[str]:
        """Sentences of its verdict; none where it could not run."""
        return [] if self.outcome is None else self.outcome.verdicts

    @property
    def word(self) -> str:
        """What the verdict comes to, at the end of its last sentence."""
        found = _WORDS.findall(" ".join(self.verdicts).lower())
        return found[-1] if found else ""


def run_all(
    effort: Effort,
    out: Path,
    *,
    n_jobs: int = 1,
    resume: bool = False,
    progress: bool | None = None,
) -> tuple[Part, ...]:
    """Run every study on one set of processes, and write the page of all of them.

    A study that cannot run does not stop the others.
    """
    from bayesmdp.paper import STUDIES

    found = {name: _found(name, effort) for name in STUDIES}
    for study in found.values():  # nothing is computed where a place is taken
        if isinstance(study, Study):
            open_places(study, effort, out, resume)
    parts: dict[str, Part] = {}
    with ExitStack() as at_work:
        pool = at_work.enter_context(workers(n_jobs))
        for name in in_order(STUDIES):
            study = found[name]
            if isinstance(study, Study):
                try:
                    outcome = run_study(
                        study, effort, out, resume=True, progress=progress, pool=pool
                    )
                    parts[name] = Part(name, study.title, outcome, None)
                except BayesmdpError as problem:
                    parts[name] = Part(name, study.title, None, str(problem))
                    if isinstance(problem, ExecutorError):  # others get new processes
                        at_work.close()
                        pool = at_work.enter_context(workers(n_jobs))
            else:
                parts[name] = Part(name, name, None, str(study))
            _show([parts[x] for x in STUDIES if x in parts], effort, out, len(STUDIES))
    return tuple(parts[name] for name in STUDIES)


def _found(name: str, effort: Effort) -> Study | BayesmdpError:
    """Look a study up; one that needs what is not installed says so."""
    from bayesmdp.paper import find_study

    try:
        study = find_study(name)
        study.jobs(effort)
    except BayesmdpError as problem:
        return problem
    return study


def in_order(names: Sequence[str] | dict[str, str]) -> list[str]:
    """Names with the long ones last."""
    short = [name for name in names if name not in _LONG]
    return short + [name for name in _LONG if name in names]


def _show(parts: list[Part], effort: Effort, out: Path, n_studies: int) -> None:
    """Write the page of the studies so far."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(markdown=_html, minutes=minutes)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    shown = template.render(
        parts=parts,
        pictures={x.name: list(_pictures(x)) for x in parts},
        effort=effort,
        n_studies=n_studies,
        seconds=spent(out),
        version=__version__,
    )
    write_atomic(out / PAGE, shown)


def spent(out: Path) -> float:
    """Seconds of work on jobs below ``out``; jobs that studies share count once."""
    return sum(float(x.read_text()) for x in out.glob("*/jobs/*.seconds"))


def minutes(seconds: float) -> str:
    """Say a time as people do."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _html(text: str) -> str:
    """Markdown as HTML, safe to embed: HTML within it is shown, not obeyed."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
    return Markup(renderer.render(text))


def _pictures(part: Part) -> Iterator[tuple[str, str]]:
    """Yield the name of every picture of a study, and itself as an address."""
    if part.outcome is None:
        return
    for png in sorted(part.outcome.directory.glob("*.png")):
        files = [png, png.with_suffix(".svg")]
        path = min((x for x in files if x.is_file()), key=lambda x: x.stat().st_size)
        content = b64encode(path.read_bytes()).decode()
        yield png.stem, f"data:{_KINDS[path.suffix]};base64,{content}"
