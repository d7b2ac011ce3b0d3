"""What a better mean costs in the worst draws."""

from typing import TYPE_CHECKING

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError
from bayesmdp.optimisation import RiskFrontier
from bayesmdp.reporting._plot_axes import BLUE, FAINT, GREY, axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def frontier(front: RiskFrontier, *, ax: "Axes | None" = None) -> "Axes":
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
    drawn = (
        (front.mean, front.mean_mcse, BLUE, "o-", "mean over all draws"),
        (front.tail_mean, front.tail_mean_mcse, GREY, "s--", "mean over its own tail"),
    )
    for value, error, colour, style, label in drawn:
        ax.errorbar(
            place, value, 2 * error, fmt=style, color=colour, label=label, capsize=2
        )
    ax.set_xticks(place, [f"{100 * tail:g} %" for tail in front.tails])
    ax.set_xlabel("tail that the policy was found for")
    ax.set_ylabel("value from the start")
    ax.grid(axis="y", color=FAINT)
    ax.set_axisbelow(True)
    ax.legend(frameon=False)
    return ax
