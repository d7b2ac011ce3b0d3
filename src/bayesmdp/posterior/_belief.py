"""What counts as a belief, checked in one place."""

from bayesmdp.errors import BeliefError
from bayesmdp.posterior._ensemble import Ensemble
from bayesmdp.posterior._posterior import Posterior


def check_belief(posterior: object) -> None:
    """Refuse what is neither a posterior nor an ensemble."""
    if not isinstance(posterior, Posterior | Ensemble):
        raise BeliefError(
            "`posterior` must be a Posterior or an Ensemble; got "
            f"{type(posterior).__name__}."
        )
