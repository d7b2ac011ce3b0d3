"""Refusals, worded once."""

from bayesmdp.errors import BeliefError
from bayesmdp.posterior import Posterior


def needs_posterior(what: str, belief: object, needed: str) -> None:
    """Refuse a belief without counts and Dirichlet rows."""
    if not isinstance(belief, Posterior):
        raise BeliefError(
            f"`{what}` needs {needed}, which {type(belief).__name__} does not have; "
            "use a posterior from `bayesmdp.fit`."
        )
