"""A chosen policy judged by data that did not choose it.

Episodes are dealt into F folds. In turns, a policy is chosen on all folds but one (the
nominal policy), and judged by the posterior of that one alone: ::

    gain_f = J(chosen without f) - J(behaviour), in draws of the posterior of fold f
    gain   = mean over folds of the posterior mean of gain_f

Noise that made a policy look good is not in the data that judge it, so that no effect
shows as no gain, whatever the prior. Which pairs are available and what the behaviour
policy is come from all data.

**Folds depend on each other**: each helped to choose what the others judge. With two
actions, two folds and no effect, the errors of both have a correlation of 2 / pi: where
both folds err alike, both choose and praise alike. The distribution of the mean over
folds is therefore taken as if their errors went together entirely: draws of each fold
are sorted, and the i-th ones averaged. Of all ways to depend this one has the widest
sum (in convex order), and its sd is at most the mean of the folds' sds.

Where the judge never observed a pair, the prior answers: ``unjudged`` is the share of
the chosen policy's discounted visits on such pairs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayesmdp import _checks
from bayesmdp._sheet import Record, Sheet, percent, significant, table
from bayesmdp._typing import FloatArray, Seed
from bayesmdp.data import Counts
from bayesmdp.diagnostics._advice import check_prior, noted
from bayesmdp.diagnostics._heldout import deal, without
from bayesmdp.errors import ArgumentError, BayesmdpError, BayesmdpWarning, CountsError
from bayesmdp.evaluation import compare, gaps, probability
from bayesmdp.model import Log, Task, as_log, availability
from bayesmdp.policies import logged_policy, nominal
from bayesmdp.posterior import Draws, Fitted, refit
from bayesmdp.priors import AnyPrior, HierarchicalPrior

_N_DRAWS = 1000
_FOLDS = ("fold_gains", "fold_sds", "fold_probabilities", "fold_unjudged")


@dataclass(frozen=True, eq=False, repr=False)
class CrossFit(Record):
    """A gain judged by data that did not choose; made by `bayesmdp.cross_fit`.

    Axis F runs over folds: each judges a policy that was chosen on the others.
    """

    gain: float  # mean over folds
    gain_mcse: float  # Monte Carlo
    gain_sd: float  # epistemic, as if errors of folds went together
    interval: tuple[float, float]  # 95 %, likewise
    probability_better: float  # likewise; a tie is not better
    unjudged: float | None  # share of visits on pairs that the judge never observed
    fold_gains: FloatArray  # [F]
    fold_sds: FloatArray  # [F]
    fold_probabilities: FloatArray  # [F]
    fold_unjudged: FloatArray  # [F]
    prior: str
    n_draws: int  # of each posterior
    min_count: int
    reward: str | Mapping[str, float] | None  # which of several, `Task.with_reward`
    seed: int
    notes: tuple[str, ...]  # what was warned about

    def _rows(self) -> list[dict[str, Any]]:
        columns = [getattr(self, name).tolist() for name in _FOLDS]
        return [
            {"fold": fold, **dict(zip(_FOLDS, row, strict=True))}
            for fold, row in enumerate(zip(*columns, strict=True))
        ]

    def _sheet(self, shown: int = 10) -> Sheet:
        n = self.fold_gains.size
        names = [f"judged by fold {k}" for k in range(n)]
        columns = zip(*(getattr(self, name) for name in _FOLDS), strict=True)
        cells = [_cells(*(float(x) for x in row)) for row in columns]
        unjudged = np.nan if self.unjudged is None else self.unjudged
        mean = _cells(self.gain, self.gain_sd, self.probability_better, unjudged)
        low, high = self.interval
        return Sheet(
            f"Cross-fitting: policies chosen on {_checks.many(n - 1, 'fold')} of {n}, "
            "judged by the other",
            [
                table(
                    [*names, "together"],
                    ("gain", "sd", "better", "not judged"),
                    [*cells, mean],
                ),
                f"95 % interval of the gain {significant(low)} to {significant(high)}; "
                "errors of folds taken as fully correlated, which makes it widest",
                "not judged: share of visits on pairs that the judge never observed, "
                f"where the prior decides; prior: {self.prior}",
                *(f"note: {note}" for note in self.notes),
            ],
        )

    def __repr__(self) -> str:
        return (
            f"CrossFit(gain {self.gain:.4g}, sd {self.gain_sd:.2g}, better "
            f"{self.probability_better:.2g}, {self.fold_gains.size} folds)"
        )


def _cells(gain: float, sd: float, better: float, unjudged: float) -> list[str]:
    return [significant(gain), significant(sd, 2), percent(better), percent(unjudged)]


def cross_fit(
    log: Log,
    task: Task,
    prior: AnyPrior | None = None,
    *,
    n_folds: int = 2,
    min_count: int = 0,
    seed: Seed = 0,
    threads: int | None = None,
    device: str | None = None,
) -> CrossFit:
    """Judge the gain of a chosen policy by episodes that did not choose it.

    In turn, the nominal policy of the other folds is evaluated under the posterior of
    one fold, against the behaviour policy of all data. Choice and evaluation each use a
    part of the data, so the gain is that of a policy chosen on ``1 - 1 / n_folds`` of
    the episodes, with the uncertainty of one fold.

    Parameters
    ----------
    log
        Transitions, or a dataframe of them, with an ``episode`` column.
    task
        The known part; names are found as in `bayesmdp.fit`.
    prior
        As in `bayesmdp.fit`; it chooses and judges.
    n_folds
        At least 2. With more folds, policies are chosen on more data and evaluated on
        less.
    min_count
        As in `bayesmdp.fit`, of all data.
    seed
        Which episode falls into which fold, and of the draws.
    threads, device
        As in `bayesmdp.evaluate`.

    Returns
    -------
    CrossFit
        ``unjudged`` is the share of the chosen policies' discounted visits on pairs
        that the evaluating fold never observed: there the prior decides, not the data.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0, discount=0.9)
    >>> log = world.simulate(world.available / 5, 400, max_steps=5, seed=0)
    >>> found = bm.cross_fit(log, world.task)
    >>> found.gain > 2 * found.gain_sd, found.unjudged
    (True, 0.0)
    """
    from bayesmdp.engine import backend_of

    _checks.of_type("task", task, Task, ArgumentError)
    task.plain("cross_fit", "task")
    log = as_log(log, task)
    prior = HierarchicalPrior() if prior is None else prior
    check_prior(prior, "prior")
    min_count = _checks.integer("min_count", min_count, 0, ArgumentError)
    seed = _checks.seed_integer(seed)
    folds, task = deal(log, task, n_folds, seed)
    visits = folds.counts.pair_totals(task.n_states, task.n_actions)
    if (visits.sum(axis=0) > 0).sum() < 2:
        raise CountsError(
            "`log` holds one action only: there is no other policy to choose; give a "
            "log in which actions differ."
        )
    pairs = availability(visits, task, min_count)
    logged = logged_policy(folds.counts, task, pairs.available)

    def fitted(counts: Counts) -> Fitted:
        return refit(counts, task, prior, min_count, pairs=pairs)

    backend_of(device)  # here, as no fold is to blame
    how: dict[str, Any] = {"threads": threads, "device": device}
    judged: list[_Judged] = []
    with noted() as notes:
        halves = _halves(folds.parts, fitted)
        for k, part in enumerate(folds.parts):
            with _naming(k):
                if halves:
                    chooses, judges = halves[1 - k], halves[k]
                else:
                    chooses = fitted(without(folds.counts, part))
                    judges = fitted(part)
                draws = judges.draws(_N_DRAWS, seed)
                judged.append(_judge(nominal(chooses), logged, draws, how))
    for note in notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    gain, mcse, better, unjudged, gains = map(np.array, zip(*judged, strict=True))
    together = gains.mean(axis=0)
    low, high = (float(x) for x in np.quantile(together, [0.025, 0.975]))
    return CrossFit(
        gain=float(gain.mean()),
        gain_mcse=float(mcse.mean()),
        gain_sd=float(together.std(ddof=1)),
        interval=(low, high),
        probability_better=float((together > 0).mean()),
        unjudged=float(unjudged.mean()) if np.isfinite(unjudged).all() else None,
        fold_gains=_checks.sealed(gain),
        fold_sds=_checks.sealed(gains.std(axis=1, ddof=1)),
        fold_probabilities=_checks.sealed(better),
        fold_unjudged=_checks.sealed(unjudged),
        prior=str(prior),
        n_draws=_N_DRAWS,
        min_count=min_count,
        reward=task.chosen,
        seed=seed,
        notes=tuple(notes),
    )


def _halves(
    parts: Sequence[Counts], fitted: Callable[[Counts], Fitted]
) -> list[Fitted]:
    """Fit each of two folds once: it judges, and chooses for the other."""
    found = []
    for k, part in enumerate(parts if len(parts) == 2 else ()):
        with _naming(k):
            found.append(fitted(part))
    return found


class _Judged(NamedTuple):
    """What one fold says of a policy that it did not choose."""

    gain: float
    mcse: float
    better: float
    unjudged: float
    gains: FloatArray  # [D], rising


def _judge(
    chosen: FloatArray, logged: FloatArray, draws: Draws, how: dict[str, Any]
) -> _Judged:
    """Set a policy beside the behaviour in draws of the judge."""
    policies = {"chosen": chosen, "behaviour": logged}
    found = compare(policies, draws, reference="behaviour", **how)
    ours, theirs = (found.evaluations[x].start_values for x in policies)
    known = np.isfinite(ours) & np.isfinite(theirs)
    at = (np.arange(draws.n_draws) + 0.5) / draws.n_draws
    gains = np.quantile(gaps(ours[known], theirs[known]), at, method="inverted_cdf")
    row = next(x for x in found.rows if x.name == "chosen")
    unjudged = found.evaluations["chosen"].prior_share
    better = probability(gains > 0, np.ones(gains.size))
    return _Judged(row.difference, row.difference_mcse, better, unjudged, gains)


@contextmanager
def _naming(fold: int) -> Iterator[None]:
    """Say which fold a problem is about."""
    try:
        yield
    except BayesmdpError as problem:
        raise type(problem)(f"Fold {fold} of `log`: {problem}") from problem
