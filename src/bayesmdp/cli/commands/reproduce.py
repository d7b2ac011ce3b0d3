"""``bayesmdp reproduce``: run a study, or what is missing of it."""

from pathlib import Path

import click

from bayesmdp.cli._options import output_options, remark, show


@click.command()
@click.argument("name")
@click.option("--quick", is_flag=True, help="Minutes instead of hours; wider errors.")
@click.option("--full", is_flag=True, help="Also what is left out for its cost.")
@click.option("--seeds", type=click.IntRange(2), help="How many repetitions.")
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
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    quick: bool,
    full: bool,
    seeds: int | None,
    n_jobs: int,
    out: Path,
    resume: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Make the tables and figures of study NAME again.

    Records are kept as they come: after Ctrl-C, or a kill, the same command with
    --resume goes on, and ends with the same records as a run in one piece.

    Example: bayesmdp reproduce priors --quick --jobs 2
    """
    from bayesmdp.paper import Effort, find_study, run_study

    study = find_study(name)
    effort = Effort(quick=quick, full=full, seeds=seeds)
    try:
        outcome = run_study(study, effort, out, n_jobs=n_jobs, resume=resume)
    except KeyboardInterrupt:
        remark(
            f"interrupted; what was done is kept in `{out / name}`, and `--resume` "
            "goes on."
        )
        ctx.exit(130)
    record = {
        "study": name,
        "directory": str(outcome.directory),
        "seconds": outcome.seconds,
        "summary": outcome.summary,
        "skipped": list(outcome.skipped),
    }
    show(outcome.summary, record, as_json=as_json, quiet=quiet)
    for reason in outcome.skipped:
        remark(reason, quiet=quiet)
    remark(f"kept in {outcome.directory}", quiet=quiet)
