"""Should we believe it: priors on trial, what hangs on them, intervals on trial."""

from bayesmdp.diagnostics._calibrate import calibrate
from bayesmdp.diagnostics._calibration import Calibration
from bayesmdp.diagnostics._compare_priors import (
    PriorComparison,
    PriorRow,
    compare_priors,
)
from bayesmdp.diagnostics._plot import plot_calibration
from bayesmdp.diagnostics._sensitivity import Sensitivity, sensitivity
from bayesmdp.diagnostics._study import Episodes

__all__ = [
    "Calibration",
    "Episodes",
    "PriorComparison",
    "PriorRow",
    "Sensitivity",
    "calibrate",
    "compare_priors",
    "plot_calibration",
    "sensitivity",
]
