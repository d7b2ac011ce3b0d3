"""Multi-sample backward induction on arrays (Dimitrakakis 2011).

Every draw keeps its own value function. An iteration takes, in each state, the action
that is best on average over draws (each looking ahead with its own values), and then
moves every draw's values one step under that common policy::

    pi[s]  = argmax_a  mean_d  Q_d[s, a]
    V_d[s] = Q_d[s, pi[s]]

Once the policy has stayed for a while, its values are solved for, which is where the
iteration was heading, and the search goes on from there: it ends where the policy stays
even then, or keeps coming back to policies it has left.

The draws are held, ``table [D, E]``, because every iteration visits them all.
"""

import uuid
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesmdp._checks import read_only
from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._backend import BLOCK
from bayesmdp.engine._chain import Layout
from bayesmdp.engine._dense import copy_to
from bayesmdp.engine._planner import (
    TIE,
    Known,
    evaluate_choice,
    expect_rewards,
    lookahead,
    make_bench,
)
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import Dense, Krylov
from bayesmdp.engine._sweep import Pool, results, workers
from bayesmdp.engine.planning import methods

__all__ = ["MultiSample", "multi_sample_induction"]

_STAYS = 5  # iterations after which a policy's values are solved for
_RETURNS = 10  # to policies met before, after which it goes in circles
_PART = 4 * BLOCK  # draws of a task; part of the definition of a result


@dataclass(frozen=True, eq=False)
class MultiSample:
    """Best policy met, by its exact value on the draws."""

    choice: IntArray  # [N]
    iterations: int
    converged: bool
    status: str


class _Part:
    """A range of draws, sampled where a task first needs them, and kept there.

    Threads share the object, and with it the tables. On its way to another process it
    leaves them behind, for sampling costs less than sending; where a task of the same
    call has been before, it meets the tables made then.
    """

    def __init__(
        self, address: tuple[str, int], draws: range, problem: Problem
    ) -> None:
        self.address = address  # the call, and which part of it
        self.draws, self.problem = draws, problem
        self._tables: tuple[FloatArray, FloatArray] | None = None

    def tables(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities ``[n, E]`` and expected rewards ``[n, R]``."""
        if self._tables is None:
            rows, stream = self.problem.rows, self.problem.stream
            assert stream is not None
            draws = np.arange(self.draws.start, self.draws.stop)
            table = np.empty((draws.size, rows.target.size))
            paid = np.empty((draws.size, rows.source.size))
            stream.fill(draws, np.ones(rows.source.size, dtype=np.bool_), table)
            own = stream.rewards(draws)
            reward = rows.reward[None] if own is None else own
            expect(table, rows.layout, read_only(reward), paid)
            self._tables = table, paid
        return self._tables

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.address, self.draws, self.problem)


# Executors do not say which process a task goes to, so every process may come to keep
# all draws of a call: `memory_limit` is one process's. Only the last call is kept.
_kept: dict[tuple[str, int], _Part] = {}


def _arrive(address: tuple[str, int], draws: range, problem: Problem) -> _Part:
    """Find the part in this process, or begin it; forget those of other calls."""
    part = _kept.get(address)
    if part is None:
        for other in [key for key in list(_kept) if key[0] != address[0]]:
            _kept.pop(other, None)
        part = _kept.setdefault(address, _Part(address, draws, problem))
    return part


def _move(
    part: _Part, values: FloatArray, choice: IntArray, solve: bool
) -> tuple[FloatArray, FloatArray, int]:
    """Move draws one step of a policy, or to where its steps lead.

    Returns their values ``[n, S]``, the sum of ``Q`` over them ``[R]``, and how many
    end.
    """
    values, choice = values.copy(), choice.copy()
    table, paid = part.tables()
    rows, g = part.problem.rows.layout, part.problem.task.discount
    ended = len(part.draws)
    if values.shape[0] != ended:
        raise AssertionError("a part needs values for every one of its draws")
    if solve:
        for method in methods(choice.size):
            how = method.dense, method.krylov
            ended = settle(*how, table, paid, rows, g, choice, values)
            if ended == len(part.draws):
                break
    else:
        back_up(table, paid, rows, g, choice, values)
    sums = np.zeros(rows.source.size)
    sum_lookahead(table, paid, rows, g, values, sums)
    return values, sums, ended


class _Held:
    """Values of every draw, moved in parts of whole blocks on any executor."""

    def __init__(self, problem: Problem, n_draws: int, pool: Pool) -> None:
        self._pool, self._start = pool, problem.rows.start
        call, numbers = uuid.uuid4().hex, range(n_draws)
        self._parts = [
            _Part((call, at), numbers[at : at + _PART], problem)
            for at in numbers[::_PART]
        ]
        self.values = np.zeros((n_draws, problem.rows.start.size))
        self.q = np.zeros(problem.rows.source.size)  # [R], mean of Q over draws

    def _move(self, choice: IntArray, solve: bool) -> int:
        """Move every draw; parts are added in order. Return how many draws end."""
        split = [self.values[p.draws.start : p.draws.stop] for p in self._parts]
        jobs = (
            (part, values, choice, solve)
            for part, values in zip(self._parts, split, strict=True)
        )
        self.q, all_ended = np.zeros_like(self.q), 0
        with results(self._pool, _move, jobs) as moved:
            for values, (found, sums, ended) in zip(split, moved, strict=True):
                values[:] = found
                self.q += sums
                all_ended += ended
        self.q /= self.values.shape[0]
        return all_ended

    def step(self, choice: IntArray) -> None:
        """One step of a policy on every draw."""
        self._move(choice, solve=False)

    def settle(self, choice: IntArray) -> float:
        """Solve for a policy's values; return its mean start value."""
        if self._move(choice, solve=True) < self.values.shape[0]:
            return -np.inf  # no policy at all without an end
        return float((self.values @ self._start).mean())


def multi_sample_induction(
    problem: Problem,
    choice: IntArray,
    n_draws: int,
    max_iterations: int,
    threads: int | None,
    executor: Executor | None = None,
) -> MultiSample:
    """Search from a policy ``choice`` [N] on draws of a problem with every row."""
    with workers(threads, executor) as pool:
        held = _Held(problem, n_draws, pool)
        value = held.settle(choice)
        met: dict[bytes, tuple[float | None, IntArray]] = {
            choice.tobytes(): (value, choice)
        }
        stayed, returns, settled = 0, 0, value > -np.inf
        status, converged = f"stopped after {max_iterations} iterations", False
        for iteration in range(1, max_iterations + 1):
            new = _greedy(problem, held.q, choice)
            if settled and np.array_equal(new, choice):
                status, converged = f"stays after {iteration} iterations", True
                break
            if not np.array_equal(new, choice):
                returns += new.tobytes() in met
                if returns > _RETURNS:
                    status = f"goes in circles after {iteration} iterations"
                    break
                choice, stayed, settled = new, 0, False
                met.setdefault(choice.tobytes(), (None, choice))
            stayed += 1
            if stayed < _STAYS:
                held.step(choice)
            else:
                value, settled = held.settle(choice), True
                met[choice.tobytes()] = (value, choice)
                if value == -np.inf:
                    status = (
                        f"met a policy that never ends, or cannot be solved for, after "
                        f"{iteration} iterations"
                    )
                    break
        best = _best(held, list(met.values()))
    return MultiSample(best, iteration, converged, status)


def _best(held: _Held, met: list[tuple[float | None, IntArray]]) -> IntArray:
    """Best by exact value of the policies met; the last few are solved for."""
    valued = [
        (held.settle(choice) if value is None else value, choice)
        for i, (value, choice) in enumerate(met)
        if value is not None or i >= len(met) - _STAYS
    ]
    return max(valued, key=lambda pair: pair[0])[1]


def _greedy(problem: Problem, q: FloatArray, choice: IntArray) -> IntArray:
    """Best row of each state; a tie keeps the row that is chosen."""
    n = problem.n_live
    top = np.full(n, -np.inf)
    np.maximum.at(top, problem.rows.source, q)
    tie = TIE * max(float(np.abs(q).max()), 1e-300)
    rows = np.flatnonzero(q >= top[problem.rows.source] - tie)
    new = choice.copy()
    new[problem.rows.source[rows][::-1]] = rows[::-1]
    keeps = q[choice] >= top - tie
    new[keeps] = choice[keeps]
    return new


@jit
def expect(
    table: FloatArray, rows: Layout, reward: FloatArray, paid: FloatArray
) -> None:
    """Fill ``paid`` [D, R] with expected rewards; ``reward`` is [1, E] or [D, E]."""
    for i in range(table.shape[0]):
        own = reward[i if reward.shape[0] > 1 else 0]
        expect_rewards(table[i], rows, own, paid[i])


@jit
def sum_lookahead(
    table: FloatArray,
    paid: FloatArray,
    rows: Layout,
    g: float,
    values: FloatArray,
    sums: FloatArray,
) -> None:
    """Add ``Q`` of every row over draws to ``sums`` [R]; ``values`` is [D, S]."""
    for i in range(table.shape[0]):
        known = Known(table[i], rows, paid[i], g)
        for row in range(sums.size):
            sums[row] += lookahead(row, known, values[i])


@jit
def back_up(
    table: FloatArray,
    paid: FloatArray,
    rows: Layout,
    g: float,
    choice: IntArray,
    values: FloatArray,
) -> None:
    """Move ``values`` [D, S] one step back under a policy."""
    new = np.empty(choice.size)
    for i in range(table.shape[0]):
        known = Known(table[i], rows, paid[i], g)
        for s in range(choice.size):
            new[s] = lookahead(choice[s], known, values[i])
        copy_to(values[i], new)


@jit
def settle(
    dense: Dense | None,
    krylov: Krylov | None,
    table: FloatArray,
    paid: FloatArray,
    rows: Layout,
    g: float,
    choice: IntArray,
    values: FloatArray,
) -> int:
    """Replace ``values`` by those of a policy for ever; return how many ended."""
    bench = make_bench(krylov, choice.size, values.shape[1])
    ended = 0
    for i in range(table.shape[0]):
        known = Known(table[i], rows, paid[i], g)
        off = evaluate_choice(dense, krylov, known, choice, bench, values[i])
        ended += off < np.inf
        bench.length[:] = 0.0  # a draw must not depend on the one before it
    return ended
