"""An even choice: what somebody does who knows nothing."""

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.posterior import Belief, check_belief


def uniform(posterior: Belief) -> FloatArray:
    """Equal probability on every available action.

    Parameters
    ----------
    posterior
        A posterior or an ensemble.

    Returns
    -------
    Array
        Policy ``[S, A]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(2, 2, reward=[1, 0], discount=0.9)
    >>> counts = bm.Counts.from_arrays([0, 0, 1], [0, 1, 1], [1, 1, 0])
    >>> bm.policies.uniform(bm.fit(counts, task, min_count=1)).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    check_belief(posterior)
    policy = posterior.available.astype(np.float64)
    total = policy.sum(axis=1, keepdims=True)
    np.divide(policy, total, policy, where=total > 0)
    return _checks.sealed(policy)
