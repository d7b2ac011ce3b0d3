"""Pictures for papers, from the records users have; needs the extra ``paper``.

Every function draws on the matplotlib axes it is given, or on those of a new figure,
and returns the axes. Numbers are those of the report: both ask the same functions. A
new figure belongs to no window: ``ax.figure.savefig("doubts.pdf")`` keeps it, and in a
notebook ``ax.figure`` shows it, as the last line of a cell and once ``%matplotlib
inline`` was said. On axes of ``plt.subplots()`` the notebook shows it by itself.

Colours can be told apart by colour-blind readers (Okabe and Ito), and markers or lines
differ wherever colours do, for print in grey.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray, Name
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import Comparison, Evaluation
from bayesmdp.model import Task
from bayesmdp.posterior import Belief
from bayesmdp.reporting._draws import common_values
from bayesmdp.reporting._inputs import draw_weights
from bayesmdp.reporting._numbers import interval
from bayesmdp.reporting._states import state_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["diagonal", "intervals", "scatter", "sweep"]

_BLUE, _ORANGE, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_INK, _GREY, _FAINT = "0.15", "0.45", "0.88"
_LOOKS = {  # of a quantity in a sweep: colour, marker
    "epistemic_sd": (_BLUE, "o"),
    "aleatoric_sd": (_ORANGE, "s"),
    "total_sd": (_PURPLE, "D"),
    "value": (_GREEN, "^"),
}
_LINES = ("-", "--", ":", "-.")
_MANY = 3_000  # points from which on a dot is a pixel in a file of lines and text


def intervals(
    comparison: Comparison,
    *,
    difference: bool = False,
    level: float = 0.9,
    belief: Belief | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the value of each policy from the start, with an interval of draws.

    The interval holds what the data leave open (the epistemic doubt), not the Monte
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
    belief
        Of whose draws it is; needed for ``ensemble.draws()``, whose models have
        weights.
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
    'value from the start, 90 % interval'
    """
    _checks.of_type("comparison", comparison, Comparison, ArgumentError)
    level = _checks.real("level", level, ArgumentError, 0, 1, open_low=True)
    rows = [
        row
        for row in comparison.rows
        if not (difference and row.name == comparison.reference)
    ]
    spans = _spans(comparison, difference, level, belief)
    ax = _axes(ax, "plots.intervals", (4.6, 0.7 + 0.42 * len(rows)))
    for place, row in enumerate(rows):
        chosen = row.name == comparison.rows[0].name
        colour = _BLUE if chosen else _GREY
        at = row.difference if difference else row.value
        ax.plot(spans[row.name], [place, place], color=colour, linewidth=2.2)
        ax.plot([at], [place], "o" if chosen else "s", color=colour, markersize=6.5)
    ax.set_yticks(range(len(rows)), [_plain(row.name) for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=_FAINT)
    ax.set_axisbelow(True)
    if difference:
        ax.axvline(0.0, color=_INK, linewidth=0.8)
    less = f" minus that of {_plain(comparison.reference)}" if difference else ""
    ax.set_xlabel(f"value from the start{less}, {100 * level:g} % interval")
    return ax


def scatter(
    evaluation: Evaluation,
    *,
    label: Iterable[Name] = (),
    ax: "Axes | None" = None,
) -> "Axes":
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
    live, named = evaluation.task.live, _states("label", label, evaluation.task)
    of = _columns(evaluation, live)
    ax = _axes(ax, "plots.scatter", (4.6, 3.6))
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
    marked = _columns(evaluation, named)
    _name(ax, marked["aleatoric_sd"], marked["epistemic_sd"], named, evaluation.task)
    ax.figure.colorbar(dots, ax=ax, label="value")
    ax.set_xlabel("aleatoric sd")
    ax.set_ylabel("epistemic sd")
    ax.set_ylim(bottom=0.0)
    return ax


def diagonal(
    comparison: Comparison,
    x: str | None = None,
    y: str | None = None,
    *,
    label: Iterable[Name] = (),
    ax: "Axes | None" = None,
) -> "Axes":
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
    along = comparison.reference if x is None else _policy("x", x, comparison)
    others = [row.name for row in comparison.rows if row.name != along]
    up = others[0] if y is None else _policy("y", y, comparison)
    right, above = comparison.evaluations[along], comparison.evaluations[up]
    live, named = right.task.live, _states("label", label, right.task)
    ours, theirs = _columns(above, live), _columns(right, live)
    ax = _axes(ax, "plots.diagonal", (4.0, 4.0))
    ax.errorbar(
        theirs["value"],
        ours["value"],
        xerr=theirs["epistemic_sd"],
        yerr=ours["epistemic_sd"],
        fmt="o",
        color=_BLUE,
        ecolor="0.75",
        elinewidth=0.6,
        markersize=4.5 if live.size < 200 else 2.5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        rasterized=live.size > _MANY,
    )
    ends = _square(ax)
    ax.plot(ends, ends, color=_INK, linewidth=0.9, linestyle="--", zorder=1)
    at, high = (_columns(e, named)["value"] for e in (right, above))
    _name(ax, at, high, named, right.task)
    for side, name in (("left", up), ("right", along)):
        ax.text(
            *{"left": (0.03, 0.97), "right": (0.97, 0.03)}[side],
            f"better under {_plain(name)}",
            horizontalalignment=side,
            verticalalignment={"left": "top", "right": "bottom"}[side],
            transform=ax.transAxes,
            color=_GREY,
            fontsize="small",
        )
    ax.set_xlabel(f"value under {_plain(along)}")
    ax.set_ylabel(f"value under {_plain(up)}")
    return ax


def sweep(
    evaluations: Mapping[int, Evaluation],
    *,
    quantities: str | Sequence[str] = ("epistemic_sd", "aleatoric_sd"),
    states: Name | Iterable[Name] | None = None,
    every_state: bool = True,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw how doubts or values change with the size of the data.

    Bars are two Monte Carlo standard errors; around a value, the band is one epistemic
    sd to either side. Sizes are drawn to a logarithmic scale.

    Parameters
    ----------
    evaluations
        An evaluation for each number of transitions, all of the same states.
    quantities
        One or more of ``epistemic_sd``, ``aleatoric_sd``, ``total_sd``, ``value``.
    states
        States to draw, by index or label; from the start where not given.
    every_state
        Whether to draw all states behind, faintly.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> found = {}
    >>> for n in (100, 1000):
    ...     posterior = bm.fit(world.sample(n, seed=0), world.task)
    ...     found[n] = bm.evaluate(np.ones(25, dtype=int), posterior.draws(200))
    >>> ax = bm.plots.sweep(found, states=[7])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['epistemic sd, state 7', 'aleatoric sd, state 7']
    """
    sizes, found = _by_size(evaluations)
    wanted = _quantities(quantities)
    task = found[0].task
    bold: list[int | None] = [None]
    if states is not None:
        bold = [int(s) for s in _states("states", states, task)]
    ax = _axes(ax, "plots.sweep", (4.8, 3.6))
    for quantity in wanted:
        colour, marker = _LOOKS[quantity]
        if every_state:
            faint = np.array([getattr(e, quantity)[task.live] for e in found])
            alpha = float(np.clip(6 / task.live.size, 0.03, 0.3))
            ax.plot(sizes, faint, color=colour, linewidth=0.7, alpha=alpha, zorder=1)
        for number, state in enumerate(bold):
            height, error = _history(found, quantity, state)
            of = "from the start" if state is None else f"state {_label(task, state)}"
            ax.errorbar(
                sizes,
                height,
                2 * error,
                color=colour,
                marker=marker,
                markersize=4.5,
                linestyle=_LINES[number % len(_LINES)],
                linewidth=1.8,
                capsize=2,
                label=f"{_words(quantity)}, {of}",
            )
            if quantity == "value":
                sd = _history(found, "epistemic_sd", state)[0]
                ax.fill_between(
                    sizes, height - sd, height + sd, color=colour, alpha=0.15, lw=0
                )
    _size_axis(ax, sizes)
    several = "value and sd" if "value" in wanted else "sd"
    ax.set_ylabel(several if len(wanted) > 1 else _words(wanted[0]))
    if "value" not in wanted:
        ax.set_ylim(bottom=0.0)
    # Above the axes, since lines run everywhere inside.
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=len(wanted),
        frameon=False,
        fontsize="small",
    )
    return ax


def _axes(ax: Any, needed_by: str, size: tuple[float, float]) -> Any:
    """Return the axes given, or those of a figure that no window holds on to."""
    figures = _checks.extra("matplotlib.figure", "paper", needed_by)
    if ax is not None:
        kind = _checks.extra("matplotlib.axes", "paper", needed_by).Axes
        _checks.of_type("ax", ax, kind, ArgumentError)
        return ax
    made = figures.Figure(figsize=size, layout="constrained").subplots()
    made.spines[["top", "right"]].set_visible(False)
    return made


def _spans(
    comparison: Comparison, difference: bool, level: float, belief: Belief | None
) -> dict[str, tuple[float, float]]:
    first = comparison.evaluations[comparison.reference]
    if first.exact and belief is None:
        raise ArgumentError(
            "`belief` must be the ensemble that was compared on: its models have "
            "weights, which a comparison does not hold."
        )
    weights = draw_weights(first, belief)
    if weights.size != first.start_values.size:
        raise ArgumentError(
            f"`belief` has {weights.size} models, `comparison` was made on "
            f"{first.start_values.size}; give the ensemble it was made on."
        )
    values, weights = common_values(comparison.evaluations, weights)
    less = values[comparison.reference] if difference else 0.0
    spans = {}
    for name, each in values.items():
        span = interval(each - less, weights, exact=first.exact, level=level)
        spans[name] = (span["low"]["value"], span["high"]["value"])
    return spans


def _columns(evaluation: Evaluation, states: IntArray) -> dict[str, FloatArray]:
    """Return the report's columns of some states; what is not finite is NaN."""
    found = state_columns(evaluation, states)
    return {name: np.array(x, dtype=np.float64) for name, x in found.items()}


def _states(name: str, given: Any, task: Task) -> IntArray:
    """Return states given by index or label; one alone will do."""
    if isinstance(given, str | int | np.integer) or not isinstance(given, Iterable):
        given = [given]
    return np.array([task.state(x, name) for x in given], dtype=np.int64)


def _policy(parameter: str, name: object, comparison: Comparison) -> str:
    known = [row.name for row in comparison.rows]
    if not isinstance(name, str) or name not in known:
        hint = _checks.did_you_mean(name, known)
        raise ArgumentError(
            f"`{parameter}` {name!r:.80} is not among the policies: "
            f"{', '.join(known)}{hint}."
        )
    return name


def _by_size(evaluations: object) -> tuple[list[int], list[Evaluation]]:
    """Return sizes of the data in rising order, and the evaluation of each."""
    if not isinstance(evaluations, Mapping) or not evaluations:
        raise ArgumentError(
            "`evaluations` must map numbers of transitions to evaluations."
        )
    found: dict[int, Evaluation] = {}
    for key, each in evaluations.items():
        size = _checks.integer("evaluations", key, 1, ArgumentError)
        _checks.of_type(f"evaluations[{size}]", each, Evaluation, ArgumentError)
        found[size] = each
    sizes = sorted(found)
    n_states = found[sizes[0]].value.size
    for size in sizes:
        if found[size].value.size != n_states:
            raise ArgumentError(
                f"`evaluations` must be of the same states: that of {size} transitions "
                f"has {found[size].value.size}, that of {sizes[0]} has {n_states}."
            )
    return sizes, [found[size] for size in sizes]


def _quantities(given: object) -> list[str]:
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, Sequence) or not listed:
        raise ArgumentError(f"`quantities` must name some of {', '.join(_LOOKS)}.")
    for name in listed:
        if name not in _LOOKS:
            hint = _checks.did_you_mean(name, _LOOKS)
            raise ArgumentError(
                f"`quantities` {name!r:.80} is not one of {', '.join(_LOOKS)}{hint}."
            )
    return list(listed)


def _history(
    found: list[Evaluation], quantity: str, state: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return a quantity by size of the data, and its error."""
    if state is None:
        pairs = [
            (getattr(e, f"start_{quantity}"), getattr(e, f"start_{quantity}_error"))
            for e in found
        ]
    else:
        pairs = [
            (getattr(e, quantity)[state], getattr(e, f"{quantity}_error")[state])
            for e in found
        ]
    height, error = np.array(pairs, dtype=np.float64).T
    return height, error


def _size_axis(ax: Any, sizes: list[int]) -> None:
    ax.set_xscale("log")
    ax.set_xlabel("number of transitions")
    if len(sizes) <= 7:
        ax.minorticks_off()
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])


def _square(ax: Any) -> tuple[float, float]:
    """Give both axes the same limits and scale; return the limits."""
    (a, b), (c, d) = ax.get_xlim(), ax.get_ylim()
    ends = min(a, c), max(b, d)
    ax.set(xlim=ends, ylim=ends, aspect="equal")
    ax.locator_params(nbins=6)  # the same ticks on both
    return ends


def _name(ax: Any, x: FloatArray, y: FloatArray, states: IntArray, task: Task) -> None:
    """Put names beside points, with a line that says which is meant."""
    middle = np.mean(ax.get_xlim())
    for at, up, state in zip(x, y, states, strict=True):
        inwards = 1 if at < middle else -1  # so that names stay inside
        ax.annotate(
            _label(task, int(state)),
            (at, up),
            xytext=(14 * inwards, -14 * inwards),
            textcoords="offset points",
            horizontalalignment="left" if inwards > 0 else "right",
            verticalalignment="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": _INK},
            fontsize="small",
            color=_INK,
        )


def _label(task: Task, state: int) -> str:
    return _plain(task.state_name(state))


def _plain(text: str) -> str:
    """Keep dollars of a name from being read as formulas."""
    return text.replace("$", r"\$")


def _words(quantity: str) -> str:
    return quantity.replace("_", " ")
