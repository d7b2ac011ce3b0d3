"""Which concentration of a symmetric prior the data choose (appendix G, figure 13).

The negative log marginal likelihood of the pairs with at least 5 visits, against the
concentration of a symmetric prior over all 716 next states. The paper finds its minimum
at 0.072 on MIMIC-III and 752 states. Here cohorts of three sizes show how the minimum
moves with the data; the minimum comes with the 95 % interval of its curvature.
"""

from typing import Any

import numpy as np

import bayesmdp as bm
from studies.cohorts import (
    MIN_COUNT,
    PATIENTS,
    cohort,
    sepsis,
)
from studies.means import fixed, mean_and_error
from studies.study import Effort, Job, Record, Study

_PAPER = 0.072
_FAR = 0.5  # an interval that ends below is far below 1
_COLOURS = ("#56b4e9", "#e69f00", "#0072b2")  # told apart by everyone


def _jobs(effort: Effort) -> list[Job]:
    sepsis()  # says what to install before anything is kept
    n_cohorts = effort.seeds or (2 if effort.quick else 5)
    sizes = (500, 2_000) if effort.quick else (2_000, 6_000, PATIENTS)
    return [
        Job(f"{size:05}-{number:03}", {"size": size, "number": number})
        for size in sizes
        for number in range(n_cohorts)
    ]


def _work(size: int, number: int) -> list[Record]:
    """Follow the evidence over concentrations on one cohort."""
    grid = np.union1d(np.geomspace(1e-4, 10.0, 61), [_PAPER])
    curve = bm.priors.evidence_curve(
        cohort(size, number), sepsis().task, grid, min_count=MIN_COUNT
    )
    best = curve.best_log_evidence
    return [
        {
            "size": size,
            "cohort": number,
            "grid": curve.grid.tolist(),
            "loss": (-curve.log_evidence).tolist(),
            "best": curve.best,  # None where no minimum lies inside
            "interval": None if curve.interval is None else list(curve.interval),
            "best_loss": None if best is None else -best,
            "n_pairs": curve.n_pairs,
            "n_transitions": curve.n_transitions,
        }
    ]


def _tell(records: list[Record]) -> str:
    lines = [
        "| patients | cohorts | pairs | transitions | best concentration (mean ± "
        "standard error) | 95 % interval of the first | lost at 0.072 | lost at 1 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for size, rows in _by_size(records).items():
        found = [x for x in rows if x["best"] is not None]
        best = fixed([x["best"] for x in found], 5) if found else "none"
        interval = _ends(found[0]["interval"]) if found else "-"
        lines.append(
            f"| {size:,} | {len(rows)} | {fixed([x['n_pairs'] for x in rows], 0)} | "
            f"{fixed([x['n_transitions'] for x in rows], 0)} | {best} | "
            f"{interval} | "
            f"{_lost(found, _PAPER)} | {_lost(found, 1.0)} |"
        )
    lines += [
        "",
        "*Lost*: log evidence below its maximum, per transition.",
        "",
        _verdict(records),
    ]
    return "\n".join(lines)


def _ends(interval: list[float]) -> str:
    return f"{interval[0]:.5f} to {interval[1]:.5f}"


def _by_size(records: list[Record]) -> dict[int, list[Record]]:
    sizes = sorted({x["size"] for x in records})
    return {size: [x for x in records if x["size"] == size] for size in sizes}


def _lost(records: list[Record], concentration: float) -> str:
    """Log evidence given away by another concentration, per transition."""
    if not records:
        return "-"
    at = [
        int(np.argmin(np.abs(np.subtract(x["grid"], concentration)))) for x in records
    ]
    pairs = zip(records, at, strict=True)
    return fixed(
        [(x["loss"][i] - x["best_loss"]) / x["n_transitions"] for x, i in pairs], 3
    )


def _verdict(records: list[Record]) -> str:
    size, rows = list(_by_size(records).items())[-1]
    claim = (
        f"**Verdict:** the paper finds a single minimum far below 1, at {_PAPER}, on "
        "its own counts."
    )
    missing = sum(x["best"] is None for x in records)
    if missing:
        return (
            f"{claim} Here {missing} of {len(records)} cohorts have no minimum at all: "
            "not confirmed."
        )
    best = [x["best"] for x in rows]
    single = _single_minima(rows)
    turns = "each curve has one minimum" if single else "curves have several minima"
    found = f"Here {turns} and {size:,} patients put it at {fixed(best, 5)}"
    if any(x["interval"][1] >= _FAR for x in rows):
        return f"{claim} {found}, not below {_FAR:g} in every cohort: not confirmed."
    caveats = [] if single else ["it is not the only one"]
    mean, error = mean_and_error(best)
    if abs(mean - _PAPER) > 2 * (0.0 if np.isnan(error) else error):
        caveats.append("it is not the paper's (two errors), for it belongs to the data")
    if caveats:
        return (
            f"{claim} {found}, far below 1 too: confirmed with a caveat, "
            f"{' and '.join(caveats)}."
        )
    return f"{claim} {found}: confirmed."


def _single_minima(records: list[Record]) -> bool:
    """Return whether every curve turns once."""
    rising = [np.diff(x["loss"]) > 0 for x in records]
    return all(np.count_nonzero(np.diff(x)) == 1 for x in rising)


def _plot(records: list[Record]) -> dict[str, Any]:
    """Loss per transition against concentration, and where its minimum lies."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 4.0), layout="constrained")
    curves, minima = figure.subplots(1, 2, width_ratios=[1.5, 1])
    for colour, (size, rows) in zip(
        reversed(_COLOURS), reversed(_by_size(records).items()), strict=False
    ):
        for i, x in enumerate(rows):
            per = x["n_transitions"]
            curves.plot(
                x["grid"],
                np.divide(x["loss"], per),
                color=colour,
                linewidth=1.2,
                alpha=0.8,
                label=f"{size:,} patients" if i == 0 else None,
            )
            if x["best"] is None:
                continue
            low, high = x["interval"]
            curves.plot(x["best"], x["best_loss"] / per, "o", color=colour, ms=4)
            minima.errorbar(
                size * 1.04 ** (i - (len(rows) - 1) / 2),  # side by side
                x["best"],
                yerr=[[x["best"] - low], [high - x["best"]]],
                marker="o",
                markersize=4,
                color=colour,
                linewidth=1,
            )
    curves.axvline(
        _PAPER,
        color="grey",
        linestyle="--",
        linewidth=1,
        label=f"the paper's minimum: {_PAPER}",
    )
    minima.axhline(_PAPER, color="grey", linestyle="--", linewidth=1)
    minima.annotate(
        f"paper: {_PAPER}",
        (0.02, _PAPER),
        xycoords=("axes fraction", "data"),
        xytext=(0, 4),
        textcoords="offset points",
        color="dimgrey",
    )
    curves.set(xscale="log", xlabel="concentration $\\alpha_p$")
    curves.set_ylabel("negative log marginal likelihood\nper transition")
    curves.set_title("Every cohort's curve, dots at the minima", fontsize=10)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    minima.set(xscale="log", yscale="log", xlabel="patients")
    minima.set_ylabel("best concentration, 95 % interval")
    minima.set_title("The minimum", fontsize=10)
    _plain_ticks(minima, list(_by_size(records)))
    return {"evidence": figure}


def _plain_ticks(axis: Any, sizes: list[int]) -> None:
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.set_xticks([], minor=True)
    axis.set_xlim(sizes[0] / 1.6, sizes[-1] * 1.6)
    low = min(_PAPER, axis.get_ylim()[0])
    ticks = [x for x in (0.005, 0.01, 0.02, 0.03, 0.05, 0.1) if x > 0.8 * low]
    axis.set_yticks(ticks, [f"{x:g}" for x in ticks])
    axis.set_yticks([], minor=True)


STUDY = Study(
    "evidence",
    "Figure 13: which concentration the evidence chooses",
    _jobs,
    _work,
    _tell,
    _plot,
)
