"""Planning for a weighted sum of rewards of different discounts, without a horizon.

What is best changes with time: at first all rewards count, in the end the one that is
discounted least decides (Feinberg and Shwartz 1994), so that there is no Bellman
equation of stationary policies, and none need be best. `plan_sum` goes from policies
that are best where all rewards have one of the discounts to one that no change in a
single state betters, as with a horizon. `best_by_time` bounds what any policy reaches:
backward induction over some time, from what each reward alone could reach after it ::

    U_T[s] = sum_k g_k^T max_pi w_k V_k[s]
    U_t[s] = max_a sum_t theta (sum_k w_k g_k^t r_k + U_t+1[t])

After ``T`` only the reward that is discounted least still counts, and then ``U_T`` is
no more than can be reached. ``T`` is at most 2,000 steps: where the second largest
discount is above 0.99, other rewards still count after it, each bounded by itself, and
the bound is wider.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._chain import Layout
from bayesmdp.engine._cpu import CPU
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._solve import OCCUPANCY
from bayesmdp.engine.horizons import Solved, improve_from
from bayesmdp.errors import ConvergenceError, EndlessError

_NOTHING = 1e-8  # share of a reward that no longer counts
_MOST = 2000  # steps


def with_one_discount(problem: Problem) -> Iterator[Problem]:
    """Yield the sum as one reward, with each of the discounts."""
    rows, weight = problem.rows, np.array(problem.weights)
    reward, ends = weight @ problem.reward, weight @ problem.terminal_value
    for g in sorted(set(problem.discounts.tolist()), reverse=True):
        own = replace(
            rows, task=rows.task.with_discount(g), reward=reward, terminal_value=ends
        )
        yield Problem(own, problem.policies)


def plan_sum(
    problem: Problem, starts: list[IntArray]
) -> tuple[IntArray, FloatArray, int]:
    """Rows ``[N]`` of a good stationary policy, its values ``[S]``, and evaluations.

    Those below 0 say that the search was stopped. Of the starts the best end counts.
    """
    found = [improve_from(problem, choice, _solved) for choice in starts]
    found = [x for x in found if np.isfinite(x[1]).all()]
    if not found:
        raise EndlessError(
            "No policy was found whose episodes can be resolved; use smaller discounts."
        )
    return max(found, key=lambda x: float(problem.rows.start @ x[1]))


def _solved(problem: Problem, choice: IntArray) -> Solved:
    """Start value, values ``[S]`` and gradient ``[R]``; minus infinity if unsolved."""
    rows, lost = problem.rows, problem.lost
    policy = np.zeros((1, rows.source.size))
    policy[0, choice] = 1.0
    one, mean, row_sums = problem.with_policies(policy), rows.mean, rows.row_sums
    cpu = CPU()
    try:
        how = cpu.choose(one, "auto", adjoint=True)
        found = cpu.solve_mean(one.apart, how, OCCUPANCY)
    except (ConvergenceError, EndlessError):
        nowhere = np.full(rows.start.size, -np.inf)
        return -np.inf, nowhere, np.zeros(policy.size)
    value, slope = np.zeros(rows.start.size), np.zeros(policy.size)
    for k, weight in enumerate(problem.weights or ()):
        v, d, g, paid = found[0, k], found[2, k], one.discounts[k], problem.reward[k]
        gain = row_sums(mean * (paid + g * v[rows.target])) - v[rows.source]
        own = row_sums(mean * (paid - g * problem.terminal_value[k, rows.target]))
        of_state = np.bincount(rows.source, policy[0] * own, rows.start.size)
        first = lost * rows.start[rows.source] * (own - of_state[rows.source])
        slope += weight * (d[rows.source] * gain - first)
        value += weight * (v - lost * of_state)
    return float(rows.start @ value), value, slope


def best_by_time(
    problem: Problem,
    table: FloatArray,
    reward: FloatArray,
    final: FloatArray,
    alone: FloatArray,
) -> tuple[FloatArray, IntArray]:
    """Bound start values ``[n]`` of models ``table`` [n, E]; first rows ``[n, N]``.

    ``alone`` [K, n, S] is what each reward could reach, with its weight. Rewards are
    [n or 1, K, E], terminal values [n or 1, K, S].
    """
    rows, g, n = problem.rows, problem.discounts, len(table)
    own = reward - g[:, None] * final[:, :, rows.target]
    weight = np.array(problem.weights)
    out, choices = np.empty(n), np.zeros((n, problem.n_live), dtype=np.int64)
    second = np.unique(g)[-2]
    n_times = int(np.ceil(np.log(_NOTHING) / np.log(max(second, _NOTHING))))
    fade = weight[:, None] * g[:, None] ** np.arange(min(n_times, _MOST))  # [K, T]
    after = g ** fade.shape[1]
    for i in range(n):
        at, ends = i % len(reward), final[i % len(final)]
        paid = np.stack([rows.row_sums(table[i] * x) for x in reward[at]])
        first = np.stack([rows.row_sums(table[i] * x) for x in own[i % len(own)]])
        value = after @ alone[:, i]
        value[problem.n_live :] = 0.0  # on arrival, rewards hold what it pays
        less = problem.lost * (weight @ first)
        induce(table[i], rows.layout, fade, paid, less, choices[i], value)
        out[i] = rows.start @ value + rows.start @ problem.of_columns(ends)[0]
    return out, choices


@jit
def induce(
    theta: FloatArray,
    rows: Layout,
    fade: FloatArray,
    paid: FloatArray,
    less: FloatArray,
    choice: IntArray,
    value: FloatArray,
) -> None:
    """Move values ``[S]`` back to the start; leave the first rows in ``choice`` [N].

    Rewards are ``fade[k, t] paid[k, row]``, at the start ``less`` [R].
    """
    new = np.empty(choice.size)
    for t in range(fade.shape[1] - 1, -1, -1):
        new[:] = -np.inf
        for row in range(rows.source.size):
            q = -less[row] if t == 0 else 0.0
            for k in range(fade.shape[0]):
                q += fade[k, t] * paid[k, row]
            for at in range(rows.indptr[row], rows.indptr[row + 1]):
                e = np.uint64(at)
                q += theta[e] * value[rows.target[e]]
            s = rows.source[row]
            if q > new[s]:
                new[s] = q
                choice[s] = row
        value[: new.size] = new
