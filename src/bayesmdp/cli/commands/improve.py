"""``bayesmdp improve``: a policy that is better than a baseline also in bad draws."""

from pathlib import Path

import click

from bayesmdp._io import check_file
from bayesmdp.cli._options import (
    count,
    device_option,
    effort_option,
    policy_out_option,
    restrict_option,
)
from bayesmdp.cli._runs import Job, job_options, run_argument


@click.command()
@run_argument
@click.option(
    "--baseline",
    default="behaviour",
    metavar="POLICY",
    help="Policy to improve on: a name or a file, as in `bayesmdp evaluate`.",
)
@click.option(
    "--tail",
    type=float,
    default=0.25,
    help="Tail mass of the draws that count: 0.25 is the worst quarter.",
)
@count(
    "--changes n_changes",
    0,
    10,
    "How many changes to show, those that matter most first; --json has all.",
)
@effort_option
@policy_out_option
@restrict_option
@device_option
@job_options
def command(
    job: Job,
    baseline: str,
    tail: float,
    n_changes: int,
    effort: str,
    policy_out: Path | None,
) -> None:
    """Improve on a baseline where the evidence suffices.

    RUN is a directory of `fit`. The mean improvement over the worst draws is maximised.
    Half of the draws are from the posterior; in the others every pair has one more
    visit, to the worst state. Actions never observed in a state keep the baseline's
    probability. Where nothing helps, the baseline is returned, and the output says so.
    Exit code 1: the search ended before it converged.

    Example: bayesmdp improve ward --policy-out safer.csv

    Example: bayesmdp improve ward --baseline protocol.csv --tail 0.1
    """
    import bayesmdp as bm

    if policy_out is not None:
        check_file(policy_out, ".csv")
    name, policy = job.policy(baseline, "--baseline")
    found = bm.improve(job.posterior, policy, tail, effort=effort, **job.how)
    if policy_out is not None:
        bm.storage.write_policy(found.policy, job.posterior, policy_out)
    record = {"run": str(job.path), "baseline": name, **found.to_dict()}
    rows = bm.model.used_pairs(found.policy, job.posterior.task)
    job.show(found.summary(n_changes), record | {"policy": rows})
    if found.optimisation.interrupted:
        job.end(130, "interrupted; this is the best policy found so far.")
    if not found.optimisation.converged:
        if not (job.as_json or job.quiet):
            raise click.exceptions.Exit(1)  # the summary has said it
        job.end(1, f"warning: {found.unfinished}")
