"""From a table of patients to states and actions: the recipe of the AI Clinician.

Komorowski et al., *The Artificial Intelligence Clinician learns optimal treatment
strategies for sepsis in intensive care*, Nature Medicine 24:1716, 2018. Features are
clustered into states, doses are cut into levels, the outcome appends two terminal
states, death before survival. All that is learnt is learnt from training stays alone.
`docs/clinical.md` goes through it step by step, and says where this differs.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import did_you_mean
from bayesmdp._sheet import Sheet, Shown
from bayesmdp._typing import BoolArray, FloatArray, IntArray, Seed
from bayesmdp.data import _doses
from bayesmdp.data._ai_clinician import check_ends
from bayesmdp.data._clusters import Scaling, find_centres, fit_scaling, nearest
from bayesmdp.data._cohort import (
    Cohort,
    Layout,
    check_doses,
    check_features,
    check_layout,
    fetch_columns,
    masks,
    read_cohort,
)
from bayesmdp.data._folds import scramble
from bayesmdp.data._stays import as_log, moves, names_of
from bayesmdp.data._transitions import Transitions
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError

_MOST_ACTIONS = 10_000  # far beyond what data can fill; more is a slip


@dataclass(frozen=True, eq=False)
class Discretisation(Shown):
    """States and actions found in a table of patients, ready for other patients.

    Axes: N rows of the table, K clusters, F features, D drugs.

    Examples
    --------
    See `discretise`, which makes one.

    >>> import bayesmdp as bm
    >>> sorted(x for x in dir(bm.data.Discretisation) if x[0] != "_")
    ['apply', 'assign', 'dose', 'n_actions', 'n_states', 'profiles', 'summary']
    """

    transitions: Transitions = field(repr=False)  # of all stays
    train: Transitions = field(repr=False)  # of the stays that were fitted
    test: Transitions | None = field(repr=False)  # of the others, if there are any
    train_stays: NDArray[Any] = field(repr=False)  # what they are called, sorted
    test_stays: NDArray[Any] = field(repr=False)
    state: IntArray = field(repr=False)  # [N], of each row of the table
    action: IntArray = field(repr=False)  # [N]
    layout: Layout = field(repr=False)  # which column is what
    log: BoolArray = field(repr=False)  # [F]
    offset: FloatArray = field(repr=False)  # [F]
    scale: FloatArray = field(repr=False)  # [F]
    centres: FloatArray = field(repr=False)  # [K, F], scaled
    n_bins: int
    dose_edges: FloatArray  # [D, n_bins - 2]
    dose_medians: FloatArray = field(repr=False)  # [D, n_bins], NaN: never given
    unexplained: tuple[float, float]  # share of the variance, train and test
    ends: tuple[str, str]
    seed: int
    notes: tuple[str, ...] = field(repr=False)

    @property
    def n_states(self) -> int:
        """Clusters and the two terminal states."""
        return len(self.centres) + 2

    @property
    def n_actions(self) -> int:
        """Combinations of levels of all drugs."""
        return math.prod(self.n_bins for _ in self.layout.doses)

    @property
    def profiles(self) -> FloatArray:
        """Centres ``[K, F]`` in the units of the table, for people to read."""
        return self._scaling.in_units(self.centres)

    @property
    def _scaling(self) -> Scaling:
        return Scaling(self.layout.features, self.log, self.offset, self.scale)

    def assign(self, features: Any) -> IntArray:
        """Return the state of each patient.

        Parameters
        ----------
        features
            A dataframe with the columns that were clustered, or an array ``[N, F]``
            with the features in that order.
        """
        names = self.layout.features
        values, origin = _values("features", features, names)
        values = check_features(values, self.layout, origin)
        return _checks.sealed(nearest(self._scaling.scaled(values), self.centres)[0])

    def dose(self, doses: Any) -> IntArray:
        """Return the action that doses amount to.

        Parameters
        ----------
        doses
            A dataframe with the columns of the drugs, or an array ``[N, D]``.
        """
        values, origin = _values("doses", doses, self.layout.doses)
        values = check_doses(values, self.layout, origin)
        levels = _doses.dose_levels(values, self.dose_edges)
        return _checks.sealed(_doses.as_action(levels, self.n_bins))

    def apply(self, frame: Any) -> Transitions:
        """Read other patients, from another hospital say, with these states.

        Parameters
        ----------
        frame
            A dataframe with the same columns; stays' names play no part.
        """
        cohort = read_cohort(frame, self.layout)
        n_live = self.centres.shape[0]
        state, action = self.assign(cohort.features), self.dose(cohort.doses)
        rows, notes = moves(cohort, state, action, n_live)
        for note in notes:
            warnings.warn(note, BayesmdpWarning, stacklevel=2)
        names = names_of(n_live, self.ends, self.layout.doses, self.n_bins)
        return as_log(rows, names, np.full(state.size, True))

    def _sheet(self, shown: int = 10) -> Sheet:
        sizes = np.bincount(self.state, minlength=self.centres.shape[0])
        kinds = [len(self.layout.log), len(self.layout.binary)]
        n_stays = self.train_stays.size + self.test_stays.size
        seen = np.unique(self.action).size
        lines = [
            f"{_checks.many(self.state.size, 'row')} of "
            f"{_checks.many(n_stays, 'stay')}, {self.train_stays.size} of them "
            f"fitted (seed {self.seed})",
            f"states: {self.centres.shape[0]} clusters of {len(self.layout.features)} "
            f"features ({kinds[0]} as logarithms, {kinds[1]} binary) with {sizes.min()}"
            f" to {sizes.max()} rows, and " + " and ".join(map(repr, self.ends)),
            f"variance within clusters: {_share(self.unexplained[0])} of all where "
            f"fitted, {_share(self.unexplained[1])} elsewhere",
            f"actions: {self.n_actions}, of which {seen} were observed",
        ]
        for name, edges in zip(self.layout.doses, self.dose_edges, strict=True):
            cuts = ", ".join(f"{x:.4g}" for x in edges)
            lines.append(f"  {name}: none, or cut at {cuts or 'nothing'}")
        return Sheet(lines[0], [*lines[1:], *self.notes])


def discretise(
    frame: Any,
    *,
    features: Sequence[str],
    doses: Sequence[str],
    episode: str = "icustayid",
    step: str = "bloc",
    outcome: str = "outcome",
    patient: str | None = None,
    censored: str | None = None,
    n_states: int = 750,
    n_bins: int = 5,
    train: float = 0.8,
    seed: Seed = 0,
    log: Sequence[str] = (),
    binary: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    n_starts: int = 1,
    death: str = "death",
    survival: str = "survival",
) -> Discretisation:
    """Turn patients' features into states and doses into actions.

    Features are clustered by k-means, doses are cut at quantiles with no dose apart,
    and the last row of a stay leads to ``death`` or ``survival``. Centres, scales and
    cuts come from the training stays alone. The same table and seed give the same
    result. Needs scikit-learn: ``pip install "bayesmdp[clinical]"``.

    Parameters
    ----------
    frame
        A dataframe (pandas, polars, pyarrow, DuckDB, Ibis), one row a step of a stay;
        its columns are fetched into memory. No value may be missing.
    features
        Columns that say how a patient is.
    doses
        Columns of what was given in the step, 0 where nothing; the first changes
        slowest in the number of an action.
    episode, step
        Columns of the stay and of the time in it; a gap is a missing row, not bridged.
    outcome
        Column that is 1 in every row of a stay that ended in death, otherwise 0.
    patient
        Column by which to split, for patients with several stays; else stays are.
    censored
        Column that is 1 in every row of a stay with which only the follow-up ended,
        otherwise 0: its last row is left out of the transitions, whatever ``outcome``.
    n_states
        Clusters; two terminal states come on top.
    n_bins
        Levels of a drug: none, and ``n_bins - 1`` equal shares of the doses given.
    train
        Share of patients (or stays) to learn from; with 1 nothing is held out.
    seed
        Of the split and of the clustering.
    log
        Features to take the logarithm of, ``log(x + 0.1)``, before scaling.
    binary
        Features that are 0 or 1, taken less 0.5; all others are scaled to mean 0 and
        standard deviation 1.
    weights
        Factors for features that should count for more or less than others.
    n_starts
        Clusterings to choose the tightest of.
    death, survival
        Names of the terminal states.

    Examples
    --------
    >>> import duckdb, bayesmdp as bm
    >>> stays = duckdb.sql(
    ...     "select n // 4 as icustayid, n % 4 as bloc, n // 20 as died, "
    ...     "n // 20 + n % 3 as lactate, n % 5 * 100 as fluid from range(40) t(n)"
    ... )
    >>> clinic = bm.data.discretise(
    ...     stays, features=["lactate"], doses=["fluid"], outcome="died", n_states=3
    ... )
    >>> clinic.transitions, clinic.n_states, clinic.n_actions
    (Transitions(40 rows), 5, 5)
    >>> clinic.dose([[0], [100], [400]]).tolist()
    [0, 1, 4]
    """
    _checks.extra("sklearn", "clinical", "discretise")
    keys = {"episode": episode, "step": step, "outcome": outcome, "patient": patient}
    keys["censored"] = censored
    layout = check_layout(features, doses, keys, log, binary)
    check_ends(death, survival)
    levels = _checks.integer("n_bins", n_bins, 2, ArgumentError)
    if levels ** len(layout.doses) > _MOST_ACTIONS:
        raise ArgumentError(
            f"`n_bins` is {levels}, which makes {levels}**{len(layout.doses)} actions; "
            f"at most {_MOST_ACTIONS} can be told apart."
        )
    settings = Settings(
        n_states=_checks.integer("n_states", n_states, 1, ArgumentError),
        n_bins=levels,
        train=_checks.real("train", train, ArgumentError, 0, 1, open_low=True),
        seed=_checks.seed_integer(seed),
        n_starts=_checks.integer("n_starts", n_starts, 1, ArgumentError),
        weight=_weights(weights, layout),
        ends=(death, survival),
    )
    result = _discretised(read_cohort(frame, layout), layout, settings)
    for note in result.notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    return result


@dataclass(frozen=True, eq=False)
class Settings:
    """What the caller chose, checked."""

    n_states: int
    n_bins: int
    train: float
    seed: int
    n_starts: int
    weight: FloatArray  # [F]
    ends: tuple[str, str]


def _weights(weights: Mapping[str, float] | None, layout: Layout) -> FloatArray:
    """Return a factor for each feature."""
    weight = np.ones(len(layout.features))
    if weights is None:
        return weight
    if not isinstance(weights, Mapping):
        raise ArgumentError(
            f"`weights` must map features to factors; got {weights!r:.80}."
        )
    for name, value in weights.items():
        if name not in layout.features:
            hint = did_you_mean(str(name), layout.features)
            raise ArgumentError(
                f"`weights` has {name!r}, which is not among `features`{hint}."
            )
        factor = _checks.real(
            f"weights[{name!r}]", value, ArgumentError, 0, open_low=True
        )
        weight[layout.features.index(name)] = factor
    return weight


def _discretised(cohort: Cohort, layout: Layout, chosen: Settings) -> Discretisation:
    """Learn from training stays, and apply what was learnt to all."""
    stay_is_fitted = _split(cohort.patient, chosen.train, chosen.seed)
    fitted = stay_is_fitted[cohort.episode]
    if fitted.sum() < chosen.n_states:
        raise CountsError(
            f"`n_states` is {chosen.n_states}, but only {fitted.sum()} of "
            f"{fitted.size} rows of {cohort.origin} are fitted: take fewer states."
        )
    scaling = fit_scaling(
        cohort.features[fitted], layout.features, *masks(layout), chosen.weight
    )
    edges = _doses.dose_edges(cohort.doses[fitted], layout.doses, chosen.n_bins)
    levels = _doses.dose_levels(cohort.doses, edges)
    action = _doses.as_action(levels, chosen.n_bins)
    z = scaling.scaled(cohort.features)
    centres, unrest = find_centres(
        z[fitted], chosen.n_states, chosen.n_starts, chosen.seed
    )
    state, distance = nearest(z, centres)
    rows, gaps = moves(cohort, state, action, chosen.n_states)
    names = names_of(chosen.n_states, chosen.ends, layout.doses, chosen.n_bins)
    medians = _doses.dose_medians(cohort.doses[fitted], levels[fitted], chosen.n_bins)
    return Discretisation(
        transitions=as_log(rows, names, np.full(fitted.size, True)),
        train=as_log(rows, names, fitted),
        test=None if fitted.all() else as_log(rows, names, ~fitted),
        train_stays=_checks.sealed(cohort.stays[stay_is_fitted]),
        test_stays=_checks.sealed(cohort.stays[~stay_is_fitted]),
        state=_checks.sealed(state),
        action=_checks.sealed(action),
        layout=layout,
        log=scaling.log,
        offset=scaling.offset,
        scale=scaling.scale,
        centres=centres,
        n_bins=chosen.n_bins,
        dose_edges=_checks.sealed(edges),
        dose_medians=_checks.sealed(medians),
        unexplained=_unexplained(z, distance, fitted),
        ends=chosen.ends,
        seed=chosen.seed,
        notes=(*gaps, *_empty_levels(medians, layout.doses), *unrest),
    )


def _split(patient: IntArray, share: float, seed: int) -> BoolArray:
    """Say which stays are fitted, ``[M]``, by their patients."""
    n = int(patient.max()) + 1
    n_fitted = round(share * n)
    if not n_fitted or (share < 1 and n_fitted == n):
        what = "none to fit" if not n_fitted else "none to hold out"
        raise ArgumentError(
            f"`train` is {share:g}, which leaves {what} of {n} patients; with train=1 "
            "all are fitted."
        )
    order = np.argsort(scramble(np.arange(n), seed))
    chosen = np.zeros(n, dtype=np.bool_)
    chosen[order[:n_fitted]] = True
    return chosen[patient]


def _empty_levels(medians: FloatArray, names: tuple[str, ...]) -> tuple[str, ...]:
    """Say which levels of a drug nobody got: usual doses fill several quantiles."""
    return tuple(
        f"Nobody who is fitted got level {level} of `{name}`: doses are too alike for "
        "that many levels."
        for name, row in zip(names, medians, strict=True)
        for level in np.flatnonzero(np.isnan(row))
        if level  # a drug that all got is no fault
    )


def _unexplained(
    z: FloatArray, distance: FloatArray, fitted: BoolArray
) -> tuple[float, float]:
    """Share of the variance that lies within clusters, where fitted and elsewhere."""
    middle = z[fitted].mean(axis=0)
    within, total = (
        [float(x[rows].sum()) for rows in (fitted, ~fitted)]
        for x in (distance, ((z - middle) ** 2).sum(axis=1))
    )
    return within[0] / total[0], within[1] / total[1] if total[1] else float("nan")


def _share(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1%}"


def _values(name: str, given: Any, columns: tuple[str, ...]) -> tuple[FloatArray, str]:
    """Return numbers ``[N, C]`` from an array or from the columns of a dataframe."""
    if isinstance(given, np.ndarray | list | tuple):
        shape = ("row", name.rstrip("s"))
        array = _checks.float_array(name, given, shape, ArgumentError)
        if array.shape[1] != len(columns):
            raise ArgumentError(
                f"`{name}` must have {len(columns)} columns ({', '.join(columns)}); "
                f"got {array.shape[1]}."
            )
        return array, f"`{name}`"
    found, origin = fetch_columns(given, columns, name=name)
    return np.stack([found[x] for x in columns], axis=1), origin
