"""``bayesmdp prior-sensitivity``: a policy's value and gain under other priors."""

import click

from bayesmdp.cli._options import (
    count,
    device_option,
    priors_beside,
    priors_options,
    restrict_option,
)
from bayesmdp.cli._runs import Job, job_options, run_argument


@click.command()
@run_argument
@click.argument("policy")
@click.option(
    "--baseline",
    metavar="POLICY",
    default="behaviour",
    help="Policy relative to which the gain is computed.",
)
@priors_options
@count(
    "--draws n_draws",
    2,
    1000,
    "Draws of each posterior; errors shrink with the square root of their number, but "
    "not below that of the default prior's finite Markov chains.",
)
@count(
    "--states n_states",
    0,
    10,
    "How many states to show whose recommendation depends on the prior, the most "
    "visited first; --json has all.",
)
@restrict_option
@device_option
@job_options
def command(
    job: Job,
    policy: str,
    baseline: str,
    names: tuple[str, ...],
    fallback: str | None,
    n_draws: int,
    n_states: int,
) -> None:
    """Evaluate POLICY under the prior of RUN and others.

    RUN is a directory of `fit`, and POLICY as in `bayesmdp evaluate`. Values, gains and
    standard deviations are in units of reward. --fallback applies to the other priors.

    Example: bayesmdp prior-sensitivity ward nominal

    Example: bayesmdp prior-sensitivity ward optimised --prior symmetric --prior scaled
    """
    import bayesmdp as bm

    (name, found), (over, base) = job.policy(policy), job.policy(baseline, "--baseline")
    posterior = job.posterior
    under = bm.prior_sensitivity(
        found,
        posterior,
        posterior.task,
        priors_beside(posterior, names, fallback),
        baseline=base,
        min_count=posterior.min_count,
        n_draws=n_draws,
        seed=job.seed,
        threads=job.threads,
        device=job.device,
    )
    job.tell(under, under.summary(n_states), policy=name, baseline=over)
