"""How much better could any policy be: the hindsight bound.

``max_pi f(V) <= f(max_pi V)`` for an objective ``f`` that does not fall where values
rise: no policy beats what each draw's own best value gives. The difference to a given
policy is taken draw by draw, which is far less noisy than the two apart.
"""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine.hindsight import hindsight_values
from bayesmdp.engine.planning import plan
from bayesmdp.evaluation import mean_and_error
from bayesmdp.evaluation.paired import start_values
from bayesmdp.optimisation._oracle import Oracle
from bayesmdp.optimisation._selection import objective_difference


def hindsight_bound(
    oracle: Oracle, policy: FloatArray, n_draws: int
) -> tuple[float, float]:
    """Return what perfect information adds to a policy's objective, and the error.

    Not a number where the objective has no such bound, or a draw's own best policy was
    not found.
    """
    if not oracle.objective.monotone:
        return np.nan, np.nan
    draws = oracle.draws("bound", n_draws)
    problem = oracle.problem.with_stream(draws.stream)
    warm = plan(oracle.problem).choice
    best = hindsight_values(problem, draws.n_draws, warm, oracle.pool)
    values = start_values(policy, draws, pool=oracle.pool, solver=oracle.solver)
    solved = np.isfinite(values)
    best, values, weights = best[solved], values[solved], draws.weights[solved]
    if np.isnan(best).any():
        return np.nan, np.nan
    if not oracle.objective.linear:
        exact = oracle.exact
        return objective_difference(oracle.objective, best, values, weights, exact)
    mean, error = mean_and_error(best - values, weights, exact=oracle.exact)
    return float(mean), float(error)
