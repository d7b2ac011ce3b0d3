"""What is believed: Dirichlet rows over the available pairs, and draws from them."""

from bayesmdp.posterior._availability import Availability
from bayesmdp.posterior._draws import Draws
from bayesmdp.posterior._posterior import Posterior, fit

__all__ = ["Availability", "Draws", "Posterior", "fit"]
