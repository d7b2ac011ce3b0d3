"""Should we believe it: checks, controls, priors compared, prior sensitivity."""

from bayesmdp.diagnostics._calibration import Calibration, plot_calibration
from bayesmdp.diagnostics._check import check
from bayesmdp.diagnostics._check_calibration import check_calibration
from bayesmdp.diagnostics._check_record import (
    ActionVariance,
    Check,
    CheckTest,
    Ending,
    Prevalence,
    Survival,
    plot_check,
)
from bayesmdp.diagnostics._compare_priors import (
    PriorComparison,
    PriorRow,
    compare_priors,
)
from bayesmdp.diagnostics._cross_fit import CrossFit, cross_fit
from bayesmdp.diagnostics._follow_up import KaplanMeier, kaplan_meier, state_shares
from bayesmdp.diagnostics._markov_tests import MarkovOrder, markov_order
from bayesmdp.diagnostics._negative_control import (
    NegativeControl,
    negative_control,
    plot_negative_control,
)
from bayesmdp.diagnostics._prior_sensitivity import PriorSensitivity, prior_sensitivity
from bayesmdp.diagnostics._simulated_data import Episodes

__all__ = [
    "ActionVariance",
    "Calibration",
    "Check",
    "CheckTest",
    "CrossFit",
    "Ending",
    "Episodes",
    "KaplanMeier",
    "MarkovOrder",
    "NegativeControl",
    "Prevalence",
    "PriorComparison",
    "PriorRow",
    "PriorSensitivity",
    "Survival",
    "check",
    "check_calibration",
    "compare_priors",
    "cross_fit",
    "kaplan_meier",
    "markov_order",
    "negative_control",
    "plot_calibration",
    "plot_check",
    "plot_negative_control",
    "prior_sensitivity",
    "state_shares",
]
