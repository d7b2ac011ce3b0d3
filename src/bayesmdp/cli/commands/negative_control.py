"""``bayesmdp negative-control``: what would be claimed if actions did nothing."""

import click

from bayesmdp._io import OtherJobsError
from bayesmdp.cli._options import count
from bayesmdp.cli._runs import Job, job_options, run_and_log_arguments

_NAME = "negative_control"


@click.command()
@run_and_log_arguments
@click.option(
    "--permute",
    type=click.Choice(["auto", "state", "episode"]),
    default="auto",
    help="Exchange actions among the visits of a state, or arms among episodes that "
    "begin in the same state; auto: episode, if every episode keeps one action.",
)
@count("--permutations", 1, 100, "Permutations; each repeats the analysis.")
@job_options
def command(job: Job, permute: str, permutations: int) -> None:
    """Compare the gain with gains under no effect.

    RUN is a directory of `fit`, and FILE the log that it was fitted from. Its actions
    are exchanged at random, and each time the prior of RUN is fitted, its nominal
    policy chosen and compared with the behaviour policy. The p value is valid, whatever
    the prior, if the exchanges are: for arms of episodes that were assigned at random,
    or for actions that, given the state, are independent of unrecorded frailty. After
    Ctrl-C the same command continues.

    Example: bayesmdp negative-control ward ward.csv

    Example: bayesmdp negative-control trial trial.csv --permute episode
    """
    import bayesmdp as bm

    log, posterior = job.log(_NAME), job.posterior
    file = job.path / f"{_NAME}.jsonl"

    def control() -> bm.diagnostics.NegativeControl:
        return bm.negative_control(
            log,
            posterior.task,
            posterior.prior,
            permute=permute,
            n_permutations=permutations,
            min_count=posterior.min_count,
            **job.how,
            resume=file,
        )

    try:
        found = control()
    except OtherJobsError as other:  # of an earlier run here, or of other options
        if other.header.get("kind") != _NAME:
            raise
        file.unlink()
        found = control()
    job.keep_and_tell(_NAME, found)
