"""Other ways to get uncertainties, which the paper argues against.

Each is written as its authors describe it, made as fast as we can, and answers with the
same `bayesmdp.Evaluation`, so that it can be set beside `bayesmdp.evaluate`; networks
add how their training went (`QuantileEvaluation`).
"""

from bayesmdp.rivals._quantile import (
    QuantileEvaluation,
    QuantileHistory,
    quantile_evaluate,
)
from bayesmdp.rivals._rollouts import rollout_evaluate, truncation_bound

__all__ = [
    "QuantileEvaluation",
    "QuantileHistory",
    "quantile_evaluate",
    "rollout_evaluate",
    "truncation_bound",
]
