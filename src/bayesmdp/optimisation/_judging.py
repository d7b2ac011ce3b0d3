"""Which of several policies is best, how good it is, and how much better any could be.

Policies are compared on draws none of them was found on, by paired differences of the
objective: for the mean with control variates, for other objectives with errors by a
bootstrap over draws.

The hindsight bound: ``max_pi f(V) <= f(max_pi V)`` for an objective ``f`` that does not
fall where values rise: no policy beats what each draw's own best value gives. The
difference to a given policy is taken draw by draw, which is far less noisy than the two
apart.
"""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.engine import channels
from bayesmdp.engine.planning import hindsight_values, plan
from bayesmdp.evaluation import bootstrap_mcse, mean_and_mcse
from bayesmdp.evaluation.paired import differences, start_values, sweep_paired
from bayesmdp.optimisation._oracle import Oracle
from bayesmdp.optimisation._settings import Objective, objective_value
from bayesmdp.posterior import Draws


class Selection:
    """Compares policies on one sample."""

    def __init__(self, oracle: Oracle, purpose: str, n_draws: int) -> None:
        self._oracle = oracle
        self._draws = oracle.draws(purpose, n_draws)

    def differences(self, policies: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Objective of each policy minus that of the first, and the errors.

        The first must end; another that does not has minus infinity.
        """
        return self._differences(policies, errors=True)

    def _differences(
        self, policies: list[FloatArray], *, errors: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return errors of 0 where a bootstrap is not worth its time."""
        oracle = self._oracle
        ends = np.array([oracle.ends(policy) for policy in policies])
        difference, error = np.full(len(policies), -np.inf), np.zeros(len(policies))
        kept = np.stack([p for p, good in zip(policies, ends, strict=True) if good])
        swept = sweep_paired(kept, self._draws, pool=oracle.pool, solver=oracle.solver)
        if oracle.objective.linear:
            difference[ends], error[ends] = differences(swept, 0)
            return difference, error
        every = swept.sums.ended.all(axis=0) & (swept.sums.weights > 0)
        values = swept.sums.start[:, channels.START_VALUE]
        values = oracle.looked_at(values, self._draws)
        every &= np.isfinite(values).all(axis=0)
        values = values[:, every]
        weights = swept.sums.weights[every]
        given = oracle.objective, values[0], weights, self._draws
        found = [objective_difference(row, *given, error=errors) for row in values]
        difference[ends], error[ends] = np.array(found).T
        return difference, error

    def order(self, policies: list[FloatArray]) -> list[int]:
        """Return indices, that of the best policy first; earlier ones win ties."""
        if len(policies) == 1:
            return [0]
        difference, _ = self._differences(policies, errors=False)
        return [int(i) for i in np.argsort(-difference, kind="stable")]


def objective_difference(
    values: FloatArray,
    objective: Objective,
    others: FloatArray,
    weights: FloatArray,
    draws: Draws,
    *,
    error: bool = True,
) -> tuple[float, float]:
    """Objective of values ``[D]`` minus that of others on the same draws, and error."""
    if np.array_equal(values, others):
        return 0.0, 0.0

    def gap(probability: FloatArray) -> float:
        value = objective_value(objective, values, probability)
        return value - objective_value(objective, others, probability)

    found = gap(weights / weights.sum())
    if not error:
        return found, 0.0
    chain = draws.belief.chain_noise
    return found, bootstrap_mcse(gap, weights, exact=draws.exact, chain=chain)


def objective_estimate(
    objective: Objective, values: FloatArray, weights: FloatArray, draws: Draws
) -> tuple[float, float]:
    """Objective of values ``[D]`` and its Monte Carlo error."""

    def value(probability: FloatArray) -> float:
        return objective_value(objective, values, probability)

    share, chain = weights / weights.sum(), draws.belief.chain_noise
    error = objective.mcse(values, share)
    if error is None or (draws.exact and not chain):
        error = bootstrap_mcse(value, weights, exact=draws.exact, chain=chain)
    else:
        error *= np.sqrt((not draws.exact) + chain * values.size)
    return value(share), error


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
    best, values = (oracle.looked_at(x, draws) for x in (best, values))
    solved = np.isfinite(values) & (draws.weights > 0)
    best, values, weights = best[solved], values[solved], draws.weights[solved]
    if np.isnan(best).any():
        return np.nan, np.nan
    if not oracle.objective.linear:
        return objective_difference(best, oracle.objective, values, weights, draws)
    chain = oracle.belief.chain_noise
    mean, error = mean_and_mcse(best - values, weights, exact=oracle.exact, chain=chain)
    return float(mean), float(error)
