"""Should we believe it: priors on trial, what hangs on them, intervals on trial."""

from bayesmdp.diagnostics._calibrate import calibrate
from bayesmdp.diagnostics._calibration import Calibration
from bayesmdp.diagnostics._check import check
from bayesmdp.diagnostics._check_record import (
    Check,
    CheckTest,
    Ending,
    Prevalence,
    Survival,
)
from bayesmdp.diagnostics._compare_priors import (
    PriorComparison,
    PriorRow,
    compare_priors,
)
from bayesmdp.diagnostics._markov_order import MarkovOrder, markov_order
from bayesmdp.diagnostics._plot import plot_calibration, plot_check
from bayesmdp.diagnostics._sensitivity import Sensitivity, sensitivity
from bayesmdp.diagnostics._study import Episodes

__all__ = [
    "Calibration",
    "Check",
    "CheckTest",
    "Ending",
    "Episodes",
    "MarkovOrder",
    "Prevalence",
    "PriorComparison",
    "PriorRow",
    "Sensitivity",
    "Survival",
    "calibrate",
    "check",
    "compare_priors",
    "markov_order",
    "plot_calibration",
    "plot_check",
    "sensitivity",
]
