"""Run a study, or what is missing of it: ``python -m studies``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import studies
from bayesmdp.cli import (
    Command,
    debug_option,
    output_options,
    remark,
    show,
    wants_progress,
)
from bayesmdp.errors import ArgumentError
from studies import Effort
from studies.all_studies import PAGE, run_all

_NAMES = """\b
Names:
  fig1 .. fig5  as in the paper       evidence    figure 13
  casino        figure 6              bounds      appendix A
  scaling       figure 7              resampling  section 4.2
  ensemble      figure 8              beliefs     predicted and true values by prior
  msbi          figure 9              sbc         ranks of truths by simulation
  relative      figures 10 and 11     no_effect   claims where actions do nothing
  uncertainty   figure 12             controls    p values without effect; cross-fitting
  markov_tests  alarms with and without history
  off_policy    estimates without a prior
  safe          safe improvement, every method on the same logs
  risk          every objective beside the method made for it
  next_trial    patients gathered by next_trial, or treated as before
  all           every one of them

Exit codes: 0 done; 1 with warnings, or some study could not run; 2 bad input;
130 interrupted.
"""


@click.command(
    cls=Command,
    epilog=_NAMES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Minutes instead of hours; wider errors.")
@click.option("--full", is_flag=True, help="Also what is left out for its cost.")
@click.option(
    "--seeds",
    type=click.IntRange(2),
    help="How many repetitions, where a study has any; default the study's own.",
)
@click.option(
    "--jobs",
    "n_jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes to use; results do not depend on it.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reproduced"),
    show_default=True,
    help="Where to keep records, summary and pictures.",
)
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped.")
@click.option(
    "--so-far",
    is_flag=True,
    help="Run nothing; tell what a run that was stopped, or goes on, has found.",
)
@output_options
@debug_option
@click.pass_context
def main(
    ctx: click.Context,
    name: str | None,
    quick: bool,
    full: bool,
    seeds: int | None,
    n_jobs: int,
    out: Path,
    resume: bool,
    so_far: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Make the tables and figures of study NAME again; of every study for `all`.

    Records are kept as they come: after Ctrl-C, or a kill, the same command with
    --resume goes on, and ends with the same records as a run in one piece. `all` also
    writes index.md, one page that shows everything.

    Example: python -m studies beliefs --quick --jobs 2

    Example: python -m studies all --quick --jobs 2
    """
    if name is None:
        raise ArgumentError(f"Name a study: {', '.join(studies.STUDIES)}, or all.")
    effort = Effort(quick=quick, full=full, seeds=seeds)
    study = None if name == "all" else studies.find_study(name)
    if resume and not studies.holds_run(out):
        remark(f"`{out}` holds no run to go on with; a new one begins.", quiet=quiet)
    if study is None:
        if so_far:
            raise ArgumentError("`--so-far` is of one study: name it.")
        _everything(ctx, effort, out, n_jobs, resume, as_json, quiet)
        return
    with _interruptible(ctx, out):
        outcome = studies.run_study(
            study,
            effort,
            out,
            n_jobs=n_jobs,
            resume=resume,
            progress=wants_progress(quiet),
            so_far=so_far,
        )
    record = {
        "study": study.name,
        "directory": str(outcome.directory),
        "seconds": round(outcome.seconds, 3),
        "timed": study.timed,
        "summary": outcome.summary,
        "verdicts": outcome.verdicts,
        "skipped": list(outcome.skipped),
    }
    show(outcome.summary, record, as_json=as_json, quiet=quiet)
    for reason in outcome.skipped:
        remark(reason, quiet=quiet)
    if study.timed:
        said = "records of this study hold measured times, which no two runs share."
        remark(said, quiet=quiet)
    remark(f"kept in {outcome.directory}", quiet=quiet)


def _everything(
    ctx: click.Context,
    effort: Effort,
    out: Path,
    n_jobs: int,
    resume: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run every study and say what each came to."""
    with _interruptible(ctx, out):
        parts = run_all(
            effort, out, n_jobs=n_jobs, resume=resume, progress=wants_progress(quiet)
        )
    found = [
        {
            "study": part.name,
            "seconds": part.outcome and round(part.outcome.seconds, 3),
            "verdicts": part.verdicts,
            "problem": part.problem,
            "skipped": [] if part.outcome is None else list(part.outcome.skipped),
        }
        for part in parts
    ]
    ran = [part for part in parts if part.problem is None]
    text = "\n".join(f"{x.name}: {' '.join(x.verdicts) or x.title}" for x in ran)
    record = {"page": str(out / PAGE), "studies": found}
    show(text, record, as_json=as_json, quiet=quiet)
    for part in parts:
        if part.problem is not None:
            remark(f"{part.name} did not run: {part.problem}")
    remark(f"kept in {out}; look at {out / PAGE}", quiet=quiet)
    if len(ran) < len(parts):
        ctx.exit(1)


@contextmanager
def _interruptible(ctx: click.Context, where: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        remark(
            f"interrupted; what was done is kept in `{where}`, and `--resume` goes on."
        )
        ctx.exit(130)


if __name__ == "__main__":
    main(prog_name="python -m studies")
