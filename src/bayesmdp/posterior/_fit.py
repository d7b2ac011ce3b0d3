"""From data and a prior to a belief."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import argument
from bayesmdp._resources import check_room
from bayesmdp.data import Counts
from bayesmdp.errors import ArgumentError, CountsError, PriorWarning
from bayesmdp.model import Availability, Data, Task, align, availability
from bayesmdp.posterior._hierarchical import HierarchicalPosterior, fit_hierarchical
from bayesmdp.posterior._mixture import (
    MixturePosterior,
    component_prefix,
    keep_components,
    weights_after,
)
from bayesmdp.posterior._posterior import Fitted, Posterior
from bayesmdp.priors import (
    AnyPrior,
    HierarchicalPrior,
    MixturePrior,
    OnSets,
    Prior,
    check_rows,
    is_restricted,
    locate,
    rows_of,
    without_fallbacks,
)

# Bytes for a pair, for the row of an available one, and for each of its next states in
# a mixture: at their worst, as tests measure them.
_PAIR, _ROW, _ENTRY = 16, 100, 44


@overload
def fit(
    data: Data,
    task: Task,
    *,
    prior: Prior,
    min_count: int = 0,
) -> Posterior: ...
@overload
def fit(
    data: Data,
    task: Task,
    *,
    prior: MixturePrior,
    min_count: int = 0,
) -> MixturePosterior: ...
@overload
def fit(
    data: Data,
    task: Task,
    *,
    prior: HierarchicalPrior | None = None,
    min_count: int = 0,
) -> HierarchicalPosterior: ...
def fit(
    data: Data,
    task: Task,
    *,
    prior: Prior | MixturePrior | HierarchicalPrior | None = None,
    min_count: int = 0,
) -> Posterior | MixturePosterior | HierarchicalPosterior:
    """Fit a posterior over the dynamics.

    Parameters
    ----------
    data
        Transitions, a dataframe of them (pandas, polars, pyarrow, ...; read as
        `bayesmdp.read_transitions` reads it), or counts. Where they have names, so must
        the task, and the same name is the same state, whatever its number; a task
        without names takes the data's if it has as many states and actions.
    task
        The known part; its sizes take precedence.
    prior
        ``HierarchicalPrior()`` where not given: the actions of a state share
        information, and how far they differ is learnt.
    min_count
        Visits a pair needs to stay available to policies. A state left without a
        pair keeps its most visited one, a state never visited keeps all; see
        ``posterior.availability``.

    Returns
    -------
    HierarchicalPosterior
        Or a `Posterior` or `MixturePosterior`, depending on the prior.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> bm.fit(world.sample(1000, seed=0), world.task, min_count=5)
    HierarchicalPosterior(25 states, 4 actions, 1000 transitions, 78 available pairs)
    >>> import duckdb  # or a frame of pandas, polars, pyarrow, ...
    >>> frame = duckdb.sql("select 'icu' state, 'treat' action, 'home' next_state")
    >>> task = bm.Task(2, 1, reward=[0, 1], discount=0.9, terminal="home",
    ...                state_labels=["icu", "home"], action_labels=["treat"])
    >>> bm.fit(frame, task, prior=bm.SymmetricPrior())
    Posterior(2 states, 1 action, 1 transition, 1 available pair)
    """
    if isinstance(data, Task) and not isinstance(task, Task):
        raise ArgumentError(
            "`task` comes after `data`: fit(data, task); got a Task first."
        )
    _checks.of_type("task", task, Task, ArgumentError)
    prior = HierarchicalPrior() if prior is None else prior
    known = Prior | MixturePrior | HierarchicalPrior
    if isinstance(prior, type) or not isinstance(prior, known):
        raise ArgumentError(
            f"`prior` must be a prior such as HierarchicalPrior(); got {prior!r:.80}."
        )
    counts, task = align(data, task)
    return refit(counts, task, prior, min_count)


def refit(
    counts: Counts,
    task: Task,
    prior: AnyPrior,
    min_count: int,
    kept: Mapping[str, NDArray[Any]] | None = None,
    pairs: Availability | None = None,
    *,
    empty: bool = False,
) -> Posterior | MixturePosterior | HierarchicalPosterior:
    """Fit, or make again what was fitted, with the chains that it ``kept``.

    ``pairs`` are available in place of those that have ``min_count`` visits. Counts may
    be ``empty`` where what is believed before any data is asked for.
    """
    min_count = _checks.integer("min_count", min_count, 0, ArgumentError)
    if counts.total == 0 and not empty:
        raise CountsError(
            "`data` holds no transitions: there is nothing to learn from."
        )
    _check_pairs(task.n_states * task.n_actions, "", _PAIR, "fewer states or actions")
    _check_terminal(counts, task)
    visits = counts.pair_totals(task.n_states, task.n_actions)
    pairs = availability(visits, task, min_count) if pairs is None else pairs
    if isinstance(prior, HierarchicalPrior):
        return fit_hierarchical(prior, counts, task, pairs, kept)
    if isinstance(prior, MixturePrior):
        return _mix(prior, counts, task, pairs, kept)
    posterior = _fit_rows(prior, counts, task, pairs)
    if kept is None:  # else it was said when it was fitted
        _warn_of_weight(posterior)
    return posterior


def _warn_of_weight(posterior: Posterior) -> None:
    """Warn where pseudo-counts of logged pairs outweigh their visits."""
    layout, task = posterior.layout, posterior.task
    totals = posterior.counts.pair_totals(task.n_states, task.n_actions)
    visits = totals.ravel()[layout.pair]
    pseudo = (layout.row_sums(posterior.alpha) - visits)[visits > 0].sum()
    if posterior.sets is None and pseudo > visits.sum():
        warnings.warn(
            "The posterior is dominated by the prior: on logged pairs pseudo-counts "
            f"sum to {pseudo:.4g}, and visits to {visits.sum()}; use "
            f"{argument('hierarchical')}, which learns how much to add, or a smaller "
            f"{argument('concentration')}.",
            PriorWarning,
            stacklevel=4,
        )


def _fit_rows(
    prior: Prior, counts: Counts, task: Task, pairs: Availability
) -> Posterior:
    """Rows of the available pairs."""
    pair, sets = np.flatnonzero(pairs.available), None
    _check_pairs(pair.size, "available ", _ROW, "a larger `min_count`, or fewer states")
    base, imagined = without_fallbacks(prior)
    if isinstance(base, OnSets):
        rows, before, sets = base.on_sets(pair, counts, task, imagined)
    else:
        rows, before = rows_of(prior, pair, counts, task)
    check_rows(rows, task, counts, widen=is_restricted(prior))
    alpha = np.array(before)
    _, entry = locate(rows, counts, task)
    observed = entry >= 0
    alpha[entry[observed]] += counts.count[observed]
    return Posterior(task, counts, prior, pairs, rows, _checks.sealed(alpha), sets)


def _mix(
    prior: MixturePrior,
    counts: Counts,
    task: Task,
    pairs: Availability,
    kept: Mapping[str, NDArray[Any]] | None,
) -> MixturePosterior:
    """One posterior per component, all of the same pairs, and their weights."""
    prior.check_evidence()
    made: list[Posterior | HierarchicalPosterior] = []

    def fitted(
        component: Prior | HierarchicalPrior,
    ) -> Posterior | HierarchicalPosterior:
        if len(made) == 1:  # the others will hardly take less
            n_entries = made[0].rows().layout.next_state.size
            _check_components(len(prior.priors), n_entries)
        if isinstance(component, HierarchicalPrior):
            start = component_prefix(len(made))
            own = kept and {
                name.removeprefix(start): x
                for name, x in kept.items()
                if name.startswith(start)
            }
            made.append(
                fit_hierarchical(component, counts, task, pairs, own, every=False)
            )
        else:
            made.append(_fit_rows(component, counts, task, pairs))
        return made[-1]

    components = prior.each(fitted)
    weights = weights_after(prior, (c.log_evidence() for c in components))
    return MixturePosterior(task, counts, prior, pairs, tuple(components), weights)


def half_under(posterior: Fitted, prior: Prior) -> Fitted:
    """Mix a belief, half and half, with that of the same data under another prior."""
    kinds, pairs = Posterior | HierarchicalPosterior, posterior.availability
    parts = [part for part in posterior.components if isinstance(part, kinds)]
    half = np.append(posterior.component_weights, 1.0) / 2.0
    mixed = MixturePrior([*(x.prior for x in parts), prior], posterior_weights=half)
    kept = keep_components(parts)  # so that no chain runs again
    given = posterior.counts, posterior.task, mixed, pairs.min_count
    return refit(*given, kept, pairs)


def _check_components(n: int, n_entries: int) -> None:
    """Refuse components that do not fit beside each other."""
    remedy = (
        "mix priors with fewer next states, as SparsePrior with a `fallback` has, or "
        "fit one alone"
    )
    what = f"{n} components with {n_entries} possible transitions each take"
    check_room(_ENTRY * n_entries * n, what, lambda _: remedy)


def _check_pairs(n: int, kind: str, n_bytes: int, remedy: str) -> None:
    """Refuse pairs that do not fit, before anything is made for each of them."""
    check_room(
        n_bytes * n,
        f"{n} {kind}pairs of state and action take",
        lambda there: f"about {there // n_bytes} would fit, as with {remedy}",
    )


def _check_terminal(counts: Counts, task: Task) -> None:
    """Terminal states may be logged as staying put, not as going elsewhere."""
    leaving = task.is_terminal[counts.state] & (counts.state != counts.next_state)
    if leaving.any():
        i = int(np.argmax(leaving))
        state, next_state = counts.state[i], counts.next_state[i]
        same = (counts.state == state) & (counts.next_state == next_state)
        number = int(counts.count[same].sum())
        raise CountsError(
            f"Terminal state {task.state_name(state)} has "
            f"{_checks.many(number, 'outgoing transition')} to state "
            f"{task.state_name(next_state)}; drop them, or take the state out of "
            "`terminal` (or do ids start from 1? They must start from 0)."
        )
