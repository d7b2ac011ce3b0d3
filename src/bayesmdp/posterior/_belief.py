"""What counts as a belief, checked in one place."""

from typing import TypeAlias, TypeGuard

from bayesmdp.errors import BeliefError
from bayesmdp.posterior._ensemble import Ensemble
from bayesmdp.posterior._mixture import MixturePosterior
from bayesmdp.posterior._posterior import Posterior

Counted: TypeAlias = Posterior | MixturePosterior  # has logged counts
Belief: TypeAlias = Counted | Ensemble


def check_belief(posterior: object) -> None:
    """Refuse what is neither a posterior nor an ensemble."""
    if not isinstance(posterior, Belief):
        raise BeliefError(
            "`posterior` must be a Posterior or an Ensemble; got "
            f"{type(posterior).__name__}."
        )


def has_dirichlet_rows(belief: object) -> TypeGuard[Posterior]:
    """Whether rows are independent, each a Dirichlet."""
    return isinstance(belief, Posterior) and belief.sets is None


def refuse_other_rows(what: str, posterior: object) -> None:
    """Refuse a posterior whose rows are not independent, or not Dirichlet."""
    if isinstance(posterior, MixturePosterior):
        raise BeliefError(
            f"`{what}` needs independent Dirichlet rows, and those of a mixture share "
            "their prior; use one of `posterior.components`."
        )
    if isinstance(posterior, Posterior) and not has_dirichlet_rows(posterior):
        raise BeliefError(
            f"`{what}` needs Dirichlet rows, and with {posterior.prior} which next "
            "states are possible is in doubt; use draws, or another prior."
        )
