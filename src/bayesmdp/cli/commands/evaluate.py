"""``bayesmdp evaluate``: how good a policy is, and how sure we are."""

from pathlib import Path

import click

from bayesmdp.cli._options import (
    Work,
    draws_option,
    load_run,
    restrict_option,
    reward_option,
    run_argument,
    work_options,
)
from bayesmdp.cli._runs import find_policies


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
@click.option(
    "--states",
    "n_states",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many states to show, the most visited first; --json has all.",
)
@restrict_option
@reward_option
@work_options
def command(
    run: Path,
    policy: str,
    n_draws: int,
    tolerance: float | None,
    n_states: int,
    restricted: bool,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Value of POLICY in RUN, a directory of `fit`, with both standard deviations.

    POLICY is behaviour, mle, nominal, second_order, msbi, uniform, always:ACTION,
    optimised (after `bayesmdp optimise`), or a file: CSV with columns state, action and
    maybe probability, or .npy. Values and standard deviations are in units of reward.

    Example: bayesmdp evaluate ward nominal

    Example: bayesmdp evaluate ward mine.csv --draws 2000 --json
    """
    import bayesmdp as bm

    loaded = load_run(run, reward)
    ((name, found),) = find_policies(
        loaded, [policy], work, restricted=restricted
    ).items()
    evaluation = bm.evaluate(
        found,
        loaded.posterior.draws(n_draws, work.seed),
        tolerance=tolerance,
        threads=work.threads,
        progress=work.progress,
    )
    record = {"run": str(run), "policy": name, **evaluation.to_dict()}
    work.show(evaluation.summary(n_states), record)
