"""Wet Chicken: paddle close to a waterfall without falling (Hans and Udluft 2009).

The river is ``length`` squares long and ``width`` wide; state ``x * width + y``. At
``y`` the current is ``v = 3 y / width`` squares per step, and turbulence adds a uniform
number between ``-(3.5 - v)`` and ``3.5 - v``; the sum with the paddling is rounded.
Whoever is carried to ``length`` or beyond falls, and starts again at ``(0, 0)``. A step
pays the ``x`` that it leads to, so the best place is just above the fall.

Exact values at discount 0.95 from state 0: 43.0800 for the best policy, 20.6598 for the
uniform random one, 29.7502, 29.5036 and 27.3664 for the heuristic one with 0.1, 0.2 and
0.5 of its choices random, which the literature on safe improvement starts from.
"""

from __future__ import annotations

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Dynamics, Task
from bayesmdp.worlds._mdp import MDP

_SIDE = 5
_CURRENT, _TURBULENCE = 3.0, 3.5
_PADDLING = {  # squares down the river and to the right
    "drift": (0, 0),
    "hold": (-1, 0),
    "paddle back": (-2, 0),
    "left": (0, -1),
    "right": (0, 1),
}


def wet_chicken(*, discount: float = 0.95) -> MDP:
    """Wet Chicken on a river of 5 x 5 squares.

    Parameters
    ----------
    discount
        In [0, 1).

    Returns
    -------
    MDP
        States are numbered ``5 x + y``; episodes do not end.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.wet_chicken()
    >>> round(float(world.value(bm.worlds.wet_chicken_baseline(0.1))[0]), 4)
    29.7502
    """
    discount = _checks.real("discount", discount, ArgumentError, 0, 1)
    if discount == 1.0:
        raise ArgumentError("`discount` must be below 1, for episodes do not end.")
    n = _SIDE * _SIDE
    theta = np.zeros((n, len(_PADDLING), n))
    edges = np.arange(_SIDE + 1) - 0.5
    for state in range(n):
        x, y = divmod(state, _SIDE)
        current = _CURRENT * y / _SIDE
        spread = _TURBULENCE - current
        for action, (down, right) in enumerate(_PADDLING.values()):
            middle = x + down + current
            below = np.clip((edges - middle + spread) / (2 * spread), 0.0, 1.0)
            lands = np.diff(below)
            lands[0] += below[0]  # the upper end holds the canoe
            side = min(max(y + right, 0), _SIDE - 1)
            theta[state, action, np.arange(_SIDE) * _SIDE + side] += lands
            theta[state, action, 0] += 1.0 - below[-1]  # over the fall
    pays = np.repeat(np.arange(_SIDE), _SIDE).astype(np.float64)
    before, taken, to = np.nonzero(theta)
    start = np.zeros(n)
    start[0] = 1.0
    task = Task(
        n,
        len(_PADDLING),
        (before, taken, to, pays[to]),
        discount=discount,
        start=start,
        action_labels=list(_PADDLING),
    )
    return MDP(Dynamics.from_dense(theta), task)


def wet_chicken_baseline(epsilon: float = 0.1) -> FloatArray:
    """Return the heuristic policy: towards the middle, and hold against the current.

    Parameters
    ----------
    epsilon
        Share of its choices that are made at random.

    Returns
    -------
    Array
        Policy ``[25, 5]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.worlds.wet_chicken_baseline(0.5)[12].round(2).tolist()
    [0.1, 0.1, 0.6, 0.1, 0.1]
    """
    epsilon = _checks.real("epsilon", epsilon, ArgumentError, 0, 1)
    drift, hold, back, left, right = range(len(_PADDLING))
    x, y = np.divmod(np.arange(_SIDE * _SIDE), _SIDE)
    choice = np.select(
        [x > 2, y < 2, y > 2, x == 2, x == 1], [back, right, left, back, hold], drift
    )
    policy = np.full((x.size, len(_PADDLING)), epsilon / len(_PADDLING))
    policy[np.arange(x.size), choice] += 1.0 - epsilon
    return policy
