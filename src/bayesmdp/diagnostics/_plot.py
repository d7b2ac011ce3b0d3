"""Checks as pictures; matplotlib is not needed for anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp.diagnostics._calibration import Calibration
from bayesmdp.diagnostics._check_record import Check
from bayesmdp.diagnostics._negative_control import NegativeControl
from bayesmdp.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_MOST = 4  # states whose prevalence is drawn
_BLUE, _GREY, _RED = "#1f77b4", "0.88", "#d55e00"


def plot_calibration(calibration: Calibration, axes: Any = None) -> Figure:
    """Draw the curve of ranks against its band, and coverage against levels.

    Above, for each quantity, the share of ranks below a point minus that point: inside
    the band if calibrated; a hump is predictions above the truth, a dip predictions
    below it, an S that rises first intervals that are too narrow. Below, shares of
    datasets covered, with two standard errors, against the nominal level.

    Parameters
    ----------
    calibration
        From `check_calibration`.
    axes
        Axes of shape (2, number of quantities) to draw on; a new figure where not
        given.

    Returns
    -------
    Figure
        Of matplotlib, with the extra ``plots``: ``figure.savefig("ranks.png")``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(2, 1, reward=[1, 0], discount=0.9)
    >>> found = bm.check_calibration(task, bm.SymmetricPrior(), n_datasets=100,
    ...                              choose=None)
    >>> bm.diagnostics.plot_calibration(found).axes[0].get_title()
    'value'
    """
    _checks.of_type("calibration", calibration, Calibration, ArgumentError)
    n = len(calibration.quantities)
    grid = _new_axes(n) if axes is None else np.asarray(axes)
    if grid.shape != (2, n):
        raise ArgumentError(
            f"`axes` must have shape {(2, n)} (row, quantity); got {grid.shape}."
        )
    for q, name in enumerate(calibration.quantities):
        _draw_ranks(grid[0, q], calibration, q)
        _draw_coverage(grid[1, q], calibration, q)
        grid[0, q].set_title(name)
    grid[0, 0].set_ylabel("share below - rank")
    grid[1, 0].set_ylabel("covered - level")
    figure: Figure = grid[0, 0].figure
    return figure


def _new_axes(n: int) -> Any:
    """Axes of a figure of its own, which no window holds on to."""
    figures = _checks.extra("matplotlib.figure", "plots", "plot_calibration")
    figure = figures.Figure(figsize=(2.9 * n, 5.0), layout="constrained")
    return figure.subplots(2, n, squeeze=False, sharex="row", sharey="row")


def _draw_ranks(ax: Any, calibration: Calibration, q: int) -> None:
    curves = calibration.curves
    at = np.concatenate([[0.0], curves["point"], [1.0]])
    low, high, share = (
        np.concatenate([[0.0], curve - curves["point"], [0.0]])
        for curve in (curves["low"], curves["high"], curves["share"][:, q])
    )
    if not np.isnan(calibration.p_values[q]):
        ax.fill_between(at, low, high, color=_GREY)
    ax.plot(at, share, color=_BLUE)
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.set_xlabel("rank of the truth")


def _draw_coverage(ax: Any, calibration: Calibration, q: int) -> None:
    gap = calibration.covered[:, q] - calibration.levels
    error = 2 * calibration.covered_mcse[:, q]
    ax.errorbar(calibration.levels, gap, error, fmt="o", color=_BLUE, capsize=3)
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.set_xlabel("level")


def plot_check(check: Check, axes: Any = None) -> Figure:
    """Draw observed and posterior predictive survival, and prevalence of states.

    Left, the share of episodes that have not ended by each step: a line for the
    observed one, a dashed line and a 95 % band for posterior predictive replicates.
    Then the share of each of the most prevalent states among episodes still observed,
    with bars of two sds over replicates.

    Parameters
    ----------
    check
        From `bayesmdp.check`.
    axes
        Two axes to draw on; a new figure where not given.

    Returns
    -------
    Figure
        Of matplotlib, with the extra ``plots``: ``figure.savefig("check.png")``.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> log = world.simulate(np.full((25, 4), 0.25), 20, seed=0)
    >>> found = bm.check(bm.fit(log, world.task), log, n_draws=20)
    >>> [ax.get_title() for ax in found.plot().axes]
    ['Time to end', 'Prevalence']
    """
    _checks.of_type("check", check, Check, ArgumentError)
    if axes is None:
        figures = _checks.extra("matplotlib.figure", "plots", "plot_check")
        made = figures.Figure(figsize=(10.0, 4.0), layout="constrained")
        axes = made.subplots(1, 2)
    pair = np.asarray(axes).ravel()
    if pair.size != 2:
        raise ArgumentError(f"`axes` must be two axes; got {pair.size}.")
    _draw_survival(pair[0], check)
    _draw_prevalence(pair[1], check)
    figure: Figure = pair[0].figure
    return figure


def _draw_survival(ax: Any, check: Check) -> None:
    ax.set(title="Time to end", xlabel="step", ylabel="share not ended")
    found = check.survival
    if found is None:
        ax.text(0.5, 0.5, "no terminal states", ha="center", transform=ax.transAxes)
        return
    how = {"step": "post"}
    band = {"color": _GREY, "label": "posterior predictive, 95 %"}
    line = {"color": "0.45", "label": "posterior predictive, mean"}
    ax.fill_between(found.step, found.low, found.high, **how, **band)
    ax.step(found.step, found.predicted, "--", where="post", **line)
    ax.step(found.step, found.observed, where="post", color=_BLUE, label="observed")
    ax.set_ylim(0, 1.02)
    ax.legend(frameon=False)


def _draw_prevalence(ax: Any, check: Check) -> None:
    found = check.prevalence
    most = np.argsort(-found.predicted.mean(axis=0), kind="stable")[:_MOST]
    nudge = 0.03 * max(float(np.ptp(found.step)), 1.0)
    for number, j in enumerate(most):
        colour = _COLOURS[number]
        at = found.step + nudge * (number / _MOST - 0.5)
        name = found.state[j].replace("$", r"\$")
        ax.plot(found.step, found.observed[:, j], color=colour, label=name)
        ax.errorbar(
            at,
            found.predicted[:, j],
            2 * found.predicted_sd[:, j],
            color=colour,
            fmt="o",
            markersize=3.5,
            linewidth=0.9,
            capsize=2,
        )
    ax.set(title="Prevalence", xlabel="step", ylabel="share of those still observed")
    ax.set_ylim(bottom=0)
    key = "state (lines observed,\npoints posterior predictive)"
    ax.legend(frameon=False, title=key, fontsize="small", title_fontsize="small")


def plot_negative_control(control: NegativeControl, *, ax: Axes | None = None) -> Axes:
    """Draw the gains claimed without effect as a histogram, and the claimed gain.

    Parameters
    ----------
    control
        From `bayesmdp.negative_control`.
    ax
        Axes to draw on; those of a new figure where not given.

    Returns
    -------
    Axes
        Of matplotlib, with the extra ``plots``: ``ax.figure.savefig("null.png")``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> found = bm.negative_control(world.sample(200, seed=0), world.task,
    ...                             bm.SymmetricPrior(), permute="state",
    ...                             n_permutations=19)
    >>> bm.diagnostics.plot_negative_control(found).get_xlabel()
    'gain claimed over the behaviour policy'
    """
    _checks.of_type("control", control, NegativeControl, ArgumentError)
    if ax is None:
        needed_by = "plot_negative_control"
        figures = _checks.extra("matplotlib.figure", "plots", needed_by)
        ax = figures.Figure(figsize=(4.6, 2.8), layout="constrained").subplots()
    assert ax is not None
    gains, n = control.null_gains, control.null_gains.size
    low = min(float(gains.min()), control.claimed_gain)
    high = max(float(gains.max()), control.claimed_gain)
    span = high - low or max(abs(high), 1e-9)  # all alike: a bin around them
    edges = np.linspace(low - 0.02 * span, high + 0.02 * span, 31)
    ax.hist(gains, edges.tolist(), color="0.7", label=f"no effect, {n} permutations")
    ax.axvline(
        control.claimed_gain,
        color=_RED,
        linewidth=2.0,
        label=f"claimed, p = {control.p_value:.2g}",
    )
    ax.set_xlabel("gain claimed over the behaviour policy")
    ax.set_ylabel("permutations")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2)
    return ax
