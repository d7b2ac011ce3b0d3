"""``bayesmdp bench``: how fast it is here, beside its rivals, with values checked."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click

from bayesmdp._checks import did_you_mean
from bayesmdp.cli._options import output_options, show, threads_option
from bayesmdp.errors import BayesmdpError


@click.command()
@click.argument("parts", nargs=-1)
@click.option(
    "--quick",
    is_flag=True,
    help="Smaller sizes, fewer repeats: a minute once kernels are compiled.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where to store the record; default benchmarks/results/scale.json for the "
    "whole table, .benchmarks/scale.json for less, in the checkout.",
)
@threads_option
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    parts: tuple[str, ...],
    quick: bool,
    out: Path | None,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure speed at clinical size and beyond, against rivals in the same run.

    PARTS are any of clinical, full-support, optimise, large, planner, gamma, threads,
    read; all where none is named, which takes several minutes, 8 GB of memory, and
    should have the machine to itself. Every time stands beside the check of its value;
    the exit code is 1 where a value is wrong, whatever the times. The benchmarks come
    with the source, not with the installed package.

    Example: bayesmdp bench clinical planner --quick
    """
    scale = _benchmarks()
    for name in parts:
        if name not in scale.PARTS:
            known = ", ".join(scale.PARTS)
            raise click.BadParameter(
                f"{name!r} is none of {known}{did_you_mean(name, scale.PARTS)}.",
                ctx,
                None,
                "PARTS",
            )
    say = (lambda _: None) if quiet else _say
    record = scale.run(parts, quick=quick, threads=threads, say=say)
    if not record["rows"]:
        raise BayesmdpError("Nothing was measured: every part was skipped, see above.")
    table = import_module("benchmarks").text_table(record)
    show(table, record, as_json=as_json, quiet=quiet)
    try:
        say(f"stored in {scale.store(record, out, say=say)}")
    except OSError as problem:
        raise BayesmdpError(
            f"The record cannot be stored ({problem}); name a place with `--out`."
        ) from problem
    if not scale.right(record):
        ctx.exit(1)


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


def _benchmarks() -> ModuleType:
    """Import the benchmarks of the source tree, from beside the package or from here.

    They are no part of the package: what users install need not carry them.
    """
    import bayesmdp

    package = Path(bayesmdp.__file__).resolve().parent
    for root in (*package.parents[1:2], Path.cwd()):
        if (root / "benchmarks" / "scale.py").is_file():
            sys.path.insert(0, str(root))
            return import_module("benchmarks.scale")
    raise BayesmdpError(
        "The benchmarks come with the source of bayesmdp, which is neither beside the "
        "installed package nor in this directory: clone it and run `make bench` there."
    )
