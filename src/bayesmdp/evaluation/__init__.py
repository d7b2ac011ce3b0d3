"""How good is it: value and both uncertainties of a policy."""

from bayesmdp._sheet import as_plain as plain
from bayesmdp._sheet import between, rounded, significant
from bayesmdp.evaluation._action_values import ActionValues, action_values
from bayesmdp.evaluation._analytic import AnalyticEvaluation, evaluate_analytic
from bayesmdp.evaluation._compare import Comparison, ComparisonRow, compare
from bayesmdp.evaluation._errors import (
    bootstrap_mcse,
    gaps,
    least_size,
    mean_and_mcse,
    plain_mcse,
    probability,
    share_mcse,
    tie,
)
from bayesmdp.evaluation._evaluate import (
    Chosen,
    Swept,
    as_draws,
    evaluate,
    one_reward,
    share_of_visits,
)
from bayesmdp.evaluation._evaluation import Evaluation, in_costs, interval_of, quantile
from bayesmdp.evaluation._off_policy import OffPolicy, off_policy
from bayesmdp.evaluation._rollouts import (
    draws_needed,
    rollout_evaluate,
    truncation_bound,
)
from bayesmdp.evaluation._to_go import ValuesToGo, values_to_go

__all__ = [
    "ActionValues",
    "AnalyticEvaluation",
    "Chosen",
    "Comparison",
    "ComparisonRow",
    "Evaluation",
    "OffPolicy",
    "ValuesToGo",
    "action_values",
    "compare",
    "draws_needed",
    "evaluate",
    "evaluate_analytic",
    "gaps",
    "off_policy",
    "probability",
    "quantile",
    "rollout_evaluate",
    "rounded",
    "tie",
    "truncation_bound",
    "values_to_go",
]
