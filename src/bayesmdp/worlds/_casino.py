"""The casino (paper, appendix B): the best memoryless policy is a gamble.

Being in the casino costs 1 a step. Leaving ends the evening. Playing wins a payout with
probability ``1 - theta`` and otherwise keeps the player there. ``theta`` is 0 or 1, and
nobody knows which: two models of equal weight. Always playing may never end, never
playing earns nothing, and the best is to play with probability 0.69 each time. (The
paper says that never playing is worth 1; by its own formula it is -1.)
"""

import numpy as np

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Dynamics, Task
from bayesmdp.posterior import Ensemble

_CASINO, _WON, _OUT = range(3)


def casino(
    payout: float = 10.0, discount: float = 0.99, p_lose: float = 0.5
) -> Ensemble:
    """Two casinos, one of which always pays and one of which never does.

    Parameters
    ----------
    payout
        What winning pays.
    discount
        In [0, 1).
    p_lose
        Probability of the model in which playing always loses.

    Returns
    -------
    Ensemble
        State 0 is the casino and the start; action 0 plays, action 1 leaves.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.worlds.casino().weights.tolist()
    [0.5, 0.5]
    """
    payout = _checks.real("payout", payout, ArgumentError, 0)
    p_lose = _checks.real("p_lose", p_lose, ArgumentError, 0, 1)
    reward = np.zeros(3)
    reward[_CASINO], reward[_WON] = -1.0, payout
    task = Task(
        3,
        2,
        reward,
        discount=discount,
        start=_CASINO,
        terminal=[_WON, _OUT],
        state_labels=["casino", "won", "out"],
        action_labels=["play", "leave"],
    )
    models = []
    for theta in (0.0, 1.0):
        dense = np.zeros((3, 2, 3))
        dense[_CASINO, 0, [_CASINO, _WON]] = theta, 1.0 - theta
        dense[_CASINO, 1, _OUT] = 1.0
        dense[_WON, :, _WON] = dense[_OUT, :, _OUT] = 1.0
        models.append(Dynamics.from_dense(dense))
    return Ensemble(models, task, weights=[1.0 - p_lose, p_lose])
