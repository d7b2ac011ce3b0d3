"""What all pictures share: axes, colours and names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import Evaluation
from bayesmdp.model import Task
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
