"""Refusals, worded once."""

from bayesmdp.errors import BeliefError
from bayesmdp.posterior import Counted, Posterior, refuse_other_rows


def needs_counts(what: str, belief: object) -> None:
    """Refuse a belief without logged counts."""
    _needs(what, belief, isinstance(belief, Counted), "logged counts")


def needs_rows(what: str, belief: object) -> None:
    """Refuse a belief that is not one of independent Dirichlet rows."""
    refuse_other_rows(what, belief)
    _needs(what, belief, isinstance(belief, Posterior), "Dirichlet rows")


def _needs(what: str, belief: object, has: bool, needed: str) -> None:
    if not has:
        raise BeliefError(
            f"`{what}` needs {needed}, which {type(belief).__name__} does not have; "
            "use a posterior from `bayesmdp.fit`."
        )
