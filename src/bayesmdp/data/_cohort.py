"""A table of patients, one row a step of a stay, as checked arrays.

Nothing is repaired here: what is missing, negative or contradictory is refused with
how often it occurs and where first. How to fill what is missing is a medical decision.

States from features and levels from doses are learnt from the rows that are fitted. A
feature ``x`` enters as ``z = (f(x) - offset) / scale``: ``f`` is ``log(x + 0.1)`` for
skewed features and the identity for others; offset and scale are mean and standard
deviation over the rows that are fitted, but 0.5 and 1 for those that are 0 or 1. The
state of a row is its nearest centre in ``z``.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import did_you_mean
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._columns import listed
from bayesmdp.data._files import is_paths
from bayesmdp.data._findings import EXACT
from bayesmdp.data._frames import recognised
from bayesmdp.data._queries import capital, fetch, fetch_one, how_many, worded
from bayesmdp.errors import ArgumentError, CountsError

if TYPE_CHECKING:
    import narwhals as nw


LARGE = 1e100  # squares of distances stay finite
_OPTIONAL = ("patient", "censored")
_MISSING = "fill or drop what is missing before: how is a medical decision"
#: One dose of each row, or the name of its arm.
Doses = NDArray[Any]


@dataclass(frozen=True)
class Layout:
    """Which column of a table is what."""

    features: tuple[str, ...]
    doses: tuple[str, ...]
    episode: str
    step: str
    outcome: str
    patient: str | None
    censored: str | None
    log: tuple[str, ...]  # features whose logarithm counts
    binary: tuple[str, ...]  # features that are 0 or 1

    @classmethod
    def of(cls, keys: Mapping[str, str | None], **columns: Iterable[str]) -> "Layout":
        """Check what the caller said about columns, before the table is looked at."""
        for name, value in keys.items():
            if not isinstance(value, str) and not (name in _OPTIONAL and value is None):
                raise ArgumentError(f"`{name}` must name a column; got {value!r:.40}.")
        named = {name: _names(name, value) for name, value in columns.items()}
        for name in ("log", "binary"):
            among_features(name, named[name], named["features"])
        both = set(named["log"]) & set(named["binary"])
        if both:
            raise ArgumentError(f"{min(both)!r} stands both in `log` and in `binary`.")
        _check_keys(keys, (*named["features"], *named["doses"]))
        return cls(**named, **keys)  # type: ignore[arg-type]

    def mask(self, name: str) -> BoolArray:
        """Which features are in ``log`` or ``binary``, ``[F]``."""
        return np.isin(self.features, getattr(self, name))


@dataclass(frozen=True, eq=False)
class Cohort:
    """Rows of patients; N rows, M stays."""

    features: FloatArray  # [N, F]
    doses: list[Doses]  # of each drug, [N]
    episode: IntArray  # [N], the stay's number in sorted order
    stays: NDArray[Any]  # [M], what stays are called
    step: IntArray  # [N]
    died: BoolArray  # [N]
    censored: BoolArray  # [N], the end of the stay is not known
    patient: IntArray  # [M], number of the stay's patient
    origin: str


def among_features(name: str, given: Iterable[str], features: Sequence[str]) -> None:
    """Refuse what is said of a column that is not a feature."""
    for column in given:
        if column not in features:
            hint = did_you_mean(column, features)
            raise ArgumentError(
                f"`{name}` has {column!r}, which is not among `features`{hint}."
            )


def _names(name: str, value: Iterable[str]) -> tuple[str, ...]:
    # A set has no order, and the order of features decides about the clusters.
    if isinstance(value, str | Set | Mapping) or not isinstance(value, Iterable):
        raise ArgumentError(
            f"`{name}` must be a list of column names; got {value!r:.80}."
        )
    columns = tuple(value)
    for column in columns:
        if not isinstance(column, str):
            raise ArgumentError(f"`{name}` must hold names; got {column!r:.40}.")
        if columns.count(column) > 1:
            raise ArgumentError(f"`{name}` has {column!r} twice.")
    if not columns and name in ("features", "doses"):
        raise ArgumentError(f"`{name}` must name at least one column.")
    return tuple(str(x) for x in columns)


def _check_keys(keys: Mapping[str, str | None], taken: tuple[str, ...]) -> None:
    """Refuse columns with two roles."""
    roles: dict[str | None, str] = {}
    for name, value in [x for x in keys.items() if x[1] is not None]:
        if value in roles:
            raise ArgumentError(
                f"{value!r} is given both as `{roles[value]}` and as `{name}`: name a "
                "column for each, and no `patient` to split by stays."
            )
        roles[value] = name
        if value in taken:
            raise ArgumentError(
                f"{value!r} is given as `{name}`, and must not be a feature or a dose: "
                "a state may not know who the patient is, or how the stay ends."
            )


def read_cohort(frame: Any, layout: Layout) -> Cohort:
    """Fetch the columns of a table and check every value."""
    kinds = dict.fromkeys([*layout.features, layout.step, layout.outcome], "numbers")
    kinds |= dict.fromkeys(layout.doses, "numbers or text")
    kinds |= {layout.censored: "numbers"} if layout.censored else {}
    kinds |= {x: "keys" for x in (layout.episode, layout.patient) if x}
    columns, origin = fetch_columns(frame, kinds)
    features = np.stack([columns[x] for x in layout.features], axis=1)
    step = columns[layout.step]
    whole = (step >= 0) & (step < EXACT) & (np.floor(step) == step)
    refuse(~whole, step, layout.step, origin, "must hold whole numbers of 0 or more")
    stays, episode = np.unique(columns[layout.episode], return_inverse=True)

    def of_stay(column: str, value: NDArray[Any]) -> NDArray[Any]:
        """Return a value of each stay, which must not change within it."""
        first = np.zeros(stays.size, dtype=np.int64)
        first[episode[::-1]] = np.arange(episode.size)[::-1]
        other = np.unique(episode[value != value[first[episode]]])
        if other.size:
            raise CountsError(
                f"Column `{column}` of {origin} must not change within a stay: "
                f"`{layout.episode}` {stays[other[0]]} has different values (one of "
                f"{other.size} such stays)."
            )
        return value[first]

    def flag(column: str, said: str) -> BoolArray:
        found = columns[column]
        wrong = (found != 0) & (found != 1)
        refuse(wrong, found, column, origin, said, "fix or drop these stays")
        return np.asarray(of_stay(column, found)[episode] == 1)

    died = flag(layout.outcome, "must be 1 for death and 0 for survival")
    censored = np.zeros(died.size, dtype=np.bool_)
    if layout.censored:
        said = "must be 1 where only the follow-up ended and 0 elsewhere"
        censored = flag(layout.censored, said)
    patient = np.arange(stays.size)
    if layout.patient:
        person = np.unique(columns[layout.patient], return_inverse=True)[1]
        patient = of_stay(layout.patient, person)
    order = np.lexsort((step, episode))
    twice = (np.diff(episode[order]) == 0) & (np.diff(step[order]) == 0)
    if twice.any():
        i = order[int(np.argmax(twice))]
        raise CountsError(
            f"{capital(origin)} has several rows with one step: `{layout.episode}` "
            f"{stays[episode[i]]} has `{layout.step}` {step[i]:.0f} more than once; "
            "what follows what is not known."
        )
    return Cohort(
        check_features(features, layout, origin),
        check_doses([columns[x] for x in layout.doses], layout, origin),
        episode.astype(np.int64),
        stays,
        step.astype(np.int64),
        died,
        censored,
        patient.astype(np.int64),
        origin,
    )


def fetch_columns(
    frame: Any, kinds: Mapping[str, str], name: str = "frame"
) -> tuple[dict[str, NDArray[Any]], str]:
    """Return columns as arrays, numbers as floats with NaN where there is none.

    Kinds are ``numbers``, ``numbers or text``, and ``keys``, which may be anything
    that can be compared.
    """
    import narwhals as nw

    if is_paths(frame):
        raise ArgumentError(
            f"`{name}` must be a dataframe, such as pandas.read_csv(path) or "
            f"duckdb.read_parquet(path) returns; got {frame!r:.60}."
        )
    table, there, origin = recognised(frame, name, "")
    chosen: dict[str, nw.Expr] = {}
    words: list[str] = []
    with worded(origin):
        schema = table.collect_schema()
    for column, kind in kinds.items():
        if column not in there:
            hint = did_you_mean(column, there)
            raise ArgumentError(
                f"{capital(origin)} has no column {column!r}{hint}; it has "
                f"{listed(there)}."
            )
        chosen[column], text = _read(column, kind, schema[column], origin)
        words += [column] * text
    with worded(origin):
        empty = [how_many(_is_missing(x, schema[x])).alias(x) for x in words]
        tally = fetch_one(table.select(nw.len().alias("__n"), *empty), origin)
    if not tally["__n"]:
        raise CountsError(f"{capital(origin)} holds no rows.")
    for column in words:
        if int(tally[column]):
            raise CountsError(
                f"Column `{column}` of {origin} has no value in {int(tally[column])} "
                "rows: fill in which it is, or drop them."
            )
    return fetch(table.select(*chosen.values()), origin), origin


def _read(column: str, kind: str, held: Any, origin: str) -> tuple["nw.Expr", bool]:
    """Return how a column is fetched, and whether it holds names."""
    import narwhals as nw

    x, text = nw.col(column), held in (nw.String, nw.Categorical, nw.Enum)
    odd = held.is_nested() or held in (nw.Object, nw.Unknown, nw.Binary)
    if text and kind != "numbers":  # categories would sort in an order of their own
        return x.cast(nw.String), True
    if kind == "keys" and not odd:
        return x, True
    if kind != "keys" and (held.is_numeric() or held == nw.Boolean):
        return x.cast(nw.Float64).fill_null(float("nan")), False
    wanted = "numbers" if kind == "numbers" else "numbers or text"
    raise CountsError(
        f"Column `{column}` of {origin} must hold {wanted}; it holds {held}: convert "
        "it."
    )


def _is_missing(column: str, held: Any) -> "nw.Expr":
    import narwhals as nw

    x = nw.col(column)
    return x.is_null() | x.is_nan() if held.is_float() else x.is_null()


def check_features(values: FloatArray, layout: Layout, origin: str) -> FloatArray:
    """Refuse features that are missing, or not what `log` and `binary` say."""
    log, binary = layout.mask("log"), layout.mask("binary")
    for bad, said, remedy in (
        (~np.isfinite(values), "must be finite", _MISSING),
        (np.abs(values) > LARGE, f"must be below {LARGE:g}", ""),
        ((values < 0) & log, "must be 0 or more, being in `log`", ""),
        (~np.isin(values, (0, 1)) & binary, "must be 0 or 1, being in `binary`", ""),
    ):
        for f, name in enumerate(layout.features):
            refuse(bad[:, f], values[:, f], name, origin, said, remedy)
    return _checks.sealed(values)


def check_doses(doses: list[Doses], layout: Layout, origin: str) -> list[Doses]:
    """Refuse doses that are missing or negative; arms are what they are called."""
    for name, dose in zip(layout.doses, doses, strict=True):
        if dose.dtype.kind == "f":
            said = "must be finite"
            refuse(~np.isfinite(dose), dose, name, origin, said, _MISSING)
            refuse(dose < 0, dose, name, origin, "must be 0 or more")
    return doses


def refuse(
    bad: BoolArray,
    values: FloatArray,
    name: str,
    origin: str,
    wanted: str,
    remedy: str = "",
) -> None:
    """Say how many values of a column are bad, and the first."""
    if bad.any():
        row = int(np.argmax(bad))
        said = "no value" if np.isnan(values[row]) else f"{values[row]:g}"
        raise CountsError(
            f"Column `{name}` of {origin} {wanted}: row {row} has {said} (one of "
            f"{int(bad.sum())} such rows); {remedy or 'fix or drop them'}."
        )


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
