"""How good is it: value and both uncertainties of a policy."""

from bayesmdp.evaluation._analytic import AnalyticEvaluation, evaluate_analytic
from bayesmdp.evaluation._bounds import draws_needed
from bayesmdp.evaluation._evaluate import evaluate
from bayesmdp.evaluation._evaluation import Evaluation

__all__ = [
    "AnalyticEvaluation",
    "Evaluation",
    "draws_needed",
    "evaluate",
    "evaluate_analytic",
]
