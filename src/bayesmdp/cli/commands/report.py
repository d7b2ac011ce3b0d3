"""``bayesmdp report``: one page that can be defended."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayesmdp.cli._options import device_option, draws_option, priors_beside
from bayesmdp.cli._runs import COMPARISON, OPTIMISED, Job, job_options, run_argument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bayesmdp import Comparison, Optimisation, Task
    from bayesmdp._typing import FloatArray
    from bayesmdp.information import Information

_USUAL = ("behaviour", "mle", "nominal")


@click.command()
@run_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    help="File of the page; its data are written beside it, as .json.",
)
@click.option(
    "--prior-sensitivity",
    is_flag=True,
    help="Also evaluate under other priors; takes three evaluations or more.",
)
@draws_option
@device_option
@job_options
def command(job: Job, out: Path, prior_sensitivity: bool, n_draws: int) -> None:
    """Write an HTML page on RUN that needs no network.

    RUN is a directory of `fit`. The page shows what `check`, `negative-control`,
    `cross-fit`, `off-policy`, `information` and `compare-priors` found, or the command
    for what was not run, the last `compare`, and the last `cost-effectiveness`, if any.
    Where no policies were compared, behaviour, mle, nominal and, if there is one, the
    optimised policy are compared; where the optimised policy is newer, or the last
    comparison is of another --reward, they are compared again. Costs and information of
    an earlier optimised policy are left out. --draws and --seed apply to whatever has
    to be computed. An existing page is replaced, with its data.

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
    for name, said in _out_of_date(job, made):
        job.remark(said)
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


def _out_of_date(job: Job, made: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what was made with an optimised policy that is no longer kept, and advice.

    Nothing else that is kept shows that policy: `cross-fit` judges the nominal one.
    """
    kept, found = job.optimised(), []
    if kept is None:
        return []
    info, costs = made.get("information"), made.get("cost_effectiveness")
    if info is not None and not _same_policy(_valued(info), kept):
        again = ["information", str(job.path), *info.names, *_rewards(job)]
        said = "what `information` found is of an earlier optimised policy"
        found.append(("information", f"{said}; {_to_show(again)}"))
    if costs is not None and not _same_policy(costs.policies or {}, kept):
        said = "what `cost-effectiveness` found is of an earlier optimised policy"
        how = "it is left out; to show it, give that command again, as it was given"
        found.append(("cost_effectiveness", f"{said}; {how}"))
    return found


def _to_show(command: list[str]) -> str:
    """Say how something that is left out gets onto the page."""
    return f"it is left out; to show it: bayesmdp {shlex.join(command)}"


def _rewards(job: Job) -> list[str]:
    """Write --reward again."""
    if not isinstance(job.reward, dict):
        return [] if job.reward is None else ["--reward", job.reward]
    return [f"--reward={name}={weight:.15g}" for name, weight in job.reward.items()]


def _valued(info: "Information") -> "dict[str, FloatArray]":
    """Policies that information was asked for; with optima of draws, it found them."""
    own = any(name.startswith("optimum of draw") for name in info.names)
    return {} if own else dict(zip(info.names, info.policies, strict=True))


def _same_policy(policies: "Mapping[str, FloatArray]", kept: "Optimisation") -> bool:
    """Whether the optimised policy among them, if any, is the one kept."""
    policy = policies.get(OPTIMISED)
    return policy is None or _alike(policy, kept)


def _alike(policy: "FloatArray", kept: "Optimisation") -> bool:
    """Whether a policy is the one kept; a check of its rows may round them again."""
    return bool((abs(policy - kept.policy) <= _SAME).all())


_SAME = 1e-12  # of a probability


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
    return compared is not None and _alike(compared.policy, best)
