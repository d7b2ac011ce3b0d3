"""Optimal for a second-order expansion of the value (Delage and Mannor 2010).

Good where the posterior is narrow; with little data the expansion can predict what no
model keeps, and the policy is then worse than the nominal one.
"""

from __future__ import annotations

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.errors import TooLargeError
from bayesmdp.posterior import Belief, check_belief, dirichlet_total

_SOFTNESS = 0.1
_N_STEPS = 100


def second_order(posterior: Belief) -> FloatArray:
    """Policy by ascent on the second-order objective, from the softened nominal one.

    Parameters
    ----------
    posterior
        From `bayesmdp.fit`, of up to 2,000 live states.

    Returns
    -------
    Array
        Policy ``[S, A]``, in general stochastic.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0)
    >>> data, prior = world.sample(200, seed=0), bm.SymmetricPrior()
    >>> posterior = bm.fit(data, world.task, prior=prior)
    >>> bm.policies.second_order(posterior).sum(axis=1).round(6).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    from bayesmdp.engine import MAX_INVERSE, Problem, Slopes
    from bayesmdp.engine.ascent import AscentState, climb, frank_wolfe_gap, soften
    from bayesmdp.engine.planning import plan
    from bayesmdp.engine.second_order import second_order_objective

    check_belief(posterior)
    posterior.task.plain("second_order")
    dirichlet_total("second_order", posterior)
    problem = Problem.of_belief(posterior)
    n, source = problem.n_live, problem.rows.source
    if n > MAX_INVERSE:
        raise TooLargeError(
            f"`second_order` inverts a matrix of {n} states ({8e-9 * n**2:.1f} GB and "
            f"more); it is offered up to {MAX_INVERSE}."
        )

    def oracle(policy: FloatArray) -> Slopes:
        found = second_order_objective(problem, policy)
        mean = np.bincount(source, policy * found.gradient, minlength=n)
        slope = found.gradient - mean[source]
        left = frank_wolfe_gap(slope, source, n)
        return Slopes(found.value, slope, found.visits, left, 0.0)

    chosen = plan(problem)
    rows = np.zeros(source.size)
    rows[chosen.choice] = 1.0
    scale = float(np.abs(chosen.value).max())
    state = AscentState(soften(rows, source, n, _SOFTNESS))
    climb(state, oracle, source, n, _N_STEPS, 1e-7 * scale)
    return _checks.sealed(problem.rows.as_policy(state.policy))
