"""How much better could any policy be: the hindsight bound.

``max_pi E[V] <= E[max_pi V]``: no policy beats the mean over draws of each draw's own
best value. The difference to a given policy is taken draw by draw, which is far less
noisy than the two means apart.
"""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine.hindsight import hindsight_values
from bayesmdp.engine.planning import plan
from bayesmdp.evaluation.paired import start_values
from bayesmdp.optimisation._oracle import Field

_MOST = 256


def hindsight_bound(field: Field, policy: FloatArray) -> tuple[float, float]:
    """Return what perfect information adds to a policy's value, and the error."""
    draws = field.draws("bound", field.affordable(3e9, 16, _MOST))
    problem = field.problem.with_stream(draws.stream)
    warm = plan(field.problem).choice
    best = hindsight_values(problem, draws.n_draws, warm, field.pool)
    values = start_values(policy, draws, pool=field.pool, solver=field.solver)
    solved = np.isfinite(values)
    gap, weights = (best - values)[solved], draws.weights[solved]
    mean = float(weights @ gap / weights.sum())
    if field.exact:
        return mean, 0.0
    return mean, float(np.std(gap, ddof=1) / np.sqrt(gap.size))
