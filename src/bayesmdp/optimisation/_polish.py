"""Last touches: decide what is nearly decided, and try neighbours.

Mirror ascent leaves a little probability on actions it has given up. Rows that are
nearly deterministic are snapped. Then switches of actions are tried: every single one
where there are few rows, otherwise those whose gradient is surely positive, all at
once, half of them, or the first. A change must win a paired race to be kept.
"""

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.optimisation._oracle import Field
from bayesmdp.optimisation._selection import Race

_NEARLY = 0.9
_FEW_ROWS = 64  # rows up to which every single switch is tried
_ROUNDS = 5
_SURE = 3.0  # standard errors


def snapped(policy: FloatArray, nearly: float = _NEARLY) -> FloatArray:
    """Make rows deterministic whose largest probability is at least ``nearly``."""
    out = policy.copy()
    several = (policy > 0).sum(axis=1) > 1
    for state in np.flatnonzero((policy.max(axis=1) >= nearly) & several):
        out[state] = 0.0
        out[state, np.argmax(policy[state])] = 1.0
    return out


def polish(policy: FloatArray, field: Field, race: Race) -> FloatArray:
    """Improve a policy by switches that win."""
    if not field.ends(policy):
        return policy
    for _ in range(_ROUNDS):
        if field.problem.rows.source.size <= _FEW_ROWS:
            candidates = _switches(policy, field)
        else:
            candidates = _downhill(policy, field)
        if not candidates:
            return policy
        difference, error = race.differences([policy, *candidates])
        score = difference - (0.0 if field.exact else 1.0) * error
        at = int(np.argmax(score))
        if score[at] <= 0:
            return policy
        policy = candidates[at - 1]
    return policy


def _switches(policy: FloatArray, field: Field) -> list[FloatArray]:
    """Every policy that differs in one state, where it is deterministic."""
    out = []
    for state, action in field.problem.rows.row_id:
        if policy[state, action] < 1.0:
            neighbour = policy.copy()
            neighbour[state] = 0.0
            neighbour[state, action] = 1.0
            out.append(neighbour)
    return out


def _downhill(policy: FloatArray, field: Field) -> list[FloatArray]:
    """Policies with every surely better action switched to, and with half of them."""
    n = field.affordable(3e9, 64, 2048)
    found = field.slopes(field.rows(policy), n)
    sure = found.slope - _SURE * np.sqrt(found.noise)
    better = np.flatnonzero(sure > 0)
    if better.size == 0:
        return []
    order = better[np.argsort(-found.slope[better])]
    out = []
    for rows in (order, order[: -(-order.size // 2)], order[:1]):
        neighbour = policy.copy()
        for row in rows[::-1]:  # the best row of a state comes last and stays
            state, action = field.problem.rows.row_id[row]
            neighbour[state] = 0.0
            neighbour[state, action] = 1.0
        out.append(neighbour)
    return out
