"""``bayesmdp optimise``: the policy that is best given what is known."""

from pathlib import Path

import click

from bayesmdp._io import check_file
from bayesmdp.cli._options import (
    Work,
    effort_option,
    load_run,
    policy_out_option,
    remark,
    reward_option,
    run_argument,
    work_options,
)
from bayesmdp.cli._runs import OPTIMISED


@click.command()
@run_argument
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=150,
    show_default=True,
    help="Most steps from one start.",
)
@click.option(
    "--objective",
    default="mean",
    show_default=True,
    metavar="NAME",
    help="What to make large: mean, cvar:TAIL (cvar:0.1 is the mean over the worst "
    "tenth of draws), quantile:LEVEL, mean-sd:WEIGHT, soft-robust:WEIGHT:TAIL, "
    "entropic:BETA or evar:TAIL.",
)
@click.option(
    "--of",
    type=click.Choice(["value", "improvement", "regret"]),
    default="value",
    show_default=True,
    help="Of what: the value, its improvement over the behaviour, or the regret.",
)
@effort_option
@click.option(
    "--max-seconds",
    type=click.FloatRange(0),
    help="Stop the ascent after so long; judging comes on top.",
)
@click.option(
    "--start",
    "starts",
    multiple=True,
    metavar="NAME",
    help="Where to begin: nominal, mle, second_order, msbi, uniform, random_1 or "
    "random_2; may be repeated; by default those of the effort.",
)
@click.option("--resume", is_flag=True, help="Go on from the policy kept in RUN.")
@click.option("--overwrite", is_flag=True, help="Replace the policy kept in RUN.")
@policy_out_option
@reward_option
@work_options
@click.pass_context
def command(
    ctx: click.Context,
    run: Path,
    steps: int,
    objective: str,
    of: str,
    effort: str,
    max_seconds: float | None,
    starts: tuple[str, ...],
    resume: bool,
    overwrite: bool,
    policy_out: Path | None,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Find the policy of the largest posterior mean value, and keep it in RUN.

    Another --objective looks at the worst draws of the posterior instead.

    RUN is a directory of `fit`. Other commands call what is found `optimised`. After
    Ctrl-C the best policy so far is kept, the exit code is 130, and --resume goes on;
    a second Ctrl-C gives up. Exit code 1: it ended before the search converged.

    Example: bayesmdp optimise ward --policy-out best.csv

    Example: bayesmdp optimise ward --objective cvar:0.1

    Example: bayesmdp optimise ward --resume --effort thorough
    """
    import bayesmdp as bm

    if resume and starts:
        raise click.UsageError("--resume goes on from what is kept: leave out --start.")
    loaded = load_run(run, reward)
    if OPTIMISED in loaded.results and not (overwrite or resume):
        raise click.UsageError(
            f"{run} has an optimised policy already: --resume goes on from it, "
            "--overwrite replaces it."
        )
    bm.storage.check_target(run, OPTIMISED, overwrite=overwrite or resume)
    if policy_out is not None:
        check_file(policy_out, ".csv")
    earlier = None
    if resume:
        earlier = bm.storage.load_result(run, OPTIMISED, bm.Optimisation)
    try:
        result = bm.optimise(
            loaded.posterior,
            bm.optimisation.named_objective(objective, of),
            method=bm.MirrorAscent(n_steps=steps),
            starts=starts or None,
            seed=work.seed,
            resume=earlier,
            effort=effort,
            max_seconds=max_seconds,
            threads=work.threads,
            progress=work.progress,
        )
    except KeyboardInterrupt:  # before there is a policy, or for the second time
        remark("interrupted; nothing of this search is kept.")
        ctx.exit(130)
    kept = bm.storage.save_result(run, OPTIMISED, result, overwrite=overwrite or resume)
    if policy_out is not None:
        bm.storage.write_policy(result.policy, loaded.posterior, policy_out)
    record = {"run": str(run), "result": str(kept), **result.to_dict()}
    rows = bm.model.used_pairs(result.policy, loaded.posterior.task)
    said = f"{result.summary()}\nSaved in {kept}"
    work.show(said, record | {"policy": rows})
    if result.interrupted:
        remark("interrupted; the best so far is kept, and `--resume` goes on.")
        ctx.exit(130)
    if not result.converged:
        remark(f"warning: {result.status}")
        ctx.exit(1)
