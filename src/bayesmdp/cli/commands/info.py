"""``bayesmdp info``: what is installed and how work will run, or what a run is."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from bayesmdp._checks import thread_count
from bayesmdp._version import __version__
from bayesmdp.cli._options import (
    SCHEMA_VERSION,
    exit_1_after_warnings,
    json_option,
    print_json,
)

_PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "narwhals",
    "duckdb",
    "click",
    "rich",
    "jinja2",
    "markdown-it-py",
    "plotly",
)
_EXTRAS = (
    "icu-sepsis",
    "gymnasium",
    "h5py",
    "scikit-learn",
    "matplotlib",
    "distributed",
    "mpi4py",
)


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@json_option
@click.pass_context
def command(ctx: click.Context, run: Path | None, as_json: bool) -> None:
    """Say which versions are installed, or what RUN, a directory of `fit`, holds.

    Files of a run are checked, and its posterior is fitted again. Exit code 1: there
    are warnings.

    Example: bayesmdp info --json

    Example: bayesmdp info ward
    """
    if run is not None:
        with exit_1_after_warnings(ctx):
            _describe(run, as_json)
        return
    record = _installed()
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, **record})
        return
    for name, value in record.items():
        click.echo(f"{name:<12} {value if value is not None else 'not installed'}")


def _describe(path: Path, as_json: bool) -> None:
    import bayesmdp as bm

    run = bm.storage.load(path)
    if as_json:
        print_json(run.describe())
    else:
        click.echo(run.summary())


def _installed() -> dict[str, object]:
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
    return record
