"""``bayesmdp information``: what knowing more is worth, and where to look."""

from pathlib import Path

import click

from bayesmdp.cli._options import (
    Work,
    load_run,
    restrict_option,
    reward_option,
    run_argument,
    work_options,
)
from bayesmdp.cli._runs import find_policies

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
    show_default=True,
    help="Size of a study of a pair or a state; may be repeated.",
)
@click.option(
    "--patients",
    type=click.IntRange(0),
    default=500,
    show_default=True,
    help="Further episodes, treated as before, whose worth is asked state by state.",
)
@click.option(
    "--states",
    "n_states",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="How many states to show, those worth most first.",
)
@restrict_option
@reward_option
@work_options
def command(
    run: Path,
    policies: tuple[str, ...],
    n_visits: tuple[int, ...],
    patients: int,
    n_states: int,
    restricted: bool,
    reward: str | dict[str, float] | None,
    work: Work,
) -> None:
    """Say what knowing more would be worth in RUN, a directory of `fit`, and where.

    The decision is among the POLICIES, names or files as in `bayesmdp evaluate`; where
    none is given, among behaviour, nominal, an optimised policy and the optimal ones of
    50 draws. The result is kept with the run, and `bayesmdp report` shows it.

    Example: bayesmdp information ward

    Example: bayesmdp information ward behaviour optimised --patients 2000
    """
    import bayesmdp as bm

    loaded = load_run(run, reward)
    bm.storage.check_target(run, _NAME, overwrite=True)
    among = None
    if policies:
        among = find_policies(loaded, policies, work, restricted=restricted)
    found = bm.value_of_information(
        loaded.posterior,
        among,
        n_visits,
        n_patients=patients,
        **work.how,
    )
    bm.storage.save_result(run, _NAME, found, overwrite=True)
    record = {"run": str(run), **found.to_dict()}
    work.show(found.summary(n_states), record)
