"""``bayesmdp cross-fit``: a gain judged by episodes that did not choose the policy."""

import click

from bayesmdp.cli._options import count, device_option
from bayesmdp.cli._runs import Job, job_options, run_and_log_arguments

_NAME = "cross_fit"


@click.command()
@run_and_log_arguments
@count(
    "--folds",
    2,
    2,
    "Parts of the episodes, each of which judges what the others chose.",
)
@device_option
@job_options
def command(job: Job, folds: int) -> None:
    """Judge a policy on episodes that did not choose it.

    RUN is a directory of `fit`, and FILE the log that it was fitted from, with an
    episode column. In turn, the nominal policy of some episodes is compared with the
    behaviour policy in the posterior of the others; prior and available pairs are
    those of RUN.

    Example: bayesmdp cross-fit ward ward.csv
    """
    import bayesmdp as bm

    log, posterior = job.log(_NAME), job.posterior
    found = bm.cross_fit(
        log,
        posterior.task,
        posterior.prior,
        n_folds=folds,
        min_count=posterior.min_count,
        seed=job.seed,
        threads=job.threads,
        device=job.device,
    )
    job.keep_and_tell(_NAME, found)
