"""``bayesmdp improve``: a policy that is better than a baseline also in bad draws."""

from pathlib import Path

import click

from bayesmdp._io import check_file
from bayesmdp.cli._options import (
    Work,
    effort_option,
    load_run,
    policy_out_option,
    remark,
    restrict_option,
    reward_option,
    run_argument,
    work_options,
)
from bayesmdp.cli._runs import find_policies


@click.command()
@run_argument
@click.option(
    "--baseline",
    default="behaviour",
    show_default=True,
    metavar="POLICY",
    help="Policy to improve on: a name or a file, as in `bayesmdp evaluate`.",
)
@click.option(
    "--tail",
    type=float,
    default=0.25,
    show_default=True,
    help="Tail mass of the draws that count: 0.25 is the worst quarter.",
)
@click.option(
    "--changes",
    "n_changes",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many changes to show, those that matter most first; --json has all.",
)
@effort_option
@policy_out_option
@restrict_option
@reward_option
@work_options
@click.pass_context
def command(
    ctx: click.Context,
    run: Path,
    baseline: str,
    tail: float,
    n_changes: int,
    effort: str,
    policy_out: Path | None,
    restricted: bool,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Improve on a baseline where the evidence suffices, in RUN, a directory of `fit`.

    The mean improvement over the worst draws is made large. Half of the draws are of
    the posterior, in the others every pair had one more visit, to the worst state.
    Actions never observed in a state keep the baseline's probability. Where nothing
    helps, the baseline is returned, and said to be. Exit code 1: the search ended
    before it converged.

    Example: bayesmdp improve ward --policy-out safer.csv

    Example: bayesmdp improve ward --baseline protocol.csv --tail 0.1
    """
    import bayesmdp as bm

    if policy_out is not None:
        check_file(policy_out, ".csv")
    loaded = load_run(run, reward)
    ((name, policy),) = find_policies(
        loaded, [baseline], work, restricted=restricted
    ).items()
    found = bm.improve(
        loaded.posterior,
        policy,
        tail,
        seed=work.seed,
        effort=effort,
        threads=work.threads,
        progress=work.progress,
    )
    if policy_out is not None:
        bm.storage.write_policy(found.policy, loaded.posterior, policy_out)
    record = {"run": str(run), "baseline": name, **found.to_dict()}
    rows = bm.model.used_pairs(found.policy, loaded.posterior.task)
    said = found.summary(n_changes)
    work.show(said, record | {"policy": rows})
    if found.optimisation.interrupted:
        remark("interrupted; this is the best policy found so far.")
        ctx.exit(130)
    if found.changes and not found.optimisation.converged:
        remark("warning: the search ended before it converged: take more --effort.")
        ctx.exit(1)
