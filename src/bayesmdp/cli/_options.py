"""Options that mean the same in every command."""

import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from bayesmdp.errors import BayesmdpWarning

Function = TypeVar("Function", bound=Callable[..., Any])
#: Of what --json prints: raised when a key goes, or comes to mean something else.
SCHEMA_VERSION = 1


def seed_option(function: Function) -> Function:
    """``--seed``."""
    return click.option(
        "--seed",
        type=click.IntRange(0, 2**64 - 1),
        default=0,
        show_default=True,
        help="Which random numbers.",
    )(function)


def threads_option(function: Function) -> Function:
    """``--threads``."""
    return click.option(
        "--threads",
        type=click.IntRange(1),
        help="Threads to use; default BAYESMDP_THREADS, else every core.",
    )(function)


def json_option(function: Function) -> Function:
    """``--json``."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object."
    )(function)


def columns_option(function: Function) -> Function:
    """``--columns``."""
    return click.option(
        "--columns",
        multiple=True,
        metavar="ROLE=NAME",
        callback=_columns,
        help="Which column is the state, action, next_state, reward, episode, step, "
        "...; may be repeated; found by usual names where not given.",
    )(function)


def labels_option(function: Function) -> Function:
    """``--labels``."""
    return click.option(
        "--labels",
        is_flag=True,
        help="Whole numbers are names of states and actions, not ids from 0.",
    )(function)


def _columns(
    ctx: click.Context, param: click.Parameter, said: tuple[str, ...]
) -> dict[str, str]:
    """Return the column of each role that was named."""
    found: dict[str, str] = {}
    for item in said:
        role, equals, name = item.partition("=")
        if not (role and equals and name):
            raise click.BadParameter(
                f"{item!r} is not of the form ROLE=NAME, such as state=cluster."
            )
        if role in found:
            raise click.BadParameter(f"{role!r} is given twice.")
        found[role] = name
    return found


@contextmanager
def exit_1_after_warnings(ctx: click.Context) -> Iterator[None]:
    """Exit with code 1 in the end if there were warnings; they are shown as ever."""
    seen: list[object] = []
    with warnings.catch_warnings():
        show = warnings.showwarning

        def showwarning(message: Warning | str, *more: Any, **rest: Any) -> None:
            seen.append(message)
            show(message, *more, **rest)

        warnings.showwarning = showwarning
        warnings.simplefilter("always", BayesmdpWarning)
        yield
    if seen:
        ctx.exit(1)


_SPOKEN = {  # how the library names an argument, and how the command line does
    r"labels=True": "--labels",
    r"columns=\{'(\w+)': '([^']*)'\}": r"--columns \1=\2",
    r"columns=\{'(\w+)': \.\.\.\}": r"--columns \1=NAME",
    r"min_count=(\d+)": r"--min-count \1",
}


def as_options(text: str) -> str:
    """Speak of options where the library speaks of arguments."""
    for argument, option in _SPOKEN.items():
        text = re.sub(argument, option, text)
    return text


def print_json(record: dict[str, Any]) -> None:
    """Print a record as JSON."""
    click.echo(json.dumps(record, indent=2))
