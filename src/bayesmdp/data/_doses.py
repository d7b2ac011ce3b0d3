"""Doses as levels: none is a level of its own, the others are cut at quantiles.

With ``n_bins`` = 5, level 0 is no dose and levels 1 to 4 are the quarters of the doses
that were given, each with its upper edge. Levels of several drugs make one action,
``n_bins * fluid + vasopressor``: the first drug changes slowest.
"""

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import CountsError


def dose_edges(doses: FloatArray, names: tuple[str, ...], n_bins: int) -> FloatArray:
    """Quantiles ``[D, n_bins - 2]`` of the doses ``[N, D]`` that are not zero."""
    shares = np.arange(1, n_bins - 1) / (n_bins - 1)
    edges = np.empty((len(names), n_bins - 2))
    for d, name in enumerate(names):
        given = doses[doses[:, d] > 0, d]
        if not given.size:
            raise CountsError(
                f"Column `{name}` is zero in every row that is fitted: it cannot be cut"
                " into levels; leave it out of `doses`."
            )
        edges[d] = np.quantile(given, shares)
    return edges


def dose_levels(doses: FloatArray, edges: FloatArray) -> IntArray:
    """Level of each dose, ``[N, D]``; a dose on an edge belongs below it."""
    columns = [
        np.where(dose > 0, np.searchsorted(cuts, dose, side="left") + 1, 0)
        for dose, cuts in zip(doses.T, edges, strict=True)
    ]
    return np.stack(columns, axis=1).astype(np.int64)


def as_action(levels: IntArray, n_bins: int) -> IntArray:
    """Join the levels of all drugs into one action, ``[N]``."""
    shape = (n_bins,) * levels.shape[1]
    return np.asarray(np.ravel_multi_index(tuple(levels.T), shape), dtype=np.int64)


def action_labels(names: tuple[str, ...], n_bins: int) -> tuple[str, ...]:
    """Name every action by its levels."""
    return tuple(
        ", ".join(f"{name} {level}" for name, level in zip(names, levels, strict=True))
        for levels in np.ndindex(*(n_bins,) * len(names))
    )


def dose_medians(doses: FloatArray, levels: IntArray, n_bins: int) -> FloatArray:
    """Median dose of each level, ``[D, n_bins]``; NaN where none was given."""
    medians = np.full((doses.shape[1], n_bins), np.nan)
    for d in range(doses.shape[1]):
        for level in np.unique(levels[:, d]):
            medians[d, level] = np.median(doses[levels[:, d] == level, d])
    return medians
