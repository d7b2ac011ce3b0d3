"""The best policy of one known model.

Howard's policy iteration with exact evaluation: every switch of an action raises the
value, so no policy comes twice. A switch must gain more than rounding can explain
(`TIE` of the size of the values), so exactly tied actions, as the filled rows of the
ICU-Sepsis model have them, stay as they are and nothing cycles. Before that, for
discounts below 1, sweeps of modified policy iteration (Puterman and Shin 1978) find
most of the policy at the price of the rows alone.

With discount 1 the search starts from a policy that ends (each state takes the action
that may lead nearest to the end), and a switch that would never end is taken back and
banned: only policies that end are returned.
"""

from typing import NamedTuple

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BoolArray, FloatArray, IndexArray, IntArray
from bayesmdp.engine._chain import Layout
from bayesmdp.engine._dense import ENDLESS, copy_to, factorise, solve
from bayesmdp.engine._krylov import (
    ACCEPTED,
    N_VECTORS,
    System,
    bounding_scale,
    fill_inverse,
    gather,
    iterate,
    largest,
    size_of,
)
from bayesmdp.engine._solve import Dense, Krylov

TIE = 2e-11  # gain, relative to the largest value, below which actions are tied
_TOLERANCE = 2e-13  # bound on the error of iterations, well below a tie
MAX_ITERATIONS = 1000
FAILED = -(10**9)
# Modified policy iteration: at most so many rounds of so many sweeps, while more than
# one state in so many still switches.
_ROUNDS, _SWEEPS, _FEW = 30, 10, 20


class Bench(NamedTuple):
    """Work space for evaluations; what is not needed is empty."""

    matrix: FloatArray  # [N, N]
    slack: FloatArray  # [N]
    vectors: FloatArray  # [8, S]
    length: FloatArray  # [S], of the episodes of the policy evaluated last
    ones: FloatArray  # [S]
    begin: IndexArray  # [N]
    stop: IndexArray  # [N]


class Known(NamedTuple):
    """One known model, and what each of its rows pays."""

    theta: FloatArray  # [E]
    rows: Layout
    paid: FloatArray  # [R], expected rewards
    g: float


@jit
def make_bench(krylov: Krylov | None, n: int, n_states: int) -> Bench:
    """Allocate for elimination, or for iterations."""
    size, n_vectors = n, 0
    if krylov is not None:
        size, n_vectors = 0, N_VECTORS
    return Bench(
        np.empty((size, size)),
        np.empty(n),
        np.zeros((n_vectors, n_states)),
        np.zeros(n_states),
        np.ones(n_states),
        np.empty(n, dtype=np.uint32),
        np.empty(n, dtype=np.uint32),
    )


@jit
def expect_rewards(
    theta: FloatArray, rows: Layout, reward: FloatArray, paid: FloatArray
) -> None:
    """Fill ``paid`` [R] with the expected reward of each row."""
    for row in range(rows.source.size):
        total = 0.0
        for at in range(rows.indptr[row], rows.indptr[row + 1]):
            e = np.uint64(at)
            total += theta[e] * reward[e]
        paid[row] = total


@jit
def lookahead(row: int, known: Known, value: FloatArray) -> float:
    """Return ``Q`` of one row."""
    theta, rows = known.theta, known.rows
    first, last = rows.indptr[row], rows.indptr[row + 1]
    return known.paid[row] + known.g * gather(theta, rows.target, first, last, value)


@jit
def improve(
    known: Known,
    value: FloatArray,
    choice: IntArray,
    best: FloatArray,
    banned: BoolArray,
    off: float,
) -> int:
    """Switch to better rows that are not banned; return the number of switches.

    ``choice`` [N] holds a row for each live state; ``best`` [N] gets its ``Q``. A gain
    counts that is above a tie and above what the error ``off`` of the values, relative
    to the largest, could feign.
    """
    n = choice.size
    scale = 0.0
    for i in range(n):
        scale = max(scale, abs(value[i]))
        best[i] = lookahead(choice[i], known, value)
    tie = max(TIE, 4.0 * off) * scale
    switches = 0
    switched = np.zeros(n, dtype=np.bool_)
    for row in range(known.rows.source.size):
        i = known.rows.source[row]
        q = lookahead(row, known, value)
        if q > best[i] + tie and not banned[row]:
            best[i] = q
            choice[i] = row
            if not switched[i]:
                switched[i] = True
                switches += 1
    return switches


@jit
def evaluate_choice(
    dense: Dense | None,
    krylov: Krylov | None,
    known: Known,
    choice: IntArray,
    bench: Bench,
    value: FloatArray,
) -> float:
    """Solve for the value of a deterministic policy.

    Returns how far off it may be, relative to the largest value: 0 for elimination;
    infinity where the policy does not end, or iterations, which start from ``value``
    [S], fail.
    """
    n, off = choice.size, np.inf
    if dense is not None:
        _assemble_choice(known, choice, bench.matrix, bench.slack)
        for i in range(n):
            value[i] = known.paid[choice[i]]
        if factorise(bench.matrix, bench.slack) > ENDLESS:
            solve(bench.matrix, value)
            off = 0.0
    if krylov is not None:
        off = _iterate_choice(krylov, known, choice, bench, value)
    return off


@jit
def _iterate_choice(
    krylov: Krylov, known: Known, choice: IntArray, bench: Bench, value: FloatArray
) -> float:
    """Solve by iterations, as `evaluate_choice`."""
    n, rows = choice.size, known.rows
    inverse, scale, rhs = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        bench.begin[i] = rows.indptr[choice[i]]
        bench.stop[i] = rows.indptr[choice[i] + 1]
        rhs[i] = known.paid[choice[i]]
    where = bench.begin, bench.stop, rows.target
    system = System(known.g, krylov.backward, *where, known.theta, inverse)
    fill_inverse(system)
    if bounding_scale(system, bench.length, bench.ones, scale, bench.vectors) == 0:
        return np.inf
    copy_to(bench.length, bench.vectors[6])
    found = iterate(system, rhs, scale, 0.0, _TOLERANCE, ACCEPTED, value, bench.vectors)
    if found < 0:
        return np.inf
    size = size_of(value, n, 0.0) if found > 1 else 0.0
    return largest(bench.vectors[0], scale) / size if size > 0.0 else 0.0


@jit
def _assemble_choice(
    known: Known, choice: IntArray, matrix: FloatArray, slack: FloatArray
) -> None:
    """Fill ``matrix`` with ``I - g T`` and ``slack`` with its row sums."""
    n, theta, rows, g = choice.size, known.theta, known.rows, known.g
    matrix[:] = 0.0
    for i in range(n):
        matrix[i, i] = 1.0
        slack[i] = 1.0 - g
        for e in range(rows.indptr[choice[i]], rows.indptr[choice[i] + 1]):
            if rows.target[e] < n:
                matrix[i, rows.target[e]] -= g * theta[e]
            else:
                slack[i] += g * theta[e]


@jit
def approach(
    known: Known, value: FloatArray, choice: IntArray, banned: BoolArray
) -> None:
    """Run modified policy iteration from ``value`` until the policy stays."""
    best = np.empty(choice.size)
    for _ in range(_ROUNDS):
        switches = improve(known, value, choice, best, banned, 0.0)
        if switches * _FEW <= choice.size:
            return
        for _ in range(_SWEEPS):
            for i in range(choice.size):
                value[i] = lookahead(choice[i], known, value)


@jit
def nearest_choice(theta: FloatArray, rows: Layout, choice: IntArray) -> bool:
    """Choose rows that may lead nearer to the end; False where some state cannot."""
    n, found = choice.size, 0
    near, reached = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    changed = True
    while changed:
        changed = False
        copy_to(reached, near)
        for row in range(rows.source.size):
            i = rows.source[row]
            if near[i]:
                continue
            for e in range(rows.indptr[row], rows.indptr[row + 1]):
                j = rows.target[e]
                if theta[e] > 0.0 and (j >= n or reached[j]):
                    near[i] = True
                    choice[i] = row
                    changed = True
                    found += 1
                    break
    return found == n


@jit
def ban_endless(
    dense: Dense,
    known: Known,
    before: IntArray,
    choice: IntArray,
    bench: Bench,
    value: FloatArray,
    banned: BoolArray,
) -> bool:
    """Ban the switches from ``before`` to ``choice`` that alone never end, or one.

    Returns whether there was any.
    """
    last = -1
    found = False
    trial = np.empty_like(before)
    copy_to(trial, before)
    for i in range(choice.size):
        if choice[i] != before[i]:
            last = choice[i]
            trial[i] = choice[i]
            if evaluate_choice(dense, None, known, trial, bench, value) == np.inf:
                banned[choice[i]] = True
                found = True
            trial[i] = before[i]
    if not found and last >= 0:
        banned[last] = True
    return last >= 0


@jit
def plan_model(
    dense: Dense | None,
    krylov: Krylov | None,
    theta: FloatArray,
    rows: Layout,
    reward: FloatArray,
    g: float,
    choice: IntArray,
    value: FloatArray,
    cold: bool,
) -> int:
    """Find the best rows, starting from ``choice`` [N]; return iterations.

    ``value`` [S] is in sweep order and gets the value of the result. A negative
    number says that the search was cut short: at the limit of iterations, because a
    better policy would never end, or, `FAILED`, because iterations did not solve for
    the value of a policy: elimination can tell why.
    """
    n = choice.size
    bench = make_bench(krylov, n, value.size)
    best, before = np.empty(n), np.empty_like(choice)
    banned = np.zeros(rows.source.size, dtype=np.bool_)
    known = Known(theta, rows, np.empty(rows.source.size), g)
    expect_rewards(theta, rows, reward, known.paid)
    value[:] = 0.0
    if cold and g < 1.0:
        approach(known, value, choice, banned)
    copy_to(before, choice)
    bans = False
    if g == 1.0 and (
        evaluate_choice(dense, krylov, known, choice, bench, value) == np.inf
    ):
        if not nearest_choice(theta, rows, choice):
            return -1
        copy_to(before, choice)
        value[:] = 0.0
    for iteration in range(1, MAX_ITERATIONS + 1):
        off = evaluate_choice(dense, krylov, known, choice, bench, value)
        if off == np.inf:
            if dense is not None:
                if ban_endless(dense, known, before, choice, bench, value, banned):
                    bans = True
                copy_to(choice, before)
                off = evaluate_choice(dense, krylov, known, choice, bench, value)
            if krylov is not None:
                copy_to(choice, before)
                return FAILED
        copy_to(before, choice)
        if improve(known, value, choice, best, banned, off) == 0:
            return -iteration if bans else iteration
    copy_to(choice, before)
    return -MAX_ITERATIONS
