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

import numpy as np

from bayesmdp._jit import jit
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.engine._dense import factorise, solve
from bayesmdp.engine._layout import Layout
from bayesmdp.engine._solve import ENDLESS

TIE = 1e-11  # gain, relative to the largest value, below which actions are tied
MAX_ITERATIONS = 1000
# Modified policy iteration: at most so many rounds of so many sweeps, while more than
# one state in so many still switches.
_ROUNDS, _SWEEPS, _FEW = 30, 10, 20


@jit
def lookahead(
    row: int,
    theta: FloatArray,
    rows: Layout,
    paid: FloatArray,
    g: float,
    value: FloatArray,
) -> float:
    """Return ``Q`` of one row; ``paid`` [R] is the expected reward of each."""
    ahead = 0.0
    for e in range(rows.indptr[row], rows.indptr[row + 1]):
        ahead += theta[e] * value[rows.target[e]]
    return paid[row] + g * ahead


@jit
def improve(
    theta: FloatArray,
    rows: Layout,
    paid: FloatArray,
    g: float,
    value: FloatArray,
    choice: IntArray,
    best: FloatArray,
    banned: BoolArray,
) -> int:
    """Switch to better rows that are not banned; return the number of switches.

    ``choice`` [N] holds a row for each live state; ``best`` [N] gets its ``Q``.
    """
    n = choice.size
    scale = 0.0
    for i in range(n):
        scale = max(scale, abs(value[i]))
        best[i] = lookahead(choice[i], theta, rows, paid, g, value)
    tie = TIE * scale
    switched = np.zeros(n, dtype=np.bool_)
    for row in range(rows.source.size):
        i = rows.source[row]
        q = lookahead(row, theta, rows, paid, g, value)
        if q > best[i] + tie and not banned[row]:
            best[i] = q
            choice[i] = row
            switched[i] = True
    return int(switched.sum())


@jit
def evaluate_choice(
    theta: FloatArray,
    rows: Layout,
    paid: FloatArray,
    g: float,
    choice: IntArray,
    matrix: FloatArray,
    value: FloatArray,
) -> bool:
    """Solve for the value of a deterministic policy; False where it does not end."""
    n = choice.size
    slack = np.empty(n)
    matrix[:] = 0.0
    for i in range(n):
        matrix[i, i] = 1.0
        slack[i] = 1.0 - g
        for e in range(rows.indptr[choice[i]], rows.indptr[choice[i] + 1]):
            if rows.target[e] < n:
                matrix[i, rows.target[e]] -= g * theta[e]
            else:
                slack[i] += g * theta[e]
        value[i] = paid[choice[i]]
    if not factorise(matrix, slack) > ENDLESS:
        return False
    solve(matrix, value)
    return True


@jit
def approach(
    theta: FloatArray,
    rows: Layout,
    paid: FloatArray,
    g: float,
    value: FloatArray,
    choice: IntArray,
    banned: BoolArray,
) -> None:
    """Run modified policy iteration from ``value`` until the policy stays."""
    best = np.empty(choice.size)
    for _ in range(_ROUNDS):
        switches = improve(theta, rows, paid, g, value, choice, best, banned)
        if switches * _FEW <= choice.size:
            return
        for _ in range(_SWEEPS):
            for i in range(choice.size):
                value[i] = lookahead(choice[i], theta, rows, paid, g, value)


@jit
def nearest_choice(theta: FloatArray, rows: Layout, choice: IntArray) -> bool:
    """Choose rows that may lead nearer to the end; False where some state cannot."""
    n = choice.size
    near = np.zeros(n, dtype=np.bool_)
    changed = True
    while changed:
        changed = False
        reached = near.copy()
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
                    break
    return bool(near.all())


@jit
def ban_endless(
    theta: FloatArray,
    rows: Layout,
    paid: FloatArray,
    g: float,
    before: IntArray,
    choice: IntArray,
    matrix: FloatArray,
    value: FloatArray,
    banned: BoolArray,
) -> None:
    """Ban the switches from ``before`` to ``choice`` that alone never end, or one."""
    last = -1
    found = False
    trial = before.copy()
    for i in range(choice.size):
        if choice[i] != before[i]:
            last = choice[i]
            trial[i] = choice[i]
            if not evaluate_choice(theta, rows, paid, g, trial, matrix, value):
                banned[choice[i]] = True
                found = True
            trial[i] = before[i]
    if not found and last >= 0:
        banned[last] = True


@jit
def plan_model(
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
    number says that the search was cut short: at the limit of iterations, or because
    a better policy would never end.
    """
    n = choice.size
    matrix = np.empty((n, n))
    best = np.empty(n)
    banned = np.zeros(rows.source.size, dtype=np.bool_)
    paid = np.zeros(rows.source.size)
    for row in range(rows.source.size):
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            paid[row] += theta[e] * reward[e]
    before = choice.copy()
    value[:] = 0.0
    if cold and g < 1.0:
        approach(theta, rows, paid, g, value, choice, banned)
        before[:] = choice
    if g == 1.0 and not evaluate_choice(theta, rows, paid, g, choice, matrix, value):
        if not nearest_choice(theta, rows, choice):
            return -1
        before[:] = choice
    for iteration in range(1, MAX_ITERATIONS + 1):
        if not evaluate_choice(theta, rows, paid, g, choice, matrix, value):
            ban_endless(theta, rows, paid, g, before, choice, matrix, value, banned)
            choice[:] = before
            evaluate_choice(theta, rows, paid, g, choice, matrix, value)
        before[:] = choice
        if improve(theta, rows, paid, g, value, choice, best, banned) == 0:
            return -iteration if banned.any() else iteration
    choice[:] = before
    return -MAX_ITERATIONS
