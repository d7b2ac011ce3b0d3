"""``bayesmdp cross-fit``: a gain judged by episodes that did not choose the policy."""

from pathlib import Path
from typing import Any

import click

from bayesmdp.cli._options import Work, reward_option, work_options
from bayesmdp.cli._runs import (
    keep_and_show,
    load_run_and_log,
    run_and_log_arguments,
)

_NAME = "cross_fit"


@click.command()
@run_and_log_arguments
@click.option(
    "--folds",
    type=click.IntRange(2),
    default=2,
    show_default=True,
    help="Parts of the episodes, each of which judges what the others chose.",
)
@reward_option
@work_options
def command(
    run: Path,
    files: tuple[str, ...],
    reading: dict[str, Any],
    folds: int,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Judge the gain of a chosen policy by episodes that did not choose it.

    FILE is the log that RUN was fitted from, with an episode column. In turns, the
    nominal policy of some episodes is set beside the behaviour policy in the posterior
    of the others; prior and available pairs are those of RUN.

    Example: bayesmdp cross-fit ward ward.csv
    """
    import bayesmdp as bm

    posterior, log = load_run_and_log(run, files, reading, reward, result=_NAME)
    result = bm.cross_fit(
        log,
        posterior.task,
        posterior.prior,
        n_folds=folds,
        min_count=posterior.min_count,
        seed=work.seed,
        threads=work.threads,
    )
    keep_and_show(run, _NAME, result, work)
