"""Ranks and coverage as a picture; matplotlib is not needed for anything else."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp.diagnostics._calibration import Calibration
from bayesmdp.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _GREY = "#1f77b4", "0.88"


def plot_calibration(calibration: Calibration, axes: Any = None) -> "Figure":
    """Draw the curve of ranks against its band, and coverage against levels.

    Above, for each quantity, the share of ranks below a point minus that point: inside
    the band if calibrated; a hump is promises above the truth, a dip promises below it,
    an S that rises first intervals that are too narrow. Below, shares of datasets
    covered, with two standard errors, against the level that was promised.

    Parameters
    ----------
    calibration
        From `calibrate`.
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
    >>> found = bm.calibrate(task, bm.SymmetricPrior(), n_datasets=100, choose=None)
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
    error = 2 * calibration.covered_error[:, q]
    ax.errorbar(calibration.levels, gap, error, fmt="o", color=_BLUE, capsize=3)
    ax.axhline(0.0, color="0.5", linewidth=0.8)
    ax.set_xlabel("level")
