"""``bayesmdp off-policy``: what logged episodes alone say about a policy."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesmdp.cli._options import (
    Work,
    load_run,
    restrict_option,
    reward_option,
    work_options,
)
from bayesmdp.cli._runs import (
    OPTIMISED,
    find_policies,
    keep_and_show,
    load_run_and_log,
    run_and_log_arguments,
)

if TYPE_CHECKING:
    from bayesmdp import Counts, Task
    from bayesmdp._typing import FloatArray

_OPTIMISTIC = (
    "The policy was chosen on the log that judges it, so that these estimates are "
    "optimistic; --folds 2 judges on other episodes."
)
_CHOSEN = ("optimised", "mle", "nominal", "second_order", "msbi")  # by looking at a log


@click.command()
@run_and_log_arguments
@click.option(
    "--policy",
    metavar="POLICY",
    help="As in `bayesmdp evaluate`; default optimised where RUN has it, else nominal.",
)
@click.option(
    "--folds",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Parts of the episodes: a policy that was chosen by the log is chosen again "
    "on the others and judged on each; 0 judges it on the log that chose it.",
)
@restrict_option
@reward_option
@work_options
def command(
    run: Path,
    files: tuple[str, ...],
    reading: dict[str, Any],
    policy: str | None,
    folds: int,
    restricted: bool,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Estimate a policy of RUN from its logged episodes, without a prior.

    FILE is the log that RUN was fitted from, with an episode column; --columns and
    --labels are as for `fit`. Importance sampling (IS, WIS, PDIS, PDWIS, DR, WDR) with
    effective sample sizes; behaviour by the logged frequencies. Values are in units of
    reward. What is found is kept in RUN for `report`.

    Example: bayesmdp off-policy ward ward.csv

    Example: bayesmdp off-policy ward ward.csv --policy mine.csv --json
    """
    import bayesmdp as bm

    posterior, log = load_run_and_log(run, files, reading, reward, result="off_policy")
    loaded = load_run(run, reward)
    if policy is None:
        kept = OPTIMISED in loaded.results
        policy = OPTIMISED if kept else "nominal"

    def choose(counts: "Counts", task: "Task") -> "FloatArray":
        belief = bm.fit(
            counts, task, prior=posterior.prior, min_count=posterior.min_count
        )
        if policy == OPTIMISED:
            bar = work.progress
            return bm.optimise(
                belief, seed=work.seed, threads=work.threads, progress=bar
            ).policy
        return bm.policies.named_policy(
            policy, belief, seed=work.seed, threads=work.threads
        )

    chosen = policy in _CHOSEN
    if chosen and folds:
        name, given = policy, None
    else:
        ((name, given),) = find_policies(
            loaded, [policy], work, restricted=restricted
        ).items()
    found = bm.off_policy(
        choose if given is None else given,
        log,
        posterior.task,
        n_folds=folds,
        seed=work.seed,
        name=name,
        progress=work.progress,
    )
    if chosen and not folds:
        found = replace(found, notes=(*found.notes, _OPTIMISTIC))
    keep_and_show(run, "off_policy", found, work)
