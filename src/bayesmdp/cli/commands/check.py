"""``bayesmdp check``: whether a belief fits the log it was learnt from."""

import click

from bayesmdp.cli._options import count, device_option
from bayesmdp.cli._runs import Job, job_options, run_and_log_arguments

_NAME = "check"


@click.command()
@run_and_log_arguments
@count(
    "--draws n_draws", 2, 500, "Posterior draws; each makes one replicate of the log."
)
@count(
    "--permutations n_permutations", 1, 999, "For the test of order 1 against order 2."
)
@device_option
@job_options
def command(job: Job, n_draws: int, n_permutations: int) -> None:
    """Set what FILE observed beside what RUN, a directory of `fit`, predicts.

    FILE is the log that RUN was fitted from, with an episode column; --columns and
    --labels are as for `fit`. Values are in units of reward. The record is kept beside
    RUN, without any row of FILE, and `report` shows it.

    Example: bayesmdp check ward ward.csv
    """
    import bayesmdp as bm

    found = bm.check(
        job.posterior,
        job.log(_NAME),
        n_draws=n_draws,
        n_permutations=n_permutations,
        **job.how,
    )
    job.keep_and_tell(_NAME, found)
