"""A table of patients, one row a step of a stay, as checked arrays.

Nothing is repaired here: what is missing, negative or contradictory is refused with
how often it occurs and where first. How to fill what is missing is a medical decision.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import did_you_mean
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._columns import listed
from bayesmdp.data._faults import EXACT
from bayesmdp.data._frames import recognised
from bayesmdp.data._paths import is_paths
from bayesmdp.data._queries import capital, fetch, fetch_one, how_many, worded
from bayesmdp.errors import ArgumentError, CountsError

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame

LARGE = 1e100  # squares of distances stay finite
_OPTIONAL = ("patient", "censored")
_MISSING = "fill or drop what is missing before: how is a medical decision"


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


@dataclass(frozen=True, eq=False)
class Cohort:
    """Rows of patients; N rows, M stays."""

    features: FloatArray  # [N, F]
    doses: FloatArray  # [N, D]
    episode: IntArray  # [N], the stay's number in sorted order
    stays: NDArray[Any]  # [M], what stays are called
    step: IntArray  # [N]
    died: BoolArray  # [N]
    censored: BoolArray  # [N], the end of the stay is not known
    patient: IntArray  # [M], number of the stay's patient
    origin: str


def check_layout(
    features: Sequence[str],
    doses: Sequence[str],
    keys: Mapping[str, str | None],
    log: Sequence[str],
    binary: Sequence[str],
) -> Layout:
    """Check what the caller said about columns, before the table is looked at."""
    for name, value in keys.items():
        if not isinstance(value, str) and not (name in _OPTIONAL and value is None):
            raise ArgumentError(f"`{name}` must name a column; got {value!r:.40}.")
    named = {
        name: _names(name, value, empty=name in ("log", "binary"))
        for name, value in (
            ("features", features),
            ("doses", doses),
            ("log", log),
            ("binary", binary),
        )
    }
    for name in ("log", "binary"):
        for column in named[name]:
            if column not in named["features"]:
                hint = did_you_mean(column, named["features"])
                raise ArgumentError(
                    f"`{name}` has {column!r}, which is not among `features`{hint}."
                )
    both = set(named["log"]) & set(named["binary"])
    if both:
        raise ArgumentError(f"{min(both)!r} stands both in `log` and in `binary`.")
    _check_keys(keys, (*named["features"], *named["doses"]))
    return Layout(**named, **keys)  # type: ignore[arg-type]


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


def _names(name: str, value: Iterable[str], *, empty: bool) -> tuple[str, ...]:
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
    if not columns and not empty:
        raise ArgumentError(f"`{name}` must name at least one column.")
    return tuple(str(x) for x in columns)


def read_cohort(frame: Any, layout: Layout) -> Cohort:
    """Fetch the columns of a table and check every value."""
    numbers = [*layout.features, *layout.doses, layout.step, layout.outcome]
    numbers += [layout.censored] if layout.censored else []
    keys = [layout.episode, *([layout.patient] if layout.patient else [])]
    columns, origin = fetch_columns(frame, numbers, keys)
    features = check_features(_stacked(columns, layout.features), layout, origin)
    doses = check_doses(_stacked(columns, layout.doses), layout, origin)
    step = _stacked(columns, (layout.step,))
    refuse(
        ~((step >= 0) & (step < EXACT) & (np.floor(step) == step)),
        step,
        (layout.step,),
        origin,
        "must hold whole numbers of 0 or more",
    )
    stays, episode = np.unique(columns[layout.episode], return_inverse=True)

    def flag(column: str, said: str) -> BoolArray:
        """Read what is the same in every row of a stay."""
        found = _stacked(columns, (column,))
        wrong = (found != 0) & (found != 1)
        refuse(wrong, found, (column,), origin, said, "fix or drop these stays")
        _refuse_changes(found[:, 0] == 1, episode, stays, layout, column, origin)
        return np.asarray(found[:, 0] == 1)

    died = flag(layout.outcome, "must be 1 for death and 0 for survival")
    censored = np.zeros(died.size, dtype=np.bool_)
    if layout.censored:
        said = "must be 1 where only the follow-up ended and 0 elsewhere"
        censored = flag(layout.censored, said)
    patient = np.arange(stays.size)
    if layout.patient:
        person = np.unique(columns[layout.patient], return_inverse=True)[1]
        _refuse_changes(person, episode, stays, layout, layout.patient, origin)
        patient[episode] = person
    when = step[:, 0].astype(np.int64)
    _refuse_repeated_steps(when, episode, stays, layout, origin)
    return Cohort(
        features,
        doses,
        episode.astype(np.int64),
        stays,
        when,
        died,
        censored,
        patient.astype(np.int64),
        origin,
    )


def fetch_columns(
    frame: Any, numbers: Sequence[str], keys: Sequence[str] = (), name: str = "frame"
) -> tuple[dict[str, NDArray[Any]], str]:
    """Return columns as arrays, numbers as floats with NaN where there is none."""
    import narwhals as nw

    if is_paths(frame):
        raise ArgumentError(
            f"`{name}` must be a dataframe, such as pandas.read_csv(path) or "
            f"duckdb.read_parquet(path) returns; got {frame!r:.60}."
        )
    table, there, origin = recognised(frame, name, "")
    for column in (*numbers, *keys):
        if column not in there:
            hint = did_you_mean(column, there)
            raise ArgumentError(
                f"{capital(origin)} has no column {column!r}{hint}; it has "
                f"{listed(there)}."
            )
    _refuse_kinds(table, numbers, keys, origin)
    with worded(origin):
        schema = table.collect_schema()
        missing = [
            how_many(_is_missing(x, floats=schema[x].is_float())).alias(x) for x in keys
        ]
        tally = fetch_one(table.select(nw.len().alias("__n"), *missing), origin)
        nan = float("nan")
        chosen = [nw.col(x).cast(nw.Float64).fill_null(nan) for x in set(numbers)]
        # Categories would sort in an order of their own.
        named = [x for x in keys if schema[x] in (nw.Categorical, nw.Enum)]
        text = [nw.col(x).cast(nw.String) if x in named else nw.col(x) for x in keys]
    if not tally["__n"]:
        raise CountsError(f"{capital(origin)} holds no rows.")
    for column in keys:
        if int(tally[column]):
            raise CountsError(
                f"Column `{column}` of {origin} has no value in {int(tally[column])} "
                "rows: whose they are is not known."
            )
    return fetch(table.select(*chosen, *text), origin), origin


def _refuse_kinds(
    table: "Frame", numbers: Sequence[str], keys: Sequence[str], origin: str
) -> None:
    """Refuse columns of types that cannot be what they are given as."""
    import narwhals as nw

    with worded(origin):
        schema = table.collect_schema()
    odd = (nw.Object, nw.Unknown, nw.Binary)
    for column in (*numbers, *keys):
        kind = schema[column]
        if column in keys:
            fits, wanted = not (kind.is_nested() or kind in odd), "numbers or text"
        else:
            fits, wanted = kind.is_numeric() or kind == nw.Boolean, "numbers"
        if not fits:
            raise CountsError(
                f"Column `{column}` of {origin} must hold {wanted}; it holds {kind}: "
                "convert it."
            )


def _is_missing(column: str, *, floats: bool) -> "nw.Expr":
    import narwhals as nw

    x = nw.col(column)
    return x.is_null() | x.is_nan() if floats else x.is_null()


def _stacked(columns: dict[str, NDArray[Any]], names: Sequence[str]) -> FloatArray:
    return np.stack([columns[x].astype(np.float64) for x in names], axis=1)


def check_features(values: FloatArray, layout: Layout, origin: str) -> FloatArray:
    """Refuse features that are missing, or not what `log` and `binary` say."""
    names = layout.features
    refuse(~np.isfinite(values), values, names, origin, "must be finite", _MISSING)
    refuse(np.abs(values) > LARGE, values, names, origin, f"must be below {LARGE:g}")
    log, binary = masks(layout)
    refuse(
        (values < 0) & log,
        values,
        names,
        origin,
        "must be 0 or more, being in `log`",
    )
    refuse(
        (values != 0) & (values != 1) & binary,
        values,
        names,
        origin,
        "must be 0 or 1, being in `binary`",
    )
    return _checks.sealed(values)


def check_doses(values: FloatArray, layout: Layout, origin: str) -> FloatArray:
    """Refuse doses that are missing or negative."""
    names = layout.doses
    refuse(~np.isfinite(values), values, names, origin, "must be finite", _MISSING)
    refuse(values < 0, values, names, origin, "must be 0 or more")
    return _checks.sealed(values)


def masks(layout: Layout) -> tuple[BoolArray, BoolArray]:
    """Which features count by their logarithm, and which are 0 or 1; ``[F]`` each."""
    log = np.array([x in layout.log for x in layout.features])
    binary = np.array([x in layout.binary for x in layout.features])
    return log, binary


def refuse(
    bad: BoolArray,
    values: FloatArray,
    names: Sequence[str],
    origin: str,
    wanted: str,
    remedy: str = "fix or drop them",
) -> None:
    """Name the first column with bad values, how many there are, and the first."""
    faulty = bad.any(axis=0)
    if not faulty.any():
        return
    c = int(np.argmax(faulty))
    row = int(np.argmax(bad[:, c]))
    value = values[row, c]
    said = "no value" if np.isnan(value) else f"{value:g}"
    raise CountsError(
        f"Column `{names[c]}` of {origin} {wanted}: row {row} has {said} (one of "
        f"{int(bad[:, c].sum())} such rows); {remedy}."
    )


def _refuse_changes(
    value: NDArray[Any],
    episode: IntArray,
    stays: NDArray[Any],
    layout: Layout,
    column: str,
    origin: str,
) -> None:
    """Refuse a column that must be one value a stay and is not."""
    first = np.zeros(stays.size, dtype=np.int64)
    first[episode[::-1]] = np.arange(episode.size)[::-1]
    other = value != value[first[episode]]
    if other.any():
        changing = np.unique(episode[other])
        raise CountsError(
            f"Column `{column}` of {origin} must not change within a stay: "
            f"`{layout.episode}` {stays[changing[0]]} has different values (one of "
            f"{changing.size} such stays)."
        )


def _refuse_repeated_steps(
    step: IntArray,
    episode: IntArray,
    stays: NDArray[Any],
    layout: Layout,
    origin: str,
) -> None:
    order = np.lexsort((step, episode))
    stay, when = episode[order], step[order]
    twice = (stay[1:] == stay[:-1]) & (when[1:] == when[:-1])
    if twice.any():
        i = int(np.argmax(twice))
        raise CountsError(
            f"{capital(origin)} has several rows with one step: `{layout.episode}` "
            f"{stays[stay[i]]} has `{layout.step}` {when[i]} more than once; what "
            "follows what is not known."
        )
