"""Priors by a word and a number or two, as the command line asks for them."""

from collections.abc import Callable

from bayesmdp._typing import Name
from bayesmdp.errors import PriorError
from bayesmdp.priors._contract import Prior
from bayesmdp.priors._evidence import EvidencePrior
from bayesmdp.priors._fallback import FallbackPrior
from bayesmdp.priors._mixture import MixturePrior
from bayesmdp.priors._pooled import PooledPrior
from bayesmdp.priors._random_support import RandomSupportPrior
from bayesmdp.priors._scaled import ScaledPrior
from bayesmdp.priors._sparse import SparsePrior
from bayesmdp.priors._symmetric import SymmetricPrior

#: Each prior that a word names, with its first parameter where one is given.
_NAMED: dict[str, Callable[..., Prior]] = {
    "symmetric": SymmetricPrior,
    "sparse": SparsePrior,
    "scaled": ScaledPrior,
    "evidence": EvidencePrior,
    "random-support": RandomSupportPrior,
    "pooled": PooledPrior,
}


def named_prior(
    name: str, *, concentration: float | None = None, fallback: Name | None = None
) -> Prior:
    """Make a prior by its name.

    Parameters
    ----------
    name
        ``symmetric``, ``sparse``, ``scaled``, ``evidence``, ``random-support`` or
        ``pooled``.
    concentration
        Pseudo-count of a possible next state (of a whole row for ``scaled`` and
        ``pooled``); the prior's own default where not given. ``evidence`` has none.
    fallback
        State that is always possible, such as death: the sparse prior's own, for
        others one pseudo-visit by `FallbackPrior`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.priors.named_prior("scaled", fallback="death")
    FallbackPrior(base=ScaledPrior(total=1.0), fallback='death', weight=1.0)
    """
    if name not in _NAMED:
        raise PriorError(
            f"`name` must be one of {', '.join(_NAMED)}; got {name!r:.40}."
        )
    if name == "evidence" and concentration is not None:
        raise PriorError(
            "The evidence prior chooses its own concentration: leave it out, or take "
            "the symmetric prior."
        )
    if name == "sparse":
        return SparsePrior(1.0 if concentration is None else concentration, fallback)
    base = _NAMED[name]() if concentration is None else _NAMED[name](concentration)
    return base if fallback is None else FallbackPrior(base, fallback)


def usual_priors(own: Prior | MixturePrior) -> dict[str, Prior | MixturePrior]:
    """Return priors to hold one's own against: itself, and two that fit any data.

    Parameters
    ----------
    own
        The prior of a posterior.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> list(bm.priors.usual_priors(bm.SparsePrior()))
    ['as fitted', 'symmetric', 'scaled']
    """
    usual: dict[str, Prior] = {"symmetric": SymmetricPrior(), "scaled": ScaledPrior()}
    others = {name: prior for name, prior in usual.items() if prior != own}
    return {"as fitted": own, **others}
