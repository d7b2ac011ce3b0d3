"""The belief in which actions of a state share what their state does.

The model stands in `bayesmdp.priors._hierarchical`. With ``m[s,t]`` the tables of a
Chinese restaurant, summed over actions, that a state of a chain keeps beside ``c`` and
``k``, a draw is ::

    mu[s]      ~ Dirichlet(k g[s] + m[s])
    theta[s,a] ~ Dirichlet(c[s] mu[s] + n[s,a]),   or mu[s] where c[s] is infinite

so that rows of a state are correlated, and states are independent given the state of
the chain. Draw ``i`` takes state ``i`` of the chains in a fixed random order, over and
over; the rest of it comes from streams of its own: draws are pure functions of their
number.

**Means** are averages over the chain of what is known in closed form given ``(m, c,
k)``: with ``M = sum_t m``, ``N = sum_t n`` ::

    E[mu]    = (k g + m) / (k + M)
    E[theta] = (c E[mu] + n) / (c + N)
    E[theta^2] = (c^2 E[mu^2] + (2 n + 1) c E[mu] + n (n + 1)) / ((c + N) (c + N + 1))

**Finite chains.** ``diagnostics`` has R-hat and effective sample sizes. What all draws
have in common through the chain adds to their errors: draws that share a state of the
chain are no independent draws, and `Draws.effective` says how many there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import read_only
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.errors import PriorError
from bayesmdp.model import Availability, Rows, Task
from bayesmdp.posterior._belief import BeliefRows, Exits
from bayesmdp.posterior._posterior import Fitted
from bayesmdp.posterior._stream import Stream, stream_key
from bayesmdp.priors import Cells, HierarchicalPrior


@dataclass(frozen=True, eq=False)
class Chains:
    """States of the Markov chains, one after the other in the order draws take them."""

    tables: NDArray[np.int32]  # [M, K], of cells
    strength: FloatArray  # [M, S], inf where actions do nothing
    hyper: FloatArray  # [M, 4]: logit w, location and log scale of log c, log k
    chain: IntArray  # [M], which chain each comes from

    @property
    def k(self) -> FloatArray:
        """Strength of the base, ``[M]``."""
        return np.exp(self.hyper[:, 3])


@dataclass(frozen=True, eq=False)
class HierarchicalStream(Stream):
    """Rows that share a latent row of their state."""

    key: NDArray[np.uint64]  # [2]
    layout: Rows
    count: FloatArray  # [E], visits
    cell: IntArray  # [R], first cell of each row
    cells: Cells
    chains: Chains

    def of_rows(self, row: IntArray) -> "HierarchicalStream":
        """Keep some rows."""
        count = np.ascontiguousarray(self.count[self.layout.entries_of(row)])
        layout = self.layout.take(row)
        return replace(self, layout=layout, count=count, cell=self.cell[row])

    def members(self, draws: IntArray) -> IntArray:
        """State of the chains that each draw takes."""
        return np.asarray(draws % self.chains.strength.shape[0])

    def fill(self, draws: IntArray, used: BoolArray, theta: FloatArray) -> None:
        """Sample the rows that are used; others get their mean given the state's."""
        from bayesmdp.posterior._gibbs import sample_shared  # numba

        rows, chains = self.layout, self.chains
        sample_shared(
            self.key,
            read_only(draws),
            read_only(self.members(draws)),
            read_only(rows.state),
            read_only(rows.action),
            read_only(rows.indptr),
            read_only(self.count),
            read_only(self.cell),
            read_only(self.cells.base),
            read_only(chains.tables),
            read_only(chains.strength),
            read_only(chains.k),
            rows.n_actions,
            read_only(used),
            theta,
        )


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

    def _moments(self, squares: bool) -> FloatArray:
        """Return means over the chain of probabilities, or of their squares, [E]."""
        from bayesmdp.posterior._gibbs import add_means  # numba

        rows, chains = self.layout, self.chains
        first = np.zeros(self.count.size)
        second = np.zeros(self.count.size if squares else 0)
        add_means(
            read_only(rows.state),
            read_only(rows.indptr),
            read_only(self.count),
            read_only(self._cell),
            read_only(self.cells.base),
            read_only(chains.tables),
            read_only(chains.strength),
            read_only(chains.k),
            first,
            second,
        )
        return (second if squares else first) / chains.k.size

    @cached_property
    def _rows(self) -> BeliefRows:
        return BeliefRows(
            self.layout,
            _checks.sealed(self._moments(squares=False)),
            _checks.sealed(self._reward(self.layout)),
            self.task.terminal_value,
            None,
        )

    def rows(self) -> BeliefRows:
        """Return what is the same in every draw."""
        return self._rows

    def stream(self, n_draws: int | None, seed: int, purpose: str) -> Stream:
        """Return the draws of a seed and a purpose."""
        key = stream_key(seed, purpose)
        given = self.layout, self.count, self._cell, self.cells, self.chains
        return HierarchicalStream(key, *given)

    def exits(self) -> Iterator[Exits]:
        """Say that visits are sure, and the rest possible."""
        yield Exits(self.count + self._rows.mean, self.count)

    def mean_squares(self) -> FloatArray:
        """Posterior mean of the square of each probability, ``[E]``."""
        return self._moments(squares=True)

    def parameters(self) -> tuple[FloatArray, ...]:
        """Visits and the states of the chains."""
        return (self.count, self.chains.strength, self.chains.hyper)

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
            "these around the next states of all others; how far is learnt, with no "
            f"effect of actions as one possibility. It rests on {self._said_data()}"
        )

    def _said_priors(self) -> list[str]:
        w = 1 / (1 + np.exp(-self.chains.hyper[:, 0]))
        none = np.isinf(self.chains.strength).mean(axis=0)
        live = ~self.task.is_terminal
        return [
            f"prior: {self.prior}",
            f"no effect of actions: probability {none[live].mean():.2f} in a state "
            f"(share of such states {w.mean():.2f}, sd {w.std():.2f})",
        ]

    def __repr__(self) -> str:
        return (
            f"HierarchicalPosterior({self.task.n_states} states, "
            f"{self.task.n_actions} actions, {self.counts.total} transitions, "
            f"{int(self.available.sum())} available pairs)"
        )


def fit_hierarchical(
    prior: HierarchicalPrior, counts: Counts, task: Task, pairs: Availability
) -> HierarchicalPosterior:
    """Run the chains, and lay out rows for every pair logged or available."""
    cells = prior.cells(counts, task)
    layout, count = _lay_out(cells, counts, task, pairs)
    chains = _run(cells, layout, count, task)
    return HierarchicalPosterior(
        task, counts, prior, pairs, layout, _checks.sealed(count), cells, chains
    )


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


_N_CHAINS, _N_WARM, _N_KEPT, _THIN = 4, 200, 125, 2
_N_GRID, _K = 30, (0.1, 1e4)
_BEYOND = 100.0  # times the largest pair's visits: strengths that are looked at
_SEED = 4242


def _run(cells: Cells, layout: Rows, count: FloatArray, task: Task) -> Chains:
    """Run all chains from places of their own, on threads."""
    from concurrent.futures import ThreadPoolExecutor

    from bayesmdp.posterior._gibbs import run_chain

    observed, grid = _observed(cells, layout, count, task)
    key = stream_key(_SEED, "chain")
    sizes = observed.base.size, task.n_states, 4
    types = np.int32, np.float64, np.float64

    def one(number: int) -> list[NDArray[Any]]:
        kept = [np.zeros((_N_KEPT, n), t) for n, t in zip(sizes, types, strict=True)]
        run_chain(key, number, _N_WARM, _THIN, observed, grid, *kept)
        return kept

    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(one, range(_N_CHAINS)))
    chain = np.repeat(np.arange(_N_CHAINS), _N_KEPT)
    order = np.random.default_rng(_SEED).permutation(chain.size)
    tables, strength, hyper = (
        np.concatenate(x)[order] for x in zip(*parts, strict=True)
    )
    wide = np.zeros((chain.size, cells.base.size), np.int32)
    wide[:, cells.observed] = tables
    return Chains(
        read_only(wide),
        read_only(strength),
        read_only(hyper),
        read_only(chain[order]),
    )


def _observed(
    cells: Cells, layout: Rows, count: FloatArray, task: Task
) -> tuple[Any, Any]:
    """Return what the chains read."""
    from scipy.special import gammaln

    from bayesmdp.posterior._gibbs import Grid, Observed

    states = np.arange(task.n_states + 1)
    of_cell = np.cumsum(cells.observed) - 1
    cell_state = cells.state[cells.observed]
    base = np.maximum(cells.base[cells.observed], 1e-12)
    rest = np.maximum(1.0 - np.bincount(cell_state, base, task.n_states), 0.0)
    rest[rest < 1e-9] = 0.0
    length = np.diff(layout.indptr)
    within = np.arange(count.size) - np.repeat(layout.indptr[:-1], length)
    entry_cell = np.repeat(cells.start[layout.state], length) + within
    seen = count > 0
    observed = Observed(
        np.searchsorted(cell_state, states),
        base,
        rest,
        np.concatenate([[0], np.cumsum(seen)])[
            layout.indptr[np.searchsorted(layout.state, states)]
        ],
        of_cell[entry_cell[seen]],
        count[seen].astype(np.int64),
    )
    visits = layout.row_sums(count)[:, None]
    log_strength = np.linspace(0.0, np.log(_BEYOND * visits.max()), _N_GRID)
    c, n = np.exp(log_strength)[None], np.maximum(visits, 1.0)
    each = gammaln(c + n) - gammaln(c + 1) - (n - 1) * np.log(c)
    of_pairs = np.zeros((task.n_states, _N_GRID))
    np.add.at(of_pairs, layout.state, each)
    low = np.array([-9.0, 0.0, np.log(0.3), np.log(_K[0])])
    high = np.array([9.0, log_strength[-1], np.log(6.0), np.log(_K[1])])
    return observed, Grid(log_strength, of_pairs, low, high)
