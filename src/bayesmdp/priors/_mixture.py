"""Several priors at once: Bayesian model averaging.

One of the priors is right, which one is not known: prior ``c`` has probability
``w[c]``. After the data ``D`` it has ::

    P(c | D) ~ w[c] P(D | c),

``P(D | c)`` the evidence, and the posterior is the mixture of the components' own.
Every draw belongs to one component as a whole, so all its rows share the
uncertainty about the prior.

**Priors without evidence.** Where a prior looks at the data to make its rows
(`SparsePrior`), the probability of the data before seeing them is not
defined: it would be 1 for a prior that allows the observed alone, as if it had known.
Held-out density is defined for all priors, but it answers another question (how well
does half the data predict the rest?) and is on another scale: a product over a test
set is not a factor of the posterior, so weights that mix the two would not be
probabilities of anything. So such a component is refused, unless the weights after the
data are given: ``posterior_weights``, from held-out density (stacking, Yao et al.
2018), from experts, or equal. They are then what the user says they are, and the
mixture has no evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import ArrayLike, FloatArray
from bayesmdp.errors import BayesmdpError, PriorError
from bayesmdp.priors._contract import Prior
from bayesmdp.priors._fallback import check_dirichlet
from bayesmdp.priors._hierarchical import HierarchicalPrior

T = TypeVar("T")


@dataclass(frozen=True)
class MixturePrior:
    """Several priors, each with a probability of being the right one.

    `bayesmdp.fit` makes a `MixturePosterior` of it. The weight of a component after the
    data is its weight before times its evidence. `EvidencePrior` and its like are taken
    at the number they choose, and so look a little better than they are.

    Parameters
    ----------
    priors
        Two or more; mixtures of mixtures are not needed.
    weights
        Probability of each before the data; equal where not given.
    posterior_weights
        Probability of each after the data, in place of ``weights``: nothing is then
        learnt about which prior is right, and priors without evidence may take part.

    References
    ----------
    Hoeting et al. (1999), Bayesian model averaging: a tutorial, Statistical Science 14.
    Yao et al. (2018), Using stacking to average Bayesian predictive distributions,
    Bayesian Analysis 13.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> prior = bm.MixturePrior([bm.ScaledPrior(1.0), bm.ScaledPrior(3.0)])
    >>> posterior = bm.fit(world.sample(50, seed=0), world.task, prior=prior)
    >>> posterior.weights.round(3).tolist()
    [0.907, 0.093]
    >>> bm.MixturePrior([bm.SparsePrior(), bm.ScaledPrior()],
    ...                 posterior_weights=[0.8, 0.2]).posterior_weights
    (0.8, 0.2)
    """

    priors: Sequence[Prior | HierarchicalPrior]  # a tuple, once made
    weights: ArrayLike | None = None  # as are these
    posterior_weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        """Check the components and their weights."""
        object.__setattr__(self, "priors", _checked(self.priors))
        if self.weights is not None and self.posterior_weights is not None:
            raise PriorError(
                "Give `weights` (before the data) or `posterior_weights` (after them), "
                "not both."
            )
        for name in ("weights", "posterior_weights"):
            given = getattr(self, name)
            if given is not None:
                n = len(self.priors)
                found = _checks.shares(name, given, "prior", n, PriorError)
                object.__setattr__(self, name, tuple(found.tolist()))

    @property
    def looks_at_data(self) -> bool:
        """Where weights are given after the data; evidence then has no meaning."""
        return self.posterior_weights is not None

    @property
    def shares_before(self) -> FloatArray:
        """Probability of each component before the data, ``[C]``."""
        n = len(self.priors)
        return np.full(n, 1.0 / n) if self.weights is None else np.array(self.weights)

    def each(self, work: Callable[[Prior | HierarchicalPrior], T]) -> list[T]:
        """Do something with every component; errors say with which."""
        found = []
        for i, prior in enumerate(self.priors):
            try:
                found.append(work(prior))
            except BayesmdpError as problem:
                raise type(problem)(f"`priors[{i}]`: {problem}") from problem
        return found

    def check_evidence(self) -> None:
        """Refuse components that cannot be weighted by evidence."""
        if self.looks_at_data:
            return
        for i, prior in enumerate(self.priors):
            if prior.looks_at_data:
                raise PriorError(
                    f"`priors[{i}]`, a {type(prior).__name__}, looks at the data to "
                    "make its rows, so the probability of the data under it is not "
                    "defined, and held-out density is another quantity that makes no "
                    "posterior; say yourself how likely each prior is after the data: "
                    "MixturePrior([...], posterior_weights=[...])."
                )


def _checked(priors: object) -> tuple[Prior | HierarchicalPrior, ...]:
    """Return two or more priors as a tuple."""
    if isinstance(priors, str | dict) or not isinstance(priors, Iterable):
        raise PriorError(
            f"`priors` must be a list of priors; got {type(priors).__name__}."
        )
    found = tuple(priors)
    for i, prior in enumerate(found):
        if isinstance(prior, MixturePrior):
            raise PriorError(
                f"`priors[{i}]` is a mixture itself; list its components instead, with "
                "their weights times its own."
            )
        if not isinstance(prior, HierarchicalPrior):
            check_dirichlet(f"priors[{i}]", prior)
    if len(found) < 2:
        raise PriorError(
            f"`priors` must hold at least two priors; got {len(found)}: one alone goes "
            "to `fit` as it is."
        )
    return found
