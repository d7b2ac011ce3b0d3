"""``bayesmdp demo``: from a log of patients to a report, where the truth is known."""

import sys
from pathlib import Path

import click

from bayesmdp.cli._options import (
    output_options,
    remark,
    seed_option,
    show,
    threads_option,
    wants_progress,
)


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Where to write report.html and report.json.",
)
@click.option(
    "--patients",
    "n_patients",
    type=click.IntRange(50),
    default=18_000,
    show_default=True,
    help="Patients to simulate.",
)
@click.option(
    "--draws",
    "n_draws",
    type=click.IntRange(2),
    default=250,
    show_default=True,
    help="Draws of the posterior to compare policies on.",
)
@seed_option
@threads_option
@output_options
def command(
    out: Path,
    n_patients: int,
    n_draws: int,
    seed: int,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Treat simulated patients, learn from the log, and compare values with the truth.

    Patients come from ICU-Sepsis, a published model of the treatment of sepsis. Their
    log is analysed as one of yours would be: validated, learnt from, policies planned,
    searched for and compared, all on one page. Then every policy is looked up in the
    true model. Takes a few minutes; the first time longer, while kernels compile.

    Example: bayesmdp demo

    Example: bayesmdp demo --patients 2000 --seed 1 --out small
    """
    from bayesmdp.cli._sepsis_demo import tell_story

    silent = quiet or not sys.stderr.isatty()  # in a pipe nobody waits for news
    story = tell_story(
        out,
        n_patients=n_patients,
        n_draws=n_draws,
        seed=seed,
        threads=threads,
        progress=wants_progress(quiet),
        say=lambda text: remark(text, quiet=silent),
    )
    show(story.summary(), story.to_dict(), as_json=as_json, quiet=quiet)
