"""``bayesmdp evaluate``: how good a policy is, and how sure we are."""

from pathlib import Path

import click

from bayesmdp.cli._options import (
    draws_option,
    load_run,
    output_options,
    restrict_option,
    reward_option,
    run_argument,
    seed_option,
    show,
    threads_option,
    wants_progress,
)
from bayesmdp.cli._policies import find_policies


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
@seed_option
@threads_option
@output_options
def command(
    run: Path,
    policy: str,
    n_draws: int,
    tolerance: float | None,
    n_states: int,
    restricted: bool,
    reward: str | dict[str, float] | None,
    seed: int,
    threads: int | None,
    as_json: bool,
    quiet: bool,
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
        loaded, [policy], seed=seed, threads=threads, restricted=restricted
    ).items()
    evaluation = bm.evaluate(
        found,
        loaded.posterior.draws(n_draws, seed),
        tolerance=tolerance,
        threads=threads,
        progress=wants_progress(quiet),
    )
    record = {"run": str(run), "policy": name, **evaluation.to_dict()}
    show(evaluation.summary(n_states), record, as_json=as_json, quiet=quiet)
