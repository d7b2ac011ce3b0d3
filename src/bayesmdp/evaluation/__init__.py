"""How good is it: value and both uncertainties of a policy."""

from bayesmdp.evaluation._action_values import ActionValues, action_values
from bayesmdp.evaluation._analytic import AnalyticEvaluation, evaluate_analytic
from bayesmdp.evaluation._bounds import draws_needed
from bayesmdp.evaluation._compare import Comparison, ComparisonRow, compare
from bayesmdp.evaluation._errors import (
    bootstrap_mcse,
    gaps,
    least_size,
    mean_and_mcse,
    probability,
    tie,
)
from bayesmdp.evaluation._evaluate import (
    Swept,
    as_draws,
    evaluate,
    share_of_visits,
)
from bayesmdp.evaluation._evaluation import Evaluation, plain, quantile, rounded
from bayesmdp.evaluation._off_policy import OffPolicy, off_policy
from bayesmdp.evaluation._rewards import Chosen, one_reward
from bayesmdp.evaluation._rollouts import rollout_evaluate, truncation_bound

__all__ = [
    "ActionValues",
    "AnalyticEvaluation",
    "Chosen",
    "Comparison",
    "ComparisonRow",
    "Evaluation",
    "OffPolicy",
    "Swept",
    "action_values",
    "as_draws",
    "bootstrap_mcse",
    "compare",
    "draws_needed",
    "evaluate",
    "evaluate_analytic",
    "gaps",
    "least_size",
    "mean_and_mcse",
    "off_policy",
    "one_reward",
    "plain",
    "probability",
    "quantile",
    "rollout_evaluate",
    "rounded",
    "share_of_visits",
    "tie",
    "truncation_bound",
]
