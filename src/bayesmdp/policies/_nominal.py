"""Optimal for the posterior-mean model, as if there were no doubt about it."""

from bayesmdp._typing import FloatArray
from bayesmdp.posterior import Belief, check_belief


def nominal(posterior: Belief) -> FloatArray:
    """Policy that is optimal for the mean of the belief.

    Parameters
    ----------
    posterior
        A posterior or an ensemble.

    Returns
    -------
    Array
        Deterministic policy ``[S, A]``; tied actions are decided, always alike.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld(p_rand=0.0)
    >>> posterior = bm.fit(world.sample(20_000, seed=0), world.task)
    >>> bm.policies.nominal(posterior)[19].tolist()  # above the goal: down
    [0.0, 0.0, 1.0, 0.0]
    """
    from bayesmdp.engine import Problem
    from bayesmdp.engine.planning import plan, warn_unfinished

    check_belief(posterior)
    result = plan(Problem.of_belief(posterior))
    warn_unfinished("nominal", result)
    return result.policy
