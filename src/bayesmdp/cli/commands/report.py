"""``bayesmdp report``: one page that can be defended."""

from pathlib import Path
from typing import Any

import click

from bayesmdp.cli._options import (
    draws_option,
    output_options,
    priors_beside,
    remark,
    run_argument,
    seed_option,
    show,
    threads_option,
    wants_progress,
)


@click.command()
@run_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page; its data are written beside it, ending in .json.",
)
@click.option(
    "--prior-sensitivity",
    is_flag=True,
    help="Also what other priors would say; as costly as three evaluations and more.",
)
@draws_option
@seed_option
@threads_option
@output_options
def command(
    run: Path,
    out: Path,
    prior_sensitivity: bool,
    n_draws: int,
    seed: int,
    threads: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write a page on RUN, a directory of `fit`: one HTML file that needs no network.

    It shows what `check`, `negative-control`, `cross-fit`, `off-policy` and
    `compare-priors` found, or the command for what was not run, and the last `compare`.
    Where there is none, one is made of behaviour, mle,
    nominal and, if there, the optimised policy; where the optimised policy is newer,
    all are compared again. --draws and --seed are for what has to be made. A page that
    is there is replaced, with its data.

    Example: bayesmdp report ward -o ward.html
    """
    import bayesmdp as bm

    data = bm.reporting.check_page(out)
    loaded = bm.storage.load(run)
    posterior, task = loaded.posterior, loaded.posterior.task
    comparison, why = bm.storage.current_comparison(
        loaded,
        n_draws=n_draws,
        seed=seed,
        threads=threads,
        progress=wants_progress(quiet),
    )
    if why:
        remark(why, quiet=quiet)
    best = None
    if bm.storage.OPTIMISED in loaded.results:
        best = bm.storage.load_optimisation(run)
    made: dict[str, Any] = {
        name: kind.from_dict(bm.storage.load_result(run, name).record)
        for name, kind in (
            ("check", bm.diagnostics.Check),
            ("negative_control", bm.diagnostics.NegativeControl),
            ("cross_fit", bm.diagnostics.CrossFit),
            ("off_policy", bm.evaluation.OffPolicy),
        )
        if name in loaded.results
    }
    predictor, fallback = None, None
    if "compare_priors" in loaded.results:
        record = bm.storage.load_result(run, "compare_priors").record
        predictor, fallback = record["best"], record["fallback"]
    tried = None
    if prior_sensitivity:
        first = comparison.evaluations[comparison.rows[0].name]
        tried = bm.prior_sensitivity(
            first.policy if best is None else best.policy,
            posterior.counts,
            task,
            priors_beside(posterior, (), fallback, also=predictor),
            min_count=posterior.min_count,
            seed=seed,
            threads=threads,
        )
    page = bm.report(
        posterior,
        comparison,
        optimisation=best,
        findings=loaded.findings,
        evidence=bm.priors.evidence_curve(
            posterior.counts, task, min_count=posterior.min_count
        ),
        prior_sensitivity=tried,
        best_predictor=predictor if tried and predictor in tried.names else None,
        **made,
    )
    page.save(out)
    page.save(data)
    record = {
        "run": str(run),
        "html": str(out),
        "json": str(data),
        "policies": [row.name for row in comparison.rows],
        "reference": comparison.reference,
        "comparison_made": bool(why),
        "prior_sensitivity": prior_sensitivity,
    }
    show(f"Wrote {out} and {data}", record, as_json=as_json, quiet=quiet)
