"""Appendix E, figure 9: multi-sample backward induction, as released and as meant.

The authors' scripts use one posterior draw for all their samples, which makes MSBI a
plan for that draw alone (ONE_DRAW). With every draw a different one it is another
policy. Both are set against ours (`bm.optimise`) and the gradient policy of Algorithm 2
as published. The grid, whose runs are those of figure 2, is judged by posterior value;
the synthetic problems, whose runs are those of figures 3 and 4, by posterior value and
by the exact value in the true model.
"""

from typing import Any

from bayesmdp._typing import FloatArray
from studies import grid_runs, synthetic_runs
from studies.grid_runs import GRADIENT, MSBI, NOMINAL, ONE_DRAW, OURS
from studies.means import COLOURS, said
from studies.paired import (
    band,
    lead,
    signs,
    sizes_said,
    steps_said,
    table,
)
from studies.study import Effort, Job, Record, Study
from studies.synthetic_data import PAIRS

VARIANTS = (MSBI, ONE_DRAW)
#: Problem, what begins the name of a reference, title.
PANELS = {
    "grid": ("grid", "", "grid, posterior value"),
    "truth": ("synthetic", "truth ", "synthetic, true value"),
    "posterior": ("synthetic", "", "synthetic, posterior value"),
}
#: What the runs on synthetic problems call the policies.
_NAMES = {x: x for x in (MSBI, ONE_DRAW, NOMINAL, OURS)}
_NAMES |= {synthetic_runs.GRADIENT: GRADIENT}


def _jobs(effort: Effort) -> list[Job]:
    """Return the jobs of figure 2 that have MSBI, and those of figures 3 and 4."""
    grid = [job for job in grid_runs.jobs(effort) if job.params["costly"]]
    return grid + synthetic_runs.jobs(effort)


def _work(**params: Any) -> list[Record]:
    """Find and judge policies of the grid or of a synthetic world."""
    work = grid_runs.work if "series" in params else synthetic_runs.work
    return work(**params)


def alike(records: list[Record]) -> list[Record]:
    """Tell runs on synthetic problems in the words of those on the grid."""
    of = {(x["world"], x["visits"], x["method"]): x for x in records if "world" in x}
    told = [x for x in records if "world" not in x]
    for (world, visits, name), x in of.items():
        if name in _NAMES:
            record = {"problem": "synthetic", "number": world, "size": PAIRS * visits}
            record |= {"method": _NAMES[name]}
            record |= {"gradient_steps": synthetic_runs.N_STEPS}
            for method in (OURS, synthetic_runs.GRADIENT):
                other, short = of[world, visits, method], _NAMES[method]
                record |= {
                    # Each is paired with ours, draw by draw.
                    f"minus_{short}": x["minus_ours"] - other["minus_ours"],
                    f"minus_truth {short}": x["truth"] - other["truth"],
                }
            told.append(record)
    return told


def _lead(
    records: list[Record], panel: str, method: str, other: str
) -> dict[int, FloatArray]:
    """Return what a method has more than another in a panel, by size."""
    problem, prefix, _ = PANELS[panel]
    rows = [x for x in records if x["problem"] == problem]
    return lead(rows, prefix + method, other)


def _tell(records: list[Record]) -> str:
    parts, records = [], alike(records)
    for panel, (problem, _, title) in PANELS.items():
        leads = {
            f"{method} - {other}": _lead(records, panel, method, other)
            for method in (OURS, GRADIENT)
            for other in (*VARIANTS, NOMINAL)
        }
        parts.append(
            f"**{title}**: mean over {_repetitions(records, problem)} data sets of "
            f"each size ± standard error\n\n{table(leads)}"
        )
    return "\n\n".join([*parts, _as_released(records), _verdict(records)])


def _repetitions(records: list[Record], problem: str) -> int:
    return len({x["number"] for x in records if x["problem"] == problem})


def _as_released(records: list[Record]) -> str:
    """Say what becomes of the published gap with different draws."""
    gaps = []
    for panel, (_, _, title) in PANELS.items():
        many, one = (_lead(records, panel, OURS, x) for x in VARIANTS)
        least = min(one)
        gaps.append(f"{title}: {said(one[least])} and {said(many[least])}")
    return (
        "**One draw against many:** what ours has more than MSBI with the least data, "
        f"as released and with different draws: {'; '.join(gaps)}."
    )


def _verdict(records: list[Record]) -> str:
    """Say whether MSBI is ever ahead of ours, or of the published gradient policy."""
    ahead = {
        method: {panel: signs(_lead(records, panel, method, MSBI)) for panel in PANELS}
        for method in (OURS, GRADIENT)
    }
    never = {
        method: not any(x[-1] for x in of.values()) for method, of in ahead.items()
    }
    trails_both = all(any(x[1] for x in of.values()) for of in ahead.values())
    word = "not confirmed"
    if never[OURS] and trails_both:
        word = "confirmed"
        if not never[GRADIENT]:
            word += " with a caveat, for it is better than the published gradient there"
    by = [
        f"{PANELS[panel][2]} at {sizes_said(x[-1])} (by up to {_most(records, panel)})"
        for panel, x in ahead[GRADIENT].items()
        if x[-1]
    ]
    return (
        "**Verdict:** the paper says that MSBI trails its gradient policy except with "
        "much data, and is never better. MSBI with different draws is behind the "
        f"gradient policy ({steps_said(records)}) in {_behind(ahead[GRADIENT])}, and "
        f"ahead of it in {'; '.join(by) or 'no panel'}; it is behind ours in "
        f"{_behind(ahead[OURS])}, and ahead of ours "
        f"{'nowhere' if never[OURS] else 'somewhere'} (three standard errors): {word}."
    )


def _behind(ahead: dict[str, dict[int, list[Any]]]) -> str:
    """Write the panels and sizes where MSBI is surely behind."""
    found = [
        f"{PANELS[panel][2]} at {sizes_said(x[1])}"
        for panel, x in ahead.items()
        if x[1]
    ]
    return "; ".join(found) or "no panel"


def _most(records: list[Record], panel: str) -> str:
    """Write the most that MSBI is ahead of gradient, over sizes."""
    leads = _lead(records, panel, GRADIENT, MSBI).values()
    return f"{max(-float(x.mean()) for x in leads):.2g}"


def _plot(records: list[Record]) -> dict[str, Any]:
    """Draw both methods minus MSBI as released, above, and with many draws, below."""
    from matplotlib.figure import Figure

    records = alike(records)
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    axes = figure.subplots(2, 3, sharex="col")
    notes = []
    for column, (panel, (problem, _, title)) in zip(
        axes.T, PANELS.items(), strict=True
    ):
        for axis, other in zip(column, (ONE_DRAW, MSBI), strict=True):
            for method, colour, line in (
                (OURS, COLOURS[1], "-"),
                (GRADIENT, COLOURS[0], "--"),
            ):
                found = _lead(records, panel, method, other)
                shade = panel != "truth" and method == OURS
                band(axis, found, method, colour, shade=shade, linestyle=line)
            axis.axhline(0, color="#C00000", linestyle=":", linewidth=1)
        grid = problem == "grid"
        column[0].set_title(title)
        column[1].set_xlabel("transitions")
        if grid:
            column[0].set(xscale="log", ylabel="minus MSBI as released\n(one draw)")
            column[1].set_ylabel("minus MSBI\n(different draws)")
            # From 0.02 down to -0.0001, which a plain axis would not show.
            column[1].set_yscale("symlog", linthresh=1e-4)
        if panel != "posterior":
            kind = "series of the grid" if grid else "synthetic problems"
            notes.append(f"{_repetitions(records, problem)} {kind}")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
        title=f"{'; '.join(notes)}; bars: standard error; shade, of posterior values "
        "and ours only: middle 68 %",
        title_fontsize=9,
    )
    return {"msbi": figure}


STUDY = Study(
    "msbi",
    "Figure 9: multi-sample backward induction, with one draw and with many",
    _jobs,
    _work,
    _tell,
    _plot,
)
