"""What is believed: Dirichlet rows or a set of models, and draws from them."""

from bayesmdp.model import Availability
from bayesmdp.posterior._belief import check_belief
from bayesmdp.posterior._draws import Draws
from bayesmdp.posterior._ensemble import Ensemble
from bayesmdp.posterior._posterior import Posterior, fit

__all__ = [
    "Availability",
    "Draws",
    "Ensemble",
    "Posterior",
    "check_belief",
    "fit",
]
