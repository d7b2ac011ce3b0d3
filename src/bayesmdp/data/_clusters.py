"""States from features and levels from doses, learnt from the rows that are fitted.

A feature ``x`` enters as ``z = (f(x) - offset) / scale``: ``f`` is ``log(x + 0.1)`` for
skewed features and the identity for others; offset and scale are mean and standard
deviation over the rows that are fitted, but 0.5 and 1 for those that are 0 or 1. The
state of a row is its nearest centre in ``z``.
"""

import warnings

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._cohort import LARGE, Doses, Layout
from bayesmdp.errors import CountsError

SHIFT = 0.1  # of a logarithm's argument: many a laboratory value is 0
MOST_ITERATIONS = 300


def scaling(
    features: FloatArray, layout: Layout, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Find offsets and scales ``[F]`` of the rows that are fitted, ``[N, F]``."""
    constant = features.min(axis=0) == features.max(axis=0)
    if constant.any():
        c = int(np.argmax(constant))
        raise CountsError(
            f"Column `{layout.features[c]}` is {features[0, c]:g} in every row that is "
            "fitted: it tells no patients apart; leave it out of `features`."
        )
    one = np.ones(weight.size)
    raw, binary = scaled(features, layout, 0 * one, one), layout.mask("binary")
    offset = np.where(binary, 0.5, raw.mean(axis=0))
    return offset, np.where(binary, 1.0, raw.std(axis=0, ddof=1)) / weight


def scaled(
    features: FloatArray, layout: Layout, offset: FloatArray, scale: FloatArray
) -> FloatArray:
    """Features ``[N, F]`` as k-means sees them: ``(f(x) - offset) / scale``."""
    log = layout.mask("log")
    z = features.copy()
    z[:, log] = np.log(z[:, log] + SHIFT)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        z = (z - offset) / scale
    far = ~(np.abs(z) <= LARGE)
    if far.any():
        row, c = _checks.first_true(far)
        raise CountsError(
            f"Column `{layout.features[c]}` has {features[row, c]:g} in row {row}, too "
            "far from what was fitted to be scaled: fix it."
        )
    return z


def find_centres(
    z: FloatArray, n_states: int, n_starts: int, seed: int
) -> tuple[FloatArray, tuple[str, ...]]:
    """Centres ``[K, F]`` of the best of several starts, and notes about them.

    On several threads, k-means adds up its centres in the order in which threads
    finish, and a last bit decides about a patient between two centres.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # scikit-learn depends on it

    random = int(np.random.default_rng(seed).integers(2**32))
    model = KMeans(
        n_states, n_init=n_starts, max_iter=MOST_ITERATIONS, random_state=random
    )
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model.fit(z)
        except ConvergenceWarning:
            raise CountsError(
                f"`n_states` is {n_states}, but the {z.shape[0]} rows that are fitted "
                f"have only {np.unique(z, axis=0).shape[0]} different sets of features:"
                " take fewer states, or more features."
            ) from None
    note = (
        f"k-means was stopped after {MOST_ITERATIONS} iterations, while centres still "
        "moved."
    )
    unrest = model.n_iter_ >= MOST_ITERATIONS
    return np.ascontiguousarray(model.cluster_centers_), (note,) * unrest


def nearest(z: FloatArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """Nearest centre of each row, and the squared distance to it."""
    from sklearn.metrics import pairwise_distances_argmin_min

    if not z.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    state, distance = pairwise_distances_argmin_min(z, centres)
    return state.astype(np.int64), distance**2


def dose_cuts(
    doses: list[Doses], fitted: BoolArray, layout: Layout, n_bins: int
) -> tuple[FloatArray, FloatArray, tuple[tuple[str, ...] | None, ...]]:
    """Quantiles of doses given, median doses of levels, and levels of arms.

    With ``n_bins`` = 5, level 0 is no dose, and levels 1 to 4 are the quarters of the
    doses that were given, each with its upper edge.
    """
    shares = np.arange(1, n_bins - 1) / (n_bins - 1)
    edges = np.full((len(doses), n_bins - 2), np.nan)
    medians = np.full((len(doses), n_bins), np.nan)
    arms: list[tuple[str, ...] | None] = []
    for d, (name, dose) in enumerate(zip(layout.doses, doses, strict=True)):
        dose = dose[fitted]
        arms.append(None if dose.dtype.kind == "f" else tuple(np.unique(dose).tolist()))
        if arms[-1] is not None:
            continue
        given = dose[dose > 0]
        if not given.size:
            raise CountsError(
                f"Column `{name}` is zero in every row that is fitted: it cannot be cut"
                " into levels; leave it out of `doses`."
            )
        edges[d] = np.quantile(given, shares)
        level = dose_levels(name, dose, edges[d], None, "")
        for x in np.unique(level):
            medians[d, x] = np.median(dose[level == x])
    return edges, medians, tuple(arms)


def dose_levels(
    name: str, dose: Doses, edges: FloatArray, arms: tuple[str, ...] | None, origin: str
) -> IntArray:
    """Level of each dose, ``[N]``; a dose on an edge belongs below it."""
    if arms is None:
        level = np.searchsorted(edges, dose, side="left") + 1
        return np.where(dose > 0, level, 0).astype(np.int64)
    place = {arm: i for i, arm in enumerate(arms)}
    odd = next((x for x in dose if str(x) not in place), None)
    if odd is not None:
        raise CountsError(
            f"Column `{name}` of {origin} has {odd!r:.40}"
            f"{_checks.did_you_mean(odd, arms)}, which was not fitted: levels are "
            f"{', '.join(arms)!s:.80}."
        )
    return np.array([place[str(x)] for x in dose], dtype=np.int64)
