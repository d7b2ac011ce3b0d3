"""What was done: logged action frequencies."""

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.posterior import Belief, logged_counts


def behaviour(posterior: Belief) -> FloatArray:
    """Frequency of each available action in each state of the log.

    A state never visited, or only with actions that are not available, chooses evenly
    among its available ones.

    Parameters
    ----------
    posterior
        From `bayesmdp.fit`.

    Returns
    -------
    Array
        Policy ``[S, A]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(2, 2, reward=[1, 0], discount=0.9)
    >>> counts = bm.Counts.from_arrays([0, 0, 1], [0, 1, 1], [1, 1, 0], [3, 1, 2])
    >>> bm.policies.behaviour(bm.fit(counts, task)).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    counts, task = logged_counts("behaviour", posterior), posterior.task
    visits = counts.pair_totals(task.n_states, task.n_actions)
    weight = np.where(posterior.available, visits, 0).astype(np.float64)
    unseen = (weight.sum(axis=1) == 0) & ~task.is_terminal
    weight[unseen] = posterior.available[unseen]
    total = weight.sum(axis=1, keepdims=True)
    policy: FloatArray = np.zeros_like(weight)
    np.divide(weight, total, policy, where=total > 0)
    return _checks.sealed(policy)
