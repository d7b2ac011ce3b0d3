"""Any prior, with pseudo-counts of a bad state.

Adds ``weight`` to the concentration of the fallback (death, failure) in every row, and
the fallback to the support of rows that lack it. A pair seen ``n`` times then leads
there with a mean probability of at least ``weight / (n + weight + prior)``: little
data is bad news, as in the paper's conservative model (section 5.3).

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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayesmdp._typing import FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
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


@dataclass(frozen=True)
class FallbackPrior:
    """A prior with extra pseudo-visits to a bad state in every row.

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
