"""``bayesmdp demo``: from a log of patients to a report, where the truth is known."""

import sys
from pathlib import Path

import click

from bayesmdp.cli._options import (
    Work,
    remark,
    work_options,
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
@work_options
def command(
    out: Path,
    n_patients: int,
    n_draws: int,
    work: Work,
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

    silent = work.quiet or not sys.stderr.isatty()  # in a pipe nobody waits for news
    story = tell_story(
        out,
        n_patients=n_patients,
        n_draws=n_draws,
        **work.how,
        say=lambda text: remark(text, quiet=silent),
    )
    work.show(story.summary(), story.to_dict())
