"""States by their uncertainties and values; policies by their values and tails.

What all pictures share stands first: axes, colours and names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray, Name
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import Comparison, Evaluation
from bayesmdp.model import Task
from bayesmdp.optimisation import RiskFrontier
from bayesmdp.reporting._inputs import common_values, draw_weights, gaps_to, interval
from bayesmdp.reporting._sections import state_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Okabe and Ito
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
INK, GREY, FAINT = "0.15", "0.45", "0.88"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GREY)
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (4, 1, 1, 1, 1, 1)))


def axes_for(ax: Any, needed_by: str, size: tuple[float, float]) -> Any:
    """Return the axes given, or those of a figure that no window holds on to."""
    figures = _checks.extra("matplotlib.figure", "plots", needed_by)
    if ax is not None:
        kind = _checks.extra("matplotlib.axes", "plots", needed_by).Axes
        _checks.of_type("ax", ax, kind, ArgumentError)
        return ax
    made = figures.Figure(figsize=size, layout="constrained").subplots()
    made.spines[["top", "right"]].set_visible(False)
    return made


def finished(
    ax: Axes,
    x: str,
    y: str = "",
    *,
    grid: Literal["", "x", "y"] = "",
    legend: bool = False,
) -> Axes:
    """Name the axes, put a grid behind all, and a legend without a frame."""
    ax.set_xlabel(drawn(x))
    if y:
        ax.set_ylabel(drawn(y))
    if grid:
        ax.grid(axis=grid, color=FAINT)
        ax.set_axisbelow(True)
    if legend:
        ax.legend(frameon=False)
    return ax


def policy_among(parameter: str, name: object, known: Sequence[str]) -> str:
    """Check the name of a policy."""
    if not isinstance(name, str) or name not in known:
        hint = _checks.did_you_mean(name, known)
        raise ArgumentError(
            f"`{parameter}` {name!r:.80} is not among the policies: "
            f"{', '.join(known)}{hint}."
        )
    return name


def states_given(name: str, given: Any, task: Task) -> IntArray:
    """Return states given by index or label; one alone will do."""
    if isinstance(given, str | int | np.integer) or not isinstance(given, Iterable):
        given = [given]
    return np.array([task.state(x, name) for x in given], dtype=np.int64)


def arrays_of(evaluation: Evaluation, states: IntArray) -> dict[str, FloatArray]:
    """Return the report's columns of some states; what is not finite is NaN."""
    found = state_columns(evaluation, states)
    return {name: np.array(x, dtype=np.float64) for name, x in found.items()}


def put_names(
    ax: Any, x: FloatArray, y: FloatArray, states: IntArray, task: Task
) -> None:
    """Put names beside points, with a line that says which is meant."""
    middle = np.mean(ax.get_xlim())
    for at, up, state in zip(x, y, states, strict=True):
        inwards = 1 if at < middle else -1  # so that names stay inside
        ax.annotate(
            label_of(task, int(state)),
            (at, up),
            xytext=(14 * inwards, -14 * inwards),
            textcoords="offset points",
            horizontalalignment="left" if inwards > 0 else "right",
            verticalalignment="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": INK},
            fontsize="small",
            color=INK,
        )


def label_of(task: Task, state: int) -> str:
    """Name a state in a picture."""
    return drawn(task.state_name(state))


def drawn(text: str) -> str:
    """Keep dollars of a name from being read as formulas."""
    return text.replace("$", r"\$")


_MANY = 3_000  # points from which on dots are pixels in a file of lines and text


def scatter(
    evaluation: Evaluation, *, label: Iterable[Name] = (), ax: Axes | None = None
) -> Axes:
    """Draw states by their aleatoric and epistemic sd, coloured by value.

    Terminal states are left out. More data pulls a state down, and nothing pulls it to
    the left.

    Parameters
    ----------
    evaluation
        From `bayesmdp.evaluate`; a comparison holds one of each policy.
    label
        States to name in the picture, by index or label.
    ax
        Axes to draw on; a colour bar is put beside them.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task)
    >>> evaluation = bm.evaluate(np.full((25, 4), 0.25), posterior.draws(200))
    >>> ax = bm.plots.scatter(evaluation, label=[7])
    >>> ax.get_xlabel(), ax.get_ylabel(), len(ax.collections[0].get_offsets())
    ('aleatoric sd', 'epistemic sd', 20)
    """
    _checks.of_type("evaluation", evaluation, Evaluation, ArgumentError)
    live, named = evaluation.task.live, states_given("label", label, evaluation.task)
    of = arrays_of(evaluation, live)
    ax = axes_for(ax, "plots.scatter", (4.6, 3.6))
    dots = ax.scatter(
        of["aleatoric_sd"],
        of["epistemic_sd"],
        c=of["value"],
        cmap="cividis",
        s=26 if live.size < 200 else 12,
        linewidths=0.3,
        edgecolors="0.3",
        rasterized=live.size > _MANY,
    )
    marked = arrays_of(evaluation, named)
    put_names(
        ax, marked["aleatoric_sd"], marked["epistemic_sd"], named, evaluation.task
    )
    ax.figure.colorbar(dots, ax=ax, label=_word(evaluation.task))
    ax.set_ylim(bottom=0.0)
    return finished(ax, "aleatoric sd", "epistemic sd")


def diagonal(
    comparison: Comparison,
    x: str | None = None,
    y: str | None = None,
    *,
    label: Iterable[Name] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw the value of every state under two policies; above the line, ``y`` wins.

    Bars are one epistemic sd to either side. Terminal states are left out.

    Parameters
    ----------
    comparison
        From `bayesmdp.compare`.
    x
        Name of the policy along the axis; the reference where not given.
    y
        Name of the policy upwards; the best of the others where not given.
    label
        States to name in the picture, by index or label.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task)
    >>> policies = {"logged": bm.policies.behaviour(posterior),
    ...             "nominal": bm.policies.nominal(posterior)}
    >>> table = bm.compare(policies, posterior.draws(200))
    >>> ax = bm.plots.diagonal(table)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('value under logged', 'value under nominal')
    """
    _checks.of_type("comparison", comparison, Comparison, ArgumentError)
    known = [row.name for row in comparison.rows]
    along = comparison.reference if x is None else policy_among("x", x, known)
    others = [name for name in known if name != along]
    up = others[0] if y is None else policy_among("y", y, known)
    right, above = comparison.evaluations[along], comparison.evaluations[up]
    live, named = right.task.live, states_given("label", label, right.task)
    ours, theirs = arrays_of(above, live), arrays_of(right, live)
    ax = axes_for(ax, "plots.diagonal", (4.0, 4.0))
    ax.errorbar(
        theirs["value"],
        ours["value"],
        xerr=theirs["epistemic_sd"],
        yerr=ours["epistemic_sd"],
        fmt="o",
        color=BLUE,
        ecolor="0.75",
        elinewidth=0.6,
        markersize=4.5 if live.size < 200 else 2.5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        rasterized=live.size > _MANY,
    )
    ends = _square(ax)
    ax.plot(ends, ends, color=INK, linewidth=0.9, linestyle="--", zorder=1)
    at, high = (arrays_of(e, named)["value"] for e in (right, above))
    put_names(ax, at, high, named, right.task)
    sides = (along, up) if right.task.is_cost else (up, along)  # the larger is worse
    for side, name in zip(("left", "right"), sides, strict=True):
        ax.text(
            *{"left": (0.03, 0.97), "right": (0.97, 0.03)}[side],
            f"better under {drawn(name)}",
            horizontalalignment=side,
            verticalalignment={"left": "top", "right": "bottom"}[side],
            transform=ax.transAxes,
            color=GREY,
            fontsize="small",
        )
    word = _word(right.task)
    return finished(ax, f"{word} under {along}", f"{word} under {up}")


def _word(task: Task) -> str:
    return "cost" if task.is_cost else "value"


def _square(ax: Any) -> tuple[float, float]:
    """Give both axes the same limits and scale; return the limits."""
    (a, b), (c, d) = ax.get_xlim(), ax.get_ylim()
    ends = min(a, c), max(b, d)
    ax.set(xlim=ends, ylim=ends, aspect="equal")
    ax.locator_params(nbins=6)  # the same ticks on both
    return ends


def intervals(
    comparison: Comparison,
    *,
    difference: bool = False,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Draw the value of each policy from the start, with an interval of draws.

    The interval holds what the data leave open (epistemic uncertainty), not the Monte
    Carlo error. Policies share their draws, so intervals of values overlap even where
    one policy is better on every draw: ``difference`` shows that.

    Parameters
    ----------
    comparison
        From `bayesmdp.compare`; the best policy is drawn on top.
    difference
        Show differences to the reference instead of values.
    level
        Probability inside the interval.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task)
    >>> policies = {"logged": bm.policies.behaviour(posterior),
    ...             "nominal": bm.policies.nominal(posterior)}
    >>> table = bm.compare(policies, posterior.draws(200))
    >>> bm.plots.intervals(table).get_xlabel()
    'value from the start, 95 % interval'
    """
    _checks.of_type("comparison", comparison, Comparison, ArgumentError)
    level = _checks.real("level", level, ArgumentError, 0, 1, open_low=True)
    rows = [
        row
        for row in comparison.rows
        if not (difference and row.name == comparison.reference)
    ]
    spans = _spans(comparison, difference, level)
    ax = axes_for(ax, "plots.intervals", (4.6, 0.7 + 0.42 * len(rows)))
    for place, row in enumerate(rows):
        chosen = row.name == comparison.rows[0].name
        colour = BLUE if chosen else GREY
        at = row.difference if difference else row.value
        ax.plot(spans[row.name], [place, place], color=colour, linewidth=2.2)
        ax.plot([at], [place], "o" if chosen else "s", color=colour, markersize=6.5)
    ax.set_yticks(range(len(rows)), [drawn(row.name) for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    if difference:
        ax.axvline(0.0, color=INK, linewidth=0.8)
    less = f" minus that of {comparison.reference}" if difference else ""
    task = comparison.evaluations[comparison.reference].task
    label = f"{_word(task)} from the start{less}, {100 * level:g} % interval"
    return finished(ax, label, grid="x")


def _spans(
    comparison: Comparison, difference: bool, level: float
) -> dict[str, tuple[float, float]]:
    first = comparison.evaluations[comparison.reference]
    values, weights = common_values(comparison.evaluations, draw_weights(first))
    if difference:
        values = gaps_to(comparison.reference, values, comparison.evaluations)
    spans = {}
    for name, each in values.items():
        span = interval(each, weights, exact=first.exact, level=level)
        spans[name] = (span["low"]["value"], span["high"]["value"])
    return spans


def frontier(front: RiskFrontier, *, ax: Axes | None = None) -> Axes:
    """Draw mean and tail mean of the policies of a risk frontier.

    Bars are two Monte Carlo errors.

    Parameters
    ----------
    front
        From `bayesmdp.risk_frontier`.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0, 3, 2)
    >>> posterior = bm.fit(world.sample(50, seed=0), world.task)
    >>> front = bm.risk_frontier(posterior, (0.5, 1.0), effort="quick")
    >>> bm.plots.frontier(front).get_xlabel()
    'tail that the policy was found for'
    """
    _checks.of_type("front", front, RiskFrontier, ArgumentError)
    ax = axes_for(ax, "plots.frontier", (4.6, 3.2))
    place = range(front.tails.size)
    lines = (
        (front.mean, front.mean_mcse, BLUE, "o-", "mean over all draws"),
        (front.tail_mean, front.tail_mean_mcse, GREY, "s--", "mean over its own tail"),
    )
    for value, error, colour, style, label in lines:
        ax.errorbar(
            place, value, 2 * error, fmt=style, color=colour, label=label, capsize=2
        )
    ax.set_xticks(place, [f"{100 * tail:g} %" for tail in front.tails])
    x, y = "tail that the policy was found for", "value from the start"
    return finished(ax, x, y, grid="y", legend=True)
