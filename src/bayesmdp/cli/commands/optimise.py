"""``bayesmdp optimise``: the policy that is best given what is known."""

from pathlib import Path

import click

from bayesmdp._io import check_file
from bayesmdp.cli._options import count, device_option, effort_option, policy_out_option
from bayesmdp.cli._runs import OPTIMISED, Job, job_options, run_argument


@click.command()
@run_argument
@count("--steps", 1, 150, "Most steps from one start.")
@click.option(
    "--objective",
    default="mean",
    metavar="NAME",
    help="What to maximise: mean, cvar:TAIL (cvar:0.1 is the mean over the worst "
    "tenth of draws), quantile:LEVEL, mean-sd:WEIGHT, soft-robust:WEIGHT:TAIL, "
    "entropic:BETA or evar:TAIL.",
)
@click.option(
    "--of",
    type=click.Choice(["value", "improvement", "regret"]),
    default="value",
    help="Objective of what: value, improvement over behaviour, or regret.",
)
@effort_option
@click.option(
    "--max-seconds",
    type=click.FloatRange(0),
    help="Stop the ascent after this time; the evaluation takes additional time.",
)
@click.option(
    "--start",
    "starts",
    multiple=True,
    metavar="NAME",
    help="Starting policy: nominal, mle, second_order, msbi, uniform, random_1 or "
    "random_2; may be repeated; by default those of the effort.",
)
@click.option("--resume", is_flag=True, help="Continue from the policy in RUN.")
@click.option("--overwrite", is_flag=True, help="Replace the policy in RUN.")
@policy_out_option
@device_option
@job_options
def command(
    job: Job,
    steps: int,
    objective: str,
    of: str,
    effort: str,
    max_seconds: float | None,
    starts: tuple[str, ...],
    resume: bool,
    overwrite: bool,
    policy_out: Path | None,
) -> None:
    """Find the policy of largest posterior mean value.

    Other objectives, such as --objective cvar:0.1, depend on the worst draws of the
    posterior.

    RUN is a directory of `fit`. Other commands refer to the policy found as
    `optimised`. After Ctrl-C the best policy so far is kept, the exit code is 130, and
    --resume continues; a second Ctrl-C aborts. Exit code 1: the search ended before it
    converged.

    Example: bayesmdp optimise ward --policy-out best.csv

    Example: bayesmdp optimise ward --objective cvar:0.1

    Example: bayesmdp optimise ward --resume --effort thorough
    """
    import bayesmdp as bm

    wanted = bm.optimisation.named_objective(objective, of)
    if resume and (starts or overwrite):
        other = "--start" if starts else "--overwrite"
        raise click.UsageError(
            f"--resume continues the kept policy: leave out {other}."
        )
    if OPTIMISED in job.run.results and not (overwrite or resume):
        raise click.UsageError(
            f"{job.path} has an optimised policy already: --resume continues from "
            "it, --overwrite replaces it."
        )
    job.reserve(OPTIMISED, overwrite=overwrite or resume)
    if policy_out is not None:
        check_file(policy_out, ".csv")
    earlier = None
    if resume:
        earlier = bm.storage.load_result(job.path, OPTIMISED, bm.Optimisation)
        task = earlier.evaluation.task
        reward = task.chosen if isinstance(task.chosen, str) else task.reward_unit
        kept_for, asked_for = task.chosen, job.posterior.task.chosen
        if (earlier.objective, kept_for) != (repr(wanted), asked_for):
            of_reward = "" if kept_for is None else f" of {reward}"
            raise click.UsageError(
                f"{job.path} keeps a policy for {earlier.objective}{of_reward}: "
                "--resume continues with the same --objective, --of and --reward, "
                "--overwrite searches for another."
            )
    try:
        result = bm.optimise(
            job.posterior,
            wanted,
            method=bm.MirrorAscent(n_steps=steps),
            starts=starts or None,
            resume=earlier,
            effort=effort,
            max_seconds=max_seconds,
            **job.how,
        )
    except KeyboardInterrupt:  # before there is a policy, or for the second time
        job.end(130, "interrupted; nothing of this search is kept.")
    kept = bm.storage.save_result(
        job.path, OPTIMISED, result, overwrite=overwrite or resume
    )
    if policy_out is not None:
        bm.storage.write_policy(result.policy, job.posterior, policy_out)
    record = {"run": str(job.path), "result": str(kept), **result.to_dict()}
    rows = bm.model.used_pairs(result.policy, job.posterior.task)
    said = f"{result.summary()}\nSaved in {kept}"
    job.show(said, record | {"policy": rows})
    if result.interrupted:
        job.end(130, "interrupted; the best so far is kept, and `--resume` continues.")
    if not result.converged:
        job.end(1, f"warning: {result.status}")
