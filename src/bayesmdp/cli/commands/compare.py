"""``bayesmdp compare``: policies side by side, on the same draws."""

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
from bayesmdp.cli._runs import COMPARISON, find_policies


@click.command()
@run_argument
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@click.option(
    "--reference", metavar="POLICY", help="Reference policy; default the first."
)
@click.option(
    "--min-count",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Visits in the data below which a pair counts as poorly supported; no pair is "
    "left out, as by --min-count of `fit`.",
)
@draws_option
@restrict_option
@reward_option
@work_options
def command(
    run: Path,
    policies: tuple[str, ...],
    reference: str | None,
    min_count: int,
    n_draws: int,
    restricted: bool,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Set policies side by side on the same draws, and keep the table in RUN.

    RUN is a directory of `fit`; POLICY is as in `bayesmdp evaluate`, at least two. A
    file is called by its name without ending. Values are in units of reward. `report`
    shows the last comparison.

    Example: bayesmdp compare ward mle nominal optimised behaviour --reference behaviour
    """
    import bayesmdp as bm

    bm.storage.check_target(run, COMPARISON, overwrite=True)
    loaded = load_run(run, reward)
    comparison = bm.compare(
        find_policies(loaded, policies, work, restricted=restricted),
        loaded.posterior.draws(n_draws, work.seed),
        reference=reference,
        min_count=min_count,
        threads=work.threads,
        progress=work.progress,
    )
    kept = bm.storage.save_result(run, COMPARISON, comparison, overwrite=True)
    made = {"run": str(run), "result": str(kept), "n_draws": n_draws, "seed": work.seed}
    record = {**made, **comparison.to_dict()}
    work.show(f"{comparison}\nSaved in {kept}", record)
