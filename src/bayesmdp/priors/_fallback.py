"""Any prior, and a bad state to be careful about.

Adds ``weight`` to the concentration of the fallback (death, failure) in every row, and
the fallback to the support of rows that lack it. A pair seen ``n`` times then leads
there with a mean probability of at least ``weight / (n + weight + prior)``: little
data is bad news, as in the paper's conservative model (section 5.3).

Pseudo-counts are part of a Dirichlet prior, so the evidence is defined where the base
is a Dirichlet prior that does not look at the data. It judges the base with the
pessimism added. Where the base chooses its concentration by evidence, it does so before
the fallback is added.
"""

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
    rows_from_keys,
    tuned,
)


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
        if isinstance(self.base, type) or not isinstance(self.base, Prior):
            raise PriorError(
                "`base` must be a prior such as SymmetricPrior(1.0); got "
                f"{self.base!r:.80}."
            )
        if self.fallback is None:
            raise PriorError("`fallback` must be a state or its label; got None.")
        object.__setattr__(self, "weight", checked_concentration(self.weight, "weight"))

    @property
    def looks_at_data(self) -> bool:
        """Where the base does, or its rows are not Dirichlet before the data."""
        return self.base.looks_at_data or isinstance(self.base, OwnEvidence)

    def tuned(self, pair: IntArray, counts: Counts, task: Task) -> Prior:
        """Return the prior with the numbers its base chooses."""
        base = tuned(self.base, pair, counts, task)
        return self if base is self.base else replace(self, base=base)

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        fallback = task.state(self.fallback, "fallback")
        rows, alpha = self.base.concentrations(pair, counts, task)
        _, entry = rows.find(rows.state, rows.action, np.full(pair.size, fallback))
        missing = np.flatnonzero(entry < 0)
        alpha = np.array(alpha, dtype=np.float64)
        alpha[entry[entry >= 0]] += self.weight
        if missing.size == 0:
            return rows, alpha
        key = rows.row_of_entry * task.n_states + rows.next_state
        new = missing * task.n_states + fallback
        at = np.searchsorted(key, new)
        wider = rows_from_keys(pair, np.insert(key, at, new), task)
        return wider, np.insert(alpha, at, self.weight)
