"""A sweep timed on one thread, and the same numbers found another way.

The other way reads a draw from ``draws.dynamics``, forms the policy's matrix with
scipy and solves it with LAPACK; it shares nothing with the engine but the sampler.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import csr_array

import bayesmdp as bm
from bayesmdp import engine
from benchmarks.grid import best

Array = NDArray[np.float64]
ACCURATE = 1e-8  # largest difference allowed, relative to the largest number


@dataclass(frozen=True, eq=False)
class Swept:
    """How long a draw took, and what is needed to look at it again."""

    problem: engine.Problem
    nominal: engine.Nominal
    want: engine.Want
    sums: engine.Sums
    seconds: float  # a draw

    @property
    def products(self) -> float:
        """Products of matrix and vector a draw, on average."""
        return float(self.sums.products.mean())

    def first(self, n_draws: int) -> engine.Sums:
        """Sweep the first draws alone."""
        with engine.workers(1, None) as pool:
            return engine.sweep(
                self.problem, self.nominal, n_draws, want=self.want, pool=pool
            )


def timed_sweep(
    draws: bm.Draws,
    policy: Array,
    want: engine.Want,
    *,
    repeats: int,
    solver: str = "auto",
    threads: int = 1,
) -> Swept:
    """Sweep draws for one policy ``[S, A]``; the best of several times."""
    problem = engine.Problem.of_draws(draws, policy[None], every_row=want.gradient)
    n = draws.n_draws
    with engine.workers(threads, None) as pool:
        nominal = engine.nominal(problem, pool, control=False, solver=solver, want=want)
        engine.sweep(problem, nominal, min(n, 2), want=want, pool=pool)
        seconds, sums = best(
            lambda: engine.sweep(problem, nominal, n, want=want, pool=pool), repeats
        )
    if not sums.ended.all():
        raise AssertionError("a draw of a benchmark was not solved")
    return Swept(problem, nominal, want, sums, seconds / n)


@dataclass(frozen=True, eq=False)
class Chain:
    """One draw under a policy: rows in use, their matrix and expected reward."""

    rows: NDArray[np.int64]  # [R], of the model
    state: NDArray[np.int64]  # [R]
    probability: csr_array  # [R, S]
    reward: Array  # entries of the same, in their order
    weight: csr_array  # [N, R], probability of a live state's rows

    @property
    def transition(self) -> csr_array:
        """Matrix over live and terminal states, ``[N, S]``."""
        return (self.weight @ self.probability).tocsr()

    def expected(self, entries: Array) -> Array:
        """Average numbers ``[E]`` over each row, ``[R]``."""
        p = self.probability
        return np.asarray(csr_array((p.data * entries, p.indices, p.indptr)).sum(1))


def chain_of(model: bm.Dynamics, task: bm.Task, policy: Array) -> Chain:
    """Rows of a model that a policy uses."""
    rows = model.rows
    pi = policy[rows.state, rows.action]
    used = np.flatnonzero((pi > 0) & ~task.is_terminal[rows.state])
    shape = rows.pair.size, task.n_states
    p = csr_array((model.probability, rows.next_state, rows.indptr), shape=shape)
    p = p[used] if used.size < rows.pair.size else p
    state, action = rows.state[used], rows.action[used]
    length = np.diff(p.indptr)
    reward = task.transition_reward(
        np.repeat(state, length), np.repeat(action, length), p.indices
    )
    place = np.searchsorted(task.live, state)
    by_state = csr_array(
        (pi[used], (place, np.arange(used.size))), shape=(task.live.size, used.size)
    )
    return Chain(used, state, p, reward, by_state)


def by_hand(model: bm.Dynamics, task: bm.Task, policy: Array) -> dict[str, Array]:
    """Value, variance and occupancy of live states, slopes of rows in use."""
    chain, g, live = chain_of(model, task, policy), task.discount, task.live
    T = chain.transition.toarray()[:, live]
    to = chain.probability.indices
    of = np.repeat(chain.state, np.diff(chain.probability.indptr))
    lu = lu_factor(np.eye(live.size) - g * T)
    value = np.zeros(task.n_states)
    value[live] = lu_solve(lu, chain.weight @ chain.expected(chain.reward))
    ahead = chain.reward + g * value[to]
    occupancy = np.zeros(task.n_states)
    occupancy[live] = lu_solve(lu, task.start[live], trans=1)
    squares = chain.weight @ chain.expected((ahead - value[of]) ** 2)
    gain = chain.expected(ahead) - value[chain.state]
    return {
        "value": value[live],
        "variance": np.linalg.solve(np.eye(live.size) - g**2 * T, squares),
        "slope": occupancy[chain.state] * gain,
    }


def largest_gap(swept: Swept, draws: bm.Draws, policy: Array, n_draws: int) -> float:
    """Largest difference to the other way, of means over the first few draws.

    Relative to the largest number of each kind. A draw's own error shows in the mean
    of a few, and the sweep hands over no more than sums.
    """
    task, n = swept.problem.task, swept.problem.n_live
    hands = [by_hand(draws.dynamics(i), task, policy) for i in range(n_draws)]
    sums = swept.first(n_draws)
    state, reference = sums.state[0] / n_draws, swept.nominal.reference[:, 0]
    found = {"value": state[engine.channels.V, :n] + reference[0, :n]}
    if swept.want.variance:
        found["variance"] = state[engine.channels.R, :n] + reference[1, :n]
    if swept.want.gradient:
        found["slope"] = sums.row[0, 0] / n_draws
    gaps = []
    for name, ours in found.items():
        other = np.mean([hand[name] for hand in hands], axis=0)
        gaps.append(np.abs(ours - other).max() / np.abs(other).max())
    return float(max(gaps))
