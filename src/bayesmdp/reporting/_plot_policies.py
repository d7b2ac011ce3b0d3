"""Values of policies from the start, as intervals of draws."""

from typing import TYPE_CHECKING

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import Comparison
from bayesmdp.posterior import Belief, check_belief
from bayesmdp.reporting._draws import common_values, gaps_to
from bayesmdp.reporting._inputs import draw_weights
from bayesmdp.reporting._numbers import interval
from bayesmdp.reporting._plot_axes import BLUE, FAINT, GREY, INK, axes_for, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def intervals(
    comparison: Comparison,
    *,
    difference: bool = False,
    level: float = 0.95,
    belief: Belief | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
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
    'value from the start, 95 % interval'
    """
    _checks.of_type("comparison", comparison, Comparison, ArgumentError)
    level = _checks.real("level", level, ArgumentError, 0, 1, open_low=True)
    rows = [
        row
        for row in comparison.rows
        if not (difference and row.name == comparison.reference)
    ]
    spans = _spans(comparison, difference, level, belief)
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
    ax.grid(axis="x", color=FAINT)
    ax.set_axisbelow(True)
    if difference:
        ax.axvline(0.0, color=INK, linewidth=0.8)
    less = f" minus that of {drawn(comparison.reference)}" if difference else ""
    ax.set_xlabel(f"value from the start{less}, {100 * level:g} % interval")
    return ax


def _spans(
    comparison: Comparison, difference: bool, level: float, belief: Belief | None
) -> dict[str, tuple[float, float]]:
    first = comparison.evaluations[comparison.reference]
    if belief is not None:
        check_belief(belief)
    weights = draw_weights(first, belief, "belief")
    values, weights = common_values(comparison.evaluations, weights)
    if difference:
        values = gaps_to(comparison.reference, values, comparison.evaluations)
    spans = {}
    for name, each in values.items():
        span = interval(each, weights, exact=first.exact, level=level)
        spans[name] = (span["low"]["value"], span["high"]["value"])
    return spans
