"""Priors that are made of others: one with a bad state added, several at once.

**Fallback.** Adds ``weight`` to the concentration of the fallback (death, failure) in
every row, and the fallback to the support of rows that lack it. A pair with ``n``
visits then leads there with a mean probability of at least ``weight / (n + weight +
prior)``: little data is bad news, as in the paper's conservative model (section 5.3).

Pseudo-counts are part of a Dirichlet prior, so the evidence is defined where the base
is a Dirichlet prior that does not look at the data. It judges the base with the
pessimism added. Where the base chooses its concentration by evidence, it does so before
the fallback is added.

Over a `RandomSupportPrior` they are what they are for a Dirichlet: ``weight``
pseudo-counts, which multiply the density of every row by
``theta[fallback]^weight``. The fallback is then possible for sure, and the posterior is
that of the base with the pseudo-counts among the counts; rows, draws and evidence are
exact. A fallback that the base's support rules out has the concentration ``weight``
alone, in every set.

**Mixture**, which is Bayesian model averaging. One of the priors is right, which one is
not known: prior ``c`` has probability ``w[c]``. After the data ``D`` it has ::

    P(c | D) ~ w[c] P(D | c),

``P(D | c)`` the evidence, and the posterior is the mixture of the components' own.
Every draw belongs to one component as a whole, so all its rows share the
uncertainty about the prior.

**Components without evidence.** Where a prior looks at the data to make its rows
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
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import ArrayLike, FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.errors import BayesmdpError, PriorError
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import (
    OwnEvidence,
    Prior,
    checked_concentration,
    including,
    rows_of,
    tuned,
)
from bayesmdp.priors._hierarchical import HierarchicalPrior
from bayesmdp.priors._random_support import Imagined, OnSets

T = TypeVar("T")


@dataclass(frozen=True)
class FallbackPrior:
    """A prior with additional pseudo-counts on a bad state in every row.

    Parameters
    ----------
    base
        Any other prior.
    fallback
        State (or its label) that is always possible, such as death.
    weight
        Its extra pseudo-count, above 0.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(3, 1, reward=[0, 1, 0], discount=0.9, terminal=[1, 2])
    >>> counts = bm.Counts.from_arrays([0], [0], [1])
    >>> prior = bm.FallbackPrior(bm.ScaledPrior(1.0), fallback=2, weight=2.0)
    >>> prior
    FallbackPrior(base=ScaledPrior(total=1.0), fallback=2, weight=2.0)
    >>> bm.fit(counts, task, prior=prior).mean().to_dense()[0, 0].round(3).tolist()
    [0.083, 0.333, 0.583]
    """

    base: Prior
    fallback: Name
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Check base and weight; the fallback is checked against the task."""
        check_dirichlet("base", self.base)
        if self.fallback is None:
            raise PriorError("`fallback` must be a state or its label; got None.")
        object.__setattr__(self, "weight", checked_concentration(self.weight, "weight"))

    @property
    def looks_at_data(self) -> bool:
        """Where the base does, or has an evidence that no fallback can be added to."""
        own = isinstance(self.base, OwnEvidence) and not isinstance(self.base, OnSets)
        return self.base.looks_at_data or own

    def tuned(self, pair: IntArray, counts: Counts, task: Task) -> Prior:
        """Return the prior with the numbers its base chooses."""
        base = tuned(self.base, pair, counts, task)
        return self if base is self.base else replace(self, base=base)

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        base, imagined = without_fallbacks(self)
        if isinstance(base, OnSets):
            return base.on_sets(pair, counts, task, imagined)[:2]
        fallback = task.state(self.fallback, "fallback")
        rows, before = rows_of(self.base, pair, counts, task)
        rows, at = including(rows, fallback, task)
        alpha = np.insert(np.asarray(before, dtype=np.float64), at, 0.0)
        _, entry = rows.find(rows.state, rows.action, np.full(pair.size, fallback))
        alpha[entry] += self.weight
        return rows, alpha


def check_dirichlet(name: str, prior: object) -> None:
    """Refuse what is not a prior of Dirichlet rows, to build another on."""
    if isinstance(prior, HierarchicalPrior):
        raise PriorError(
            f"`{name}` must be a prior of Dirichlet rows; got HierarchicalPrior, whose "
            "strengths are learnt together: give it to `fit` as it is, with its own "
            "`fallback` if there is one."
        )
    if isinstance(prior, type) or not isinstance(prior, Prior):
        raise PriorError(
            f"`{name}` must be a prior such as SymmetricPrior(1.0); got {prior!r:.80}."
        )


def without_fallbacks(prior: Prior) -> tuple[Prior, Imagined]:
    """Return what a prior adds fallbacks to, and these; itself if it adds none."""
    added = []
    while isinstance(prior, FallbackPrior):
        added.append((prior.fallback, prior.weight))
        prior = prior.base
    return prior, tuple(added)


@dataclass(frozen=True)
class MixturePrior:
    """Several priors, each with a probability of being the right one.

    `bayesmdp.fit` makes a `MixturePosterior` of it. The posterior weight of a component
    is proportional to its prior weight times its evidence. `EvidencePrior` and similar
    priors enter with the number that they choose, so that their evidence is slightly
    too high.

    Parameters
    ----------
    priors
        Two or more; mixtures of mixtures are not needed.
    weights
        Prior probability of each; equal where not given.
    posterior_weights
        Posterior probability of each, in place of ``weights``: nothing is then learnt
        about which prior is right, and priors without evidence may take part.

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
