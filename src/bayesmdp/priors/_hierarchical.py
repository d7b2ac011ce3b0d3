"""Actions of a state share what their state does.

::

    mu[s]      ~ Dirichlet(k g[s])        what happens in state s, whatever is done
    theta[s,a] ~ Dirichlet(c[s] mu[s])    what action a makes of it; c = inf: mu itself

Independent rows say, before any data, that actions of a state differ as much as states
do, and the best of noisy actions is then taken for an effect. Here "no effect" has
positive probability, in each state and, through what states have in common, in all of
them: ``c[s]`` is infinite with probability ``w``, else log-normal with a location and a
scale that are learnt; ``w`` is uniform and ``k`` log-uniform. `bayesmdp.fit` keeps
states of Markov chains, see `bayesmdp.posterior._hierarchical`.

**The base measure** ``g`` says where a state leads that was never left. It is made from
the other states' data alone (a base that holds a state's own transitions counts them
twice), so the prior looks at data, and has no evidence.
"""

from dataclasses import dataclass, field

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Task
from bayesmdp.priors._support import Support, checked_support, support_rows

BASES = ("marginal", "uniform")
_ALL = 64  # next states up to which a row has an entry for each
_ATOMS = 32  # that stand for next states which a state was not observed to have
_SMOOTH = 1.0  # visits, spread evenly, that the marginal begins with


@dataclass(frozen=True, eq=False)
class HierarchicalPrior:
    """Rows of a state's actions around a common one, strengths learnt from data.

    Parameters
    ----------
    base
        ``"marginal"``: next states of all other states together; ``"uniform"``: all
        next states (of the support) alike.
    support
        Next states that are possible, as for `SymmetricPrior`; those of all actions of
        a state together. All where not given.
    fallback
        State (or its label) that every row has an entry for, such as death.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.HierarchicalPrior(fallback="death")
    HierarchicalPrior(base='marginal', fallback='death')
    """

    base: str = "marginal"
    support: Support = field(default=None, repr=False)
    fallback: Name | None = None

    def __post_init__(self) -> None:
        """Check the base; the rest is checked against a task."""
        if self.base not in BASES:
            raise PriorError(
                f"`base` must be one of {', '.join(BASES)}; got {self.base!r:.40}."
            )
        object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Always: next states are what was observed, beside atoms of the base."""
        return True

    def cells(self, counts: Counts, task: Task) -> "Cells":
        """Next states that rows of each state have, and their base measure."""
        live = ~task.is_terminal[counts.state]
        key = np.unique(
            counts.state[live] * np.int64(task.n_states) + counts.next_state[live]
        )
        atoms = self._atoms(counts, task)
        every = np.flatnonzero(~task.is_terminal)
        more = (every[:, None] * np.int64(task.n_states) + atoms).ravel()
        if self.support is not None:
            more = self._supported(task)
            outside = np.setdiff1d(key, more)
            if outside.size:
                at, to = divmod(int(outside[0]), task.n_states)
                raise PriorError(
                    f"`support` rules out state {task.state_name(to)} after "
                    f"state {task.state_name(at)}, which was observed; widen it."
                )
        every_key = np.union1d(key, more)
        state, next_state = every_key // task.n_states, every_key % task.n_states
        observed = np.isin(every_key, key)
        base = self._base(state, next_state, observed, counts, task)
        start = np.searchsorted(state, np.arange(task.n_states + 1))
        return Cells(start, state, next_state, observed, base)

    def _supported(self, task: Task) -> IntArray:
        pair = np.flatnonzero(np.repeat(~task.is_terminal, task.n_actions))
        rows = support_rows(self.support, pair, task)
        return np.unique(
            rows.state[rows.row_of_entry] * np.int64(task.n_states) + rows.next_state
        )

    def weights(self, counts: Counts, task: Task) -> FloatArray:
        """Weight of each next state ``[S]`` in the base of states without it."""
        weight = np.full(task.n_states, _SMOOTH / task.n_states)
        if self.base == "marginal":
            weight += np.bincount(counts.next_state, counts.count, task.n_states)
        return weight

    def _atoms(self, counts: Counts, task: Task) -> IntArray:
        """Next states that every state has entries for: all, or some of the base."""
        if task.n_states <= _ALL:
            return np.arange(task.n_states)
        weight = self.weights(counts, task)
        weight[task.terminal] = 0.0
        order = np.argsort(_rough_values(counts, task), kind="stable")
        mass = np.cumsum(weight[order])
        at = (np.arange(_ATOMS) + 0.5) / _ATOMS * mass[-1]
        atoms = order[np.searchsorted(mass, at)]
        kept = [atoms, task.terminal[:_ATOMS]]
        if self.fallback is not None:
            kept.append(np.array([task.state(self.fallback, "fallback")]))
        return np.unique(np.concatenate(kept))

    def _base(
        self,
        state: IntArray,
        next_state: IntArray,
        observed: BoolArray,
        counts: Counts,
        task: Task,
    ) -> FloatArray:
        """Return the base measure of each cell ``[K]``, which sums to 1 in a state.

        Next states without a cell give their mass to the cells that were not observed
        and are not terminal: atoms stand for them.
        """
        n = task.n_states
        base = np.full(state.size, 1.0)
        whole = np.full(n, float(n))
        if self.base == "marginal":
            arrivals = np.bincount(counts.next_state, counts.count, n)
            own = np.zeros(state.size)
            key = state * np.int64(n) + next_state
            logged = counts.state * np.int64(n) + counts.next_state
            place = np.searchsorted(key, logged)
            place = np.minimum(place, key.size - 1)
            mine = key[place] == logged
            np.add.at(own, place[mine], counts.count[mine])
            base = arrivals[next_state] - own + _SMOOTH / n
            left = np.bincount(counts.state, counts.count, n)
            whole = counts.total - left + _SMOOTH
        if self.support is not None or task.n_states <= _ALL:
            total = np.bincount(state, base, n)
            return np.asarray(base / total[state])
        base = base / whole[state]
        atom = ~observed & ~task.is_terminal[next_state]
        rest = np.maximum(1.0 - np.bincount(state, base * ~atom, n), 0.0)
        number = np.bincount(state, atom, n)
        base = np.where(atom, (rest / np.maximum(number, 1))[state], base)
        return np.asarray(base / np.bincount(state, base, n)[state])


@dataclass(frozen=True, eq=False)
class Cells:
    """Next states of each state, sorted, and their base measure."""

    start: IntArray  # [S + 1]
    state: IntArray  # [K]
    next_state: IntArray  # [K]
    observed: BoolArray  # [K], after any action
    base: FloatArray  # [K]


def _rough_values(counts: Counts, task: Task) -> FloatArray:
    """Value of each state under what was done, by some sweeps over frequencies.

    Atoms are spread along it, so that they represent good and bad next states alike.
    """
    from scipy.sparse import csr_array

    n = task.n_states
    live = ~task.is_terminal[counts.state]
    state, count = counts.state[live], counts.count[live].astype(np.float64)
    total = np.maximum(np.bincount(state, count, n), 1.0)
    reward = task.transition_reward(state, counts.action[live], counts.next_state[live])
    paid = np.bincount(state, count * reward, n) / total
    chain = csr_array(
        (count / total[state], (state, counts.next_state[live])), shape=(n, n)
    )
    value = np.array(task.terminal_value, dtype=np.float64)
    end = task.terminal_value
    for _ in range(50):
        value = np.where(
            task.is_terminal, end, paid + task.discount * (chain @ value - chain @ end)
        )
    return value
