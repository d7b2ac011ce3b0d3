"""``bayesmdp validate``: look at a log before believing what comes out of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesmdp.cli._options import (
    count,
    files_argument,
    output_options,
    reading_options,
    show,
)
from bayesmdp.errors import visible

if TYPE_CHECKING:
    from bayesmdp.data import Findings

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_PLAIN_WIDTH = 100  # of what is piped


@click.command()
@files_argument
@reading_options
@click.option(
    "--task",
    "task_file",
    type=click.Path(path_type=Path),
    help="Task file (TOML) to check the log against, if the log can be read.",
)
@count(
    "--min-count",
    0,
    5,
    "Report pairs of state and action observed fewer times than this.",
)
@count("--n-states", 1, None, "How many states there are.")
@count("--n-actions", 1, None, "How many actions there are.")
@output_options
def command(
    files: tuple[str, ...],
    reading: dict[str, Any],
    task_file: Path | None,
    min_count: int,
    n_states: int | None,
    n_actions: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Look for what is wrong, or odd, in logged transitions.

    FILE is CSV, Parquet or JSON lines, also compressed, or a quoted glob; several files
    are one log. Rows are counted from 0, headers aside. The exit code is 0 where there
    is nothing to fix, 1 with warnings, 2 with errors.

    Example: bayesmdp validate ward.csv --columns state=cluster --n-states 752
    """
    import bayesmdp as bm

    if task_file is not None and (n_states, n_actions) != (None, None):
        raise click.UsageError(
            "--n-states and --n-actions are for logs without --task, which has its own."
        )
    found = bm.validate(
        list(files),
        **reading,
        n_states=n_states,
        n_actions=n_actions,
        min_count=min_count,
    )
    if task_file is not None and not found.errors:
        data = bm.read_transitions(list(files), **reading)
        found = bm.validate(
            list(files),
            bm.storage.read_task(task_file, data),
            **reading,
            min_count=min_count,
        )
    said = _table(found)
    show(said, found.to_dict(), as_json=as_json, quiet=quiet, styled=True)
    raise click.exceptions.Exit(found.exit_code)


def _table(found: "Findings") -> str:
    """Return a table, without colours and frames where nobody sees them."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH, color_system=None, highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 1, 0))
    for x in found:
        told = not x.where or x.where in x.message
        said = (x.message, "" if told else f"First: {x.where}.", x.remedy)
        table.add_row(
            Text(x.severity, style=_COLOURS[x.severity]),
            Text(f"{x.code}\n{x.count}", style="bold"),
            Text("\n".join(visible(y) for y in said if y)),
        )
    with console.capture() as printed:
        console.print(table)
    lines = printed.get().splitlines()  # padded to the width
    text = "".join(f"\n{line.rstrip()}" for line in lines).rstrip()
    return f"{visible(found.headline())}\n{text}"
