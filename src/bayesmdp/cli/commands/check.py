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
    "--permutations n_permutations", 1, 999, "Permutations in the test of Markov order."
)
@device_option
@job_options
def command(job: Job, n_draws: int, n_permutations: int) -> None:
    """Compare the log FILE with what RUN predicts.

    RUN is a directory of `fit`, and FILE the log that it was fitted from, with an
    episode column; --columns and --labels are as for `fit`. Values are in units of
    reward. The record is kept in RUN, without any row of FILE; `report` shows it.

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
