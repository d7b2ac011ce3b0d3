"""``bayesmdp compare-priors``: what priors predict of episodes that were held out."""

import click

from bayesmdp.cli._options import count, priors_beside, priors_options
from bayesmdp.cli._runs import Job, job_options, run_and_log_arguments

_NAME = "compare_priors"


@click.command()
@run_and_log_arguments
@priors_options
@count("--folds", 2, 5, "Parts of the episodes, each of which is held out once.")
@job_options
def command(job: Job, names: tuple[str, ...], fallback: str | None, folds: int) -> None:
    """Compare the prior of RUN with others.

    RUN is a directory of `fit`, which keeps counts only; whole episodes are held out,
    so FILE is the log that RUN was fitted from, with an episode column. --columns and
    --labels are as for `fit`. Predicted values are in units of reward. --fallback
    applies to the other priors. The result is kept in RUN: `report
    --prior-sensitivity` shows the gain under the best prior.

    Example: bayesmdp compare-priors ward ward.csv

    Example: bayesmdp compare-priors ward ward.csv --prior sparse --fallback death
    """
    import bayesmdp as bm

    log, posterior = job.log(_NAME), job.posterior
    comparison = bm.compare_priors(
        priors_beside(posterior, names, fallback),
        log,
        posterior.task,
        min_count=posterior.min_count,
        n_folds=folds,
        seed=job.seed,
        threads=job.threads,
    )
    job.keep(_NAME, {"comparison": comparison, "fallback": fallback})
    job.tell(comparison, fallback=fallback)
