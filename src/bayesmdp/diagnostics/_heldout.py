"""How well a prior predicts transitions that it was not given.

Whole episodes are dealt into folds. A transition ``(s, a, t)`` of a fold is given the
posterior-mean probability that the other folds lead to, ::

    p(t | s, a, others) = (c[s, a, t] + n[s, a, t]) / sum_u (c[s, a, u] + n[s, a, u])

with counts ``n`` of the other folds and the concentrations ``c`` that the prior makes
of them (a prior that looks at the data sees those of the other folds alone, and one
that chooses a number chooses it again). Its log density is ``log p``. Every transition
of a fold is scored by the same row: this is not the sequential evidence, in which each
transition also learns from those before it. A mixture gives the weighted sum of what
its components give, ::

    p(t | s, a, others) = sum_c P(c | others) p_c(t | s, a, others)

with ``P(c | others)`` from the evidence of the other folds' counts of available pairs,
or as given after the data. A hierarchical prior is fitted to the other folds; its
chains give the mean row of every pair. Where its rows have entries for some next states
that stand for all others, the mass of these is shared by all next states that the state
was not observed to have, in proportion to the base measure.

Scored are the transitions of pairs that all of the data keep available, so that every
prior is asked the same; where the other folds hold nothing of a pair, its row is the
prior's alone. A next state outside a row's support has zero mass, and so has every next
state of a row without support.

**Errors.** The mean of values ``x`` of ``n`` transitions has the larger of two standard
errors, ::

    sqrt(sum (x - mean)^2 / n / (n - 1))              over transitions
    sqrt(F / (F - 1) sum_f (sum_{in f} (x - mean))^2) / n    over F folds

The first takes transitions as independent, and is too small where those of an episode
go together; the second does not, but knows a few folds only. That the folds' rows rest
on common data is in neither. Differences between priors are taken transition by
transition, and then treated alike.
"""

from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data import Counts
from bayesmdp.diagnostics._advice import naming, settled
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Data, Task, align, as_data
from bayesmdp.posterior import evidence_of, fit, weights_after
from bayesmdp.priors import (
    AnyPrior,
    HierarchicalPrior,
    MixturePrior,
    Prior,
    locate,
    rows_of,
)

if TYPE_CHECKING:
    from bayesmdp.engine import Pool

_ENTRIES = 2_000_000  # of rows made at once: all rows of all pairs are not needed


@dataclass(frozen=True, eq=False)
class Folds:
    """Data dealt into folds, in the task's numbering."""

    counts: Counts  # of all folds
    parts: tuple[Counts, ...]  # [F]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Transitions to score; K runs over the different ones of each fold."""

    fold: IntArray  # [K]
    count: IntArray  # [K]
    new: FloatArray  # [K], 1 where the other folds never saw it, else 0
    n_folds: int

    def mean(self, x: FloatArray) -> tuple[float, float]:
        """Mean of values ``[K]`` that are not NaN over transitions, and its error."""
        known = ~np.isnan(x)
        x, count, fold = x[known], self.count[known], self.fold[known]
        n = int(count.sum())
        if n == 0:
            return float("nan"), float("nan")
        mean = float(count @ x) / n
        gap = x - mean
        over_transitions = float(count @ gap**2) / max(n - 1, 1) / n
        by_fold = np.bincount(fold, count * gap, minlength=self.n_folds)
        over_folds = self.n_folds / (self.n_folds - 1) * float(by_fold @ by_fold)
        return mean, float(np.sqrt(max(over_transitions, over_folds / n**2)))


@dataclass(frozen=True, eq=False)
class Scores:
    """What one prior says of the held-out transitions."""

    log_density: FloatArray  # [K], -inf where it gives no mass
    new_mass: FloatArray  # [K], of all next states the other folds never saw


def deal(data: Data, task: Task, n_folds: int, seed: int) -> tuple[Folds, Task]:
    """Split the data by episode; the task is the one given, or a copy with names."""
    data = as_data(data, task)
    if isinstance(data, Counts):
        raise ArgumentError(
            "`data` must be Transitions with an `episode` column to be split into "
            "folds; got Counts: give n_folds=0 to leave held-out density out."
        )
    parts = [
        align(data, task, counts=part)
        for part in data.counts_by_fold(n_folds, seed=seed)
    ]
    counts = tuple(part for part, _ in parts)
    return Folds(reduce(add, counts), counts), parts[0][1]


def held_out(folds: Folds, pair: IntArray) -> HeldOut:
    """Gather what is scored: transitions of the available pairs ``[R]``."""
    fold, count, new = [], [], []
    for k, part in enumerate(folds.parts):
        held = _of_pairs(part, pair)
        seen = np.isin(_key(held), _key(without(folds.counts, part)))
        fold.append(np.full(held.count.size, k))
        count.append(held.count)
        new.append(np.where(seen, 0.0, 1.0))
    return HeldOut(
        fold=np.concatenate(fold),
        count=np.concatenate(count),
        new=np.concatenate(new),
        n_folds=len(folds.parts),
    )


def score(
    priors: dict[str, AnyPrior],
    folds: Folds,
    pair: IntArray,
    task: Task,
    *,
    lengths: dict[str, int],
    pool: "Pool",
) -> dict[str, Scores]:
    """Score the held-out transitions of available pairs ``[R]`` under each prior.

    ``lengths`` are the next states of a row under each prior, on average.
    """
    from bayesmdp.engine import results

    jobs = (
        (name, prior, k, folds.counts, part, pair, task, lengths[name])
        for name, prior in priors.items()
        for k, part in enumerate(folds.parts)
    )
    with results(pool, _score_fold, jobs) as found:
        return {name: _join(list(islice(found, len(folds.parts)))) for name in priors}


def _join(parts: list[Scores]) -> Scores:
    return Scores(
        np.concatenate([np.empty(0), *(x.log_density for x in parts)]),
        np.concatenate([np.empty(0), *(x.new_mass for x in parts)]),
    )


def _score_fold(
    name: str,
    prior: AnyPrior,
    k: int,
    counts: Counts,
    part: Counts,
    pair: IntArray,
    task: Task,
    length: int,
) -> Scores:
    """Score the transitions of one fold after training on the others."""
    held, training = _of_pairs(part, pair), without(counts, part)
    step = max(_ENTRIES // max(length, 1), 1)
    with naming(name, f" without fold {k}"):
        chosen = settled(prior, pair, training, task)
        if not isinstance(chosen, MixturePrior):
            return _score_pairs(chosen, held, training, task, step)
        scores = chosen.each(lambda x: _score_pairs(x, held, training, task, step))
        evidence = (_evidence(c, pair, training, task, step) for c in chosen.priors)
        return _mixed(scores, weights_after(chosen, evidence))


def _score_pairs(
    prior: Prior | HierarchicalPrior,
    held: Counts,
    training: Counts,
    task: Task,
    step: int,
) -> Scores:
    """Score held-out triplets, Dirichlet rows of ``step`` pairs at a time."""
    if isinstance(prior, HierarchicalPrior):
        return _score_hierarchical(prior, held, training, task)
    of_held = _pair(held)
    wanted = np.unique(of_held)
    parts = []
    for first in range(0, wanted.size, step):
        some = wanted[first : first + step]
        ends = np.searchsorted(of_held, [some[0], some[-1] + 1])
        here = _select(held, slice(*ends.tolist()))
        parts.append(_score_rows(prior, some, here, training, task))
    return _join(parts)


def _score_hierarchical(
    prior: HierarchicalPrior, held: Counts, training: Counts, task: Task
) -> Scores:
    """Score held-out triplets by mean rows after fitting to the other folds."""
    every = fit(training, task, prior=prior)  # has a row for every pair
    wanted = np.flatnonzero(np.isin(every.layout.pair, _pair(held)))
    count = every.count[every.layout.entries_of(wanted)]
    mean = replace(every, layout=every.layout.take(wanted), count=count).mean()
    rows, p = mean.rows, mean.probability
    whole = rows.pair.size * task.n_states  # rows with every next state need no atoms
    row, entry = rows.find(held.state, held.action, held.next_state)
    _, seen = rows.find(training.state, training.action, training.next_state)
    of_new = p.copy()
    of_new[seen[seen >= 0]] = 0.0
    density = np.where(entry >= 0, p[entry], 0.0)
    if prior.support is None and mean.rows.next_state.size < whole:
        new, share = _among_others(prior, held, training, task)
        others = _is_new(rows.state[rows.row_of_entry], rows.next_state, training, task)
        density = np.where(new, rows.row_sums(p * others)[row] * share, density)
    with np.errstate(divide="ignore"):
        return Scores(np.log(density), rows.row_sums(of_new)[row])


def _is_new(
    state: IntArray, next_state: IntArray, training: Counts, task: Task
) -> BoolArray:
    """Whether a state was not observed to have a next state that is not terminal."""
    n = np.int64(task.n_states)
    seen = np.isin(state * n + next_state, training.state * n + training.next_state)
    return np.asarray(~seen & ~task.is_terminal[next_state])


def _among_others(
    prior: HierarchicalPrior, held: Counts, training: Counts, task: Task
) -> tuple[BoolArray, FloatArray]:
    """Whether triplets ``[K]`` are new to their state, and their share of what is."""
    weight = np.where(task.is_terminal, 0.0, prior.weights(training, task))
    key = np.unique(training.state * np.int64(task.n_states) + training.next_state)
    state, next_state = np.divmod(key, task.n_states)
    left = weight.sum() - np.bincount(state, weight[next_state], task.n_states)
    new = _is_new(held.state, held.next_state, training, task)
    share = np.zeros(new.size)
    share[new] = weight[held.next_state[new]] / left[held.state[new]]
    return new, share


def _evidence(
    prior: Prior | HierarchicalPrior,
    pair: IntArray,
    training: Counts,
    task: Task,
    step: int,
) -> float:
    """Log evidence of what the other folds hold of pairs ``[R]``."""
    assert not isinstance(prior, HierarchicalPrior)  # weights are then given
    some = [pair[first : first + step] for first in range(0, pair.size, step)]
    return sum(evidence_of(prior, x, training, task) for x in some)


def _mixed(scores: list[Scores], weights: FloatArray) -> Scores:
    """Join what components say, by their weights ``[C]`` after the other folds."""
    used = np.flatnonzero(weights)
    log_density = [np.log(weights[c]) + scores[c].log_density for c in used]
    return Scores(
        np.logaddexp.reduce(log_density, axis=0),
        np.sum([weights[c] * scores[c].new_mass for c in used], axis=0),
    )


def _score_rows(
    prior: Prior, pair: IntArray, held: Counts, training: Counts, task: Task
) -> Scores:
    """Score held-out triplets whose pairs are ``pair`` ``[R]``."""
    rows, before = rows_of(prior, pair, training, task)
    seen = _of_pairs(training, pair)
    _, entry = locate(rows, seen, task)
    of_new = np.array(before, dtype=np.float64)
    of_new[entry] = 0.0
    alpha = np.array(before, dtype=np.float64)
    alpha[entry] += seen.count
    at = rows.row_of_entry
    total = np.bincount(at, alpha, minlength=pair.size)
    new = np.bincount(at, of_new, minlength=pair.size)
    new_mass = new / np.where(total > 0, total, 1.0)  # 0 in a row without support
    row, entry = rows.find(held.state, held.action, held.next_state)
    inside = entry >= 0
    log_density = np.full(row.size, -np.inf)
    log_density[inside] = np.log(alpha[entry[inside]]) - np.log(total[row[inside]])
    return Scores(log_density, new_mass[row])


def _pair(counts: Counts) -> IntArray:
    return counts.state * counts.n_actions + counts.action


def _key(counts: Counts) -> IntArray:
    """One number for each triplet, in rising order."""
    return _pair(counts) * counts.n_states + counts.next_state


def _select(counts: Counts, which: BoolArray | slice) -> Counts:
    return replace(
        counts,
        state=counts.state[which],
        action=counts.action[which],
        next_state=counts.next_state[which],
        count=counts.count[which],
    )


def _of_pairs(counts: Counts, pair: IntArray) -> Counts:
    """Keep the counts of some pairs."""
    return _select(counts, np.isin(_pair(counts), pair))


def without(counts: Counts, part: Counts) -> Counts:
    """All folds but one."""
    left = counts.count.copy()
    left[np.searchsorted(_key(counts), _key(part))] -= part.count
    return _select(replace(counts, count=left), left > 0)
