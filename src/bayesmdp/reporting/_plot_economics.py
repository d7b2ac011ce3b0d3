"""What a decision is worth: costs beside effects, and where to learn more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.economics import CostEffectiveness
from bayesmdp.errors import ArgumentError
from bayesmdp.information import Information
from bayesmdp.reporting._plot_states import (
    BLUE,
    COLOURS,
    FAINT,
    GREY,
    INK,
    LINES,
    axes_for,
    drawn,
    finished,
    policy_among,
)
from bayesmdp.reporting._sections import PER, states_worth_most

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MARKERS = "os^DvP"
_SIZE = (4.8, 3.4)


def ce_plane(
    ce: CostEffectiveness,
    *,
    reference: str | None = None,
    threshold: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw draws of incremental cost against incremental effect.

    Parameters
    ----------
    ce
        From `bayesmdp.cost_effectiveness`.
    reference
        Policy that increments are to; the first where not given.
    threshold
        Also the line of that many units of cost per unit of effect: below it a policy
        is worth its price.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesmdp as bm
    >>> ce = bm.economics.from_samples([[1, 2], [1, 4]], [[0, 1], [0, 2]])
    >>> bm.plots.ce_plane(ce, threshold=2).get_ylabel()
    'cost less that of 0'
    """
    _checks.of_type("ce", ce, CostEffectiveness, ArgumentError)
    to = ce.names[0]
    if reference is not None:
        to = policy_among("reference", reference, ce.names)
    ax = axes_for(ax, "plots.ce_plane", _SIZE)
    for p, name in enumerate(x for x in ce.names if x != to):
        cost, effect = ce.plane[name] - ce.plane[to]
        look: dict[str, Any] = {"color": COLOURS[p % 5], "marker": _MARKERS[p % 6]}
        ax.scatter(effect, cost, s=6, alpha=0.25, linewidths=0, **look)
        middle = [effect @ ce.weights], [cost @ ce.weights]
        ax.scatter(*middle, s=50, edgecolors=INK, label=drawn(name), **look)
    for line in (ax.axhline, ax.axvline):
        line(0, color=GREY, linewidth=0.8)
    if threshold is not None:
        slope = _checks.real("threshold", threshold, ArgumentError, 0)
        label = f"{slope:,.6g} per unit"
        ax.axline((0, 0), slope=slope, color=INK, linestyle="--", label=label)
    less = f"less that of {to}"
    return finished(ax, f"{ce.effect} {less}", f"{ce.cost} {less}", legend=True)


def ceac(ce: CostEffectiveness, *, ax: Axes | None = None) -> Axes:
    """Draw acceptability curves, and the frontier of policies with the largest mean.

    Parameters
    ----------
    ce
        From `bayesmdp.cost_effectiveness`.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesmdp as bm
    >>> ce = bm.economics.from_samples([[1, 2], [1, 4]], [[0, 1], [0, 2]])
    >>> bm.plots.ceac(ce).get_ylabel()
    'probability of the largest net benefit'
    """
    _checks.of_type("ce", ce, CostEffectiveness, ArgumentError)
    ax = axes_for(ax, "plots.ceac", _SIZE)
    label = "largest mean net benefit"
    ax.plot(ce.thresholds, ce.frontier, color=FAINT, linewidth=7, label=label)
    _curves(ax, ce, ce.ceac, ce.ceac_mcse)
    ax.set_ylim(-0.02, 1.02)
    return _over_thresholds(ax, "probability of the largest net benefit")


def expected_loss(ce: CostEffectiveness, *, ax: Axes | None = None) -> Axes:
    """Draw expected losses; the lowest curve is the value of perfect information.

    Parameters
    ----------
    ce
        From `bayesmdp.cost_effectiveness`.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesmdp as bm
    >>> ce = bm.economics.from_samples([[1, 2], [1, 4]], [[0, 1], [0, 2]])
    >>> bm.plots.expected_loss(ce).get_xlabel()
    'threshold: cost per unit of effect'
    """
    _checks.of_type("ce", ce, CostEffectiveness, ArgumentError)
    ax = axes_for(ax, "plots.expected_loss", _SIZE)
    ax.plot(ce.thresholds, ce.evpi, color=FAINT, linewidth=7, label="EVPI")
    _curves(ax, ce, ce.expected_loss, ce.expected_loss_mcse)
    return _over_thresholds(ax, f"expected loss, {ce.cost} per {ce.per}")


def evpi(ce: CostEffectiveness, *, ax: Axes | None = None) -> Axes:
    """Draw the value of perfect information for a choice among the policies.

    The band is two Monte Carlo errors wide on either side.

    Parameters
    ----------
    ce
        From `bayesmdp.cost_effectiveness`.
    ax
        Axes to draw on.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesmdp as bm
    >>> ce = bm.economics.from_samples([[1, 2], [1, 4]], [[0, 1], [0, 2]])
    >>> bm.plots.evpi(ce).get_ylabel()
    'EVPI, cost per patient'
    """
    _checks.of_type("ce", ce, CostEffectiveness, ArgumentError)
    ax = axes_for(ax, "plots.evpi", _SIZE)
    _curve(ax, ce.thresholds, ce.evpi, ce.evpi_mcse, color=BLUE)
    return _over_thresholds(ax, f"EVPI, {ce.cost} per {ce.per}", legend=False)


def _curves(
    ax: Axes,
    ce: CostEffectiveness,
    values: Mapping[str, FloatArray],
    errors: Mapping[str, FloatArray],
) -> None:
    for p, name in enumerate(ce.names):
        look: dict[str, Any] = {"color": COLOURS[p % 5], "linestyle": LINES[p % 5]}
        of = values[name], errors[name]
        _curve(ax, ce.thresholds, *of, label=drawn(name), **look)


def _curve(
    ax: Axes, x: FloatArray, y: FloatArray, error: FloatArray, **look: Any
) -> None:
    marker = "o" if x.size == 1 else None
    ax.plot(x, y, marker=marker, **look)
    low = np.maximum(y - 2 * error, 0.0)
    ax.fill_between(x, low, y + 2 * error, color=look["color"], alpha=0.2, linewidth=0)


def _over_thresholds(ax: Axes, y: str, *, legend: bool = True) -> Axes:
    ax.locator_params(axis="x", nbins=5)
    x = "threshold: cost per unit of effect"
    return finished(ax, x, y, grid="y", legend=legend)


def information(
    info: Information, *, n_states: int = 12, ax: Axes | None = None
) -> Axes:
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
    unit = f", in {info.task.reward_unit}" if info.task.reward_unit else ""
    ax.set_title(
        f"Where the next {info.n_patients:,} patients are worth most",
        loc="left",
        fontsize="medium",
    )
    return finished(ax, f"expected gain for {PER:,} later patients{unit}", grid="x")
