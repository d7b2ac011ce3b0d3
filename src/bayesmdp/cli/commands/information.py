"""``bayesmdp information``: what knowing more is worth, and where to look."""

from typing import TYPE_CHECKING, Any

import click

from bayesmdp._sheet import Sheet, Table, as_plain
from bayesmdp.cli._options import count, device_option, restrict_option
from bayesmdp.cli._runs import Job, job_options, run_argument

if TYPE_CHECKING:
    from bayesmdp.information import Information

_NAME = "information"


@click.command()
@run_argument
@click.argument("policies", nargs=-1, metavar="[POLICY]...")
@click.option(
    "--visits",
    "n_visits",
    type=click.IntRange(1),
    multiple=True,
    default=(10, 100, 1000),
    help="Size of a study of a pair or a state; may be repeated.",
)
@count(
    "--patients",
    0,
    500,
    "Further episodes, treated as before, valued state by state.",
)
@count(
    "--states n_states",
    0,
    10,
    "How many states, and studies, to show, those worth most first.",
)
@click.option(
    "--population",
    type=click.FloatRange(0),
    help="Patients whom the decision concerns; shows the expected net benefit of "
    "sampling for all of them.",
)
@click.option(
    "--cost",
    type=click.FloatRange(0),
    default=0.0,
    help="Cost of one visit of a study, in units of reward; with --population.",
)
@click.option(
    "--setup",
    type=click.FloatRange(0),
    default=0.0,
    help="Cost of a study whatever its size; with --population.",
)
@restrict_option
@device_option
@job_options
def command(
    job: Job,
    policies: tuple[str, ...],
    n_visits: tuple[int, ...],
    patients: int,
    n_states: int,
    population: float | None,
    cost: float,
    setup: float,
) -> None:
    """Compute the value of information in RUN.

    RUN is a directory of `fit`. The decision is among the POLICIES, names or files as
    in `bayesmdp evaluate`; where none is given, among behaviour, nominal, an optimised
    policy and the optimal ones of 50 draws. The result is kept with the run, and
    `bayesmdp report` shows it.

    Example: bayesmdp information ward

    Example: bayesmdp information ward behaviour optimised --patients 2000

    Example: bayesmdp information ward --population 8000 --cost 0.01
    """
    import bayesmdp as bm

    if population is None and (cost or setup):
        raise click.UsageError(
            "`--cost` and `--setup` need `--population`: how many patients the "
            "decision concerns."
        )
    posterior = job.posterior
    job.reserve(_NAME)
    among = job.policies(policies) or None
    found = bm.value_of_information(
        posterior, among, n_visits, n_patients=patients, **job.how
    )
    job.keep(_NAME, found)
    record: dict[str, Any] = {"sampling": None}
    text = found.summary(n_states)
    if population is not None:
        asked = {"population": population, "cost": cost, "setup": setup}
        studies = found.ranked_studies(**asked, n=n_states)
        record["sampling"] = {**asked, "studies": as_plain(studies)}
        text += f"\n{_sampling(found, studies, population)}"
    job.tell(found, text, **record)


def _sampling(
    found: "Information", studies: list[dict[str, Any]], population: float
) -> str:
    """Write the expected net benefit of studies as a table."""
    from bayesmdp.evaluation import rounded, significant

    perfect = rounded(population * found.evpi, population * found.evpi_mcse)
    lines: list[Any] = [
        f"knowing the model is worth {perfect} to {population:,.0f} patients"
    ]
    rows = [
        [
            f"state {x['state']}",
            x["action"],
            f"{x['n_visits']}",
            rounded(x["enbs"], x["enbs_mcse"])
            if x["enbs_mcse"] >= 0
            else f"{significant(x['enbs'])}, first-order",
        ]
        for x in studies
        if x["enbs"] > 0
    ]
    if rows:
        lines += [Table(["", "study", "visits", "net benefit"], rows)]
    else:
        lines += ["No study of one pair is worth what it costs."]
    return Sheet("Expected net benefit of sampling", lines, indent="  ").text()
