"""Where the next patients are worth most."""

from typing import TYPE_CHECKING

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError
from bayesmdp.information import Information
from bayesmdp.reporting._information import PER, states_worth_most
from bayesmdp.reporting._plot_axes import BLUE, FAINT, INK, axes_for, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def information(
    info: Information, *, n_states: int = 12, ax: "Axes | None" = None
) -> "Axes":
    """Draw the states where further patients would teach most.

    A bar is the expected gain for 1,000 later patients if ``info.n_patients`` more are
    treated as before and the decision in that state is then taken again. Beside it
    stands the action that is most worth trying.

    Parameters
    ----------
    info
        From `bayesmdp.value_of_information`.
    n_states
        How many states to show.
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
    >>> info = bm.value_of_information(posterior, n_confirmed=0)
    >>> bm.plots.information(info).get_xlabel()
    'expected gain for 1,000 later patients'
    """
    _checks.of_type("info", info, Information, ArgumentError)
    shown = _checks.integer("n_states", n_states, 1, ArgumentError)
    ax = axes_for(ax, "plots.information", (6.4, 0.6 + 0.32 * shown))
    rows = states_worth_most(info, shown)[::-1]
    gains = [row["gain"] for row in rows]
    ax.barh(range(len(rows)), gains, color=BLUE, height=0.7)
    for place, row in enumerate(rows):
        ax.annotate(
            f"try {drawn(row['action'])}",
            (row["gain"], place),
            xytext=(4, 0),
            textcoords="offset points",
            verticalalignment="center",
            fontsize="small",
            color=INK,
        )
    labels = [f"state {drawn(row['state_label'])}" for row in rows]
    ax.set_yticks(range(len(rows)), labels)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 1.45 * max(gains, default=1.0))  # room for the actions
    unit = f", in {drawn(info.task.reward_unit)}" if info.task.reward_unit else ""
    ax.set_xlabel(f"expected gain for {PER:,} later patients{unit}")
    ax.set_title(
        f"Where the next {info.n_patients:,} patients are worth most",
        loc="left",
        fontsize="medium",
    )
    ax.grid(axis="x", color=FAINT)
    ax.set_axisbelow(True)
    return ax
