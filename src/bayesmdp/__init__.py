"""From logged transitions to a policy you can defend.

The everyday names; each lives in the room its docstring names, and nothing is computed
here. Rooms can be reached as attributes (``bm.data.discretise``).
"""

from bayesmdp import _startup  # noqa: F401  before all that takes long

# isort: split

from bayesmdp import data as data
from bayesmdp import diagnostics as diagnostics
from bayesmdp import economics as economics
from bayesmdp import errors as errors
from bayesmdp import evaluation as evaluation
from bayesmdp import information as information
from bayesmdp import model as model
from bayesmdp import optimisation as optimisation
from bayesmdp import policies, priors, storage, worlds
from bayesmdp import posterior as posterior
from bayesmdp import reporting as reporting
from bayesmdp._version import __version__
from bayesmdp.data import Counts, Transitions, read_transitions, validate
from bayesmdp.diagnostics import (
    check,
    check_calibration,
    compare_priors,
    cross_fit,
    negative_control,
    prior_sensitivity,
)
from bayesmdp.economics import cost_effectiveness
from bayesmdp.errors import BayesmdpError, BayesmdpWarning
from bayesmdp.evaluation import (
    Comparison,
    Evaluation,
    action_values,
    compare,
    evaluate,
    evaluate_analytic,
    off_policy,
)
from bayesmdp.information import next_trial, value_of_information
from bayesmdp.model import Dynamics, Task, policy_table, restrict
from bayesmdp.optimisation import (
    CVaR,
    Entropic,
    EVaR,
    MeanSd,
    MirrorAscent,
    Optimisation,
    PosteriorMean,
    Quantile,
    SoftRobust,
    StochasticGradient,
    improve,
    optimise,
    risk_frontier,
)
from bayesmdp.posterior import Draws, Ensemble, Posterior, fit
from bayesmdp.priors import (
    EvidencePrior,
    FallbackPrior,
    HierarchicalPrior,
    MixturePrior,
    RandomSupportPrior,
    ScaledPrior,
    SparsePrior,
    SymmetricPrior,
)
from bayesmdp.reporting import Report, plots, report
from bayesmdp.worlds import MDP

__all__ = [
    "MDP",
    "BayesmdpError",
    "BayesmdpWarning",
    "CVaR",
    "Comparison",
    "Counts",
    "Draws",
    "Dynamics",
    "EVaR",
    "Ensemble",
    "Entropic",
    "Evaluation",
    "EvidencePrior",
    "FallbackPrior",
    "HierarchicalPrior",
    "MeanSd",
    "MirrorAscent",
    "MixturePrior",
    "Optimisation",
    "Posterior",
    "PosteriorMean",
    "Quantile",
    "RandomSupportPrior",
    "Report",
    "ScaledPrior",
    "SoftRobust",
    "SparsePrior",
    "StochasticGradient",
    "SymmetricPrior",
    "Task",
    "Transitions",
    "__version__",
    "action_values",
    "check",
    "check_calibration",
    "compare",
    "compare_priors",
    "cost_effectiveness",
    "cross_fit",
    "evaluate",
    "evaluate_analytic",
    "fit",
    "improve",
    "negative_control",
    "next_trial",
    "off_policy",
    "optimise",
    "plots",
    "policies",
    "policy_table",
    "prior_sensitivity",
    "priors",
    "read_transitions",
    "report",
    "restrict",
    "risk_frontier",
    "storage",
    "validate",
    "value_of_information",
    "worlds",
]
