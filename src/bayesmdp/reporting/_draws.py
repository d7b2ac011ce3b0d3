"""What the draws, which all policies share, say about differences between them."""

from collections.abc import Mapping

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.evaluation import (
    Evaluation,
    gaps,
    least_size,
    probability,
    quantile,
)
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


def gaps_to(
    reference: str,
    values: Mapping[str, FloatArray],
    evaluations: Mapping[str, Evaluation],
) -> dict[str, FloatArray]:
    """Start values less those of one policy in each draw; ties are exactly 0."""
    least = _least(evaluations)
    return {n: gaps(v, values[reference], least) for n, v in values.items()}


def _least(evaluations: Mapping[str, Evaluation]) -> float:
    # a record has the name of its solver alone
    found = [least_size(e.solver == "iterative", e.value) for e in evaluations.values()]
    return max(found)


def best_shares(
    values: Mapping[str, FloatArray],
    weights: FloatArray,
    evaluations: Mapping[str, Evaluation],
) -> dict[str, dict[str, float | None]]:
    """Probability that each policy is the best of all; ties are divided."""
    table = np.stack(list(values.values()))  # [P, D]
    top = gaps(table, table.max(axis=0), _least(evaluations)) == 0
    hits = np.minimum((top / top.sum(axis=0)) @ weights, 1.0)
    exact = all(e.exact for e in evaluations.values())
    n = np.inf if exact else weights.size
    return {name: share(float(h), n) for name, h in zip(values, hits, strict=True)}


def acceptability(
    found: dict[str, FloatArray], weights: FloatArray, reference: str
) -> dict[str, object]:
    """Probability that each policy beats the reference by more than ``x``."""
    found = {name: gap for name, gap in found.items() if name != reference}
    ends = [
        quantile(gap, weights, level) for gap in found.values() for level in (0.001, 1)
    ]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    margin = 0.03 * (high - low) or 1.0
    x = np.unique(np.r_[np.linspace(low - margin, high + margin, _POINTS), 0.0])
    return {
        "x": [plain(point, 6) for point in x],
        "probability": {
            name: [plain(probability(gap > point, weights), 5) for point in x]
            for name, gap in found.items()
        },
        "n_draws": int(weights.size),
    }
