"""Figure 2: posterior value of policies on the windy grid.

The policies are those of ``grid_runs``. The paper shows what its gradient policy has
more than each other one; ours stands beside it.
"""

from typing import Any

from studies.grid_runs import (
    BATCH,
    BETTER,
    GRADIENT,
    MLE,
    NOMINAL,
    OURS,
    SECOND,
    jobs,
    work,
)
from studies.means import COLOURS
from studies.paired import (
    band,
    columns,
    lead,
    signs,
    sizes_said,
    steps_said,
    table,
)
from studies.study import Record, Study

RIVALS = (MLE, NOMINAL, SECOND)
_LINEAR = 1e-4  # differences up to which the axis is linear
_LITTLE = 250  # transitions, up to which there is little data


def _tell(records: list[Record]) -> str:
    leads = {
        f"{method} - {other}": lead(records, method, other)
        for method in (GRADIENT, OURS)
        for other in (*RIVALS, GRADIENT)
        if method != other
    }
    n, n_gradient = _n_series(records)
    parts = [
        f"Differences in posterior value: mean over {n} series ± standard error; "
        f"over {n_gradient} where gradient takes part.\n",
        table(leads),
        "",
        _remedy(records),
        "",
        _about_ours(records),
        "",
        _verdict(records),
    ]
    return "\n".join(parts)


def _n_series(records: list[Record]) -> tuple[int, int]:
    """How many series there are, and how many have a gradient policy."""
    having = {x["number"] for x in records if x["method"] == GRADIENT}
    return len({x["number"] for x in records}), len(having)


def _verdict(records: list[Record]) -> str:
    """Say whether gradient outperforms its rivals, above all with little data."""
    where = {other: signs(lead(records, GRADIENT, other)) for other in RIVALS}
    little = {x: _mostly_ahead(where[x]) for x in RIVALS}
    word = "not confirmed"
    if little[MLE] and little[NOMINAL]:
        clean = little[SECOND] and not any(found[-1] for found in where.values())
        word = "confirmed" if clean else "confirmed with a caveat"
    said = "; ".join(
        f"{x}: ahead at {sizes_said(found[1])}, behind at {sizes_said(found[-1])}"
        for x, found in where.items()
    )
    return (
        "**Verdict:** the paper says that the gradient policy consistently outperforms "
        "the others, above all with little data. With "
        f"{steps_said(records)} of {BATCH} draws, at three standard errors, against "
        f"{said} (transitions; second order is the maximum of its objective, far above "
        f"the published policies of that name): {word}."
    )


def _mostly_ahead(where: dict[int, list[int]]) -> bool:
    """Whether it is ahead at more of the small sizes than it is behind."""
    ahead, behind = (sum(n <= _LITTLE for n in where[way]) for way in (1, -1))
    return ahead > behind


def _remedy(records: list[Record]) -> str:
    """Say whether nominal is better with much data, and whether choosing cures it."""
    behind = signs(lead(records, GRADIENT, NOMINAL))[-1]
    much = [n for n in behind if n > _LITTLE]
    cured = columns(records, BETTER, f"minus_{NOMINAL}")
    left = signs(cured)[-1]
    if not much:
        word = "not confirmed, nominal is never ahead there"
    elif set(left) & set(much):
        word = "not confirmed, the choice does not cure it"
    else:
        word = "confirmed"
    most = max(
        (float(-lead(records, GRADIENT, NOMINAL)[n].mean()) for n in much),
        default=0.0,
    )
    return (
        "**Nominal with much data (section 6):** nominal is ahead of gradient at "
        f"{sizes_said(behind)} transitions, by at most {most:.2g} where there are more "
        f"than {_LITTLE}; the better of the two, chosen on other draws, is behind "
        f"nominal at {sizes_said(left)}: {word}."
    )


def _about_ours(records: list[Record]) -> str:
    leads = {x: signs(lead(records, OURS, x)) for x in (*RIVALS, GRADIENT)}
    lost = {x: where[-1] for x, where in leads.items() if where[-1]}
    said = "; ".join(f"{x} at {sizes_said(sizes)}" for x, sizes in lost.items())
    ahead = leads[GRADIENT][1]
    return (
        f"**Ours** is behind {said or 'none of them at any size'}, and ahead of "
        f"gradient at {sizes_said(ahead)} transitions."
    )


def _plot(records: list[Record]) -> dict[str, Any]:
    """Show values of the first series, then differences over all of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.5, 3.6), layout="constrained")
    axes = figure.subplots(1, 5)
    first = [x for x in records if x["number"] == 0]
    for number, name in enumerate((*RIVALS, GRADIENT, OURS)):
        found = {n: x[0] for n, x in columns(first, name, "value").items()}
        axes[0].plot(
            list(found),
            list(found.values()),
            marker="osD^v"[number],
            markersize=3.5,
            linewidth=1.2,
            color=COLOURS[number],
            label=name,
        )
    axes[0].legend(fontsize=8, frameon=False)
    axes[0].set(title="values, first series", ylabel="posterior value")
    for axis, other in zip(axes[1:], (*RIVALS, GRADIENT), strict=True):
        for number, method in ((3, GRADIENT), (4, OURS)):
            if method != other:
                found = lead(records, method, other)
                band(axis, found, method, COLOURS[number], shade=True)
        axis.axhline(0, color="#C00000", linestyle="--", linewidth=1)
        axis.set_yscale("symlog", linthresh=_LINEAR, linscale=0.5)
        axis.set_title(f"minus {other}")
        axis.legend(fontsize=8, frameon=False)
        axis.sharey(axes[1])
        axis.tick_params(labelleft=axis is axes[1])
    axes[1].set_ylabel("difference in posterior value")
    for axis in axes:
        axis.set(xscale="log", xlabel="transitions")
    n, n_gradient = _n_series(records)
    figure.supxlabel(
        f"mean over {n} series, bars: its standard error, shade: middle 68 %, "
        f"linear up to {_LINEAR:g}; gradient, {steps_said(records)}, on the first "
        f"{n_gradient} series",
        fontsize=8,
    )
    return {"fig2": figure}


STUDY = Study(
    "fig2",
    "Figure 2: posterior value on the gridworld",
    jobs,
    work,
    _tell,
    _plot,
)
