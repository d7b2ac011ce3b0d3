"""``bayesmdp compare-priors``: what priors predict of episodes that were held out."""

from pathlib import Path
from typing import Any

import click

from bayesmdp.cli._options import (
    Work,
    priors_beside,
    priors_options,
    reward_option,
    work_options,
)
from bayesmdp.cli._runs import load_run_and_log, run_and_log_arguments


@click.command()
@run_and_log_arguments
@priors_options
@click.option(
    "--folds",
    type=click.IntRange(2),
    default=5,
    show_default=True,
    help="Parts of the episodes, each of which is held out once.",
)
@reward_option
@work_options
def command(
    run: Path,
    files: tuple[str, ...],
    names: tuple[str, ...],
    fallback: str | None,
    folds: int,
    reading: dict[str, Any],
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Set the prior of RUN, a directory of `fit`, beside others.

    FILE is the log that RUN was fitted from, with an episode column: whole episodes are
    held out, and RUN keeps counts alone. --columns and --labels are as for `fit`.
    Predicted values are in units of reward. --fallback is for the priors beside. What
    is found is kept in RUN: `report --prior-sensitivity` shows the gain under the best
    one.

    Example: bayesmdp compare-priors ward ward.csv

    Example: bayesmdp compare-priors ward ward.csv --prior sparse --fallback death
    """
    import bayesmdp as bm

    posterior, data = load_run_and_log(
        run, files, reading, reward, result="compare_priors"
    )
    comparison = bm.compare_priors(
        priors_beside(posterior, names, fallback),
        data,
        posterior.task,
        min_count=posterior.min_count,
        n_folds=folds,
        seed=work.seed,
        threads=work.threads,
    )
    found = {"comparison": comparison, "fallback": fallback}
    bm.storage.save_result(run, "compare_priors", found, overwrite=True)
    record = {"run": str(run), **comparison.to_dict(), "fallback": fallback}
    work.show(comparison.summary(), record)
