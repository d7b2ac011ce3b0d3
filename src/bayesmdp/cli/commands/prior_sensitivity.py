"""``bayesmdp prior-sensitivity``: a policy's value and gain under other priors."""

from pathlib import Path
from typing import Any

import click

from bayesmdp.cli._options import (
    output_options,
    priors_beside,
    priors_options,
    restrict_option,
    run_argument,
    seed_option,
    show,
    threads_option,
)


@click.command()
@run_argument
@click.argument("policy")
@click.option(
    "--baseline",
    metavar="POLICY",
    default="behaviour",
    show_default=True,
    help="The policy that the gain is over.",
)
@priors_options
@click.option(
    "--draws",
    "n_draws",
    type=click.IntRange(2),
    default=1000,
    show_default=True,
    help="Draws of each posterior; errors shrink with the root of their number.",
)
@click.option(
    "--states",
    "n_states",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many states to show whose recommendation depends on the prior, the most "
    "visited first; --json has all.",
)
@restrict_option
@seed_option
@threads_option
@output_options
def command(
    run: Path,
    policy: str,
    baseline: str,
    names: tuple[str, ...],
    fallback: str | None,
    n_draws: int,
    n_states: int,
    restricted: bool,
    seed: int,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Evaluate POLICY under the prior of RUN, a directory of `fit`, and under others.

    POLICY is as in `bayesmdp evaluate`. Values, gains and standard deviations are in
    units of reward. --fallback is for the priors beside.

    Example: bayesmdp prior-sensitivity ward nominal

    Example: bayesmdp prior-sensitivity ward optimised --prior symmetric --prior scaled
    """
    import bayesmdp as bm

    loaded = bm.storage.load(run)
    how: dict[str, Any] = {"seed": seed, "threads": threads, "restricted": restricted}
    ((name, found),) = bm.storage.find_policies(loaded, [policy], **how).items()
    ((over, base),) = bm.storage.find_policies(loaded, [baseline], **how).items()
    posterior = loaded.posterior
    under = bm.prior_sensitivity(
        found,
        posterior,
        posterior.task,
        priors_beside(posterior, names, fallback),
        baseline=base,
        min_count=posterior.min_count,
        n_draws=n_draws,
        seed=seed,
        threads=threads,
    )
    made = {"run": str(run), "policy": name, "baseline": over}
    record = {**made, **under.to_dict()}
    show(under.summary(n_states), record, as_json=as_json, quiet=quiet)
