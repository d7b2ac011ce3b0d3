"""Measure, print tables, keep the numbers: ``python -m benchmarks``."""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from bayesmdp._checks import did_you_mean
from bayesmdp.cli import Command, debug_option, output_options, show, threads_option
from bayesmdp.errors import ArgumentError, BayesmdpError
from benchmarks import (
    calibration,
    efforts,
    gpu,
    information,
    scale,
    start,
    tables,
    text_table,
)

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
AWAY = Path(__file__).parents[1] / ".benchmarks"  # what is not whole
TABLES = ("start", "kernels", "variates", "grid", "policies", "efforts")
# An hour, minutes, and what needs a GPU: only where named.
NAMED = ("calibration", "information", "gpu")


@click.command(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
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
    "whole table, .benchmarks/scale.json for less.",
)
@threads_option
@output_options
@debug_option
@click.pass_context
def main(
    ctx: click.Context,
    parts: tuple[str, ...],
    quick: bool,
    out: Path | None,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure speed at clinical size and beyond, against rivals in the same run.

    PARTS are any of clinical, hierarchical, full-support, optimise, large, planner,
    gamma, threads, read; all where none is named, which takes several minutes, 8 GB of
    memory, and should have the machine to itself. Other tables have sizes of their own
    and take no --quick, --out or --threads: start, kernels, variates, grid, policies,
    efforts; `all` makes every table. Every time stands beside the check of its value;
    the exit code is 1 where a value is wrong, whatever the times. With --json each
    table is one JSON object. `calibration`, an hour, holds Monte Carlo errors against
    what they estimate; `information`, minutes, values all pairs of the clinical belief;
    `gpu` sets a GPU beside two CPU threads.

    Example: python -m benchmarks clinical planner --quick

    Example: python -m benchmarks all
    """
    known = [*scale.PARTS, *TABLES, *NAMED, "all"]
    for name in parts:
        if name not in known:
            raise click.BadParameter(
                f"{name!r} is none of {', '.join(known)}{did_you_mean(name, known)}.",
                ctx,
                None,
                "PARTS",
            )
    others = [name for name in TABLES if name in parts or "all" in parts]
    others += [name for name in NAMED if name in parts]
    if others and (quick or out is not None or threads is not None):
        raise ArgumentError(
            f"`--quick`, `--out` and `--threads` are not for {', '.join(others)}: "
            "leave them out, or name other PARTS."
        )
    right = []
    for name in others:
        record = import_module(f"benchmarks.{name}").run()
        show(text_table(record), record, as_json=as_json, quiet=quiet)
        _store(name, record)
        right.append(all(row["correct"] for row in record["rows"]))
    of_scale = () if "all" in parts else tuple(x for x in parts if x in scale.PARTS)
    if of_scale or not parts or "all" in parts:
        say = (lambda _: None) if quiet else scale.to_stderr
        record = scale.run(of_scale, quick=quick, threads=threads, say=say)
        if not record["rows"]:
            raise BayesmdpError(
                "Nothing was measured: every part was skipped, see above."
            )
        show(text_table(record), record, as_json=as_json, quiet=quiet)
        _store_scale(record, out, say)
        right.append(scale.right(record))
    if not all(right):
        ctx.exit(1)


def _store(name: str, record: dict[str, Any]) -> None:
    """Keep the record of a table beside those of other runs."""
    there = (RESULTS if record.get("before", True) else AWAY) / f"{name}.json"
    there.parent.mkdir(exist_ok=True)
    if name == "start" and there == RESULTS / "start.json" and there.exists():
        last = json.loads(there.read_text(encoding="utf-8"))
        page = DOCS / "performance.md"
        said = page.read_text(encoding="utf-8")
        said = said.replace(start.start_table(last), start.start_table(record))
        page.write_text(said, encoding="utf-8")
    there.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if name == "policies":
        text = tables.optimisation_tables(record)
        (DOCS / "optimisation_tables.md").write_text(text, encoding="utf-8")
    if name == "efforts":
        text = efforts.efforts_page(record)
        (DOCS / "effort.md").write_text(text, encoding="utf-8")
    if name in ("information", "gpu"):
        page = DOCS / f"{name}.md"
        marks = re.compile(r"(<!-- benchmark -->\n).*?(\n<!-- /benchmark -->)", re.S)
        write = gpu.gpu_table if name == "gpu" else information.information_table
        said = marks.sub(
            rf"\g<1>{write(record)}\g<2>", page.read_text(encoding="utf-8")
        )
        page.write_text(said, encoding="utf-8")
    if name == "calibration":
        text = calibration.calibration_page(record)
        (DOCS / "monte_carlo_errors.md").write_text(text, encoding="utf-8")


def _store_scale(record: dict[str, Any], out: Path | None, say: scale.Say) -> None:
    try:
        say(f"stored in {scale.store(record, out, say=say)}")
    except OSError as problem:
        raise BayesmdpError(
            f"The record cannot be stored ({problem}); name a place with `--out`."
        ) from problem


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
