"""``bayesmdp negative-control``: what would be claimed if actions did nothing."""

from pathlib import Path
from typing import Any

import click

from bayesmdp._io import OtherJobsError
from bayesmdp.cli._options import (
    Work,
    reward_option,
    work_options,
)
from bayesmdp.cli._runs import (
    keep_and_show,
    load_run_and_log,
    run_and_log_arguments,
)

_NAME = "negative_control"


@click.command()
@run_and_log_arguments
@click.option(
    "--permute",
    type=click.Choice(["auto", "state", "episode"]),
    default="auto",
    show_default=True,
    help="Exchange actions among the visits of a state, or arms among episodes that "
    "begin in the same state; auto: episode, if every episode keeps one action.",
)
@click.option(
    "--permutations",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="How often to exchange, fit, choose and claim again.",
)
@reward_option
@work_options
def command(
    run: Path,
    files: tuple[str, ...],
    reading: dict[str, Any],
    permute: str,
    permutations: int,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Set the gain that RUN claims beside gains claimed if actions did nothing.

    FILE is the log that RUN was fitted from. Its actions are exchanged at random, and
    each time the prior of RUN is fitted, its nominal policy chosen and set beside the
    behaviour policy. The p value is valid, whatever the prior, if the exchanges are:
    arms of episodes that were assigned at random, or actions that, given the state,
    have nothing to do with unrecorded frailty. After Ctrl-C the same command goes on.

    Example: bayesmdp negative-control ward ward.csv

    Example: bayesmdp negative-control trial trial.csv --permute episode
    """
    import bayesmdp as bm

    posterior, log = load_run_and_log(run, files, reading, reward, result=_NAME)
    file = run / f"{_NAME}.jsonl"

    def control() -> bm.diagnostics.NegativeControl:
        return bm.negative_control(
            log,
            posterior.task,
            posterior.prior,
            permute=permute,
            n_permutations=permutations,
            min_count=posterior.min_count,
            **work.how,
            resume=file,
        )

    try:
        result = control()
    except OtherJobsError:  # of an earlier run here, or of other options
        file.unlink()
        result = control()
    keep_and_show(run, _NAME, result, work)
