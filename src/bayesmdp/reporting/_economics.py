"""Costs beside effects, where a cost-effectiveness analysis was given."""

from typing import Any

from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import column, plain, quantity


def economics_section(inputs: Inputs) -> dict[str, Any] | None:
    """Return the incremental table and curves over thresholds; None without."""
    found = inputs.cost_effectiveness
    if found is None:
        return None
    rows = []
    for row in found.table:
        given = row.icer is not None and row.icer_mcse is not None
        rows.append(
            {
                "name": row.name,
                "cost": quantity(row.cost, row.cost_mcse),
                "cost_interval": [plain(x, 5) for x in row.cost_interval],
                "effect": quantity(row.effect, row.effect_mcse),
                "effect_interval": [plain(x, 5) for x in row.effect_interval],
                "icer": quantity(row.icer or 0.0, row.icer_mcse or 0.0)
                if given
                else None,
                "dominated": row.dominated,
                "extendedly_dominated": row.extendedly_dominated,
            }
        )
    return {
        "cost": found.cost,
        "effect": found.effect,
        "n_draws": found.n_draws,
        "rows": rows,
        "thresholds": column(found.thresholds, 6),
        "best": list(found.best),
        "frontier": column(found.frontier),
        "evpi": column(found.evpi),
        "evpi_mcse": column(found.evpi_mcse, 2),
        "ceac": {name: column(found.ceac[name]) for name in found.names},
    }
