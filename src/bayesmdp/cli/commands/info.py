"""``bayesmdp info``: what is installed, and how work will run."""

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from bayesmdp._checks import thread_count
from bayesmdp._version import __version__
from bayesmdp.cli._options import json_option, print_json

_PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "narwhals",
    "duckdb",
    "click",
    "rich",
    "jinja2",
    "plotly",
)
_EXTRAS = ("icu-sepsis",)


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Say which versions are installed and how many threads will be used.

    Example: bayesmdp info --json
    """
    record: dict[str, object] = {
        "bayesmdp": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "threads": thread_count(None),
    }
    for package in _PACKAGES + _EXTRAS:
        try:
            record[package] = version(package)
        except PackageNotFoundError:
            record[package] = None
    if as_json:
        print_json(record)
        return
    for name, value in record.items():
        click.echo(f"{name:<10} {value if value is not None else 'not installed'}")
