"""The belief in which actions of a state share what their state does.

The model stands in `bayesmdp.priors._hierarchical`. With ``m[s,t]`` the tables of a
Chinese restaurant, summed over actions, that a state of a chain keeps beside ``c`` and
``k``, a draw is ::

    mu[s]      ~ Dirichlet(k[s] g[s] + m[s])
    theta[s,a] ~ Dirichlet(c[s] mu[s] + n[s,a]),   or mu[s] where c[s] is infinite

so that rows of a state are correlated, and states are independent given the state of
the chain. Draw ``i`` takes state ``i`` of the chains in a fixed random order, over and
over; the rest of it comes from streams of its own: draws are pure functions of their
number.

**Means** are averages over the chain of what is known in closed form given ``(m, c,
k)``: with ``M = sum_t m``, ``N = sum_t n`` ::

    E[mu]    = (k[s] g + m) / (k[s] + M)
    E[theta] = (c E[mu] + n) / (c + N)
    E[theta^2] = (c^2 E[mu^2] + (2 n + 1) c E[mu] + n (n + 1)) / ((c + N) (c + N + 1))

**Finite chains.** Two values that are linear in the rows, so that their mean ``f`` and
variance ``v`` given a state of the chains are known: that of what was logged, to first
order around the mean model, and what the best single decision in each state would gain.
With the sum over the chain's states of ``f`` and its effective sample size ``n`` ::

    chain_noise = Var(f) / n / (Var(f) + mean(v))

is the share of a variance over draws by which the mean over *all* draws is off: the
larger of both. Monte Carlo errors of any quantity have its variance over draws, times
this, on top.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import read_only
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import BayesmdpWarning, PriorError
from bayesmdp.model import Availability, Rows, Task, availability
from bayesmdp.posterior._belief import BeliefRows, Exits
from bayesmdp.posterior._chains import Chains, Diagnostics, diagnose, ess, run_chains
from bayesmdp.posterior._posterior import Fitted
from bayesmdp.posterior._stream import Stream
from bayesmdp.priors import Cells, HierarchicalPrior

if TYPE_CHECKING:
    from bayesmdp.posterior.sampling import SharedRows


@dataclass(frozen=True, eq=False)
class HierarchicalStream(Stream):
    """Rows that share a latent row of their state."""

    key: NDArray[np.uint64]  # [2]
    layout: Rows
    count: FloatArray  # [E], visits
    cell: IntArray  # [R], first cell of each row
    cells: Cells
    chains: Chains

    def of_rows(self, row: IntArray) -> HierarchicalStream:
        """Keep some rows."""
        count = np.ascontiguousarray(self.count[self.layout.entries_of(row)])
        layout = self.layout.take(row)
        return replace(self, layout=layout, count=count, cell=self.cell[row])

    @property
    def shared(self) -> SharedRows:
        """What kernels read."""
        from bayesmdp.posterior.sampling import SharedRows  # numba

        rows, chains = self.layout, self.chains
        where = rows.state, rows.action, rows.indptr, self.count, self.cell
        of_chains = chains.tables, chains.strength, chains.k
        given = *where, self.cells.base, *of_chains
        return SharedRows(*(read_only(x) for x in given))

    def fill(self, draws: IntArray, used: BoolArray, theta: FloatArray) -> None:
        """Sample the rows that are used; others get their mean given the state's."""
        from bayesmdp.posterior.sampling import sample_shared  # numba

        order = self.chains.order  # states of the chains that draws take
        which = read_only(draws), read_only(order[draws % order.size])
        n_actions = self.layout.n_actions
        sample_shared(self.key, *which, self.shared, n_actions, read_only(used), theta)


@dataclass(frozen=True, eq=False, repr=False)
class HierarchicalPosterior(Fitted):
    """Belief under a `HierarchicalPrior`; made by `bayesmdp.fit`."""

    task: Task
    counts: Counts
    prior: HierarchicalPrior  # type: ignore[assignment]
    availability: Availability
    layout: Rows  # of every pair that was logged or is available
    count: FloatArray  # [E], visits
    cells: Cells
    chains: Chains

    @cached_property
    def _cell(self) -> IntArray:
        return self.cells.start[self.layout.state]

    @property
    def _every_row(self) -> HierarchicalStream:
        given = self.layout, self.count, self._cell, self.cells, self.chains
        return HierarchicalStream(_checks.stream_key(0, ""), *given)

    def _moments(self, squares: bool) -> FloatArray:
        """Return means over the chain of probabilities, or of their squares, [E]."""
        from bayesmdp.posterior.sampling import add_means  # numba

        first = np.zeros(self.count.size)
        second = np.zeros(self.count.size if squares else 0)
        add_means(self._every_row.shared, first, second)
        return (second if squares else first) / len(self.chains.k)

    @cached_property
    def _rows(self) -> BeliefRows:
        return BeliefRows(
            self.layout,
            _checks.sealed(self._moments(squares=False)),
            _checks.sealed(self._reward(self.layout)),
            self.task.terminal_value,
            None,
        )

    @cached_property
    def _linear(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance given each state of the chains ``[M, 2]``; see above."""
        from bayesmdp.posterior.sampling import add_linear  # numba

        if self.task is not self.task.first:  # of several rewards
            found: tuple[FloatArray, FloatArray] = self.with_task(
                self.task.first
            )._linear
            return found
        rows, chains = self._rows, self.chains
        policy = self._logged_policy()
        value, visits = _first_order(rows, policy, self.task)
        h = rows.reward + self.task.discount * value[self.layout.next_state]
        q = self.layout.row_sums(rows.mean * h)
        state = self.layout.state
        usable = self.available[state, self.layout.action]
        order = np.lexsort((q, usable, state))
        best = np.zeros(q.size)
        best[order[np.append(np.diff(state[order]) != 0, True)]] = 1.0
        weight = visits[state] * np.stack([policy, best - policy])
        mean, variance = np.zeros((2, len(chains.k), 2))
        given = read_only(h), read_only(weight)
        add_linear(self._every_row.shared, *given, mean, variance)
        return mean, variance

    def _logged_policy(self) -> FloatArray:
        """Share of each row among the visits of its state, ``[R]``; even without."""
        state, visits = self.layout.state, self.layout.row_sums(self.count)
        total = np.bincount(state, visits, self.task.n_states)
        visits = np.where(total[state] > 0, visits, 1.0)
        return np.asarray(visits / np.bincount(state, visits)[state])

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """R-hat and effective sample sizes of the chains."""
        hyper = self.chains.hyper.T
        named = dict(zip(_HYPER, hyper, strict=True))
        named["the value of the logged policy"] = self._linear[0][:, 0]
        by_chain = self.chains.by_chain
        return diagnose({name: by_chain(x) for name, x in named.items()})

    @cached_property
    def chain_noise(self) -> float:
        """Share of a variance over draws that means owe to the finite chains."""
        shares = [0.0]
        for f, v in zip(*(x.T for x in self._linear), strict=True):
            if (whole := f.var() + v.mean()) > 0:
                shares.append(f.var() / ess(self.chains.by_chain(f)) / whole)
        return float(max(shares))

    def rows(self) -> BeliefRows:
        """Return what is the same in every draw."""
        return self._rows

    def stream(self, n_draws: int | None, seed: int, purpose: str) -> Stream:
        """Return the draws of a seed and a purpose."""
        return replace(self._every_row, key=_checks.stream_key(seed, purpose))

    def exits(self) -> Iterator[Exits]:
        """Say that visits are sure, and the rest possible."""
        possible = np.where(self._rows.mean > 0, 1e-9, 0.0)
        yield Exits(self.count + self._rows.mean, np.maximum(self.count, possible))

    def mean_squares(self) -> FloatArray:
        """Posterior mean of the square of each probability, ``[E]``."""
        return self._moments(squares=True)

    def state_covariance(self, h: FloatArray) -> FloatArray:
        """Covariance of ``theta[s, a].h`` between actions of a state, ``[S, A, A]``.

        In closed form given a state of the chains; over some of these, evenly taken.
        """
        layout, task, chains = self.layout, self.task, self.chains
        found = np.zeros((task.n_states, task.n_actions, task.n_actions))
        some = np.arange(0, len(chains.k), -(-len(chains.k) // _SOME))
        first = np.searchsorted(layout.state, np.arange(task.n_states + 1))
        for s in np.unique(layout.state).tolist():
            row = slice(first[s], first[s + 1])
            part = slice(layout.indptr[row.start], layout.indptr[row.stop])
            shape = row.stop - row.start, -1
            cell = slice(self.cells.start[s], self.cells.start[s + 1])
            at = layout.action[row]
            found[s, at[:, None], at] = _covariance(
                h[part].reshape(shape),
                self.count[part].reshape(shape),
                chains.k[some, s, None] * self.cells.base[cell]
                + chains.tables[some, cell],
                chains.strength[some, s, None],
            )
        return found

    def mean_after(self, visits: FloatArray) -> FloatArray:
        """Mean probabilities ``[E]`` after further visits ``[E]``, strengths held.

        Over a few states of the chains; in each, new visits bring as many tables as are
        expected at its own latent row, ``sum_j x / (x + j)`` with ``x = c mu``.
        """
        from scipy.special import digamma

        chains, layout = self.chains, self.layout
        length = np.diff(layout.indptr)
        within = np.arange(visits.size) - np.repeat(layout.indptr[:-1], length)
        cell = np.repeat(self._cell, length) + within  # [E]
        state = np.repeat(layout.state, length)
        now = self.count + visits
        total = np.repeat(layout.row_sums(now), length)
        new = np.flatnonzero(visits > 0)
        out = np.zeros(visits.size)
        some = chains.order[:: -(-chains.order.size // _FEW)]
        for member in some:
            k, c = chains.k[member], chains.strength[member]
            shape = k[self.cells.state] * self.cells.base + chains.tables[member]
            mu = shape / np.bincount(self.cells.state, shape)[self.cells.state]
            brought = visits[new].copy()
            finite = np.isfinite(c[state[new]])
            at = new[finite]
            x = np.maximum(c[state[at]] * mu[cell[at]], 1e-12)
            brought[finite] = x * (digamma(x + now[at]) - digamma(x + self.count[at]))
            np.add.at(shape, cell[new], np.minimum(brought, visits[new]))
            mu = shape / np.bincount(self.cells.state, shape)[self.cells.state]
            strength = c[state]
            with np.errstate(invalid="ignore"):
                row = (strength * mu[cell] + now) / (strength + total)
            out += np.where(np.isfinite(strength), row, mu[cell])
        return out / some.size

    def parameters(self) -> tuple[FloatArray, ...]:
        """Visits and the states of the chains."""
        chains = self.chains
        tables = chains.tables.sum(axis=0).astype(np.float64)  # enough to tell them
        of_states = chains.strength, chains.k
        return (self.count, self.cells.base, tables, *of_states, chains.hyper)

    def kept(self) -> dict[str, NDArray[Any]]:
        """States of the chains."""
        return self.chains.kept(self.cells)

    def relabelled(self, counts: Counts) -> HierarchicalPosterior:
        """Fit the same transitions with other actions.

        Chains begin at the hyperparameters that this posterior's ended at, are shorter,
        and run in the calling thread; their convergence is not looked at.
        """
        task, size = self.task, (self.task.n_states, self.task.n_actions)
        before, visits = self.counts.pair_totals(*size), counts.pair_totals(*size)
        cells = self.cells  # they depend on next states and the most frequent actions
        if not np.array_equal(before.argmax(axis=1), visits.argmax(axis=1)):
            cells = self.prior.cells(counts, task)
        pairs = availability(visits, task, self.min_count)
        layout, count = _lay_out(cells, counts, task, pairs)
        return replace(
            self,
            counts=counts,
            availability=pairs,
            layout=layout,
            count=_checks.sealed(count),
            cells=cells,
            chains=run_chains(cells, layout, count, task, self.chains.ends),
        )

    def said_prior(self) -> str:
        """Name the prior."""
        return f"{self.prior}"

    def log_evidence(self) -> float:
        """Refuse: the base is made from the data."""
        raise PriorError(
            "HierarchicalPrior has no evidence: its base is made by looking at the "
            "data; compare it by held-out predictive density instead."
        )

    def describe(self) -> str:
        """Say what the belief is made of."""
        return (
            "The rows of a state's actions vary around a common row of the state, and "
            f"these around a base measure ({self.prior.base}); how far is learnt, with "
            "no effect of actions as one possibility. It rests on "
            f"{self._said_data()}"
        )

    def _said_priors(self) -> list[str]:
        w = 1 / (1 + np.exp(-self.chains.hyper[:, 0]))
        none = np.isinf(self.chains.strength).mean(axis=0)
        left = np.bincount(self.counts.state, minlength=self.task.n_states) > 0
        left &= ~self.task.is_terminal
        left = left if left.any() else ~self.task.is_terminal
        if self.task.n_actions == 1:  # nothing to differ
            return [f"prior: {self.prior}", self.diagnostics.summary()]
        said = [
            f"prior: {self.prior}",
            f"no effect of actions: probability {none[left].mean():.2f} per state "
            f"(share of such states {w.mean():.2f}, sd {w.std():.2f})",
        ]
        if w.std() > _UNTOLD and 0.05 < none[left].mean() < 0.95:
            said.append("the data hardly tell in how many states actions differ")
        return [*said, self.diagnostics.summary()]


_HYPER = (
    "the share of states without effect",
    "the strengths' location",
    "the strengths' scale",
    "the location of the base's strengths",
    "the scale of the base's strengths",
)
_UNTOLD = 0.2  # sd of that share, from which on the data hardly tell
_SWEEPS = 300
_FEW = 25  # states of the chains that means after further visits are averaged over
_SOME = 128  # states of the chains that covariances are averaged over, at most


def fit_hierarchical(
    prior: HierarchicalPrior,
    counts: Counts,
    task: Task,
    pairs: Availability,
    kept: Mapping[str, NDArray[Any]] | None = None,
    *,
    every: bool = True,
) -> HierarchicalPosterior:
    """Run the chains, or take those that were ``kept``.

    Rows are laid out for every pair logged or available, or for available ones alone.
    """
    cells = prior.cells(counts, task)
    layout, count = _lay_out(cells, counts, task, pairs)
    if kept is None:
        chains = run_chains(cells, layout, count, task)
    else:
        chains = Chains.restored(kept, cells, task)
    if not every:
        row = np.flatnonzero(pairs.available.ravel()[layout.pair])
        layout, count = layout.take(row), count[layout.entries_of(row)]
    posterior = HierarchicalPosterior(
        task, counts, prior, pairs, layout, _checks.sealed(count), cells, chains
    )
    problems = posterior.diagnostics.problems if kept is None else []
    for problem in problems:
        warnings.warn(problem, BayesmdpWarning, stacklevel=4)
    return posterior


def _covariance(
    h: FloatArray, n: FloatArray, shape: FloatArray, c: FloatArray
) -> FloatArray:
    """Covariance of rows ``theta[a].h[a]``, ``[A, A]``.

    From ``h`` and visits ``n`` [A, L], shapes of the latent row [M, L], strengths
    [M, 1]: its mean given a state of the chain, and between these.
    """
    total = shape.sum(axis=1)
    mu, visits = shape / total[:, None], n.sum(axis=1)
    lean = np.ones((len(c), len(h)))  # weight of the latent row in a row's mean
    np.divide(c, c + visits, lean, where=np.isfinite(c))
    own = np.zeros_like(lean)  # of one visit
    np.divide(1.0, c + visits, own, where=np.isfinite(c))
    latent, paid = mu @ h.T, (n * h).sum(axis=1)
    mean = lean * latent + own * paid
    common = (mu[:, None] * h) @ h.T - latent[:, :, None] * latent[:, None]
    common *= lean[:, :, None] * lean[:, None] / (total + 1.0)[:, None, None]
    square = lean * (mu @ (h**2).T) + own * (n * h**2).sum(axis=1)
    spread = square - mean**2 - np.einsum("maa->ma", common)
    alone = spread * own / (1.0 + own)  # 0 where rows are the latent row
    centred = mean - mean.mean(axis=0)
    found = common.mean(axis=0) + centred.T @ centred / len(c)
    return np.asarray(found + np.diag(alone.mean(axis=0)))


def _first_order(
    rows: BeliefRows, policy: FloatArray, task: Task
) -> tuple[FloatArray, FloatArray]:
    """Values and discounted visits ``[S]`` of a policy ``[R]`` in the mean model.

    By sweeps, at most so many: good enough to tell what matters.
    """
    from scipy.sparse import csr_array

    n, layout, at = task.n_states, rows.layout, rows.layout.row_of_entry
    weight = policy[at] * rows.mean
    chain = csr_array((weight, (layout.state[at], layout.next_state)), shape=(n, n))
    back = csr_array(chain.T)
    paid = np.bincount(layout.state[at], weight * rows.reward, n)
    value, visits = np.zeros(n), np.array(task.start)
    for _ in range(_SWEEPS):
        before = value
        value = paid + task.discount * (chain @ value)
        visits = task.start + task.discount * (back @ visits)
        if np.abs(value - before).max() <= 1e-6 * np.abs(value).max():
            break
    return value, visits


def _lay_out(
    cells: Cells, counts: Counts, task: Task, pairs: Availability
) -> tuple[Rows, FloatArray]:
    """Rows over the cells of their states, and visits ``[E]``."""
    live = ~task.is_terminal[counts.state]
    logged = counts.state[live] * np.int64(task.n_actions) + counts.action[live]
    pair = np.union1d(logged, np.flatnonzero(pairs.available.ravel()))
    state = pair // task.n_actions
    pair, state = pair[~task.is_terminal[state]], state[~task.is_terminal[state]]
    length = np.diff(cells.start)[state]
    indptr = np.concatenate([[0], np.cumsum(length)])
    within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], length)
    entry_cell = np.repeat(cells.start[state], length) + within
    layout = Rows(
        task.n_states,
        task.n_actions,
        _checks.sealed(pair),
        _checks.sealed(indptr),
        _checks.sealed(cells.next_state[entry_cell]),
    )
    count = np.zeros(entry_cell.size)
    key = np.repeat(pair, length) * np.int64(task.n_states) + layout.next_state
    place = np.searchsorted(
        key, logged * np.int64(task.n_states) + counts.next_state[live]
    )
    np.add.at(count, place, counts.count[live])
    return layout, count
