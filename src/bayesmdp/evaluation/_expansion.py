"""Moments of the rows around the nominal model.

With ``theta_bar = alpha / alpha0``, ``h[s,a,t] = r[s,a,t] + g V_bar[t]``,
``X = (I - g T_bar)^-1`` and ``w0 = pi^2 / (alpha0 + 1)``::

    q[s] = sum_a w0[s,a] Var_{t ~ theta_bar[s,a]}(h[s,a,t])
    k[s] = sum_a w0[s,a] Cov_{t ~ theta_bar[s,a]}(X[t,s], h[s,a,t])

``Cov(V) ~ X diag(q) X'`` to first order, ``E[V] ~ V_bar + g X k`` to second (Delage and
Mannor 2010, without their tensor of size S^4). ``g X k`` is at the same time the exact
mean of the second control variate of the kernel.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import Nominal, Problem


@dataclass(frozen=True, eq=False)
class Expansion:
    """Second moments of one policy's rows; states in sweep order."""

    spread: FloatArray  # [R], the terms of q
    q: FloatArray  # [N]
    k: FloatArray  # [N]


def expand(problem: Problem, nominal: Nominal, p: int = 0) -> Expansion:
    """Expand policy ``p`` of a problem with Dirichlet rows."""
    n, g, rows = problem.n_live, problem.task.discount, problem.rows
    theta, total = rows.mean, rows.row_sums
    assert rows.total is not None
    length = np.diff(rows.indptr)
    h = rows.reward + g * nominal.reference[0, p, rows.target]
    h = h - np.repeat(total(theta * h), length)
    # column s of X at the next states of a row of state s; zero once it has ended
    column = np.zeros(h.size)
    inside = rows.target < n
    source = np.repeat(rows.source, length)
    column[inside] = nominal.inverse[p][source[inside], rows.target[inside]]
    w0 = problem.policies[p] ** 2 / (rows.total + 1.0)
    spread = w0 * total(theta * h * h)
    covariance = w0 * total(theta * h * column)
    return Expansion(
        spread=spread,
        q=_by_state(problem, spread),
        k=_by_state(problem, covariance),
    )


def _by_state(problem: Problem, terms: FloatArray) -> FloatArray:
    """Sum terms ``[R]`` over the rows of each live state, ``[N]``."""
    total = np.bincount(problem.rows.source, terms, minlength=problem.n_live)
    return total.astype(np.float64)
