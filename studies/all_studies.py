"""Every study, one after the other, and one page that shows what they came to.

The page is written again after each study, so that there is something to look at long
before the end. It is Markdown, and shows the pictures that lie beside it.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import bayesmdp as bm
import studies
from bayesmdp._io import write_atomic
from bayesmdp.errors import BayesmdpError, ExecutorError
from studies.study import (
    Effort,
    Outcome,
    Study,
    open_places,
    run_study,
    spent,
    workers,
)

PAGE = "index.md"
_WORDS = re.compile("not confirmed|confirmed with a caveat|confirmed")
#: Studies that take long: they come last, the longest at the very end.
_LONG = (
    *("uncertainty", "bounds", "scaling", "resampling", "fig5", "sbc", "no_effect"),
    *("markov_tests", "off_policy", "controls", "beliefs", "ensemble", "fig3", "fig4"),
    *("relative", "fig2", "msbi", "safe"),
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
    names = studies.STUDIES
    found = {name: _found(name, effort) for name in names}
    for study in found.values():  # nothing is computed where a place is taken
        if isinstance(study, Study):
            open_places(study, effort, out, resume)
    parts: dict[str, Part] = {}
    with ExitStack() as at_work:
        pool = at_work.enter_context(workers(n_jobs))
        for name in in_order(names):
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
            _show([parts[x] for x in names if x in parts], effort, out)
    return tuple(parts[name] for name in names)


def _found(name: str, effort: Effort) -> Study | BayesmdpError:
    """Look a study up; one that needs what is not installed says so."""
    try:
        study = studies.find_study(name)
        study.jobs(effort)
    except BayesmdpError as problem:
        return problem
    return study


def in_order(names: Sequence[str]) -> list[str]:
    """Names with the long ones last."""
    short = [name for name in names if name not in _LONG]
    return short + [name for name in _LONG if name in names]


def _show(parts: list[Part], effort: Effort, out: Path) -> None:
    """Write the page of the studies so far."""
    options = f" with `{effort.options}`" if effort.options else ""
    lines = [
        "# The paper, redone",
        "",
        f"{len(parts)} of {len(studies.STUDIES)} studies{options}. "
        f"{minutes(spent(out))} of work in all, as its processes counted it; work that "
        f"studies share counts once. bayesmdp {bm.__version__}.",
        "",
        "| study | verdict | what it says | work |",
        "|---|---|---|---|",
        *(_row(part) for part in parts),
    ]
    for part in parts:
        lines += ["", *_section(part, effort)]
    write_atomic(out / PAGE, "\n".join(lines) + "\n")


def _row(part: Part) -> str:
    """Return the line of the table that stands for a study."""
    said, work = " ".join(part.verdicts) or part.title, ""
    if part.outcome is None:
        said = f"did not run: {part.problem}"
    else:
        shared = ", ".join(part.outcome.places)
        work = minutes(part.outcome.seconds) + (shared and f", shared: {shared}")
    word = part.word and f"**{part.word}**"
    cells = (f"[{part.name}](#{part.name})", word, said, work)
    return "| " + " | ".join(x.replace("|", r"\|") for x in cells) + " |"


def _section(part: Part, effort: Effort) -> list[str]:
    """Return what stands under a study's name: pictures, tables, where records are."""
    lines = [f"## {part.name}", "", f"*{part.title}*", ""]
    command = f"`python -m studies {part.name} {effort.options}".rstrip() + "`"
    if part.outcome is None:
        return [*lines, f"Did not run: {part.problem}", "", command]
    for png in sorted(part.outcome.directory.glob("*.png")):
        lines += [f"![{part.title} ({png.stem})]({part.name}/{png.name})", ""]
    for reason in part.outcome.skipped:
        lines += [f"Left out: {reason}", ""]
    records = f"{part.name}/records.jsonl"
    return [*lines, part.outcome.summary, "", f"{command}; [{records}]({records})"]


def minutes(seconds: float) -> str:
    """Say a time as people do."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"
