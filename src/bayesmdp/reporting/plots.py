"""Figures for papers, from the results of an analysis; needs the extra ``plots``.

Every function draws on the matplotlib axes it is given, or on those of a new figure,
and returns the axes. Numbers are those of the report: both ask the same functions. A
new figure belongs to no window: ``ax.figure.savefig("states.pdf")`` keeps it, and in a
notebook ``ax.figure`` shows it, as the last line of a cell and once ``%matplotlib
inline`` was said. On axes of ``plt.subplots()`` the notebook shows it by itself.

Colours can be told apart by colour-blind readers (Okabe and Ito), and markers or lines
differ wherever colours do, for print in grey.
"""

from bayesmdp.reporting._plot_curves import prevalence, survival, sweep
from bayesmdp.reporting._plot_economics import (
    ce_plane,
    ceac,
    evpi,
    expected_loss,
    information,
)
from bayesmdp.reporting._plot_states import diagonal, frontier, intervals, scatter

__all__ = [
    "ce_plane",
    "ceac",
    "diagonal",
    "evpi",
    "expected_loss",
    "frontier",
    "information",
    "intervals",
    "prevalence",
    "scatter",
    "survival",
    "sweep",
]
