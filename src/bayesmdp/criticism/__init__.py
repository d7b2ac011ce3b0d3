"""Should we believe it: priors on trial, what hangs on them, intervals on trial."""

from bayesmdp.criticism._calibrate import calibrate
from bayesmdp.criticism._calibration import Calibration
from bayesmdp.criticism._compare_priors import (
    PriorComparison,
    PriorRow,
    compare_priors,
)
from bayesmdp.criticism._plot import plot_calibration
from bayesmdp.criticism._sensitivity import Sensitivity, sensitivity
from bayesmdp.criticism._study import Episodes

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
