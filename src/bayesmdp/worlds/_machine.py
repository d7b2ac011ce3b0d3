"""Machine replacement (Delage and Mannor 2010, figure 3): repair before it fails.

A machine wears through states 1 to 8, the last of which is broken and costs 20 a step.
Left alone it wears by one state with probability 0.8. A repair begins well with 0.6, in
state ``repair``, which costs 2 a step, badly with 0.1, in state ``overhaul``, which
costs 10 a step, and is not begun with 0.3, when the machine wears on. From ``repair`` a
machine left alone is new with 0.8, from ``overhaul`` a repair leads to ``repair`` with
0.6. A state's cost is paid by every step that begins in it. At discount 0.8 the best
policy repairs from state 6 on and in ``overhaul``, and has the value -1.4133 from new.
"""

import numpy as np

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Dynamics, Task
from bayesmdp.worlds._mdp import MDP

_N_WEAR = 8
_REPAIR, _OVERHAUL = _N_WEAR, _N_WEAR + 1
_NOTHING, _FIX = 0, 1
_COST = {_N_WEAR - 1: 20.0, _REPAIR: 2.0, _OVERHAUL: 10.0}


def machine_replacement(*, discount: float = 0.8) -> MDP:
    """Repair a machine, or leave it alone.

    Parameters
    ----------
    discount
        In [0, 1).

    Returns
    -------
    MDP
        It starts in state ``"1"``, new; episodes do not end.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.machine_replacement()
    >>> best = bm.policies.nominal(bm.Ensemble([world.dynamics], world.task))
    >>> print(f"{world.value(best)[0]:.4f}")
    -1.4133
    """
    discount = _checks.real("discount", discount, ArgumentError, 0, 1)
    if discount == 1.0:
        raise ArgumentError("`discount` must be below 1, for episodes do not end.")
    n = _N_WEAR + 2
    theta = np.zeros((n, 2, n))
    for state in range(_N_WEAR):
        worn = min(state + 1, _N_WEAR - 1)
        theta[state, _NOTHING, state] += 0.2
        theta[state, _NOTHING, worn] += 0.8
        theta[state, _FIX, [worn, _REPAIR, _OVERHAUL]] += 0.3, 0.6, 0.1
    theta[_REPAIR, _NOTHING, [_REPAIR, 0]] = 0.2, 0.8
    theta[_REPAIR, _FIX, _REPAIR] = 1.0
    theta[_OVERHAUL, _NOTHING, _OVERHAUL] = 1.0
    theta[_OVERHAUL, _FIX, [_REPAIR, _OVERHAUL]] = 0.6, 0.4
    pays = np.zeros((n, 2))
    for state, cost in _COST.items():
        pays[state] = -cost
    task = Task(
        n,
        2,
        pays,
        discount=discount,
        start=0,
        state_labels=[*map(str, range(1, _N_WEAR + 1)), "repair", "overhaul"],
        action_labels=["nothing", "repair"],
    )
    return MDP(Dynamics.from_dense(theta), task)
