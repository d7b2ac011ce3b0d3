"""``bayesmdp cost-effectiveness``: costs beside effects, on the same draws."""

import click

from bayesmdp.cli._options import device_option, draws_option, restrict_option
from bayesmdp.cli._runs import Job, job_options, policies_argument, run_argument

_NAME = "cost_effectiveness"


@click.command()
@run_argument
@policies_argument
@click.option(
    "--cost",
    metavar="REWARD",
    default="cost",
    help="Reward of the task that counts against a policy.",
)
@click.option(
    "--effect",
    metavar="REWARD",
    default="qaly",
    help="Reward of the task that counts for it.",
)
@click.option(
    "--threshold",
    "thresholds",
    type=float,
    multiple=True,
    help="What one unit of effect may cost; may be repeated; 0 to 100000 in steps of "
    "5000 where not given.",
)
@draws_option
@restrict_option
@device_option
@job_options
def command(
    job: Job,
    policies: tuple[str, ...],
    cost: str,
    effect: str,
    thresholds: tuple[float, ...],
    n_draws: int,
) -> None:
    """Compare costs and effects of policies.

    RUN is a directory of `fit` whose task has several rewards; POLICY is as in
    `bayesmdp evaluate`, at least two. Prints the incremental table (ICER, dominance),
    the best policy by threshold, the probability that it is best, and the value of
    perfect information. `report` shows the last analysis. --reward says what a policy
    such as nominal is best for: --reward qaly=20000 --reward cost=-1.

    Example: bayesmdp cost-effectiveness ward behaviour optimised --threshold 20000

    Example: bayesmdp cost-effectiveness ward behaviour mine.csv --effect survival
    """
    import bayesmdp as bm

    every = bm.storage.load(job.path).posterior  # of all rewards
    job.reserve(_NAME)
    found = bm.cost_effectiveness(
        job.policies(policies, least=2),
        every.draws(n_draws, job.seed),
        cost=cost,
        effect=effect,
        thresholds=thresholds or None,
        **job.seedless,
    )
    kept = job.keep(_NAME, found)
    job.tell(found, f"{found.summary()}\nSaved in {kept}", result=str(kept))
