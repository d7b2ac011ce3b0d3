"""The symmetric prior under which the data are most probable.

Bayesian model selection as in the paper (appendix, "Bayesian model selection"; 0.072 on
its clinical data): one concentration for all pairs, chosen to maximise the marginal
likelihood of the available pairs (type II maximum likelihood, empirical Bayes). One
number chosen from thousands of counts costs little honesty, but some: its
uncertainty is not in the posterior, and the evidence at its maximum a little too good.
`evidence_curve` shows how sharp the maximum is.
"""

from dataclasses import dataclass, field

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.model import Rows, Task
from bayesmdp.priors._contract import counted
from bayesmdp.priors._marginal import Tally
from bayesmdp.priors._search import find_peak, rounded
from bayesmdp.priors._support import Support, checked_support, support_lengths
from bayesmdp.priors._symmetric import SymmetricPrior


@dataclass(frozen=True, eq=False)
class EvidencePrior:
    """Symmetric Dirichlet whose concentration maximises the evidence.

    The concentration is found between 1e-6 and 1e6, to six digits, from the pairs that
    `fit` keeps; so the rows of a pair depend on the data of the others, and on
    ``min_count``. Where the evidence has no maximum inside (every pair always led to
    the same next state, say), the data cannot choose, and it is an error.

    Parameters
    ----------
    support
        Which next states are possible, as for `SymmetricPrior`.

    References
    ----------
    MacKay and Peto (1995), A hierarchical Dirichlet language model, Natural Language
    Engineering 1.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> posterior = bm.fit(world.sample(500, seed=0), world.task,
    ...                    prior=bm.EvidencePrior())
    >>> print(posterior.summary().splitlines()[1].strip())
    prior: EvidencePrior(), which chose SymmetricPrior(concentration=0.0...)
    """

    support: Support = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Copy the support."""
        object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Not in the sense that spoils evidence: the support is fixed in advance."""
        return False

    def tuned(self, pair: IntArray, counts: Counts, task: Task) -> SymmetricPrior:
        """Return the symmetric prior that is chosen for sorted pairs ``[R]``."""
        row, _, count = counted(pair, counts, task)
        tally = Tally.of(support_lengths(self.support, pair, task), row, count)
        peak = find_peak(tally.log_evidence)
        best = peak.needs_inside(
            "EvidencePrior", "give a number, as in SymmetricPrior(0.1)"
        )
        return SymmetricPrior(rounded(best), self.support)

    def concentrations(
        self, pair: IntArray, counts: Counts, task: Task
    ) -> tuple[Rows, FloatArray]:
        """Dirichlet parameters before the data, for sorted pairs ``[R]``."""
        chosen = self.tuned(pair, counts, task)
        return chosen.concentrations(pair, counts, task)
