"""What the draws, which all policies share, say about differences between them."""

from collections.abc import Mapping

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.evaluation import Evaluation, quantile
from bayesmdp.reporting._inputs import Inputs
from bayesmdp.reporting._numbers import plain, share

_POINTS = 121


def start_values(inputs: Inputs) -> tuple[dict[str, FloatArray], FloatArray]:
    """Return start values of each policy on draws that all solved, and weights."""
    return common_values(inputs.evaluations, inputs.weights)


def common_values(
    evaluations: Mapping[str, Evaluation], weights: FloatArray
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Return start values on draws that all solved, and weights that sum to 1."""
    table = {n: e.start_values for n, e in evaluations.items()}
    solved = np.all([np.isfinite(v) for v in table.values()], axis=0)
    solved &= weights > 0
    weights = weights[solved]
    return {n: v[solved] for n, v in table.items()}, weights / weights.sum()


def best_shares(
    values: dict[str, FloatArray], weights: FloatArray, exact: bool
) -> dict[str, dict[str, float | None]]:
    """Probability that each policy is the best of all; ties are divided."""
    table = np.stack(list(values.values()))  # [P, D]
    top = table >= table.max(axis=0)
    hits = (top / top.sum(axis=0)) @ weights
    n = np.inf if exact else weights.size
    return {name: share(float(h), n) for name, h in zip(values, hits, strict=True)}


def acceptability(
    values: dict[str, FloatArray], weights: FloatArray, reference: str
) -> dict[str, object]:
    """Probability that each policy beats the reference by at least ``x``."""
    gaps = {n: v - values[reference] for n, v in values.items() if n != reference}
    ends = [
        quantile(gap, weights, level) for gap in gaps.values() for level in (0.001, 1)
    ]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    margin = 0.03 * (high - low) or 1.0
    x = np.unique(np.r_[np.linspace(low - margin, high + margin, _POINTS), 0.0])
    return {
        "x": [plain(point, 6) for point in x],
        "probability": {
            name: [
                plain(float(weights @ ((gap > point) + 0.5 * (gap == point))), 5)
                for point in x
            ]
            for name, gap in gaps.items()
        },
        "n_draws": int(weights.size),
    }
