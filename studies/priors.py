"""What priors promise and what their policies deliver, on simulated cohorts.

Patients of ICU-Sepsis, the true model, are treated as clinicians did. Each prior learns
from the cohort (pairs with at least 5 visits), its nominal policy is planned at
discount 0.999, and three numbers are set side by side: the value the belief promises
for it, the value it has in the true model, and, at discount 1, the share of patients
who survive. Whether the 90 % interval of the belief holds the truth is noted for that
policy, which was chosen because it looked good, and for the clinicians', which was not.
"""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import bayesmdp as bm
from bayesmdp.errors import BayesmdpWarning
from studies import cohorts
from studies.cohorts import DEATH, MIN_COUNT, sepsis
from studies.means import fixed, mean_and_error
from studies.paired import sign
from studies.study import Effort, Job, Record, Study

if TYPE_CHECKING:
    from bayesmdp.priors import Prior

_LEVEL = 0.9
_REFERENCE, _EVIDENCE = "sparse, death", "evidence"


def priors() -> dict[str, "Prior | bm.MixturePrior"]:
    """Return the priors that are set side by side, by name."""
    return {
        # As good as no prior; only who was never seen at all is believed to die.
        "maximum likelihood": bm.SparsePrior(1e-9, fallback=DEATH),
        "scaled (1 / n_states)": bm.ScaledPrior(1.0),
        _EVIDENCE: bm.EvidencePrior(),
        "symmetric, 0.072": bm.SymmetricPrior(0.072),
        "symmetric, 1": bm.SymmetricPrior(1.0),
        "hierarchical": bm.RandomSupportPrior(),
        _REFERENCE: bm.SparsePrior(1.0, fallback=DEATH),
        "scaled, death": bm.FallbackPrior(bm.ScaledPrior(1.0), DEATH),
        "evidence, death": bm.FallbackPrior(bm.EvidencePrior(), DEATH),
        "hierarchical, death": bm.RandomSupportPrior(fallback=DEATH),
        # Half a forecast, half caution: the latter looks at the data, without evidence.
        "half evidence, half sparse": bm.MixturePrior(
            [bm.EvidencePrior(), bm.SparsePrior(1.0, fallback=DEATH)],
            posterior_weights=[0.5, 0.5],
        ),
    }


def _jobs(effort: Effort) -> list[Job]:
    sepsis()  # says what to install before anything is kept
    n_cohorts = effort.seeds or (2 if effort.quick else 10)
    # Ends of intervals are then draws themselves: the 5th and the 95th of 99.
    n_draws = 19 if effort.quick else 99
    sizes = (2_000,) if effort.quick else (2_000, 18_000)
    return [
        Job(
            f"{size:05}-{cohort:03}-{number:02}",
            {"size": size, "cohort": cohort, "prior": name, "n_draws": n_draws},
        )
        for size in sizes
        for cohort in range(n_cohorts)
        for number, name in enumerate(priors())
    ]


def _work(size: int, cohort: int, prior: str, n_draws: int) -> list[Record]:
    """Learn from one cohort with one prior, and judge what comes of it."""
    world = sepsis()
    data = cohorts.cohort(size, cohort)
    belief = bm.fit(data, world.task, prior=priors()[prior], min_count=MIN_COUNT)
    with warnings.catch_warnings():
        # Clinicians also did what no prior can judge here; the truth is restricted too.
        warnings.simplefilter("ignore", BayesmdpWarning)
        clinicians = bm.restrict(world.expert, belief)
    record: Record = {"size": size, "cohort": cohort, "prior": prior}
    policies = {"chosen": bm.policies.nominal(belief), "clinicians": clinicians}
    for name, policy in policies.items():
        found = bm.evaluate(policy, belief.draws(n_draws, seed=cohort))
        truth = float(world.task.start @ world.value(policy))
        ends = (1 - _LEVEL) / 2, (1 + _LEVEL) / 2
        low, high = np.quantile(found.start_values, ends, method="weibull")
        record |= {
            f"{name}_promise": found.start_value,
            f"{name}_promise_error": found.start_value_error,
            f"{name}_delivers": truth,
            f"{name}_covered": bool(low <= truth <= high),
        }
    whole = sepsis(1.0)
    record["survival"] = float(whole.task.start @ whole.value(policies["chosen"]))
    return [record]


def _columns(records: list[Record], size: int, prior: str) -> dict[str, list[float]]:
    rows = [x for x in records if x["size"] == size and x["prior"] == prior]
    rows.sort(key=lambda x: int(x["cohort"]))
    return {key: [x[key] for x in rows] for key in rows[0] if key != "prior"}


def _tell(records: list[Record]) -> str:
    parts = []
    for size in sorted({x["size"] for x in records}):
        of = {name: _columns(records, size, name) for name in priors()}
        n = len(of[_REFERENCE]["cohort"])
        lines = [
            f"**{size:,} patients, {n} cohorts** (mean ± standard error)\n",
            "| prior | promises | delivers | promise minus delivery | survival | "
            "interval holds the truth: chosen policy | clinicians' |",
            "|---|---|---|---|---|---|---|",
        ]
        for name, x in of.items():
            gap = np.subtract(x["chosen_promise"], x["chosen_delivers"])
            lines.append(
                f"| {name} | {fixed(x['chosen_promise'])} | "
                f"{fixed(x['chosen_delivers'])} | {fixed(gap)} | "
                f"{fixed(x['survival'])} | {sum(x['chosen_covered'])} of {n} | "
                f"{sum(x['clinicians_covered'])} of {n} |"
            )
        parts.append("\n".join([*lines, "", *_choice(of)]))
    return "\n\n".join([*parts, _verdict(size, of)])


def _choice(of: dict[str, dict[str, list[float]]]) -> list[str]:
    """Choose by the first half of the cohorts, score on the others.

    The best of many looks better than it is on the cohorts that made it the best.
    """
    half = len(of[_REFERENCE]["cohort"]) // 2
    delivery = {name: np.array(x["chosen_delivers"]) for name, x in of.items()}
    gap = {name: x["chosen_promise"] - delivery[name] for name, x in of.items()}
    best = max(of, key=lambda name: delivery[name][:half].mean())
    closest = min(of, key=lambda name: abs(gap[name][:half].mean()))
    lead = delivery[best][half:] - delivery[_REFERENCE][half:]
    lines = [
        f"Of the first half of the cohorts ({half}), **{best}** delivers most and "
        f"**{closest}** promises closest. On the others, {best} delivers "
        f"{fixed(delivery[best][half:])} (promise minus delivery "
        f"{fixed(gap[best][half:])}), {closest} "
        f"{fixed(delivery[closest][half:])} ({fixed(gap[closest][half:])})."
    ]
    if best != _REFERENCE:
        lines.append(
            f"There {best} minus {_REFERENCE}, cohort by cohort: {fixed(lead)}."
        )
    return lines


def _verdict(size: int, of: dict[str, dict[str, list[float]]]) -> str:
    """Say whether the paper's sparse prior promises less, and delivers other things."""
    promise, delivery = (
        np.subtract(of[_EVIDENCE][key], of[_REFERENCE][key])
        for key in ("chosen_promise", "chosen_delivers")
    )
    word = "not confirmed"
    if sign(promise) > 0:
        word = "confirmed"
        if sign(delivery) == 0:
            word += " with a caveat, for the two deliveries cannot be told apart"
    ranges = [
        [mean_and_error(x[key])[0] for x in of.values()]
        for key in ("chosen_promise", "chosen_delivers")
    ]
    promised, delivered = (f"{min(x):.3f} to {max(x):.3f}" for x in ranges)
    return (
        "**Verdict:** the paper says that values and policies depend on the prior, "
        f"with the sparse one more conservative. With {size:,} patients its "
        f"evidence-selected prior promises {fixed(promise)} more than the sparse one "
        f"and delivers {fixed(delivery)} more; over all priors promises go from "
        f"{promised}, deliveries from {delivered}; told apart "
        f"at three standard errors: {word}."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Promise against delivery: on the line, promises are kept."""
    from matplotlib.figure import Figure

    sizes = sorted({x["size"] for x in records})
    figure = Figure(figsize=(5.2 * len(sizes), 5.4), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(sizes)))
    for axis, size in zip(axes, sizes, strict=True):
        for number, name in enumerate(priors()):
            x = _columns(records, size, name)
            promise, delivery = (
                mean_and_error(x[key]) for key in ("chosen_promise", "chosen_delivers")
            )
            axis.errorbar(
                promise[0],
                delivery[0],
                xerr=promise[1],
                yerr=delivery[1],
                marker="os^D"[number % 4],
                color=f"C{number % 10}",
                linestyle="none",
                label=name,
            )
        # The line runs through, and changes nothing about what is shown.
        axis.set(xlim=axis.get_xlim(), ylim=axis.get_ylim())
        axis.axline((0.5, 0.5), slope=1, color="grey", linewidth=0.8, zorder=0)
        axis.set_xlabel("promised value")
        axis.set_ylabel("delivered value")
        axis.set_title(f"{size:,} patients")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8)
    return {"priors": figure}


STUDY = Study(
    "priors",
    "What priors promise, and what their policies deliver",
    _jobs,
    _work,
    _tell,
    _plot,
)
