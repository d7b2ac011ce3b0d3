"""Delage and Mannor's (2010) second-order objective and its gradient, on arrays.

With nominal ``X``, ``V``, ``Q``, ``d``, ``h = r + g V``, ``w0 = pi^2 / (alpha0 + 1)``,
``C[s,a] = Cov_{t ~ theta_bar[s,a]}(X[t,s], h[s,a,t])`` and ``k[s] = sum_a w0 C``::

    F = rho.V + g d.k

    w[t]   = g^2 sum_{s,a} d[s] w0[s,a] theta_bar[s,a,t] (X[t,s] - E X[.,s])
    E[t,s] = g d[s] sum_a w0[s,a] theta_bar[s,a,t] (h[s,a,t] - E h)

    dF/dpi[s,a] = d[s] Q[s,a] + g^2 d[s] (theta_bar[s,a].(X k))
                + 2 g d[s] pi[s,a] / (alpha0[s,a] + 1) C[s,a] + (X' w)[s] Q[s,a]
                + g sum_t theta_bar[s,a,t] (X E' X)[t,s]

for any reward, without a tensor of size S^4.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine._cpu import CPU
from bayesmdp.engine._rows import Problem

__all__ = ["SecondOrder", "second_order_objective"]


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """Objective of a policy, its gradient, and the nominal occupancy."""

    value: float
    gradient: FloatArray  # [R]
    visits: FloatArray  # [N]


def second_order_objective(problem: Problem, policy: FloatArray) -> SecondOrder:
    """Evaluate policy rows ``[R]`` of a problem with every row."""
    n, g, rows = problem.n_live, problem.task.discount, problem.rows
    theta, source, target = rows.mean, rows.source, rows.target
    row, over_row = rows.row_of_entry, rows.row_sums
    live = target < n
    safe = np.where(live, target, 0)
    assert rows.total is not None

    def ahead(values: FloatArray) -> FloatArray:
        return over_row(theta * np.where(live, values[safe], 0.0))

    def by_state(values: FloatArray) -> FloatArray:
        return np.bincount(source, values, minlength=n).astype(np.float64)

    X = CPU().inverses(problem.with_policies(policy[None]))[0].T
    paid = over_row(theta * rows.reward)
    V = X @ by_state(policy * paid)
    d = X.T @ rows.start[:n]
    Q = paid + g * ahead(V)
    h = rows.reward + g * np.where(live, V[safe], 0.0)
    column = np.where(live, X[safe, source[row]], 0.0)
    narrow = 1.0 / (rows.total + 1.0)
    w0 = policy**2 * narrow
    mean_column = over_row(theta * column)
    C = over_row(theta * (column - mean_column[row]) * h)
    k = by_state(w0 * C)
    flow = (d[source] * w0)[row] * theta
    w = g**2 * np.bincount(
        safe[live], (flow * (column - mean_column[row]))[live], minlength=n
    )
    E = np.zeros((n, n))
    np.add.at(E, (safe[live], source[row][live]), g * (flow * (h - Q[row]))[live])
    around = X @ E.T @ X
    gradient = (
        d[source] * Q
        + g**2 * d[source] * ahead(X @ k)
        + 2 * g * d[source] * policy * narrow * C
        + (X.T @ w)[source] * Q
        + g * over_row(theta * np.where(live, around[safe, source[row]], 0.0))
    )
    value = float(rows.start[:n] @ V + g * d @ k)
    return SecondOrder(value, gradient, d)
