"""Costs and effects: which of several policies is worth its price, and how surely."""

from bayesmdp.economics._cost_effectiveness import (
    beta_from_mean_sd,
    cost_effectiveness,
    from_samples,
    gamma_from_mean_sd,
    lognormal_from_interval,
)
from bayesmdp.economics._record import CostEffectiveness, CostEffectivenessRow

__all__ = [
    "CostEffectiveness",
    "CostEffectivenessRow",
    "beta_from_mean_sd",
    "cost_effectiveness",
    "from_samples",
    "gamma_from_mean_sd",
    "lognormal_from_interval",
]
