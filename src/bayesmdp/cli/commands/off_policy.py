"""``bayesmdp off-policy``: what logged episodes alone say about a policy."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from bayesmdp.cli._options import count, device_option, restrict_option
from bayesmdp.cli._runs import OPTIMISED, Job, job_options, run_and_log_arguments

if TYPE_CHECKING:
    from bayesmdp import Counts, Task
    from bayesmdp._typing import FloatArray

_NAME = "off_policy"
_OPTIMISTIC = (
    "The policy was chosen on the log that judges it, so that these estimates are "
    "optimistic; --folds 2 judges on other episodes."
)
_CHOSEN = ("optimised", "mle", "nominal", "second_order", "msbi")  # by looking at a log


@click.command()
@run_and_log_arguments
@click.option(
    "--policy",
    metavar="POLICY",
    help="As in `bayesmdp evaluate`; default optimised where RUN has it, else nominal.",
)
@count(
    "--folds",
    0,
    2,
    "Parts of the episodes: a policy that was chosen by the log is chosen again on the "
    "others and judged on each; 0 judges it on the log that chose it.",
)
@restrict_option
@device_option
@job_options
def command(job: Job, policy: str | None, folds: int) -> None:
    """Estimate the value of a policy without a prior.

    RUN is a directory of `fit`, and FILE the log that it was fitted from, with an
    episode column; --columns and --labels are as for `fit`. Importance sampling (IS,
    WIS, PDIS, PDWIS, DR, WDR) with effective sample sizes; behaviour by the logged
    frequencies. Values are in units of reward. The result is kept in RUN for `report`.

    Example: bayesmdp off-policy ward ward.csv

    Example: bayesmdp off-policy ward ward.csv --policy mine.csv --json
    """
    import bayesmdp as bm

    log, posterior = job.log(_NAME), job.posterior
    if policy is None:
        policy = OPTIMISED if OPTIMISED in job.run.results else "nominal"

    def choose(counts: "Counts", task: "Task") -> "FloatArray":
        belief = bm.fit(
            counts, task, prior=posterior.prior, min_count=posterior.min_count
        )
        if policy == OPTIMISED:
            return bm.optimise(belief, **job.how).policy
        return bm.policies.named_policy(
            policy, belief, seed=job.seed, threads=job.threads
        )

    chosen = policy in _CHOSEN
    name, given = (
        (policy, choose) if chosen and folds else job.policy(policy, "--policy")
    )
    found = bm.off_policy(
        given,
        log,
        posterior.task,
        n_folds=folds,
        seed=job.seed,
        name=name,
        progress=job.how["progress"],
    )
    if chosen and not folds:
        found = replace(found, notes=(*found.notes, _OPTIMISTIC))
    job.keep_and_tell(_NAME, found)
