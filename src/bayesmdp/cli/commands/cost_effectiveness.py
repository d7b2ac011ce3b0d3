"""``bayesmdp cost-effectiveness``: costs beside effects, on the same draws."""

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
from bayesmdp.cli._runs import find_policies, keep_and_show

_RESULT = "cost_effectiveness"


@click.command()
@run_argument
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@click.option(
    "--cost",
    metavar="REWARD",
    default="cost",
    show_default=True,
    help="Reward of the task that counts against a policy.",
)
@click.option(
    "--effect",
    metavar="REWARD",
    default="qaly",
    show_default=True,
    help="Reward of the task that counts for it.",
)
@click.option(
    "--threshold",
    "thresholds",
    type=float,
    multiple=True,
    help="What one unit of effect may cost; may be repeated; 0 to 100000 in steps of "
    "5000 where not given.",
)
@reward_option
@draws_option
@restrict_option
@work_options
def command(
    run: Path,
    policies: tuple[str, ...],
    cost: str,
    effect: str,
    thresholds: tuple[float, ...],
    reward: str | dict[str, float] | None,
    n_draws: int,
    restricted: bool,
    work: Work,
) -> None:
    """Set costs beside effects of policies, and keep the analysis in RUN.

    RUN is a directory of `fit` whose task has several rewards; POLICY is as in
    `bayesmdp evaluate`, at least two. Prints the incremental table (ICER, dominance),
    the best policy by threshold, the probability that it is best, and the value of
    perfect information. `report` shows the last analysis. --reward says what a policy
    such as nominal is best for: --reward qaly=20000 --reward cost=-1.

    Example: bayesmdp cost-effectiveness ward behaviour optimised --threshold 20000

    Example: bayesmdp cost-effectiveness ward behaviour mine.csv --effect survival
    """
    import bayesmdp as bm

    if len(policies) < 2:
        raise bm.errors.ArgumentError(
            f"`POLICY` has {policies[0]!r:.60} alone: name two policies or more."
        )
    loaded = bm.storage.load(run)
    bm.storage.check_target(run, _RESULT, overwrite=True)
    found = bm.cost_effectiveness(
        find_policies(load_run(run, reward), policies, work, restricted=restricted),
        loaded.posterior.draws(n_draws, work.seed),
        cost=cost,
        effect=effect,
        thresholds=thresholds or None,
        threads=work.threads,
        progress=work.progress,
    )
    keep_and_show(run, _RESULT, found, work)
