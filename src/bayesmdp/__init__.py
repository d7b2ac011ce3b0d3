"""From logged transitions to a policy you can defend.

The everyday names; each lives in the room its docstring names, and nothing is computed
here.
"""

from bayesmdp import data, errors, evaluation, model, posterior, priors, worlds
from bayesmdp._version import __version__
from bayesmdp.data import Counts, Transitions
from bayesmdp.errors import BayesmdpError, BayesmdpWarning
from bayesmdp.evaluation import (
    AnalyticEvaluation,
    Evaluation,
    draws_needed,
    evaluate,
    evaluate_analytic,
)
from bayesmdp.model import Dynamics, Task, restrict
from bayesmdp.posterior import Draws, Posterior, fit
from bayesmdp.priors import SparsePrior, SymmetricPrior
from bayesmdp.worlds import World

__all__ = [
    "AnalyticEvaluation",
    "BayesmdpError",
    "BayesmdpWarning",
    "Counts",
    "Draws",
    "Dynamics",
    "Evaluation",
    "Posterior",
    "SparsePrior",
    "SymmetricPrior",
    "Task",
    "Transitions",
    "World",
    "__version__",
    "data",
    "draws_needed",
    "errors",
    "evaluate",
    "evaluate_analytic",
    "evaluation",
    "fit",
    "model",
    "posterior",
    "priors",
    "restrict",
    "worlds",
]
