"""Figure 1: what is unknown and what is chance, on the windy grid.

The policy is optimal for visit frequencies. With more data its epistemic standard
deviation should go to zero, its aleatoric one to that of the true grid, which grows
with the wind and is known here. The paper's star marks one state; its text does not say
which, so the one furthest from the goal is taken.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import ArrayLike, FloatArray
from studies import grid_data
from studies.means import COLOURS, percent, rms
from studies.study import Effort, Job, Record, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WINDS = (0.0, 0.25, 0.5)
STAR = 0  # top left
_LIVE = 20
_KINDS = ("epistemic_sd", "aleatoric_sd")
_SMALL = 0.2  # of its largest: what epistemic sd must have fallen to


def _jobs(effort: Effort) -> list[Job]:
    n_series = effort.seeds or (1 if effort.quick else 3)
    n_draws = 1_000 if effort.quick else 10_000
    return [
        Job(
            f"{round(100 * p_rand):03}-{series:02}",
            {"p_rand": p_rand, "series": series, "n_draws": n_draws},
        )
        for p_rand in WINDS
        for series in range(n_series)
    ]


def _work(p_rand: float, series: int, n_draws: int) -> list[Record]:
    """Evaluate the policy of each data set of one series."""
    records = []
    for size in grid_data.SIZES:
        belief = grid_data.learnt(series, size, p_rand)
        policy = bm.policies.mle(belief)
        truth = chance(policy, p_rand)[:_LIVE].tolist()
        about = {"p_rand": p_rand, "series": series, "size": size}
        found = measured(policy, belief, n_draws)
        records.append({**about, **found, "true_aleatoric_sd": truth})
    return records


def measured(policy: ArrayLike, belief: bm.Posterior, n_draws: int) -> Record:
    """Value and both standard deviations of every live state, with their errors."""
    found = bm.evaluate(policy, belief.draws(n_draws, seed=0))
    names = [f"{x}{y}" for x in ("value", *_KINDS) for y in ("", "_mcse")]
    return {name: getattr(found, name)[:_LIVE].tolist() for name in names}


def chance(policy: ArrayLike, p_rand: float) -> FloatArray:
    """Return the standard deviation of the return in the true grid, exactly."""
    of = grid_data.world(p_rand)
    known = bm.Ensemble([of.dynamics], of.task).draws()
    return bm.evaluate(policy, known).aleatoric_sd


def _curves(records: list[Record], p_rand: float, series: int, key: str) -> FloatArray:
    """Return a quantity of every state against size, ``[size, state]``."""
    rows = [x for x in records if x["p_rand"] == p_rand and x["series"] == series]
    return np.array([x[key] for x in sorted(rows, key=lambda x: int(x["size"]))])


def _stacked(records: list[Record], key: str) -> dict[float, FloatArray]:
    """``[series, size, state]`` for each wind."""
    series = sorted({x["series"] for x in records})
    return {p: np.stack([_curves(records, p, s, key) for s in series]) for p in WINDS}


def _tell(records: list[Record]) -> str:
    epistemic, aleatoric, truth = (
        _stacked(records, key) for key in (*_KINDS, "true_aleatoric_sd")
    )
    lines = [
        "Root mean square over states and series.\n",
        "| wind | transitions | epistemic sd | aleatoric sd | in the true grid |",
        "|---|---|---|---|---|",
    ]
    for p_rand in WINDS:
        for size in (grid_data.SIZES[0], 250, 2_500, grid_data.SIZES[-1]):
            at = grid_data.SIZES.index(size)
            cells = [rms(x[p_rand][:, at]) for x in (epistemic, aleatoric, truth)]
            lines.append(
                f"| {p_rand} | {size:,} | {' | '.join(f'{x:.4f}' for x in cells)} |"
            )
    return "\n".join([*lines, "", _verdict(epistemic, aleatoric, truth)])


def _verdict(
    epistemic: dict[float, FloatArray],
    aleatoric: dict[float, FloatArray],
    truth: dict[float, FloatArray],
) -> str:
    """Say whether uncertainty falls with data, and chance grows with wind."""
    uncertainty, luck = (
        {p: np.sqrt(np.mean(x[p] ** 2, axis=2)) for p in WINDS}  # [series, size]
        for x in (epistemic, aleatoric)
    )
    left = max(float((x[:, -1] / x.max(axis=1)).max()) for x in uncertainty.values())
    rises = sum(int((np.diff(x) > 0).sum()) for x in uncertainty.values())
    steps = sum(np.diff(x).size for x in uncertainty.values())
    by_wind = np.stack([luck[p] for p in WINDS])  # [wind, series, size]
    ordered = np.all(np.diff(by_wind, axis=0) > 0, axis=(0, 1))
    off = max(rms(aleatoric[p][:, -1] - truth[p][:, -1]) for p in WINDS)
    slopes = ", ".join(
        f"n^{_slope(x):.2f} (wind {p:g})" for p, x in uncertainty.items()
    )
    falls, grows = left < _SMALL, bool(ordered[-1])
    word = "not confirmed"
    if falls and grows:
        sound = bool(ordered.all()) and rises == 0
        word = "confirmed" if sound else "confirmed with a caveat"
    return (
        "**Verdict:** the paper says that epistemic uncertainty becomes small with "
        "data and that more wind means more aleatoric uncertainty. With "
        f"{grid_data.SIZES[-1]:,} transitions at most {percent(left)} of the largest "
        "epistemic sd (root mean square of states) is left "
        f"(we call less than {percent(_SMALL)} small), and from 2,500 on it falls like "
        f"{slopes}; "
        f"on the way it rises in {rises} of {steps} steps to a larger data set, for "
        "the policy changes too. Aleatoric sd is ordered by wind at "
        f"{int(ordered.sum())} of {ordered.size} sizes and ends within {off:.4f} of "
        f"the true grid's: {word}."
    )


def _slope(uncertainty: FloatArray) -> float:
    """Return the exponent of size in the fall of ``[series, size]``, from 2,500 on."""
    late = [i for i, n in enumerate(grid_data.SIZES) if n >= 2_500]
    x = np.log([grid_data.SIZES[i] for i in late])
    return float(np.polyfit(x, np.log(uncertainty[:, late].mean(axis=0)), 1)[0])


def _plot(records: list[Record]) -> dict[str, Any]:
    """Draw the grid, then both standard deviations for each wind; first series."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 3.5), layout="constrained")
    axes = figure.subplots(1, 4, width_ratios=(0.8, 1, 1, 1))
    _draw_grid(axes[0])
    for axis, p_rand in zip(axes[1:], WINDS, strict=True):
        for key, colour in zip(_KINDS, COLOURS, strict=False):
            curves = _curves(records, p_rand, 0, key)
            others = np.delete(curves, STAR, axis=1)
            axis.plot(grid_data.SIZES, others, color=colour, alpha=0.18, linewidth=0.8)
            name = key.removesuffix("_sd")
            axis.plot(
                grid_data.SIZES,
                curves[:, STAR],
                color=colour,
                linewidth=2.2,
                label=name,
            )
        truth = _curves(records, p_rand, 0, "true_aleatoric_sd")[-1, STAR]
        axis.axhline(
            truth,
            color="black",
            linestyle=":",
            linewidth=1,
            label="aleatoric in the true grid (★, MLE policy of the largest data set)",
        )
        axis.set(
            xscale="log", xlabel="transitions", title=f"wind $p_{{rand}}$ = {p_rand:g}"
        )
        axis.set_ylim(-0.02, 0.62)
    axes[1].set_ylabel("standard deviation of the return")
    for axis in axes[2:]:
        axis.sharey(axes[1])
        axis.tick_params(labelleft=False)
    handles, names = axes[1].get_legend_handles_labels()
    n = len({x["series"] for x in records})
    note = (
        f"the MLE policy of each data set, first of {n} series; bold: state ★, faint: "
        "all other states"
    )
    figure.legend(
        handles, names, loc="outside lower center", ncols=3, title=note, frameon=False
    )
    return {"fig1": figure}


def _draw_grid(axis: "Axes") -> None:
    """Squares from the top left; the cliff and the goal at the bottom."""
    names = {STAR: "★", 24: "G", **dict.fromkeys(range(_LIVE, 24), "F")}
    fill = {"F": "#F2D0C0", "G": "#C5E5D8"}
    for state in range(25):
        row, column = divmod(state, 5)
        name = names.get(state, "")
        colour = fill.get(name, "white")
        axis.fill(
            column + np.array([0, 1, 1, 0]),
            row + np.array([0, 0, 1, 1]),
            facecolor=colour,
            edgecolor="black",
            linewidth=0.8,
        )
        axis.text(column + 0.5, row + 0.5, name, ha="center", va="center", fontsize=13)
    for state in range(_LIVE):  # it blows everywhere
        row, column = divmod(state, 5)
        axis.annotate(
            "",
            (column + 0.85, row + 0.75),
            (column + 0.85, row + 0.25),
            arrowprops={"arrowstyle": "->", "color": "grey"},
        )
    axis.set(xlim=(-0.05, 5.05), ylim=(5.05, -0.05), aspect="equal")
    axis.set_title("F cliff, G goal, ↓ wind")
    axis.set_axis_off()


STUDY = Study(
    "fig1",
    "Figure 1: epistemic and aleatoric uncertainty on the gridworld",
    _jobs,
    _work,
    _tell,
    _plot,
)
