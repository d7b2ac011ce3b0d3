"""States from features: scaling, and k-means on one thread.

A feature ``x`` enters as ``z = (f(x) - offset) / scale``: ``f`` is ``log(x + 0.1)`` for
skewed features and the identity for others; offset and scale are mean and standard
deviation over the rows that are fitted, but 0.5 and 1 for those that are 0 or 1. The
state of a row is its nearest centre in ``z``.

On several threads, k-means adds up its centres in the order in which threads finish,
and a last bit decides about a patient between two centres. On one thread the same seed
gives the same states.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from bayesmdp import _checks
from bayesmdp._progress import Show, progress_bar
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._cohort import LARGE
from bayesmdp.errors import CountsError

SHIFT = 0.1  # of a logarithm's argument: many a laboratory value is 0
_MOST = 300  # iterations of k-means
_PIECE = 10  # of them between two looks at how it goes


@dataclass(frozen=True, eq=False)
class Scaling:
    """How features are made comparable; F features."""

    names: tuple[str, ...]  # [F]
    log: BoolArray  # [F]
    offset: FloatArray  # [F]
    scale: FloatArray  # [F]

    def scaled(self, features: FloatArray) -> FloatArray:
        """Features ``[N, F]`` as k-means sees them."""
        z = features.copy()
        z[:, self.log] = np.log(z[:, self.log] + SHIFT)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            z -= self.offset
            z /= self.scale
        far = ~(np.abs(z) <= LARGE)
        if far.any():
            row, c = _checks.first_true(far)
            raise CountsError(
                f"Column `{self.names[c]}` has {features[row, c]:g} in row {row}, too "
                "far from what was fitted to be scaled: fix it."
            )
        return z

    def in_units(self, z: FloatArray) -> FloatArray:
        """Undo `scaled`."""
        x = z * self.scale + self.offset
        x[:, self.log] = np.exp(x[:, self.log]) - SHIFT
        return x


def fit_scaling(
    features: FloatArray,
    names: tuple[str, ...],
    log: BoolArray,
    binary: BoolArray,
    weight: FloatArray,
) -> Scaling:
    """Find offsets and scales of the rows that are fitted, ``[N, F]``."""
    constant = features.min(axis=0) == features.max(axis=0)
    if constant.any():
        c = int(np.argmax(constant))
        raise CountsError(
            f"Column `{names[c]}` is {features[0, c]:g} in every row that is fitted: it"
            " tells no patients apart; leave it out of `features`."
        )
    unit = Scaling(names, log, np.zeros(log.size), np.ones(log.size))
    raw = unit.scaled(features)
    offset = np.where(binary, 0.5, raw.mean(axis=0))
    scale = np.where(binary, 1.0, raw.std(axis=0, ddof=1)) / weight
    return Scaling(
        names, _checks.sealed(log), _checks.sealed(offset), _checks.sealed(scale)
    )


def nearest(z: FloatArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """Nearest centre of each row, and the squared distance to it."""
    from sklearn.metrics import pairwise_distances_argmin_min

    if not z.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    state, distance = pairwise_distances_argmin_min(z, centres)
    return state.astype(np.int64), distance**2


def find_centres(
    z: FloatArray, n_states: int, n_starts: int, seed: int
) -> tuple[FloatArray, tuple[str, ...]]:
    """Centres ``[K, F]`` of the best of several starts, and notes about them."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # scikit-learn depends on it

    rng = np.random.default_rng(seed)
    best: tuple[float, FloatArray, bool] | None = None
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        progress_bar("k-means", n_starts * _MOST) as show,
    ):
        warnings.simplefilter("error", ConvergenceWarning)
        for start in range(n_starts):
            try:
                found = _one_start(z, n_states, rng, show, start)
            except ConvergenceWarning:
                raise CountsError(_too_alike(z, n_states)) from None
            if best is None or found[0] < best[0]:
                best = found
    assert best is not None
    if best[2]:
        return _checks.sealed(best[1]), ()
    note = f"k-means was stopped after {_MOST} iterations, while centres still moved."
    return _checks.sealed(best[1]), (note,)


def _one_start(
    z: FloatArray,
    n_states: int,
    rng: np.random.Generator,
    show: Show | None,
    start: int,
) -> tuple[float, FloatArray, bool]:
    """Sum of squares, centres, and whether they came to rest; in pieces, to report."""
    from sklearn.cluster import KMeans

    centres: str | FloatArray = "k-means++"
    random = int(rng.integers(2**32))
    for done in range(0, _MOST, _PIECE):
        model = KMeans(
            n_states, init=centres, n_init=1, max_iter=_PIECE, random_state=random
        ).fit(z)
        centres = model.cluster_centers_
        if show is not None:
            note = f"start {start + 1}, sum of squares {model.inertia_:.6g}"
            show(start * _MOST + done + _PIECE, note)
        if model.n_iter_ < _PIECE:
            break
    rested = model.n_iter_ < _PIECE
    return float(model.inertia_), np.ascontiguousarray(centres), rested


def _too_alike(z: FloatArray, n_states: int) -> str:
    n = np.unique(z, axis=0).shape[0]
    return (
        f"`n_states` is {n_states}, but the {z.shape[0]} rows that are fitted have only"
        f" {n} different sets of features: take fewer states, or more features."
    )
