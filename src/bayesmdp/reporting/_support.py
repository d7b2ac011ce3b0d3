"""How well the data cover what policies do."""

from typing import Any

import numpy as np

from bayesmdp._typing import IntArray
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import plain, whole

_MAP_STATES = 1_000


def support_section(inputs: Inputs) -> dict[str, Any]:
    """Count visits of pairs, and where each policy's visits lie."""
    visits, task = inputs.visits, inputs.task
    if visits is None:
        return {
            "left_out": "An ensemble holds no counts, so it is not known how often a "
            "pair of state and action was observed."
        }
    live = visits[task.live]
    order = task.live[np.argsort(-live.sum(axis=1), kind="stable")][:_MAP_STATES]
    return {
        "min_count": inputs.comparison.min_count,
        "n_pairs": int(live.size),
        "n_seen": int((live > 0).sum()),
        "n_few": int(((live > 0) & (live < inputs.comparison.min_count)).sum()),
        "n_available": int(inputs.posterior.available.sum()),
        "action_labels": [task.action_name(a) for a in range(task.n_actions)],
        "map_states": whole(order),
        "map_left_out": int(task.live.size - order.size),
        "map": [whole(visits[order, a]) for a in range(task.n_actions)],  # [A][K]
        "policies": {
            name: {
                "by_visits": _shares(inputs, name, visits),
                "prior_alone": plain(e.prior_share, 4),
            }
            for name, e in inputs.evaluations.items()
        },
        "bands": list(_BANDS),
    }


_BANDS = ("never", "1 to 4", "5 to 19", "20 to 99", "100 or more")
_EDGES = (1, 5, 20, 100)


def _shares(inputs: Inputs, name: str, visits: IntArray) -> list[float | None]:
    """Share of a policy's visits on pairs seen so often, one a band."""
    evaluation, live = inputs.comparison.evaluations[name], inputs.task.live
    mass = (evaluation.occupancy[:, None] * evaluation.policy)[live]
    band = np.searchsorted(_EDGES, visits[live], side="right")
    total = np.bincount(band.ravel(), mass.ravel(), len(_BANDS))
    return [plain(x, 4) for x in total / mass.sum()]
