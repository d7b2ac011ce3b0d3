"""Which of several policies is best, on draws none of them was found on.

Policies are compared by paired differences of the objective: for the mean with control
variates, for other objectives with errors by a bootstrap over draws.
"""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import channels
from bayesmdp.evaluation.paired import differences, sweep_paired
from bayesmdp.optimisation._objectives import Objective
from bayesmdp.optimisation._oracle import Oracle

_RESAMPLES = 200


class Selection:
    """Compares policies on one sample."""

    def __init__(self, oracle: Oracle, purpose: str, n_draws: int) -> None:
        self._oracle = oracle
        self._draws = oracle.draws(purpose, n_draws)

    def differences(self, policies: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Objective of each policy minus that of the first, and the errors.

        The first must end; another that does not is worth minus infinity.
        """
        oracle = self._oracle
        ends = np.array([oracle.ends(policy) for policy in policies])
        difference, error = np.full(len(policies), -np.inf), np.zeros(len(policies))
        kept = np.stack([p for p, good in zip(policies, ends, strict=True) if good])
        swept = sweep_paired(kept, self._draws, pool=oracle.pool, solver=oracle.solver)
        if oracle.objective.linear:
            difference[ends], error[ends] = differences(swept, 0)
            return difference, error
        every = swept.sums.ended.all(axis=0)
        values = swept.sums.start[:, channels.START_VALUE, every]
        weights = swept.sums.weights[every]
        found = [
            objective_difference(
                oracle.objective, row, values[0], weights, oracle.exact
            )
            for row in values
        ]
        difference[ends], error[ends] = np.array(found).T
        return difference, error

    def order(self, policies: list[FloatArray]) -> list[int]:
        """Return indices, that of the best policy first; earlier ones win ties."""
        if len(policies) == 1:
            return [0]
        difference, _ = self.differences(policies)
        return [int(i) for i in np.argsort(-difference, kind="stable")]


def objective_difference(
    objective: Objective,
    values: FloatArray,
    others: FloatArray,
    weights: FloatArray,
    exact: bool,
) -> tuple[float, float]:
    """Objective of values ``[D]`` minus that of others on the same draws, and error."""
    share = weights / weights.sum()
    found = objective.value(values, share) - objective.value(others, share)
    if exact or np.array_equal(values, others):
        return float(found), 0.0
    rng = np.random.default_rng(0)  # the same resamples for every pair
    counts = rng.multinomial(values.size, share, size=_RESAMPLES) / values.size
    again = [objective.value(values, p) - objective.value(others, p) for p in counts]
    return float(found), float(np.std(again, ddof=1))


def objective_estimate(
    objective: Objective, values: FloatArray, weights: FloatArray, exact: bool
) -> tuple[float, float]:
    """Objective of values ``[D]`` and its Monte Carlo error, by bootstrap."""
    share = weights / weights.sum()
    found = float(objective.value(values, share))
    if exact:
        return found, 0.0
    rng = np.random.default_rng(0)
    counts = rng.multinomial(values.size, share, size=_RESAMPLES) / values.size
    return found, float(np.std([objective.value(values, p) for p in counts], ddof=1))
