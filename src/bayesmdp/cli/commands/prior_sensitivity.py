"""``bayesmdp prior-sensitivity``: a policy's value and gain under other priors."""

from pathlib import Path

import click

from bayesmdp.cli._options import (
    Work,
    load_run,
    priors_beside,
    priors_options,
    restrict_option,
    reward_option,
    run_argument,
    work_options,
)
from bayesmdp.cli._runs import find_policies


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
@reward_option
@work_options
def command(
    run: Path,
    policy: str,
    baseline: str,
    names: tuple[str, ...],
    fallback: str | None,
    n_draws: int,
    n_states: int,
    restricted: bool,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Evaluate POLICY under the prior of RUN, a directory of `fit`, and under others.

    POLICY is as in `bayesmdp evaluate`. Values, gains and standard deviations are in
    units of reward. --fallback is for the priors beside.

    Example: bayesmdp prior-sensitivity ward nominal

    Example: bayesmdp prior-sensitivity ward optimised --prior symmetric --prior scaled
    """
    import bayesmdp as bm

    loaded = load_run(run, reward)
    ((name, found),) = find_policies(
        loaded, [policy], work, restricted=restricted
    ).items()
    ((over, base),) = find_policies(
        loaded, [baseline], work, restricted=restricted
    ).items()
    posterior = loaded.posterior
    under = bm.prior_sensitivity(
        found,
        posterior,
        posterior.task,
        priors_beside(posterior, names, fallback),
        baseline=base,
        min_count=posterior.min_count,
        n_draws=n_draws,
        seed=work.seed,
        threads=work.threads,
    )
    made = {"run": str(run), "policy": name, "baseline": over}
    record = {**made, **under.to_dict()}
    work.show(under.summary(n_states), record)
