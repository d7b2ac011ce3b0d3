"""When two values are equal: one rule for differences and probabilities.

Policies that do the same where it matters have values that differ by rounding, and by
what iterations leave. Such a difference is no difference: it is exactly 0, in the mean
and in every draw, and a draw without a difference counts for neither policy.
"""

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray

_TIE = 1e-9  # share of a value; iterations are right to 1e-10 of the largest


def tie(size: FloatArray) -> FloatArray:
    """Difference up to which values of a size are equal."""
    return np.asarray(_TIE * size)


def gaps(values: FloatArray, reference: FloatArray, least: float = 0.0) -> FloatArray:
    """Values less those of a reference over draws, ``[..., D]``; ties are exactly 0.

    Sizes are those of the draw, but at least the median over draws (a value may happen
    to be 0), and at least ``least``.
    """
    size = np.maximum(np.abs(values), np.abs(reference))
    if size.shape[-1]:
        size = np.maximum(size, np.median(size, axis=-1, keepdims=True))
    found = values - reference
    return np.where(np.abs(found) <= _TIE * np.maximum(size, least), 0.0, found)


def least_size(solver: str, values: FloatArray) -> float:
    """Return the size to which a solver is right: iterations look at all states."""
    return float(np.abs(values).max()) if solver == "iterative" else 0.0


def probability(event: BoolArray, weights: FloatArray) -> float:
    """Weight of the draws ``[D]`` with an event: in [0, 1], and 1 where all have it."""
    total = float(weights.sum())
    return min(float(weights[event].sum()) / total, 1.0) if total > 0 else np.nan
