"""``bayesmdp check``: whether a belief fits the log it was learnt from."""

from pathlib import Path
from typing import Any

import click

from bayesmdp.cli._options import (
    Work,
    reward_option,
    work_options,
)
from bayesmdp.cli._runs import (
    keep_and_show,
    load_run_and_log,
    run_and_log_arguments,
)


@click.command()
@run_and_log_arguments
@click.option(
    "--draws",
    "n_draws",
    type=click.IntRange(2),
    default=500,
    show_default=True,
    help="Posterior draws; each makes one replicate of the log.",
)
@click.option(
    "--permutations",
    "n_permutations",
    type=click.IntRange(1),
    default=999,
    show_default=True,
    help="For the test of order 1 against order 2.",
)
@reward_option
@work_options
def command(
    run: Path,
    files: tuple[str, ...],
    reading: dict[str, Any],
    n_draws: int,
    n_permutations: int,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Set what FILE observed beside what RUN, a directory of `fit`, predicts.

    FILE is the log that RUN was fitted from, with an episode column; --columns and
    --labels are as for `fit`. Values are in units of reward. The record is kept beside
    RUN, without any row of FILE, and `report` shows it.

    Example: bayesmdp check ward ward.csv
    """
    import bayesmdp as bm

    posterior, log = load_run_and_log(run, files, reading, reward, result="check")
    found = bm.check(
        posterior,
        log,
        n_draws=n_draws,
        n_permutations=n_permutations,
        **work.how,
    )
    keep_and_show(run, "check", found, work)
