"""Actions of a state share what their state does.

::

    mu[s]      ~ Dirichlet(k[s] g[s])     what happens in state s, whatever is done
    theta[s,a] ~ Dirichlet(c[s] mu[s])    what action a makes of it; c = inf: mu itself

Independent rows say, before any data, that actions of a state differ as much as states
do, and the best of noisy actions is then taken for an effect. Here "no effect" has
positive probability, in each state and, through what states have in common, in all of
them: ``c[s]`` is infinite with probability ``w``, else log-normal with a location and a
scale that are learnt, its density nowhere below 3 % of its peak, so that a state may
differ from all others; ``w`` is uniform. How well the base describes a state differs
between states, too: ``k[s]`` is log-normal, location and scale learnt. (One ``k`` for
all took what the base cannot say about some states for effects of their actions.)
`bayesmdp.fit` keeps states of Markov chains, see `bayesmdp.posterior._hierarchical`.

**The base measure** ``g`` says where a state leads that was never left. It is made from
the next states of other states (a base that holds a state's own counts them twice), so
the prior looks at data, and has no evidence.

Strengths stand on 30 points between 1 and 100 times the visits of the most visited
pair; the median of ``k`` is between 0.1 and 10,000, its log sd between 0.3 and 3.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Task
from bayesmdp.priors._support import Support, checked_support, support_rows


@dataclass(frozen=True, eq=False)
class Cells:
    """Next states of each state, sorted, and their base measure."""

    start: IntArray  # [S + 1]
    state: IntArray  # [K]
    next_state: IntArray  # [K]
    observed: BoolArray  # [K], after any action
    base: FloatArray  # [K], sums to 1 in each state


@dataclass(frozen=True, eq=False)
class HierarchicalPrior:
    """Rows of a state's actions around a common one, strengths learnt from data.

    Parameters
    ----------
    base
        ``"marginal"``: next states of all other states together; ``"local"``: more of
        states that are arrived at from the same places; ``"uniform"``: all next states
        (of the support) alike.
    support
        Next states that are possible, as for `SymmetricPrior`; those of all actions of
        a state together. All where not given.
    fallback
        State (or its label) that every row has an entry for, such as death.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.HierarchicalPrior(fallback="death")
    HierarchicalPrior(base='local', fallback='death')
    """

    bases: ClassVar[tuple[str, ...]] = ("local", "marginal", "uniform")
    base: str = "local"
    support: Support = field(default=None, repr=False)
    fallback: Name | None = None

    def __post_init__(self) -> None:
        """Check the base; the rest is checked against a task."""
        if self.base not in self.bases:
            raise PriorError(
                f"`base` must be one of {', '.join(self.bases)}; got {self.base!r:.40}."
            )
        object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Always: next states are what was observed, beside atoms of the base."""
        return True

    def cells(self, counts: Counts, task: Task) -> Cells:
        """Next states that rows of each state have, and their base measure."""
        from bayesmdp.priors._bases import make_cells  # scipy.sparse

        always = np.zeros(0, dtype=np.int64)
        if self.fallback is not None:
            always = np.array([task.state(self.fallback, "fallback")])
        allowed = None if self.support is None else self._allowed(counts, task)
        return make_cells(self.base, counts, task, allowed, always)

    def _allowed(self, counts: Counts, task: Task) -> IntArray:
        """Return the cells of the support; refuse one that rules out the data."""
        n = np.int64(task.n_states)
        pair = np.flatnonzero(np.repeat(~task.is_terminal, task.n_actions))
        rows = support_rows(self.support, pair, task)
        allowed = np.unique(rows.state[rows.row_of_entry] * n + rows.next_state)
        live = ~task.is_terminal[counts.state]
        key = counts.state[live] * n + counts.next_state[live]
        outside = np.setdiff1d(key, allowed)
        if outside.size:
            at, to = divmod(int(outside[0]), task.n_states)
            raise PriorError(
                f"`support` rules out state {task.state_name(to)} after "
                f"state {task.state_name(at)}, which was observed; widen it."
            )
        return allowed

    def weights(self, counts: Counts, task: Task) -> FloatArray:
        """Return what next states weigh before any is known to follow, ``[S]``."""
        if self.base == "uniform":
            return np.full(task.n_states, 1.0 / task.n_states)
        arrivals = np.bincount(counts.next_state, counts.count, task.n_states)
        return np.asarray(arrivals + unseen_visits(arrivals) / task.n_states)


def unseen_visits(arrivals: FloatArray | IntArray) -> float:
    """Visits, spread evenly, that stand for next states nobody arrived at.

    As many as there are states with a single arrival (Good 1953), at least one.
    """
    return max(float((arrivals == 1).sum()), 1.0)
