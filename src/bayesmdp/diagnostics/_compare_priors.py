"""Priors side by side: what they predict, and what they recommend.

Three questions, which need not have the same answer. *Which prior predicts best?*
Evidence and held-out density (`_heldout.py` has the formulas). *Which predicts the
highest value?* That of its best policy in its own mean model; it is what the prior
says, not what is true. *Do they disagree about what to do?* Where they do not, the
choice of a prior matters to the predicted value only.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, Table, number, percent, significant, table
from bayesmdp._typing import FloatArray, IntArray, Seed
from bayesmdp.data import Counts
from bayesmdp.diagnostics._advice import (
    Advice,
    actions,
    advise,
    checked_priors,
    common_best,
    fit_named,
    settled,
    state_visits,
)
from bayesmdp.diagnostics._heldout import Folds, HeldOut, Scores, deal, held_out, score
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.model import Data, Task, align
from bayesmdp.posterior import Fitted
from bayesmdp.priors import AnyPrior

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from bayesmdp.engine import Pool

_HELD_OUT = (  # fields of a row that need folds, in the order of `_verdict`
    "log_density",
    "log_density_error",
    "zero_share",
    "zero_share_error",
    "rest_log_density",
    "rest_log_density_error",
    "difference",
    "difference_error",
    "new_mass",
)


@dataclass(frozen=True)
class PriorRow:
    """One prior of a comparison; without folds, what is held out is None."""

    name: str
    prior: str  # with the numbers it chose
    log_evidence: float | None  # None where rows are made by looking at the data
    log_density: float | None  # held out, a transition; -inf if one had zero mass
    log_density_error: float | None
    zero_share: float | None  # of held-out transitions, which were given zero mass
    zero_share_error: float | None
    rest_log_density: float | None  # of the others; NaN if there are none
    rest_log_density_error: float | None
    difference: float | None  # to the best, where both give mass
    difference_error: float | None  # paired
    new_mass: float | None  # held-out share it expected on next states new to it
    unseen_mass: float  # on next states never observed, by visits, from all the data
    predicted_value: float  # start value of the nominal policy, in its mean model


@dataclass(frozen=True, eq=False, repr=False)
class PriorComparison(Record):
    """Priors on the same data, in the order given; made by `bayesmdp.compare_priors`.

    Axis P runs over priors.
    """

    _left_out = ("policies", "visits")
    _table_of = "rows"

    rows: tuple[PriorRow, ...]  # [P]
    best: str | None  # by held-out density; None without folds
    agreement: FloatArray  # [P, P], share of logged visits with a common best action
    policies: FloatArray  # [P, S, A], nominal
    visits: IntArray  # [S], logged transitions from live states
    n_folds: int
    n_held_out: int  # transitions scored: those of available pairs
    new_share: float | None  # of them, to next states the other folds had not observed
    new_share_error: float | None
    min_count: int
    seed: int
    notes: tuple[str, ...]  # what was warned about
    task: Task = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the priors."""
        return tuple(row.name for row in self.rows)

    def __getitem__(self, name: str) -> PriorRow:
        """Row of a prior by its name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise ArgumentError(
            f"No prior {name!r:.80} in this comparison; there are: "
            f"{', '.join(self.names)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for JSON; what is not finite is None."""
        chosen = actions(self.policies, self.task)
        return super().to_dict() | {"actions": chosen.tolist()}

    def _sheet(self, shown: int = 10) -> Sheet:
        title = (
            f"{_checks.many(len(self.rows), 'prior')} on "
            f"{_checks.many(int(self.visits.sum()), 'transition')}"
        )
        body = self._held_out_table() if self.n_folds else [self._table()]
        if len(self.rows) > 1:
            cells = [[percent(x) for x in row] for row in self.agreement]
            body += ["", "a common best action in this share of logged visits"]
            body.append(table(self.names, self.names, cells))
        body += [f"note: {note}" for note in self.notes]
        return Sheet(title, body)

    def _table(self) -> Table:
        header = ("log evidence", "unseen mass", "predicted value")
        return table(self.names, header, [_about(row) for row in self.rows])

    def _held_out_table(self) -> list[Table | str]:
        header = ["held-out log density", "minus best", "zero mass", "of the rest"]
        header += ["expected new", "log evidence", "unseen mass", "predicted value"]
        names = [x + " *" if x == self.best else x for x in self.names]
        cells = [
            [
                number(row.log_density, row.log_density_error),
                ""
                if row.name == self.best
                else number(row.difference, row.difference_error),
                percent(row.zero_share, row.zero_share_error),
                number(row.rest_log_density, row.rest_log_density_error),
                percent(row.new_mass),
                *_about(row),
            ]
            for row in self.rows
        ]
        new = percent(self.new_share, self.new_share_error)
        return [
            table(names, header, cells),
            "* best: least often zero mass, then highest density of the rest; "
            "differences where both give mass",
            f"± standard error over {self.n_held_out} held-out transitions in "
            f"{self.n_folds} folds; {new} went to next states new to the pair",
        ]

    def __repr__(self) -> str:
        return f"PriorComparison({', '.join(self.names)}; best={self.best})"


def _about(row: PriorRow) -> list[str]:
    evidence = "" if row.log_evidence is None else f"{row.log_evidence:.2f}"
    return [evidence, percent(row.unseen_mass), significant(row.predicted_value, 4)]


def compare_priors(
    priors: Mapping[str, AnyPrior],
    data: Data,
    task: Task,
    *,
    min_count: int = 0,
    n_folds: int = 5,
    seed: Seed = 0,
    threads: int | None = None,
    executor: Executor | None = None,
) -> PriorComparison:
    """Compare priors by evidence, held-out density, predicted value and policies.

    The held-out density of a transition is the log of its probability in the mean model
    of the other folds; this is not the sequential evidence. The best prior is the one
    that gives probability 0 to the fewest held-out transitions, and among equals the
    one with the highest density, as by the logarithmic score. A prior that predicts
    worse, for example by adding deaths where nothing was observed, may still choose
    better policies.

    Parameters
    ----------
    priors
        One or more, by name; also mixtures, whose components are weighted again by
        the other folds, and hierarchical ones, whose strengths are learnt from these.
    data
        Transitions, or a dataframe of them, with an ``episode`` column, as whole
        episodes are held out; counts or transitions without only with ``n_folds=0``.
    task
        The known part.
    min_count
        As for `bayesmdp.fit`. Evidence, held-out density and policies are for the pairs
        that stay available, given all the data; for a pair without data in the other
        folds, the row is predicted by the prior from the rest of these folds.
    n_folds
        Number of folds, each held out once, at least 2; 0 for no held-out density.
    seed
        Which episode falls into which fold.
    threads, executor
        Score folds and priors side by side, as in `bayesmdp.evaluate`. Results do not
        depend on it.

    Returns
    -------
    PriorComparison
        Errors of held-out means are the larger of two, over transitions and over folds.
        ``agreement`` is the share of logged visits to states in which some action is
        best under both priors, so that ties do not count as disagreement.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> log = world.simulate(np.full((25, 4), 0.25), 200, seed=0)
    >>> priors = {"any state": bm.SymmetricPrior(),
    ...           "neighbours": bm.SymmetricPrior(support=world.support),
    ...           "as seen": bm.SparsePrior(fallback=20)}
    >>> found = bm.compare_priors(priors, log, world.task)
    >>> found.best, found["neighbours"].zero_share, found["as seen"].log_evidence
    ('neighbours', 0.0, None)
    """
    from bayesmdp import engine

    named = checked_priors(priors)
    _checks.of_type("task", task, Task, ArgumentError)
    task.plain("compare_priors", "task")
    min_count = _checks.integer("min_count", min_count, 0, ArgumentError)
    n_folds = _fold_count(n_folds)
    seed = _checks.seed_integer(seed)
    with engine.workers(threads, executor) as pool:
        if n_folds:
            folds, task = deal(data, task, n_folds, seed)
            counts = folds.counts
        else:
            folds, (counts, task) = None, align(data, task)
        visits = state_visits(counts, task)
        found = {
            name: _believe(name, prior, counts, task, min_count)
            for name, prior in named.items()
        }
        held = None if folds is None else _trial(named, folds, found, task, pool)
    comparison = _gathered(found, held, visits, task, n_folds, min_count, seed)
    for note in comparison.notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    return comparison


def _fold_count(n_folds: object) -> int:
    n = _checks.integer("n_folds", n_folds, 0, ArgumentError)
    if n == 1:
        raise ArgumentError(
            "`n_folds` must be at least 2, or 0 to leave held-out density out; got 1."
        )
    return n


@dataclass(frozen=True, eq=False)
class _Believed:
    """What is kept of a posterior, whose rows may be large."""

    prior: str
    advice: Advice
    pair: IntArray  # [R], available
    length: int  # next states of a row, on average
    log_evidence: float | None
    unseen_mass: float


def _believe(
    name: str, prior: AnyPrior, counts: Counts, task: Task, min_count: int
) -> _Believed:
    posterior = fit_named(name, prior, counts, task, min_count)
    rows, pair = posterior.rows().layout, np.flatnonzero(posterior.available)
    return _Believed(
        prior=str(settled(prior, pair, posterior.counts, task)),
        advice=advise(name, posterior),
        pair=pair,
        length=-(-rows.next_state.size // rows.pair.size),
        log_evidence=None if prior.looks_at_data else posterior.log_evidence(),
        unseen_mass=_unseen_mass(posterior),
    )


def _unseen_mass(posterior: Fitted) -> float:
    """Mass on next states never observed: mean over available pairs, by visits."""
    rows, counts = posterior.rows().layout, posterior.counts
    row, entry = rows.find(counts.state, counts.action, counts.next_state)
    here = entry >= 0
    visits = np.bincount(row[here], counts.count[here], minlength=rows.pair.size)
    visits = visits * posterior.available.ravel()[rows.pair]
    mass = posterior.mean().probability.copy()
    mass[entry[here]] = 0.0
    return float(visits @ rows.row_sums(mass) / visits.sum())


@dataclass(frozen=True, eq=False)
class _Trial:
    held: HeldOut
    scores: dict[str, Scores]
    best: str


def _trial(
    priors: dict[str, AnyPrior],
    folds: Folds,
    found: dict[str, _Believed],
    task: Task,
    pool: Pool,
) -> _Trial:
    """Score every prior on every fold, and find the best."""
    pair = next(iter(found.values())).pair  # the same for all: only data decide
    lengths = {name: believed.length for name, believed in found.items()}
    held = held_out(folds, pair)
    scores = score(priors, folds, pair, task, lengths=lengths, pool=pool)

    def rank(name: str) -> tuple[float, float]:
        x = scores[name].log_density
        rest, _ = held.mean(_given_mass(x))
        return held.mean(_is_zero(x))[0], -rest

    return _Trial(held, scores, min(priors, key=rank))


def _is_zero(log_density: FloatArray) -> FloatArray:
    return np.isneginf(log_density).astype(np.float64)


def _given_mass(log_density: FloatArray) -> FloatArray:
    return np.where(np.isneginf(log_density), np.nan, log_density)


def _row(name: str, believed: _Believed, trial: _Trial | None) -> PriorRow:
    return PriorRow(
        name=name,
        prior=believed.prior,
        log_evidence=believed.log_evidence,
        unseen_mass=believed.unseen_mass,
        predicted_value=believed.advice.start_value,
        **(dict.fromkeys(_HELD_OUT) if trial is None else _verdict(name, trial)),
    )


def _verdict(name: str, trial: _Trial) -> dict[str, float | None]:
    """Read off the folds what a row says of a prior."""
    held, own = trial.held, trial.scores[name]
    rest = _given_mass(own.log_density)
    zero = held.mean(_is_zero(own.log_density))
    density, error = held.mean(rest)
    never = zero[0] == 0
    gap = rest - _given_mass(trial.scores[trial.best].log_density)
    found = (
        *((density, error) if never else (-math.inf, math.nan)),
        *zero,
        *(density, error),
        *held.mean(gap),
        held.mean(own.new_mass)[0],
    )
    return dict(zip(_HELD_OUT, found, strict=True))


def _gathered(
    found: dict[str, _Believed],
    trial: _Trial | None,
    visits: IntArray,
    task: Task,
    n_folds: int,
    min_count: int,
    seed: int,
) -> PriorComparison:
    policies = np.stack([x.advice.policy for x in found.values()])
    of = range(len(found))
    best = np.stack([x.advice.best for x in found.values()])
    same = np.array([[common_best(best[[p, q]]) for q in of] for p in of])
    new = (None, None) if trial is None else trial.held.mean(trial.held.new)
    return PriorComparison(
        rows=tuple(_row(name, x, trial) for name, x in found.items()),
        best=None if trial is None else trial.best,
        agreement=_checks.sealed(same @ visits / visits.sum()),
        policies=_checks.sealed(policies),
        visits=visits,
        n_folds=n_folds,
        n_held_out=0 if trial is None else int(trial.held.count.sum()),
        new_share=new[0],
        new_share_error=new[1],
        min_count=min_count,
        seed=seed,
        notes=tuple(note for x in found.values() for note in x.advice.notes),
        task=task,
    )
