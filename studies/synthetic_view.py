"""What figures 3 and 4 and their relative form share: differences, tables, panels."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmdp._typing import ArrayLike, FloatArray
from studies.means import mean_and_error
from studies.study import Record
from studies.synthetic_data import PAIRS
from studies.synthetic_runs import (
    ADAM,
    BATCH,
    GRADIENT,
    MAXIMUM,
    MLE,
    N_STEPS,
    N_WORLDS,
    NOMINAL,
    OURS,
)

LITTLE, MUCH = (1, 2, 3), (8, 9, 10)  # visits
SURE = 2  # standard errors; sizes are pooled first, so few comparisons are made
METHODS = (GRADIENT, OURS)
# The paper's, and the maximum of the objective that its second-order policy climbs.
RIVALS = (MLE, NOMINAL, ADAM, MAXIMUM)
TITLES = (
    "minus MLE",
    "minus nominal",
    "minus second order\n(published)",
    "minus second order\n(its maximum)",
)
COLOURS = {GRADIENT: "#0072B2", OURS: "#D55E00"}  # safe for the colour-blind
DASHES = {GRADIENT: "--", OURS: "-"}
Gaps = dict[int, FloatArray]  # one number a world, by visits


@dataclass(frozen=True)
class Mean:
    """A mean over worlds, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: ArrayLike) -> "Mean":
        """Take the mean of one number a world."""
        return cls(*mean_and_error(values))

    @property
    def above(self) -> bool:
        """Whether it is above 0 by more than two errors."""
        return self.value > SURE * self.error

    @property
    def below(self) -> bool:
        """Whether it is below 0 by more than two errors."""
        return self.value < -SURE * self.error

    def __str__(self) -> str:
        return f"{self.value:+.2f} ± {self.error:.2f}"


def columns(records: list[Record], method: str, key: str) -> Gaps:
    """Return a number of every world, by visits."""
    found: dict[int, list[tuple[int, float]]] = {}
    for x in records:
        if x["method"] == method:
            found.setdefault(x["visits"], []).append((x["world"], x[key]))
    return {
        visits: np.array([value for _, value in sorted(found[visits])])
        for visits in sorted(found)
    }


def gaps(records: list[Record], method: str, other: str, key: str) -> Gaps:
    """Return one method minus another, world by world.

    Posterior values are compared draw by draw, with control variates.
    """
    key = "minus_ours" if key == "posterior" else key
    one, two = (columns(records, name, key) for name in (method, other))
    return {visits: one[visits] - two[visits] for visits in one}


def pooled(of: Gaps, visits: tuple[int, ...] | None = None) -> Mean:
    """Mean over some sizes, or all; one number a world, for its data sets are nested.

    Where a run has none of the sizes, the nearest one stands for them.
    """
    wanted = list(of) if visits is None else _taken(of, visits)
    return Mean.of(np.mean([of[k] for k in wanted], axis=0))


def _taken(there: Iterable[int], visits: tuple[int, ...]) -> list[int]:
    """Return those of the sizes that are there, or else the nearest one."""
    there = sorted(there)
    wanted = [k for k in there if k in visits]
    return wanted or [min(there, key=lambda k: abs(k - visits[len(visits) // 2]))]


def visits_said(records: list[Record], visits: tuple[int, ...]) -> str:
    """Write which sizes `pooled` takes for those that are meant."""
    taken = _taken({x["visits"] for x in records}, visits)
    if len(taken) > 1:
        return f"{taken[0]} to {taken[-1]} visits"
    return f"{taken[0]} visit" + ("s" if taken[0] > 1 else "")


def table(records: list[Record], method: str, others: list[str], key: str) -> str:
    """Differences by size: mean and standard error over worlds, and deviation."""
    by = {other: gaps(records, method, other, key) for other in others}
    lines = [
        f"**{method}** minus ...: mean ± standard error (standard deviation over "
        "worlds)\n",
        f"| transitions | {' | '.join(others)} |",
        f"|---|{'---|' * len(others)}",
    ]
    for visits in by[others[0]]:
        cells = [
            f"{Mean.of(of[visits])} ({of[visits].std(ddof=1):.1f})"
            for of in by.values()
        ]
        lines.append(f"| {PAIRS * visits} | {' | '.join(cells)} |")
    return "\n".join(lines)


def note(records: list[Record]) -> str:
    """Say how many worlds there are, and how much was done for each."""
    n = len({x["world"] for x in records})
    said = f"{n} worlds" + ("" if n == N_WORLDS else f" (the paper: {N_WORLDS})")
    batch, n_draws = records[0]["batch"], records[0]["n_draws"]
    theirs = "" if batch == BATCH else f" (the paper: {BATCH})"
    return (
        f"{said}; gradient of {N_STEPS:,} steps x {batch} draws{theirs}, judged on "
        f"{n_draws:,} draws"
    )


def told(means: Iterable[Mean]) -> str:
    """Return the verdict on a claim that all of these are above 0."""
    means = list(means)
    if all(x.above for x in means):
        return "confirmed"
    if any(x.below for x in means):
        return "not confirmed"
    return "not confirmed: undecided, for the errors are too large to tell"


def panels(records: list[Record], rows: int) -> tuple[Any, Any]:
    """Return a figure that says what it was made from, and its axes ``[rows, 4]``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 1.4 + 2.7 * rows), layout="constrained")
    figure.suptitle(note(records), fontsize=9)
    axes = figure.subplots(rows, len(TITLES), sharex=True)
    for title, top, bottom in zip(TITLES, axes[0], axes[-1], strict=True):
        top.set_title(title, fontsize=10)
        bottom.set_xlabel("transitions seen")
    for axis in axes.flat:  # above the line a method is ahead
        axis.axhline(0, color="#b00020", linestyle=":", linewidth=1.2)
    return figure, axes


def both(axis: Any, of: dict[str, Gaps], band: str, said: str = "") -> None:
    """Draw the published method and ours; ``said`` ends their names."""
    for method, found in of.items():
        curve(
            axis,
            found,
            deviation=band == "deviation",
            color=COLOURS[method],
            linestyle=DASHES[method],
            label=f"{method}{said}",
        )


def curve(axis: Any, of: Gaps, *, deviation: bool = False, **style: Any) -> None:
    """Draw means over worlds against transitions, in bands of errors or deviations."""
    x = PAIRS * np.array(list(of))
    mean = np.array([v.mean() for v in of.values()])
    half = np.array([v.std(ddof=1) for v in of.values()])
    if not deviation:
        half = half / np.sqrt([v.size for v in of.values()])
    axis.plot(x, mean, marker="o", markersize=3, **style)
    # Bands overlap: those with less noise are narrower, and remain in sight.
    axis.fill_between(
        x, mean - half, mean + half, color=style["color"], alpha=0.15, linewidth=0
    )


def legend(figure: Any, *axes: Any, said: str, ncols: int = 2) -> None:
    """Name what the panels show, each name once, below all of them."""
    of = {
        name: handle
        for axis in axes
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        of.values(),
        of.keys(),
        loc="outside lower center",
        ncols=ncols,
        fontsize=9,
        title=said,
        title_fontsize=9,
        frameon=False,
    )
