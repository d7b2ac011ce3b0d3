"""Patients gathered by `next_trial`, against as many more treated as before.

In ICU-Sepsis, whose truth is known, 2,000 logged patients are followed by 1,000 more:
treated by the policy that `next_trial` proposes, or by the clinicians' own policy,
which is its baseline. It may try every logged pair; policies are chosen from pairs with
5 visits or more, as elsewhere. Where nothing but the baseline is safe, clinicians go on
as before, and both logs are the same. Both are fitted again, the best policy of each
mean model is chosen, and valued in the truth. Beside it stands what the trial's own
patients gained or lost.

Cohorts of the table have seeds from 90,000 on; ``--quick`` uses small ones. Those from
70,000 and from 80,000 on were looked at while the study was built: there the trial was
planned on pairs with 5 visits or more too, and less was learnt than from clinicians,
who try what was rarely tried.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp.errors import BayesmdpWarning
from studies.cohorts import MIN_COUNT, sepsis
from studies.means import mean_and_error
from studies.study import Effort, Job, Record, Study

_JUDGING = 90_000
_LOGGED, _GATHERED, _REPETITIONS = 2_000, 1_000, 20
_TRUTHS = 2  # of the plan's own simulations, which the study does not look at
_SURE = 2.0  # errors beyond which a difference is called one


def _jobs(effort: Effort) -> list[Job]:
    n = effort.seeds or (2 if effort.quick else _REPETITIONS)
    start = 0 if effort.quick else _JUDGING
    return [Job(f"cohort-{seed}", {"seed": seed}) for seed in range(start, start + n)]


def _work(seed: int) -> list[Record]:
    """One cohort: log, plan, gather both ways, decide, value."""
    warnings.simplefilter("ignore", BayesmdpWarning)
    world = sepsis()
    task = world.task

    def true_value(policy: NDArray[np.float64]) -> float:
        return float(task.start @ world.value(policy))

    log = world.simulate(world.expert, _LOGGED, seed=seed)
    before = bm.fit(log, task, min_count=MIN_COUNT)
    every = bm.fit(log, task, min_count=1)
    plan = bm.next_trial(
        every,
        _GATHERED,
        baseline=bm.restrict(world.expert, every),
        sizes=(_GATHERED,),
        n_truths=_TRUTHS,
        seed=seed,
    )
    same = np.allclose(plan.policy, plan.baseline)
    treated = world.expert if same else plan.policy
    record: Record = {
        "seed": seed,
        "clinicians": true_value(world.expert),
        "now": true_value(bm.policies.nominal(before)),
        "gathering": true_value(treated),
        "explored": plan.explored,
        "as_before": bool(same),
        "anchor": plan.anchor,
        "no_worse": plan.probability_no_worse,
        "believed": plan.difference,
    }
    for name, policy in (("trial", treated), ("same", world.expert)):
        more = world.simulate(policy, _GATHERED, seed=seed + 500_000)
        after = before.update(more)
        record[name] = true_value(bm.policies.nominal(after))
    return [record]


def _tell(records: list[Record]) -> str:
    def column(name: str) -> list[float]:
        return [float(x[name]) for x in records]

    def against(left: str, right: str) -> tuple[float, float]:
        return mean_and_error(list(np.subtract(column(left), column(right))))

    rows = {
        "clinicians": mean_and_error(column("clinicians")),
        f"policy chosen after {_LOGGED:,} patients": mean_and_error(column("now")),
        f"after {_GATHERED:,} more, as clinicians treat": mean_and_error(
            column("same")
        ),
        f"after {_GATHERED:,} more, by next_trial": mean_and_error(column("trial")),
    }
    lines = [
        f"True values (discount {sepsis().task.discount:g}) in {len(records)} cohorts, "
        "means with standard errors over cohorts",
        "",
        "| policy | true value |",
        "|---|---|",
        *(f"| {name} | {x:.4f} ± {e:.4f} |" for name, (x, e) in rows.items()),
        "",
    ]
    gain, error = against("trial", "same")
    while_, while_error = against("gathering", "clinicians")
    worse = sum(x["gathering"] < x["clinicians"] for x in records)
    explored = float(np.mean(column("explored")))
    alike = sum(x["as_before"] for x in records)
    word = "no difference beyond two standard errors"
    if abs(gain) > _SURE * error:
        word = "better" if gain > 0 else "worse"
    verdict = (
        f"**Verdict:** what is chosen after `next_trial`'s patients is worth "
        f"{gain:+.4f} ± {error:.4f} more than after as many of the clinicians' "
        f"(paired): {word}. While gathering, its patients fare {while_:+.4f} ± "
        f"{while_error:.4f} against the clinicians' policy, and worse in {worse} of "
        f"{len(records)} cohorts. Exploring has a share of {explored:.2f} on average; "
        f"in {alike} of {len(records)} cohorts nothing but the baseline was safe."
    )
    return "\n".join([*lines, verdict])


STUDY = Study(
    "next_trial",
    "The next 1,000 patients: gathered by next_trial, or treated as before",
    _jobs,
    _work,
    _tell,
)
