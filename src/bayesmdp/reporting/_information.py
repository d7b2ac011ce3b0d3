"""Where more patients would teach most, where that was computed."""

from typing import Any

import numpy as np

from bayesmdp.information import Information
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import plain, quantity

_SHOWN = 15
PER = 1_000  # later patients that gains are told for


def information_section(inputs: Inputs) -> dict[str, Any]:
    """Put the value of information together."""
    found = inputs.information
    if found is None:
        return {
            "left_out": "What more data would be worth was not computed; "
            "`bm.value_of_information(posterior)` or `bayesmdp information` does that."
        }
    return {
        "evpi": quantity(found.evpi, found.evpi_mcse),
        "evpi_bound": quantity(found.evpi_bound, found.evpi_bound_mcse),
        "n_policies": len(found.names),
        "n_patients": found.n_patients,
        "per": PER,
        "n_visits": found.n_visits[-1],
        "states": states_worth_most(found, _SHOWN),
        "action_labels": [
            found.task.action_name(a) for a in range(found.task.n_actions)
        ],
    }


def states_worth_most(found: Information, n: int) -> list[dict[str, Any]]:
    """List states where further patients teach most, with the worth of each action.

    Gains are per 1,000 later patients; of actions, after visits to each alone.
    """
    order = np.argsort(-found.patients_evsi, kind="stable")[:n]
    rows = []
    for s in order[found.patients_evsi[order] > 0].tolist():
        of_actions = np.where(found.available[s], found.switch_evsi[-1, s], np.nan)
        best = int(np.nanargmax(of_actions))
        rows.append(
            {
                "state": s,
                "state_label": found.task.state_name(s),
                "gain": plain(PER * float(found.patients_evsi[s]), 4),
                "visits": plain(float(found.patients_visits[s].sum()), 4),
                "action": found.task.action_name(best),
                "of_actions": [plain(PER * float(x), 4) for x in of_actions],
                "confirmed": bool(found.confirmed[s]),
            }
        )
    return rows
