"""Two kinds of uncertainty about clinical states (appendix G, figure 12).

The policy is the nominal one under the sparse conservative prior; study ``fig5`` says
what `optimise` returns in its place, which takes a minute a cohort. Every state has an
epistemic and an aleatoric standard deviation, and a value. A return that is 1 for
survival and 0 for death is binomial: given the dynamics, its variance is ``V (1 - V)``.
Averaged over the posterior that leaves, at discount 1,

    aleatoric variance = E[V (1 - V)] = E[V] (1 - E[V]) - epistemic variance.

With discount 0.999 a survivor's return is a little less than 1, and varies less still.
The true values, which the paper could not know, say whether epistemic uncertainty is as
large as it must be.
"""

from typing import Any

import numpy as np

import bayesmdp as bm
from studies.cohorts import (
    DEATH,
    MIN_COUNT,
    PATIENTS,
    cohort,
    sepsis,
)
from studies.means import fixed, percent
from studies.study import Effort, Job, Record, Study

_CLOSE = 0.95  # correlation from which on two quantities are strongly related
_FAR = 0.2  # share of V(1 - V) by which a variance may not miss it


def _jobs(effort: Effort) -> list[Job]:
    sepsis()  # says what to install before anything is kept
    n_cohorts = effort.seeds or (1 if effort.quick else 3)
    size, n_draws = (2_000, 128) if effort.quick else (PATIENTS, 2_000)
    return [
        Job(f"{number:03}", {"size": size, "number": number, "n_draws": n_draws})
        for number in range(n_cohorts)
    ]


def _work(size: int, number: int, n_draws: int) -> list[Record]:
    """Decompose the variance of every live state of one cohort."""
    world = sepsis()
    prior = bm.SparsePrior(1.0, fallback=DEATH)
    data = cohort(size, number)
    belief = bm.fit(data, world.task, prior=prior, min_count=MIN_COUNT)
    policy = bm.policies.nominal(belief)
    found = bm.evaluate(policy, belief.draws(n_draws, seed=number))
    live = world.task.live
    columns = {
        "value": found.value,
        "epistemic_sd": found.epistemic_sd,
        "aleatoric_sd": found.aleatoric_sd,
        "aleatoric_sd_mcse": found.aleatoric_sd_mcse,
        "truth": world.value(policy),
    }
    visits = belief.counts.pair_totals(world.task.n_states, world.task.n_actions)
    return [
        {
            "size": size,
            "cohort": number,
            "n_draws": n_draws,
            "visits": visits.sum(axis=1)[live].tolist(),
            **{
                key: [round(float(x), 8) for x in column[live]]
                for key, column in columns.items()
            },
        }
    ]


def _measures(x: Record) -> dict[str, float]:
    """Numbers of one cohort that the table gives."""
    value, epistemic, aleatoric, truth = (
        np.array(x[key]) for key in ("value", "epistemic_sd", "aleatoric_sd", "truth")
    )
    chance = value * (1 - value)
    return {
        "epistemic": epistemic.mean(),
        "aleatoric": aleatoric.mean(),
        "correlation": np.corrcoef(chance, aleatoric**2)[0, 1],
        "chance": chance.mean(),
        "short": np.mean(chance - aleatoric**2),
        "of_doubt": np.mean(epistemic**2),
        "of_discount": np.mean(chance - aleatoric**2 - epistemic**2),
        "covered": 100 * np.mean(np.abs(truth - value) <= 2 * epistemic),
        "below": 100 * np.mean(value < truth),
    }


def _tell(records: list[Record]) -> str:
    of = [_measures(x) for x in records]
    column = {key: [x[key] for x in of] for key in of[0]}
    rows = {
        "epistemic sd, mean over states": fixed(column["epistemic"]),
        "aleatoric sd, mean over states": fixed(column["aleatoric"]),
        "correlation of aleatoric variance with V(1 - V)": fixed(column["correlation"]),
        "V(1 - V) minus aleatoric variance, mean": fixed(column["short"]),
        "of which epistemic variance": fixed(column["of_doubt"]),
        "and the rest, by discounting": fixed(column["of_discount"]),
        "states whose true value lies within 2 epistemic sd": fixed(
            column["covered"], 0, " %"
        ),
        "states whose true value lies above the posterior mean": fixed(
            column["below"], 0, " %"
        ),
    }
    n, size = len(records), records[0]["size"]
    lines = [
        f"| {n} cohort{'s' if n > 1 else ''} of {size:,} patients, "
        f"{len(records[0]['value'])} states | |",
        "|---|---|",
        *(f"| {what} | {number} |" for what, number in rows.items()),
        "",
        _verdict(column),
    ]
    return "\n".join(lines)


def _verdict(column: dict[str, list[float]]) -> str:
    claim = (
        "**Verdict:** the paper finds aleatoric uncertainty and value strongly "
        "related, returns being nearly binomial."
    )
    found = f"Here the correlation with V(1 - V) is {fixed(column['correlation'])}"
    if min(column["correlation"]) < _CLOSE:
        return f"{claim} {found}, below {_CLOSE}: not confirmed."
    share = float(np.mean(column["short"]) / np.mean(column["chance"]))
    parts = (
        f"{claim} {found}; the variance falls short of it by {percent(share)} on "
        "average"
    )
    if abs(share) > _FAR:
        return f"{parts}, more than {percent(_FAR)}: confirmed with a caveat."
    return (
        f"{parts}, by discounting and by what is epistemic (up to {percent(_FAR)} is "
        "near): confirmed."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """States by their two standard deviations, and variance against V(1 - V)."""
    from matplotlib.figure import Figure

    x = records[0]
    value, epistemic, aleatoric = (
        np.array(x[key]) for key in ("value", "epistemic_sd", "aleatoric_sd")
    )
    figure = Figure(figsize=(10, 4.3), layout="constrained")
    kinds, chance = figure.subplots(1, 2)
    shown = kinds.scatter(epistemic, aleatoric, c=value, s=9, cmap="viridis")
    figure.colorbar(shown, ax=kinds, label="posterior value")
    kinds.set(xlabel="epistemic sd", ylabel="aleatoric sd")
    seen = np.count_nonzero(x["visits"])
    few = "" if seen == value.size else f", {seen}"  # of the states were
    kinds.set_title(
        f"{value.size} states{few} visited by {x['size']:,} simulated\n"
        "patients, sparse prior",
        fontsize=10,
    )
    shown = chance.scatter(
        value * (1 - value), aleatoric**2, c=epistemic, s=9, cmap="cividis"
    )
    figure.colorbar(shown, ax=chance, label="epistemic sd")
    chance.axline((0, 0), slope=1, color="grey", linewidth=0.8)
    chance.set(xlabel="$V\\,(1 - V)$", ylabel="aleatoric variance")
    chance.set_title(
        "Below the line: discounting,\nand uncertainty that is epistemic", fontsize=10
    )
    return {"uncertainty": figure}


STUDY = Study(
    "uncertainty",
    "Figure 12: epistemic and aleatoric uncertainty about clinical states",
    _jobs,
    _work,
    _tell,
    _plot,
)
