"""From logged transitions to a policy you can defend.

The everyday names; each lives in the room its docstring names, and nothing is computed
here.
"""

from bayesmdp import _startup  # noqa: F401  before all that takes long

# isort: split

from bayesmdp import (
    data,
    diagnostics,
    errors,
    evaluation,
    model,
    policies,
    posterior,
    priors,
    reporting,
    storage,
    worlds,
)
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
from bayesmdp.errors import BayesmdpError, BayesmdpWarning
from bayesmdp.evaluation import (
    ActionValues,
    AnalyticEvaluation,
    Comparison,
    Evaluation,
    action_values,
    compare,
    draws_needed,
    evaluate,
    evaluate_analytic,
    off_policy,
)
from bayesmdp.model import Dynamics, Task, policy_table, restrict
from bayesmdp.optimisation import (
    MirrorAscent,
    Optimisation,
    PosteriorMean,
    StochasticGradient,
    optimise,
)
from bayesmdp.posterior import Draws, Ensemble, MixturePosterior, Posterior, fit
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
    "ActionValues",
    "AnalyticEvaluation",
    "BayesmdpError",
    "BayesmdpWarning",
    "Comparison",
    "Counts",
    "Draws",
    "Dynamics",
    "Ensemble",
    "Evaluation",
    "EvidencePrior",
    "FallbackPrior",
    "HierarchicalPrior",
    "MirrorAscent",
    "MixturePosterior",
    "MixturePrior",
    "Optimisation",
    "Posterior",
    "PosteriorMean",
    "RandomSupportPrior",
    "Report",
    "ScaledPrior",
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
    "cross_fit",
    "data",
    "diagnostics",
    "draws_needed",
    "errors",
    "evaluate",
    "evaluate_analytic",
    "evaluation",
    "fit",
    "model",
    "negative_control",
    "off_policy",
    "optimisation",
    "optimise",
    "plots",
    "policies",
    "policy_table",
    "posterior",
    "prior_sensitivity",
    "priors",
    "read_transitions",
    "report",
    "reporting",
    "restrict",
    "storage",
    "validate",
    "worlds",
]
