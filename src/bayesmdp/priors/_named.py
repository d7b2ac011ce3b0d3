"""Priors by a word and a number or two, as the command line asks for them."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from bayesmdp._typing import Name
from bayesmdp.errors import PriorError
from bayesmdp.priors._composed import FallbackPrior, MixturePrior
from bayesmdp.priors._contract import Prior, is_restricted
from bayesmdp.priors._evidence import EvidencePrior
from bayesmdp.priors._hierarchical import HierarchicalPrior
from bayesmdp.priors._random_support import RandomSupportPrior
from bayesmdp.priors._symmetric import ScaledPrior, SparsePrior, SymmetricPrior

#: Whatever `bayesmdp.fit` takes.
AnyPrior: TypeAlias = Prior | MixturePrior | HierarchicalPrior
#: Each prior that a word names, with its first parameter where one is given.
_DIRICHLET: dict[str, Callable[..., Prior]] = {
    "symmetric": SymmetricPrior,
    "sparse": SparsePrior,
    "scaled": ScaledPrior,
    "evidence": EvidencePrior,
    "random-support": RandomSupportPrior,
}
PRIOR_NAMES = ("hierarchical", *_DIRICHLET)


def named_prior(
    name: str, *, concentration: float | None = None, fallback: Name | None = None
) -> Prior | HierarchicalPrior:
    """Make a prior by its name.

    ``concentration`` is the prior's own default where not given, and ``fallback`` the
    sparse and the hierarchical prior's own, for others one pseudo-visit.
    """
    if name not in PRIOR_NAMES:
        raise PriorError(
            f"`name` must be one of {', '.join(PRIOR_NAMES)}; got {name!r:.40}."
        )
    if name == "evidence" and concentration is not None:
        raise PriorError(
            "The evidence prior chooses its own concentration: leave it out, or take "
            "the symmetric prior."
        )
    if name == "hierarchical" and concentration is not None:
        raise PriorError(
            "The hierarchical prior learns its strengths from the data: leave the "
            "concentration out, or take the symmetric prior."
        )
    if name == "hierarchical":
        return HierarchicalPrior(fallback=fallback)
    if name == "sparse":
        return SparsePrior(1.0 if concentration is None else concentration, fallback)
    make = _DIRICHLET[name]
    made = make() if concentration is None else make(concentration)
    return made if fallback is None else FallbackPrior(made, fallback)


def usual_priors(
    own: AnyPrior,
    names: Iterable[str] = ("hierarchical", "symmetric", "scaled"),
    *,
    fallback: Name | None = None,
) -> dict[str, AnyPrior]:
    """Return priors to compare one's own with: itself, and others without it."""
    others = {name: named_prior(name, fallback=fallback) for name in names}
    plain = None if is_restricted(own) else repr(own)  # which shows all but supports
    return {"as fitted": own} | {x: p for x, p in others.items() if repr(p) != plain}
