"""``bayesmdp evaluate``: how good a policy is, and how sure we are."""

import click

from bayesmdp.cli._options import count, device_option, draws_option, restrict_option
from bayesmdp.cli._runs import Job, job_options, run_argument


@click.command()
@run_argument
@click.argument("policy")
@draws_option
@click.option(
    "--tolerance",
    type=float,
    help="Stop at this Monte Carlo error of the start value, in units of reward; all "
    "draws are used where not given.",
)
@count(
    "--states n_states",
    0,
    10,
    "How many states to show, the most visited first; --json has all.",
)
@restrict_option
@device_option
@job_options
def command(
    job: Job, policy: str, n_draws: int, tolerance: float | None, n_states: int
) -> None:
    """Evaluate POLICY in RUN, with its uncertainty.

    RUN is a directory of `fit`. POLICY is behaviour, mle, nominal, second_order, msbi,
    uniform, always:ACTION, optimised (after `bayesmdp optimise`), or a file: CSV with
    columns state, action and maybe probability, or .npy. Values and standard deviations
    are in units of reward.

    Example: bayesmdp evaluate ward nominal

    Example: bayesmdp evaluate ward mine.csv --draws 2000 --json
    """
    import bayesmdp as bm

    name, found = job.policy(policy)
    draws = job.posterior.draws(n_draws, job.seed)
    evaluation = bm.evaluate(found, draws, tolerance=tolerance, **job.seedless)
    job.tell(evaluation, evaluation.summary(n_states), policy=name)
