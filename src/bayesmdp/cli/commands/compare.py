"""``bayesmdp compare``: policies side by side, on the same draws."""

import click

from bayesmdp.cli._options import count, device_option, draws_option, restrict_option
from bayesmdp.cli._runs import (
    COMPARISON,
    Job,
    job_options,
    policies_argument,
    restricted_name,
    run_argument,
)


@click.command()
@run_argument
@policies_argument
@click.option(
    "--reference", metavar="POLICY", help="Reference policy; default the first."
)
@count(
    "--min-count",
    1,
    5,
    "Visits in the data below which a pair counts as poorly supported; no pair is left "
    "out, as by --min-count of `fit`.",
)
@draws_option
@restrict_option
@device_option
@job_options
def command(
    job: Job,
    policies: tuple[str, ...],
    reference: str | None,
    min_count: int,
    n_draws: int,
) -> None:
    """Compare policies on the same draws.

    RUN is a directory of `fit`; POLICY is as in `bayesmdp evaluate`, at least two. A
    file is called by its name without ending. Values are in units of reward. The table
    is kept in RUN, and `report` shows the last one.

    Example: bayesmdp compare ward mle nominal optimised behaviour --reference behaviour
    """
    import bayesmdp as bm

    job.reserve(COMPARISON)
    found = job.policies(policies, least=2)
    if reference is not None and reference not in found:
        other = restricted_name(reference)
        reference = other if other in found else reference
    comparison = bm.compare(
        found,
        job.posterior.draws(n_draws, job.seed),
        reference=reference,
        min_count=min_count,
        **job.seedless,
    )
    kept = job.keep(COMPARISON, comparison)
    said = f"{comparison}\nSaved in {kept}"
    made = {"result": str(kept), "n_draws": n_draws, "seed": job.seed}
    job.tell(comparison, said, **made)
