"""Optimal for visit frequencies: the plug-in solution.

Next states of a pair are taken to be as likely as they were frequent. A pair that was
never seen has no frequencies; its next states are taken as equally likely over the
support its prior gave it. At discount 1 there is no such policy where frequencies lead
to no terminal state, whatever the prior allows besides.
"""

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.model import Dynamics
from bayesmdp.posterior import Belief, logged_counts


def mle(posterior: Belief) -> FloatArray:
    """Policy that is optimal for the maximum-likelihood model.

    Parameters
    ----------
    posterior
        From `bayesmdp.fit`; only its counts and support matter.

    Returns
    -------
    Array
        Deterministic policy ``[S, A]``; tied actions are decided, always alike.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld(p_rand=0.0)
    >>> posterior = bm.fit(world.sample(2_000, seed=0), world.task)
    >>> bm.policies.mle(posterior)[19].tolist()  # above the goal: down
    [0.0, 0.0, 1.0, 0.0]
    """
    from bayesmdp.engine import Problem
    from bayesmdp.engine.planning import plan, warn_unfinished

    known = Problem.of_dynamics(frequencies(posterior), posterior.task)
    who = "no policy ends at the visit frequencies; take another one than `mle`"
    result = plan(known, who)
    warn_unfinished("mle", result)
    return result.policy


def frequencies(posterior: Belief) -> Dynamics:
    """Return the maximum-likelihood model on the available pairs."""
    counts, layout = logged_counts("mle", posterior), posterior.rows().layout
    usable = posterior.available[layout.state, layout.action]
    rows = layout.take(np.flatnonzero(usable))
    _, entry = rows.find(counts.state, counts.action, counts.next_state)
    seen = entry >= 0
    count = np.zeros(rows.next_state.size)
    count[entry[seen]] = counts.count[seen]
    total = rows.row_sums(count)
    unseen = total == 0
    count[unseen[rows.row_of_entry]] = 1.0
    total[unseen] = np.diff(rows.indptr)[unseen]
    return Dynamics(rows, _checks.sealed(count / total[rows.row_of_entry]))
