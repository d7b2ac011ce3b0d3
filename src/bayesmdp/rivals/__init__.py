"""Other uncertainties: what the paper argues against, behind the same record."""

from bayesmdp.rivals._quantile import (
    QuantileEvaluation,
    QuantileHistory,
    quantile_evaluate,
)

__all__ = ["QuantileEvaluation", "QuantileHistory", "quantile_evaluate"]
