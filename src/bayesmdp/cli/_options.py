"""Options that mean the same in every command."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])


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


def print_json(record: dict[str, Any]) -> None:
    """Print a record as JSON."""
    click.echo(json.dumps(record, indent=2))
