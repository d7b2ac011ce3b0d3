"""``bayesmdp fit``: from logged transitions to a posterior in a run directory."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesmdp._checks import many
from bayesmdp._io import check_file
from bayesmdp.cli._options import (
    count,
    fallback_option,
    files_argument,
    output_options,
    reading_options,
    show,
    state_said,
)
from bayesmdp.priors import PRIOR_NAMES

if TYPE_CHECKING:
    from bayesmdp import Task, Transitions
    from bayesmdp.data import Findings
    from bayesmdp.priors import AnyPrior


@click.command()
@files_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Directory to keep the run in; needed unless --init is given.",
)
@click.option(
    "--init",
    type=click.Path(path_type=Path),
    help="Only write a commented task file for these data.",
)
@click.option(
    "--task", "task_file", type=click.Path(path_type=Path), help="Task file (TOML)."
)
@click.option(
    "--discount",
    type=float,
    help="Without a task file: the discount of a step, from 0 to 1; rewards come "
    "from the data, and so do starts where it has episodes and steps.",
)
@click.option(
    "--terminal",
    multiple=True,
    metavar="STATE",
    help="Without a task file: a state in which episodes end, by label or id; may be "
    "repeated; as found in the data where not given.",
)
@click.option(
    "--cost",
    is_flag=True,
    help="Without a task file: rewards in the data are costs, to be minimised.",
)
@reading_options
@click.option(
    "--prior",
    type=click.Choice(PRIOR_NAMES),
    default="hierarchical",
    help="What is assumed about next states; sparse: only those observed, and the "
    "fallback.",
)
@click.option(
    "--concentration",
    type=float,
    help="Pseudo-count of a possible next state, or of a row for scaled; default the "
    "prior's own (1, or chosen by the data).",
)
@fallback_option
@count("--min-count", 0, 0, "Visits a pair needs to be available to policies.")
@click.option("--overwrite", is_flag=True, help="Replace an existing run.")
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    out: Path | None,
    init: Path | None,
    reading: dict[str, Any],
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **how: Any,
) -> None:
    """Fit a posterior to logs: CSV, Parquet or JSON.

    What is fixed in advance, such as the discount, is given in a task file; --init
    writes a template. The posterior is kept in the directory --out. Exit code 1: it was
    done, but there are warnings.

    Example: bayesmdp fit ward.csv --init task.toml

    Example: bayesmdp fit ward.csv --task task.toml --min-count 5 -o ward
    """
    import bayesmdp as bm

    if (out is None) == (init is None):
        raise click.UsageError(
            "Say where to keep the run, -o DIRECTORY; or only --init FILE."
        )
    if init is not None:
        _check_init(how)
        check_file(init, overwrite=overwrite)
    elif out is not None:
        _check_options(how)
        bm.storage.check_target(out, overwrite=overwrite)
    data = bm.read_transitions(list(files), **reading)
    if init is not None:
        bm.storage.write_template(data, init, overwrite=overwrite)
        record: dict[str, Any] = {"task": str(init), "n_rows": data.n_rows}
        said = f"Wrote {init}: look at it, then give it as --task."
    elif out is not None:
        task = _task(data, how)
        prior = _prior(task, how)
        posterior = bm.fit(data, task, prior=prior, min_count=how["min_count"])
        findings = bm.validate(data)
        kept = {x: y for x, y in reading.items() if y not in (None, {}, ())}
        kept.pop("columns", None)  # those of the data are kept
        _warn_of(findings, task)
        bm.storage.save(
            posterior,
            out,
            data=data,
            source={"files": list(files), **kept},
            findings=findings,
            warnings=ctx.find_root().obj,
            overwrite=overwrite,
        )
        record = bm.storage.load(out).describe() if as_json else {}
        begin = f"Episodes begin {bm.model.said_start(posterior.task)}{_why(how)}\n"
        begin *= posterior.task.criterion != "average"  # which has no episodes
        terms = bm.model.said_terms(posterior.task)
        said = f"{posterior.summary()}\nTask: {terms}\n{begin}Saved in {out}"
    show(said, record, as_json=as_json, quiet=quiet)


def _check_init(how: dict[str, Any]) -> None:
    """Refuse what a task file that is only written cannot take up."""
    given = [how[x] for x in ("task_file", "discount", "terminal", "cost")]
    if any(x not in (None, (), False) for x in given):
        raise click.UsageError(
            "--init writes a task file from the data alone: leave out --task, "
            "--discount, --terminal and --cost, and edit the file."
        )


def _check_options(how: dict[str, Any]) -> None:
    """Refuse options that contradict each other."""
    if how["task_file"] is None and how["discount"] is None:
        raise click.UsageError(
            "Give --task FILE (see --init), or --discount at the least."
        )
    if how["task_file"] is not None and (
        how["discount"] is not None or how["terminal"] or how["cost"]
    ):
        raise click.UsageError(
            "--discount, --terminal and --cost are for use without --task: write them "
            "into the task file."
        )


def _warn_of(findings: "Findings", task: "Task") -> None:
    """Warn of what `validate` finds in a log, and of a task that pays nothing."""
    from bayesmdp import BayesmdpWarning

    wrong = (*findings.errors, *findings.warnings)
    if wrong:
        codes = ", ".join(dict.fromkeys(x.code for x in wrong))
        warnings.warn(
            f"`bayesmdp validate` finds {many(len(wrong), 'problem')} in these data "
            f"({codes})",
            BayesmdpWarning,
            stacklevel=2,
        )
    if not task.pays:
        warnings.warn(
            "every reward is 0, so that all policies are alike; say in the task file "
            "what pays",
            BayesmdpWarning,
            stacklevel=2,
        )


def _task(data: "Transitions", how: dict[str, Any]) -> "Task":
    import bayesmdp as bm

    if how["task_file"] is not None:
        return bm.storage.read_task(how["task_file"], data)
    how["logged"] = bm.model.begins_as_logged(data, ())
    how["lacking"] = [x for x in ("episode", "step") if x not in data.table.roles]
    ends = [state_said(x, data.state_labels) for x in how["terminal"]]
    return bm.Task.from_data(
        data,
        discount=how["discount"],
        terminal=ends or None,
        start="logged" if how["logged"] else "uniform",
        cost="logged" if how["cost"] else None,
    )


def _why(how: dict[str, Any]) -> str:
    """Say why episodes begin where they do; a task file says it itself."""
    if how["task_file"] is not None:
        return ""
    if how["logged"]:
        return ", as those of the log do"
    lacking = how["lacking"]
    if not lacking:
        return ": the log does not tell where; a task file can"
    named = " and ".join(f"--columns {x}=NAME" for x in lacking)
    return (
        f": the log does not tell where (no `{'` and `'.join(lacking)}`); {named} or a "
        "task file can"
    )


def _prior(task: "Task", how: dict[str, Any]) -> "AnyPrior | None":
    """Return the prior asked for, None for that of `bayesmdp.fit`."""
    import bayesmdp as bm

    name, concentration, fallback = (
        how[x] for x in ("prior", "concentration", "fallback")
    )
    if (name, concentration, fallback) == ("hierarchical", None, None):
        return None
    if fallback is not None:
        fallback = state_said(fallback, task.state_labels)
    return bm.priors.named_prior(name, concentration=concentration, fallback=fallback)
