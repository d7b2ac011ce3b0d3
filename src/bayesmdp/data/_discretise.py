"""From a table of patients to states and actions: the recipe of the AI Clinician.

Komorowski et al., *The Artificial Intelligence Clinician learns optimal treatment
strategies for sepsis in intensive care*, Nature Medicine 24:1716, 2018. Features are
clustered into states, doses are cut into levels, the outcome appends two terminal
states, death before survival. All that is learnt is learnt from training stays alone.
`docs/clinical.md` goes through it step by step, and says where this differs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._sheet import Sheet, Shown
from bayesmdp._typing import BoolArray, FloatArray, IntArray, Seed
from bayesmdp.data._ai_clinician import check_ends
from bayesmdp.data._cohort import (
    SHIFT,
    Cohort,
    Doses,
    Layout,
    among_features,
    check_doses,
    check_features,
    dose_cuts,
    dose_levels,
    fetch_columns,
    find_centres,
    nearest,
    read_cohort,
    scaled,
    scaling,
)
from bayesmdp.data._queries import scramble
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
    ['apply', 'assign', 'dose', 'n_actions', 'n_levels', 'n_states', 'profiles',
     'summary']
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
    dose_edges: FloatArray  # [D, n_bins - 2], NaN for arms
    dose_medians: FloatArray = field(repr=False)  # [D, n_bins], NaN: never given
    arms: tuple[tuple[str, ...] | None, ...]  # of each drug given as text, its levels
    unexplained: tuple[float, float]  # share of the variance, train and test
    ends: tuple[str, str]
    seed: int
    notes: tuple[str, ...] = field(repr=False)

    @property
    def n_states(self) -> int:
        """Clusters and the two terminal states."""
        return len(self.centres) + 2

    @property
    def n_levels(self) -> tuple[int, ...]:
        """Levels of each drug: ``n_bins``, or as many as there are arms."""
        return tuple(self.n_bins if x is None else len(x) for x in self.arms)

    @property
    def n_actions(self) -> int:
        """Combinations of levels of all drugs."""
        return math.prod(self.n_levels)

    @property
    def profiles(self) -> FloatArray:
        """Centres ``[K, F]`` in the units of the table, for people to read."""
        x = self.centres * self.scale + self.offset
        x[:, self.log] = np.exp(x[:, self.log]) - SHIFT
        return x

    def assign(self, features: Any) -> IntArray:
        """Return the state of each patient.

        Parameters
        ----------
        features
            A dataframe with the columns that were clustered, or an array ``[N, F]``
            with the features in that order.
        """
        columns, origin = _columns("features", features, self.layout, "numbers")
        values = check_features(np.stack(columns, axis=1), self.layout, origin)
        z = scaled(values, self.layout, self.offset, self.scale)
        return _checks.sealed(nearest(z, self.centres)[0])

    def dose(self, doses: Any) -> IntArray:
        """Return the action that doses amount to.

        Parameters
        ----------
        doses
            A dataframe with the columns of the drugs, or an array ``[N, D]``.
        """
        columns, origin = _columns("doses", doses, self.layout, "numbers or text")
        given = check_doses(columns, self.layout, origin)
        return _checks.sealed(self._actions(given, origin))

    def apply(self, frame: Any) -> Transitions:
        """Read other patients, from another hospital say, with these states.

        Parameters
        ----------
        frame
            A dataframe with the same columns; stays' names play no part.
        """
        cohort = read_cohort(frame, self.layout)
        z = scaled(cohort.features, self.layout, self.offset, self.scale)
        state = nearest(z, self.centres)[0]
        action = self._actions(cohort.doses, cohort.origin)
        rows, notes = _moves(cohort, state, action, len(self.centres))
        for note in notes:
            warnings.warn(note, BayesmdpWarning, stacklevel=2)
        return self._log(rows, np.full(state.size, True))

    def _actions(self, doses: list[Doses], origin: str) -> IntArray:
        """Join the levels of all drugs into one action, ``[N]``."""
        cuts = zip(self.layout.doses, doses, self.dose_edges, self.arms, strict=True)
        levels = tuple(dose_levels(*x, origin) for x in cuts)
        return np.asarray(np.ravel_multi_index(levels, self.n_levels), dtype=np.int64)

    def _log(self, columns: Mapping[str, NDArray[Any]], rows: BoolArray) -> Transitions:
        """Make transitions of some rows, less those before a gap."""
        states = (*(str(s) for s in range(len(self.centres))), *self.ends)
        kept = rows & (columns["next_state"] >= 0)
        log = Transitions.from_arrays(
            **{name: column[kept] for name, column in columns.items()},
            n_states=self.n_states,
            n_actions=self.n_actions,
        )
        ends = columns["next_state"][kept]
        note = ", ".join(
            f"{(ends == self.n_states - 2 + i).sum()} stays end in {x!r}"
            for i, x in enumerate(self.ends)
        )
        cut = int((rows & (columns["next_state"] == _CENSORED)).sum())
        if cut:
            note += f", {cut} are censored, and their last row is left out of counts"
        dropped = int(rows.sum() - kept.sum()) - cut
        note += f"; {dropped} rows were dropped before gaps in the steps."
        return replace(
            log, state_labels=states, action_labels=self._labels(), notes=(note,)
        )

    def _labels(self) -> tuple[str, ...]:
        """Name every action by its levels; a single arm by itself."""
        if len(self.arms) == 1 and self.arms[0] is not None:
            return self.arms[0]
        known = tuple(zip(self.layout.doses, self.arms, strict=True))
        return tuple(
            ", ".join(
                f"{name} {level if arms is None else arms[level]}"
                for (name, arms), level in zip(known, levels, strict=True)
            )
            for levels in np.ndindex(*self.n_levels)
        )

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
        cuts = zip(self.layout.doses, self.dose_edges, self.arms, strict=True)
        for name, edges, arms in cuts:
            said = ", ".join(f"{x:.4g}" for x in edges) or "nothing"
            lines.append(
                f"  {name}: {', '.join(arms)}"
                if arms
                else f"  {name}: none, or cut at {said}"
            )
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
        Columns of what was given in the step, 0 where nothing; or of text, such as
        the arm of a trial, whose levels are those that occur. The first changes
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
        Arms have levels of their own.
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
    layout = Layout.of(keys, features=features, doses=doses, log=log, binary=binary)
    check_ends(death, survival)
    n_bins = _checks.integer("n_bins", n_bins, 2, ArgumentError)
    if n_bins ** len(layout.doses) > _MOST_ACTIONS:
        raise ArgumentError(
            f"`n_bins` is {n_bins}, which makes {n_bins}**{len(layout.doses)} actions; "
            f"at most {_MOST_ACTIONS} can be told apart."
        )
    n_states = _checks.integer("n_states", n_states, 1, ArgumentError)
    n_starts = _checks.integer("n_starts", n_starts, 1, ArgumentError)
    share = _checks.real("train", train, ArgumentError, 0, 1, open_low=True)
    number = _checks.seed_integer(seed)
    weight = _weights(weights, layout)
    cohort = read_cohort(frame, layout)
    of_stay = _split(cohort.patient, share, number)
    fitted = of_stay[cohort.episode]
    if fitted.sum() < n_states:
        raise CountsError(
            f"`n_states` is {n_states}, but only {fitted.sum()} of {fitted.size} rows "
            f"of {cohort.origin} are fitted: take fewer states."
        )
    offset, scale = scaling(cohort.features[fitted], layout, weight)
    z = scaled(cohort.features, layout, offset, scale)
    centres, unrest = find_centres(z[fitted], n_states, n_starts, number)
    state, distance = nearest(z, centres)
    edges, medians, arms = dose_cuts(cohort.doses, fitted, layout, n_bins)
    none = Transitions.from_arrays([], [], [])
    made = Discretisation(
        transitions=none,
        train=none,
        test=None,
        train_stays=_checks.sealed(cohort.stays[of_stay]),
        test_stays=_checks.sealed(cohort.stays[~of_stay]),
        state=_checks.sealed(state),
        action=np.zeros(0, dtype=np.int64),
        layout=layout,
        log=_checks.sealed(layout.mask("log")),
        offset=_checks.sealed(offset),
        scale=_checks.sealed(scale),
        centres=_checks.sealed(centres),
        n_bins=n_bins,
        dose_edges=_checks.sealed(edges),
        dose_medians=_checks.sealed(medians),
        arms=arms,
        unexplained=_unexplained(z, distance, fitted),
        ends=(death, survival),
        seed=number,
        notes=(),
    )
    action = made._actions(cohort.doses, cohort.origin)
    rows, gaps = _moves(cohort, state, action, n_states)
    notes = (*gaps, *_empty_levels(medians, arms, layout.doses), *unrest)
    for note in notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    return replace(
        made,
        transitions=made._log(rows, np.full(fitted.size, True)),
        train=made._log(rows, fitted),
        test=None if fitted.all() else made._log(rows, ~fitted),
        action=_checks.sealed(action),
        notes=notes,
    )


def _weights(weights: Mapping[str, float] | None, layout: Layout) -> FloatArray:
    """Return a factor for each feature."""
    if not isinstance(weights, Mapping | None):
        raise ArgumentError(
            f"`weights` must map features to factors; got {weights!r:.80}."
        )
    given = dict(weights or {})
    among_features("weights", map(str, given), layout.features)
    for name, value in given.items():
        _checks.real(f"weights[{name!r}]", value, ArgumentError, 0, open_low=True)
    return np.array([float(given.get(x, 1.0)) for x in layout.features])


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


_CENSORED = -2  # in place of a next state


def _moves(
    cohort: Cohort, state: IntArray, action: IntArray, n_live: int
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Columns of transitions, next state -1 before a gap, and what to say of gaps.

    The next state is that of the same stay one step later; the last row of a stay
    leads to one of two terminal states, or to `_CENSORED`.
    """
    order = np.lexsort((cohort.step, cohort.episode))
    stay, step = cohort.episode[order], cohort.step[order]
    same = stay[1:] == stay[:-1]
    follows = same & (step[1:] == step[:-1] + 1)
    last = np.full(state.size, True)
    last[order[:-1][same]] = False
    next_state = np.where(last, np.where(cohort.died, n_live, n_live + 1), -1)
    cut = last & cohort.censored
    next_state[cut] = _CENSORED
    next_state[order[:-1][follows]] = state[order[1:][follows]]
    n_gaps = int((next_state == -1).sum())
    note = (
        f"{n_gaps} of {state.size} rows of {cohort.origin} were dropped from the "
        "transitions because the step after them is missing."
    )
    columns = {
        "state": state,
        "action": action,
        "next_state": next_state,
        "episode": cohort.episode,
        "step": cohort.step,
        "terminated": last & ~cut,
    }
    return columns, (note,) * bool(n_gaps)


def _empty_levels(
    medians: FloatArray,
    arms: tuple[tuple[str, ...] | None, ...],
    names: tuple[str, ...],
) -> tuple[str, ...]:
    """Say which levels of a drug nobody got: usual doses fill several quantiles."""
    return tuple(
        f"Nobody who is fitted got level {level} of `{name}`: doses are too alike for "
        "that many levels."
        for name, row, arm in zip(names, medians, arms, strict=True)
        for level in np.flatnonzero(np.isnan(row))
        if level and arm is None  # a drug that all got is no fault
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


def _columns(
    name: str, given: Any, layout: Layout, kind: str
) -> tuple[list[NDArray[Any]], str]:
    """Return features or doses, of an array or of a table, and what that is called."""
    names: tuple[str, ...] = getattr(layout, name)
    if not isinstance(given, np.ndarray | list | tuple):
        found, origin = fetch_columns(given, dict.fromkeys(names, kind), name)
        return [found[x] for x in names], origin
    axes = ("row", name.rstrip("s"))
    array = _checks.float_array(name, given, axes, ArgumentError)
    if array.shape[1] != len(names):
        raise ArgumentError(
            f"`{name}` must have {len(names)} columns ({', '.join(names)}); got "
            f"{array.shape[1]}."
        )
    return list(array.T), f"`{name}`"
