"""Appendix E, figure 9: multi-sample backward induction, as released and as meant.

The authors' scripts use one posterior draw for all their samples, which makes MSBI a
plan for that draw alone (ONE_DRAW). With every draw a different one it is another
policy. Both are set against ours (`bm.optimise`) and, on some of the data sets, against
the gradient policy of Algorithm 2 as published. The grid, whose runs are those of
figure 2, is judged by posterior value; the synthetic problems by posterior value and by
the exact value in the true model.
"""

from typing import Any

import bayesmdp as bm
from bayesmdp._typing import FloatArray
from bayesmdp.paper import _grid_runs, _synthetic
from bayesmdp.paper._grid_runs import GRADIENT, MSBI, NOMINAL, ONE_DRAW, OURS
from bayesmdp.paper._paired import (
    band,
    judged,
    lead,
    signs,
    sizes_said,
    steps_said,
    table,
)
from bayesmdp.paper._study import Effort, Job, Record, Study
from bayesmdp.paper._telling import COLOURS, said

VARIANTS = (MSBI, ONE_DRAW)
#: Problem, what begins the name of a reference, title.
PANELS = {
    "grid": ("grid", "", "grid, posterior value"),
    "truth": ("synthetic", "truth ", "synthetic, true value"),
    "posterior": ("synthetic", "", "synthetic, posterior value"),
}
#: Of the synthetic problems, as published.
RATE, BATCH, N_STEPS, SOFTNESS = 0.01, 256, 1_000, 0.5
_N_WORLDS, _N_COSTLY = 250, 10  # of these have a gradient policy
_PAPER = {"n_steps": N_STEPS, "msbi": [2_048, 500], "n_draws": 10_000}
_QUICK = {"n_steps": 100, "msbi": [512, 100], "n_draws": 2_000}


def _jobs(effort: Effort) -> list[Job]:
    """Return one job a data set of the grid, and one a synthetic world."""
    n_worlds = effort.seeds or (3 if effort.quick else _N_WORLDS)
    n_costly = n_worlds if effort.full else min(n_worlds, _N_COSTLY)
    sizes = [1, 5] if effort.quick else list(_synthetic.SIZES)
    return [
        *(job for job in _grid_runs.jobs(effort) if job.params["costly"]),
        *(
            Job(
                f"synthetic-{number:03}",
                {
                    "number": number,
                    "sizes": sizes,
                    "costly": number < n_costly,
                    **(_QUICK if effort.quick else _PAPER),
                },
            )
            for number in range(n_worlds)
        ),
    ]


def _work(**params: Any) -> list[Record]:
    """Find and judge policies of the grid or of a synthetic world."""
    return _grid_runs.work(**params) if "series" in params else synthetic(**params)


def synthetic(
    number: int,
    sizes: list[int],
    costly: bool,
    n_steps: int,
    msbi: list[int],
    n_draws: int,
) -> list[Record]:
    """Find and judge the policies of all data sets of one synthetic world."""
    world, data = _synthetic.world(number), _synthetic.datasets(number)
    records = []
    for size in sizes:
        belief = _synthetic.believe(data[size], world.task)
        policies = {
            MSBI: _grid_runs.induction(belief, msbi[0], msbi[1], number),
            ONE_DRAW: _grid_runs.plan_for_one_draw(belief),
            NOMINAL: bm.policies.nominal(belief),
            OURS: bm.optimise(belief, seed=number).policy,
        }
        if costly:
            method = bm.StochasticGradient(RATE, BATCH, n_steps, softness=SOFTNESS)
            found = bm.optimise(belief, method=method, seed=number)
            policies[GRADIENT] = found.policy
        about = {"problem": "synthetic", "number": number, "size": size}
        about |= {"gradient_steps": n_steps} if costly else {}
        records += [about | x for x in judged_twice(policies, belief, world, n_draws)]
    return records


def judged_twice(
    policies: dict[str, FloatArray],
    belief: bm.Posterior,
    world: bm.World,
    n_draws: int,
) -> list[Record]:
    """Judge by the belief, and in the true model."""
    references = [name for name in (OURS, GRADIENT) if name in policies]
    truth = {k: float(world.task.start @ world.value(x)) for k, x in policies.items()}
    records = judged(policies, belief, n_draws, references)
    for record in records:
        own = truth[record["method"]]
        record["truth"] = own
        record |= {f"minus_truth {name}": own - truth[name] for name in references}
    return records


def _lead(
    records: list[Record], panel: str, method: str, other: str
) -> dict[int, FloatArray]:
    """Return what a method has more than another in a panel, by size."""
    problem, prefix, _ = PANELS[panel]
    rows = [x for x in records if x["problem"] == problem]
    return lead(rows, prefix + method, other)


def _tell(records: list[Record]) -> str:
    parts = []
    for panel, (problem, _, title) in PANELS.items():
        leads = {
            f"{method} - {other}": _lead(records, panel, method, other)
            for method in (OURS, GRADIENT)
            for other in (*VARIANTS, NOMINAL)
        }
        n, n_gradient = _repetitions(records, problem)
        first = "transitions" if problem == "grid" else "visits a pair"
        parts.append(
            f"**{title}**: mean over {n} data sets of each size ± standard error, "
            f"{n_gradient} where gradient takes part\n\n{table(leads, first)}"
        )
    return "\n\n".join([*parts, _as_released(records), _verdict(records)])


def _repetitions(records: list[Record], problem: str) -> tuple[int, int]:
    rows = [x for x in records if x["problem"] == problem]
    having = {x["number"] for x in rows if x["method"] == GRADIENT}
    return len({x["number"] for x in rows}), len(having)


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
        (method, panel): signs(_lead(records, panel, method, MSBI))
        for method in (OURS, GRADIENT)
        for panel in PANELS
    }
    never = {
        method: not any(ahead[method, panel][-1] for panel in PANELS)
        for method in (OURS, GRADIENT)
    }
    trails = [p for p in PANELS if ahead[OURS, p][1]]
    where = [
        f"{PANELS[panel][2]} at {sizes_said(sizes)} (by up to {_most(records, panel)})"
        for panel in PANELS
        if (sizes := ahead[GRADIENT, panel][-1])
    ]
    ours = "nowhere" if never[OURS] else "somewhere"
    word = "not confirmed"
    if never[OURS] and trails:
        word = "confirmed"
        if not never[GRADIENT]:
            word += " with a caveat, for it is better than the published gradient there"
    behind = "; ".join(
        f"{PANELS[p][2]} at {sizes_said(ahead[OURS, p][1])}" for p in trails
    )
    return (
        "**Verdict:** the paper says that MSBI trails its gradient policy except with "
        "much data, and is never better. MSBI with different draws is behind ours in "
        f"{behind or 'no panel'}, ahead of ours {ours}, and ahead of the "
        f"gradient policy ({steps_said(records)}) in "
        f"{'; '.join(where) or 'no panel'} (three standard errors): {word}."
    )


def _most(records: list[Record], panel: str) -> str:
    """Write the most that MSBI is ahead of gradient, over sizes."""
    leads = _lead(records, panel, GRADIENT, MSBI).values()
    return f"{max(-float(x.mean()) for x in leads):.2g}"


def _plot(records: list[Record]) -> dict[str, Any]:
    """Show what ours has more than each variant."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.9), layout="constrained")
    notes = []
    for axis, (panel, (problem, _, title)) in zip(
        figure.subplots(1, 3), PANELS.items(), strict=True
    ):
        for number, (other, label) in enumerate(
            {
                ONE_DRAW: "MSBI, one draw (as released)",
                MSBI: "MSBI, different draws",
            }.items()
        ):
            found = _lead(records, panel, OURS, other)
            band(axis, found, label, COLOURS[1 - number], shade=panel != "truth")
        found = _lead(records, panel, GRADIENT, MSBI)
        if found:
            band(
                axis,
                found,
                "MSBI, from gradient",
                COLOURS[2],
                marker="^",
                linestyle="none",
            )
        axis.axhline(0, color="#C00000", linestyle="--", linewidth=1)
        grid = problem == "grid"
        axis.set(title=title, xlabel="transitions" if grid else "visits a pair")
        if grid:
            axis.set(xscale="log", ylabel="ours minus MSBI")
        n, n_gradient = _repetitions(records, problem)
        if panel != "posterior":
            kind = "series of the grid" if grid else "synthetic problems"
            notes.append(f"{n} {kind}, gradient on {n_gradient}")
    handles, names = axis.get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
        title=f"{'; '.join(notes)}; bars: standard error, shade: middle 68 %",
        title_fontsize=8,
    )
    return {"msbi": figure}


STUDY = Study(
    "msbi",
    "Multi-sample backward induction, with one draw and with many",
    _jobs,
    _work,
    _tell,
    _plot,
    _grid_runs.PLACE,
)
