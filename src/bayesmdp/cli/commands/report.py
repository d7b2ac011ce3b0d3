"""``bayesmdp report``: one page that can be defended."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesmdp.cli._options import device_option, draws_option, priors_beside
from bayesmdp.cli._runs import COMPARISON, OPTIMISED, Job, job_options, run_argument

if TYPE_CHECKING:
    from bayesmdp import Comparison, Optimisation, Task

_USUAL = ("behaviour", "mle", "nominal")


@click.command()
@run_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    help="The page; its data are written beside it, ending in .json.",
)
@click.option(
    "--prior-sensitivity",
    is_flag=True,
    help="Also evaluate under other priors; costs three evaluations or more.",
)
@draws_option
@device_option
@job_options
def command(job: Job, out: Path, prior_sensitivity: bool, n_draws: int) -> None:
    """Write an HTML page on RUN that needs no network.

    RUN is a directory of `fit`. The page shows what `check`, `negative-control`,
    `cross-fit`, `off-policy`, `information` and `compare-priors` found, or the command
    for what was not run, the last `compare`, and the last `cost-effectiveness`, if any.
    Where no policies were compared, it is done for behaviour, mle, nominal and, if
    there, the optimised policy; where the optimised policy is newer, or what was kept
    is of another --reward, they are compared again. --draws and --seed apply to what
    must be computed. An existing page is replaced, with its data.

    Example: bayesmdp report ward -o ward.html
    """
    import bayesmdp as bm

    data = bm.reporting.check_page(out)
    loaded, posterior, task = job.run, job.posterior, job.posterior.task
    best = job.optimised()
    if best is not None and best.evaluation.task.chosen != task.chosen:
        job.remark("the optimised policy kept is of another reward")
        best = None
    comparison, why = _comparison(job, best, n_draws)
    if why:
        job.remark(why)
    made: dict[str, Any] = {
        name: bm.storage.load_result(job.path, name, kind)
        for name, kind in (
            ("check", bm.diagnostics.Check),
            ("negative_control", bm.diagnostics.NegativeControl),
            ("cross_fit", bm.diagnostics.CrossFit),
            ("off_policy", bm.evaluation.OffPolicy),
            ("cost_effectiveness", bm.economics.CostEffectiveness),
            ("information", bm.information.Information),
        )
        if name in loaded.results
    }
    for name in [x for x in made if _reward_of(made[x], task) != task.chosen]:
        command = name.replace("_", "-")
        job.remark(f"what `{command}` found is of another reward")
        del made[name]
    predictor, fallback = None, None
    if "compare_priors" in loaded.results:
        kept = bm.storage.load_result(job.path, "compare_priors", dict)
        predictor, fallback = kept["comparison"].best, kept["fallback"]
    tried = None
    if prior_sensitivity:
        first = comparison.evaluations[comparison.rows[0].name]
        tried = bm.prior_sensitivity(
            first.policy if best is None else best.policy,
            posterior.counts,
            task,
            priors_beside(posterior, (), fallback, also=predictor),
            min_count=posterior.min_count,
            seed=job.seed,
            threads=job.threads,
            device=job.device,
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
        "run": str(job.path),
        "html": str(out),
        "json": str(data),
        "policies": [row.name for row in comparison.rows],
        "reference": comparison.reference,
        "comparison_made": bool(why),
        "prior_sensitivity": prior_sensitivity,
    }
    job.show(f"Wrote {out} and {data}", record)


def _comparison(
    job: Job, best: "Optimisation | None", n_draws: int
) -> "tuple[Comparison, str]":
    """Return the comparison kept with a run, made again where it is not up to date.

    It is made, and kept, where there is none, where it is of another reward, and where
    the optimised policy is missing in it or has changed since; also says why.
    """
    import bayesmdp as bm

    run, kept = job.run, None
    if COMPARISON in run.results:
        kept = bm.storage.load_result(job.path, COMPARISON, bm.Comparison)
    other = kept is not None and _chosen(kept) != run.posterior.task.chosen
    kept = None if other else kept
    if kept is not None and _knows(kept, best):
        return kept, ""
    job.reserve(COMPARISON)
    if kept is None:
        policies = job.policies(_USUAL)
        reference, min_count, why = _USUAL[0], 5, "no comparison was kept"
        why = "the comparison kept is of another reward" if other else why
    else:
        policies = {name: x.policy for name, x in kept.evaluations.items()}
        reference, min_count = kept.reference, kept.min_count
        why = "the comparison kept lacks the optimised policy as it is now"
    if best is not None:
        policies[OPTIMISED] = best.policy
    draws = run.posterior.draws(n_draws, job.seed)
    made = bm.compare(
        policies, draws, reference=reference, min_count=min_count, **job.seedless
    )
    job.keep(COMPARISON, made)
    return made, f"{why}; computing one for {', '.join(policies)}"


def _reward_of(found: Any, task: "Task") -> object:
    """Which of its task's rewards something kept with a run was made with."""
    import bayesmdp as bm

    if isinstance(found, bm.information.Information):
        return found.task.chosen
    if isinstance(found, bm.economics.CostEffectiveness):  # it names its rewards
        return task.chosen
    return found.reward


def _chosen(kept: "Comparison") -> object:
    """Which of its task's rewards policies were compared by."""
    return kept.evaluations[kept.reference].task.chosen


def _knows(kept: "Comparison", best: "Optimisation | None") -> bool:
    """Whether the optimised policy is compared as it is now, or there is none."""
    if best is None:
        return True
    compared = kept.evaluations.get(OPTIMISED)
    return compared is not None and bool((compared.policy == best.policy).all())
