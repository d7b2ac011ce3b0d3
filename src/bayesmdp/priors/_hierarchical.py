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

Strengths stand on 30 points between 1 and 100 times the visits of the most visited
pair; the median of ``k`` is between 0.1 and 10,000, its log sd between 0.3 and 3.

**The base measure** ``g`` says where a state leads that was never left. A base that
holds a state's own next states counts them twice, so every base is made from the next
states of *other* states. (Numbers that all states share are fitted to all transitions.)
So the prior looks at data, and has no evidence.

``"marginal"``: next states of all other states together.

``"local"``: next states of states that are arrived at from the same places. With
``n[s,t]`` visits, ``f[p]`` the share of transitions that leave ``p`` and ``q[p,s]`` the
share of arrivals at ``s`` that come from ``p`` ::

    affinity[s,z] = sum_p q[p,s] q[p,z] / f[p] - 1      where positive, z and p not s
    local[s]      = sum_z affinity[s,z] n[z,:]          normalised

(0 where arrivals at ``s`` say nothing about arrivals at ``z``). It is mixed with the
marginal; the share that it gets maximises the likelihood of all transitions, each under
the base of its state, which was made without it.

**Calibration.** What similar states do is less extreme than what a state does, and a
base that flatters the worst states biases every value. Above 64 states the local base
is therefore tilted by how good a next state is, ``h[s,t]`` (reward and rough value) ::

    base[s,t] exp(tau[s] h[s,t]),   tau[s] = a + b sum_t base[s,t] h[s,t]

with ``a`` and ``b`` shared by all states and fitted to their transitions; states count
by ``visits * _WEIGHT / (visits + _WEIGHT)``, about as much as they lean on their base.

**Atoms.** Up to 64 states a row has an entry for each. Above, next states that were not
observed after a state are represented by some of them, spread evenly over the mass they
stand for in the order of their rough values: for the marginal the same ones in every
state, for the local base each state's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Task
from bayesmdp.priors._contract import Support, checked_support, support_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_ALL = 64  # states up to which a row has an entry for each
_ATOMS, _FEW = 16, 4  # of the marginal; where it stands beside a local base
_OWN = 10  # atoms of the local base
_ENDS = 64  # terminal states that every row has an entry for
_LEAST = 1e-12  # base measure of a cell
_RIDGE = 0.5  # of a and b, which few transitions would make extreme
_WEIGHT = 50.0  # visits from which a state leans on its base less than on itself
_MOST = 1000  # next states of a place above which arriving from it says too little


@dataclass(frozen=True, eq=False)
class Cells:
    """Next states of each state, sorted, and their base measure."""

    start: IntArray  # [S + 1]
    state: IntArray  # [K]
    next_state: IntArray  # [K]
    observed: BoolArray  # [K], after any action
    base: FloatArray  # [K], sums to 1 in each state


def make_cells(
    base: str, counts: Counts, task: Task, allowed: IntArray | None, always: IntArray
) -> Cells:
    """Lay out the next states of each state, with their base measure.

    Parameters
    ----------
    base
        ``"local"``, ``"marginal"`` or ``"uniform"``.
    counts, task
        The data.
    allowed
        Keys ``state * n_states + next_state`` that are possible; None for all.
    always
        States that every row has an entry for.
    """
    from scipy.sparse import csr_array

    n, flow = task.n_states, _flow(counts, task)
    local, share = csr_array((n, n), dtype=np.float64), 0.0
    if base == "local" and flow.nnz > 0:
        local, share = _local(flow, task)
    share_of = np.where(np.diff(local.indptr) > 0, share, 0.0)
    key = _sure_keys(flow, task, allowed, always)
    marginal = _marginal(base, flow, key // n, key % n)
    near = _at(local, key)
    mass = (1 - share_of[key // n]) * marginal + share_of[key // n] * near
    if allowed is None and n > _ALL:
        rough, _ = _scores(_keys(flow), flow.data, counts, task)
        left = (1 - share_of) * _left(marginal, key // n, n)
        shared = _shared_atoms(base, flow, rough, task, key, left)
        own = _own_atoms(local, rough, key, share_of * _left(near, key // n, n))
        every, more = zip((key, mass), shared, own, strict=True)
        key, place = np.unique(np.concatenate(every), return_inverse=True)
        mass = np.bincount(place, np.concatenate(more)).astype(np.float64)
    state, visits = key // n, _at(flow, key)
    mass = mass / np.bincount(state, mass, n)[state]
    if base == "local" and n > _ALL:
        _, score = _scores(key, visits + 10 * mass, counts, task)
        mass = _calibrated(state, mass, visits, score, n)
    start = np.searchsorted(state, np.arange(n + 1))
    return Cells(start, state, key % n, visits > 0, mass)


def _sure_keys(
    flow: csr_array, task: Task, allowed: IntArray | None, always: IntArray
) -> IntArray:
    """Return the cells that have their own base measure, whatever the atoms."""
    n = task.n_states
    to = np.arange(n)
    if allowed is not None:
        to = always
    elif n > _ALL:
        to = np.union1d(always, task.terminal[:_ENDS])
    of_all = (np.flatnonzero(~task.is_terminal)[:, None] * np.int64(n) + to).ravel()
    sure = np.union1d(_keys(flow), of_all)
    return sure if allowed is None else np.union1d(sure, allowed)


def _flow(counts: Counts, task: Task) -> csr_array:
    """Transitions between states, whatever the action, ``[S, S]``."""
    from scipy.sparse import csr_array

    n, live = task.n_states, ~task.is_terminal[counts.state]
    where = counts.state[live], counts.next_state[live]
    flow = csr_array((counts.count[live].astype(np.float64), where), shape=(n, n))
    flow.sum_duplicates()
    flow.sort_indices()
    return flow


def _keys(matrix: csr_array) -> IntArray:
    """Return ``row * n_columns + column`` of all entries, sorted."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.asarray(row * np.int64(matrix.shape[1]) + matrix.indices)


def _at(matrix: csr_array, key: IntArray) -> FloatArray:
    """Look up entries by sorted keys."""
    there = _keys(matrix)
    place = np.minimum(np.searchsorted(there, key), max(there.size - 1, 0))
    if there.size == 0:
        return np.zeros(key.size)
    return np.asarray(np.where(there[place] == key, matrix.data[place], 0.0))


def _marginal(
    base: str, flow: csr_array, state: IntArray, next_state: IntArray
) -> FloatArray:
    """Return next states of all other states, or all alike, at some cells."""
    n = flow.shape[0]
    if base == "uniform":
        return np.full(state.size, 1.0 / n)
    arrivals, left = flow.sum(axis=0), flow.sum(axis=1)
    own = _at(flow, state * np.int64(n) + next_state)
    more = unseen_visits(arrivals)
    whole = left.sum() - left[state] + more
    return np.asarray((arrivals[next_state] - own + more / n) / whole)


def _local(flow: csr_array, task: Task) -> tuple[csr_array, float]:
    """Return next states of states with the same arrivals, and their share."""
    from scipy.sparse import csr_array, diags_array, vstack

    n = task.n_states
    leaving, arriving = flow.sum(axis=1), flow.sum(axis=0)
    told = (leaving > 0) & (np.diff(flow.indptr) <= _MOST)
    weight = np.where(told, 1 / np.sqrt(np.maximum(leaving / leaving.sum(), 1e-300)), 0)
    come = diags_array(weight) @ flow @ diags_array(1 / np.maximum(arriving, 1.0))
    come = csr_array(come)
    others = csr_array(come - diags_array(come.diagonal()))
    live = diags_array((leaving > 0).astype(np.float64))
    rows = []
    for first in range(0, n, 2048):
        block = csr_array(others[:, first : first + 2048].T @ come)
        block.data = np.maximum(block.data - 1.0, 0.0)
        at = np.repeat(np.arange(block.shape[0]) + first, np.diff(block.indptr))
        block.data[at == block.indices] = 0.0
        found = csr_array(block @ live @ flow)
        total = found.sum(axis=1)
        found = csr_array(diags_array(1 / np.maximum(total, 1e-300)) @ found)
        found.eliminate_zeros()
        rows.append(found)
    local = csr_array(vstack(rows))
    local.sort_indices()
    return local, _share(local, flow)


def _share(local: csr_array, flow: csr_array) -> float:
    """Share of the local base with the highest likelihood, by EM."""
    key = _keys(flow)
    n = flow.shape[0]
    has = (np.diff(local.indptr) > 0)[key // n]
    near, visits = _at(local, key)[has], flow.data[has]
    wide = _marginal("marginal", flow, key[has] // n, key[has] % n)
    if visits.size == 0:
        return 0.0
    share = 0.5
    for _ in range(100):
        of_local = share * near
        share = float(visits @ (of_local / (of_local + (1 - share) * wide)))
        share = min(share / visits.sum(), 0.999)
    return share


def _left(mass: FloatArray, state: IntArray, n_states: int) -> FloatArray:
    """Return what a base gives to next states without a cell, ``[S]``."""
    return np.asarray(np.maximum(1.0 - np.bincount(state, mass, n_states), 0.0))


def _shared_atoms(
    base: str,
    flow: csr_array,
    rough: FloatArray,
    task: Task,
    exact: IntArray,
    left: FloatArray,
) -> tuple[IntArray, FloatArray]:
    """Return keys and masses of the marginal's atoms, the same in every state."""
    n, every = task.n_states, np.flatnonzero(~task.is_terminal)
    weight: FloatArray = np.ones(n)
    if base != "uniform":
        arrivals = flow.sum(axis=0)
        weight = np.asarray(arrivals + unseen_visits(arrivals) / n, np.float64)
    weight[task.terminal] = 0.0
    order = np.argsort(rough, kind="stable")
    reached = np.cumsum(weight[order])
    n_atoms = _FEW if base == "local" else _ATOMS
    at = (np.arange(n_atoms) + 0.5) / n_atoms * reached[-1]
    atoms = np.unique(order[np.searchsorted(reached, at)])
    key = (every[:, None] * np.int64(n) + atoms).ravel()
    new = key[~np.isin(key, exact)]
    number = np.bincount(new // n, minlength=n)
    # A state that was observed to have all atoms keeps the first.
    lost = every[number[every] == 0]
    new = np.concatenate([new, lost * np.int64(n) + atoms[0]])
    number[lost] = 1
    return new, (left / np.maximum(number, 1))[new // n]


def _own_atoms(
    local: csr_array, rough: FloatArray, exact: IntArray, left: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return keys and masses of the local base's atoms, each state's own."""
    n = local.shape[0]
    key = _keys(local)
    new = ~np.isin(key, exact)
    key, mass = key[new], local.data[new]
    rank = np.empty(n)
    rank[np.argsort(rough, kind="stable")] = np.arange(n)
    order = np.lexsort((rank[key % n], key // n))
    key, mass = key[order], mass[order]
    row = key // n
    total = np.bincount(row, mass, n)
    before = np.concatenate([[0.0], np.cumsum(total)[:-1]])
    reached = row + np.minimum(
        (np.cumsum(mass) - before[row]) / np.maximum(total[row], 1e-300), 1 - 1e-9
    )
    has = np.flatnonzero((total > 0) & (left > 0))
    at = (has[:, None] + (np.arange(_OWN) + 0.5) / _OWN).ravel()
    place = np.minimum(np.searchsorted(reached, at), max(key.size - 1, 0))
    if key.size == 0:
        return key, mass
    return key[place], np.repeat(left[has] / _OWN, _OWN)


def _calibrated(
    state: IntArray, base: FloatArray, visits: FloatArray, score: FloatArray, n: int
) -> FloatArray:
    """Tilt a base such that states do, on average, as well as it says."""
    from scipy.optimize import minimize

    total = np.bincount(state, visits, n)
    mean = np.bincount(state, base * score, n)
    spread = total @ np.maximum(np.bincount(state, base * score**2, n) - mean**2, 0.0)
    if not spread > 1e-18 * total @ mean**2:
        return base
    score = (score - total @ mean / total.sum()) * np.sqrt(total.sum() / spread)
    mean = np.bincount(state, base * score, n)
    weight = _WEIGHT / (total + _WEIGHT)
    own = np.bincount(state, visits * score, n)

    def tilted(tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        exponent = tau[state] * score
        top = np.full(n, -np.inf)
        np.maximum.at(top, state, exponent)
        mass = base * np.exp(exponent - top[state])
        whole = np.bincount(state, mass, n)
        log_whole = np.log(np.maximum(whole, 1e-300)) + np.where(whole > 0, top, 0.0)
        return mass / whole[state], log_whole

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        tau = x[0] + x[1] * mean
        mass, log_whole = tilted(tau)
        miss = weight * (own - total * np.bincount(state, mass * score, n))
        value = weight @ (tau * own - total * log_whole)
        size = weight @ total
        slope = np.array([miss.sum(), miss @ mean])
        return (_RIDGE * x @ x - value) / size, (2 * _RIDGE * x - slope) / size

    found = minimize(loss, np.zeros(2), jac=True)
    return np.maximum(tilted(found.x[0] + found.x[1] * mean)[0], _LEAST)


def _scores(
    key: IntArray, weight: FloatArray, counts: Counts, task: Task
) -> tuple[FloatArray, FloatArray]:
    """Return rough values ``[S]``, and reward and value of each next state ``[K]``.

    Rows are weights, normalised; each state pays as after its most frequent action.
    Terminal states are worth 0 once their arrival is paid.
    """
    from scipy.sparse import csr_array

    n, task = task.n_states, task.first  # of several rewards
    state, next_state = key // n, key % n
    visits = counts.pair_totals(task.n_states, task.n_actions)
    reward = task.transition_reward(state, visits.argmax(axis=1)[state], next_state)
    chance = weight / np.bincount(state, weight, n)[state]
    paid = np.bincount(state, chance * reward, n)
    chain = csr_array((chance, (state, next_state)), shape=(n, n))
    value = np.zeros(n)
    for _ in range(100):
        value = np.where(task.is_terminal, 0.0, paid + task.discount * (chain @ value))
    return value, reward + task.discount * value[next_state]


@dataclass(frozen=True, eq=False)
class HierarchicalPrior:
    """Rows of a state's actions around a common one, strengths learnt from data.

    Parameters
    ----------
    base
        ``"marginal"``: next states of all other states together; ``"local"``: with more
        weight on states that are entered from the same states; ``"uniform"``: all next
        states (of the support) equally.
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
        if self.support is not None:
            object.__setattr__(self, "support", checked_support(self.support))

    @property
    def looks_at_data(self) -> bool:
        """Always: next states are what was observed, beside atoms of the base."""
        return True

    def cells(self, counts: Counts, task: Task) -> Cells:
        """Next states that rows of each state have, and their base measure."""
        from bayesmdp.priors._hierarchical import make_cells  # scipy.sparse

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
