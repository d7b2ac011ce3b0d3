"""Policies side by side."""

from typing import Any

import numpy as np

from bayesmdp.evaluation import ComparisonRow
from bayesmdp.reporting._draws import (
    acceptability,
    best_shares,
    gaps_to,
    start_values,
)
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import interval, quantity, share


def policies_section(inputs: Inputs) -> dict[str, Any]:
    """Return the value of each policy, and how it compares with the reference."""
    values, weights = start_values(inputs)
    exact = inputs.best.exact
    best = best_shares(values, weights, inputs.evaluations)
    gaps = gaps_to(inputs.reference, values, inputs.evaluations)
    rows = [
        {
            **_row(row, inputs),
            "interval": interval(values[row.name], weights, exact=exact),
            "difference_interval": interval(gaps[row.name], weights, exact=exact),
            "probability_best": best[row.name],
        }
        for row in inputs.rows
    ]
    return {
        "reference": inputs.reference,
        "recommended": inputs.recommended,
        "min_count": inputs.comparison.min_count,
        "rows": rows,
        "acceptability": acceptability(gaps, weights, inputs.reference),
    }


def _row(row: ComparisonRow, inputs: Inputs) -> dict[str, Any]:
    evaluation = inputs.comparison.evaluations[row.name]
    n = np.inf if evaluation.exact else evaluation.n_draws
    better = row.probability_better
    return {
        "name": row.name,
        "value": quantity(row.value, row.value_mcse),
        "difference": quantity(row.difference, row.difference_mcse),
        "probability_better": None if better is None else share(better, n),
        "epistemic_sd": quantity(row.epistemic_sd, evaluation.start_epistemic_sd_mcse),
        "aleatoric_sd": quantity(row.aleatoric_sd, evaluation.start_aleatoric_sd_mcse),
        "low_support": None if row.low_support is None else quantity(row.low_support),
    }
