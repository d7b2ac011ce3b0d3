"""``bayesmdp info``: what is installed and how work will run, or what a run is."""

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import click

from bayesmdp._checks import thread_count
from bayesmdp._version import __version__
from bayesmdp.cli._options import output_options, show
from bayesmdp.errors import BackendError


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@output_options
def command(run: Path | None, as_json: bool, quiet: bool) -> None:
    """Show versions and devices, or what RUN contains.

    RUN is a directory of `fit`. Its file is checked, and the posterior is restored from
    the counts, the prior and the Markov chains kept in it; warnings of `fit` are
    repeated, and the results kept there are listed. Exit code 1: there are warnings
    about the run itself.

    Example: bayesmdp info --json

    Example: bayesmdp info ward
    """
    if run is not None:
        import bayesmdp as bm

        loaded = bm.storage.load(run)
        show(loaded.summary(), loaded.describe(), as_json=as_json, quiet=quiet)
        return
    record = _installed()
    lines = [f"{name:<14} {x or 'not installed'}" for name, x in record.items()]
    show("\n".join(lines), record, as_json=as_json, quiet=quiet)


def _installed() -> dict[str, object]:
    record: dict[str, object] = {
        "bayesmdp": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "threads": thread_count(None),
        **_devices(),
    }
    for requirement in requires("bayesmdp") or ():  # those of extras come last
        package = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            record[package] = version(package)
        except PackageNotFoundError:
            record[package] = None
    return record


def _devices() -> dict[str, str]:
    """Return what computes, and the name of the GPU or why there is none."""
    from bayesmdp import engine

    try:
        engine.backend_of(None)  # refuses a name that means nothing
        gpu = engine.gpu_name()
    except BackendError as problem:
        gpu = f"not available: {problem}"
    return {"device": engine.default_device(), "cuda": gpu}
