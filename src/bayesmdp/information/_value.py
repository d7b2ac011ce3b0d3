"""`value_of_information`: what knowing more is worth, for every pair.

In three steps: values of the policies on common draws; all pairs by a first-order
approximation in closed form (`_moments`); then the states that matter most, all of them
in small problems, by nested Monte Carlo (`_nested`). Ensembles know their models, and
need neither (`_samples`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._resources import progress_bar
from bayesmdp._typing import BoolArray, FloatArray, IntArray, PolicyLike, Seed
from bayesmdp.errors import ArgumentError
from bayesmdp.evaluation import Chosen, as_draws, mean_and_mcse
from bayesmdp.information._record import Information
from bayesmdp.model import as_policy
from bayesmdp.posterior import Belief, Ensemble, check_belief

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from bayesmdp.engine import Pool, Problem
    from bayesmdp.information._decisions import Decisions
    from bayesmdp.information._moments import Moments
    from bayesmdp.information._nested import Options

_SMALL = 100  # live states up to which every one is confirmed
_CONFIRMED = 12  # of larger problems
_N_DRAWS, _FEWER = 1000, 256  # of values; in larger problems
_BOUND = 64  # draws planned for, in larger problems
_REACH = 5.0  # sds beyond which a policy cannot become the best
_MOST_ACTIVE = 60  # policies that nested Monte Carlo looks at
_LONG = 1e6  # steps of an episode, from which on it does not end
_SWITCHES = 2000  # pairs of an ensemble up to which every switch is evaluated


def value_of_information(
    posterior: Belief,
    policies: Mapping[str, PolicyLike] | Iterable[PolicyLike] | None = None,
    n_visits: Iterable[int] = (10, 100, 1000),
    *,
    reward: Chosen | None = None,
    n_patients: int = 500,
    baseline: PolicyLike | None = None,
    n_draws: int | None = None,
    n_confirmed: int | None = None,
    seed: Seed = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    progress: bool | None = None,
) -> Information:
    """Compute the value of information, and where it is largest.

    Parameters
    ----------
    posterior
        What is believed. An ensemble of up to 100 models is treated as the whole set of
        models; a larger one, or a sample of models, as draws from a continuous
        distribution (needs scikit-learn).
    policies
        The policies among which the decision is, by name or in a list. Where not given:
        what was done in the data, the nominal and an optimised policy, and the optimal
        policies of 50 draws.
    n_visits
        Sizes of studies of a pair, or of a state.
    reward
        Which of several rewards is decided on, by name, or weights by name: net
        benefit, ``{"qaly": 50_000, "cost": -1}``.
    n_patients
        Further patients, treated by ``baseline``, whose expected value is computed
        state by state.
    baseline
        Where not given, what was done in the data, else the best policy.
    n_draws
        Draws that policies are evaluated on; 1,000, or 256 above 100 states.
    n_confirmed
        States looked at by nested Monte Carlo: those where the approximation is
        largest. All up to 100 states, else 12; none above 2,000.
    seed
        Of all draws.
    threads, executor, device, progress
        As in `bayesmdp.evaluate`.

    Returns
    -------
    Information

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.synthetic(0, 3, 2)
    >>> posterior = bm.fit(world.sample(60, seed=0), world.task)
    >>> info = bm.value_of_information(posterior, seed=0)
    >>> info.evppi.shape, info.evsi.shape, bool(info.evpi <= info.evpi_bound)
    ((3, 2), (3, 3, 2), True)
    """
    from bayesmdp import engine
    from bayesmdp.information._decisions import decide
    from bayesmdp.information._moments import moments_of

    began = time.perf_counter()
    check_belief(posterior)
    if reward is not None:
        posterior = posterior.with_reward(reward)
    posterior.task.plain("value_of_information", "reward", sums=True)
    sizes = _sizes(n_visits)
    patients = _checks.integer("n_patients", n_patients, 0, ArgumentError)
    number = _checks.seed_integer(seed)
    n_live = posterior.task.live.size
    if n_draws is None and posterior.n_models is None:
        n_draws = _N_DRAWS if n_live <= _SMALL else _FEWER
    if isinstance(posterior, Ensemble):
        n_draws = None
    draws = as_draws(posterior, n_draws, number)
    how: dict[str, Any] = {"threads": threads, "executor": executor, "device": device}
    with (
        engine.workers(threads, executor, device) as pool,
        progress_bar("valuing information", 4, progress) as show,
    ):
        how["progress"] = False
        decisions = decide(posterior, policies, draws, number, pool, how)
        best = decisions.policies[decisions.best]
        show(1)
        bound = _hindsight(decisions, pool)
        show(2)
        every = engine.Problem.of_belief(posterior)
        given = decisions.policies, decisions.best, number, pool
        moments = moments_of(posterior, every, *given)
        if baseline is not None:
            before = as_policy(baseline, posterior, "baseline")
        elif "behaviour" in decisions.names or posterior.counts is not None:
            from bayesmdp import policies as baselines

            before = baselines.behaviour(posterior)
        else:
            before = best
        visits = patients * visits_per_episode(every, before)
        show(3)
        made = _approximate(decisions, moments, sizes, bound[0])
        ratio = np.nan
        if isinstance(posterior, Ensemble):
            _from_models(posterior, decisions, moments, sizes, number, pool, made)
        elif n_live <= engine.MAX_INVERSE:
            states = _chosen(made, every, n_confirmed)
            ratio = _confirm(
                every, decisions, moments, states, sizes, number, pool, made
            )
        show(4)
    evpi, evpi_mcse = decisions.evpi()
    n0 = np.einsum("saa->sa", moments.covariance)
    prior_visits = np.full(n0.shape, np.inf)
    np.divide(moments.noise, n0, prior_visits, where=n0 > 0)
    return Information(
        names=decisions.names,
        policies=_checks.sealed(decisions.policies),
        values=_checks.sealed(decisions.level),
        values_mcse=_checks.sealed(np.sqrt(np.diag(decisions.covariance))),
        best=decisions.names[decisions.best],
        evpi=evpi,
        evpi_mcse=evpi_mcse,
        evpi_bound=bound[0],
        evpi_bound_mcse=bound[1],
        n_visits=sizes,
        evppi=_checks.sealed(made.pair[0, 0]),
        evppi_mcse=_checks.sealed(made.pair[1, 0]),
        evsi=_checks.sealed(made.pair[0, 1:]),
        evsi_mcse=_checks.sealed(made.pair[1, 1:]),
        state_evppi=_checks.sealed(made.state[0, 0]),
        state_evppi_mcse=_checks.sealed(made.state[1, 0]),
        state_evsi=_checks.sealed(made.state[0, 1:]),
        state_evsi_mcse=_checks.sealed(made.state[1, 1:]),
        switch_evppi=_checks.sealed(made.switch[0, 0]),
        switch_evppi_mcse=_checks.sealed(made.switch[1, 0]),
        switch_evsi=_checks.sealed(made.switch[0, 1:]),
        switch_evsi_mcse=_checks.sealed(made.switch[1, 1:]),
        n_patients=patients,
        patients_evsi=_checks.sealed(
            np.fmin(moments.switch_state_gains(visits), bound[0])
        ),
        patients_visits=_checks.sealed(visits),
        prior_visits=_checks.sealed(prior_visits),
        available=_checks.sealed(moments.usable),
        confirmed=_checks.sealed(made.confirmed),
        approximation=float(ratio),
        seconds=time.perf_counter() - began,
        task=posterior.task,
    )


def _sizes(n_visits: object) -> tuple[int, ...]:
    given: Any = n_visits
    listed = list(given) if isinstance(given, Iterable) else [given]
    if not listed or isinstance(given, str):
        raise ArgumentError("`n_visits` must be whole numbers, such as (10, 100).")
    return tuple(_checks.integer("n_visits", n, 1, ArgumentError) for n in listed)


@dataclass(frozen=True, eq=False)
class _Made:
    """Values and errors, filled in place; the first of each is for rows known."""

    pair: FloatArray  # [2, 1 + N, S, A]
    state: FloatArray  # [2, 1 + N, S]
    switch: FloatArray  # [2, 1 + N, S, A]
    confirmed: BoolArray  # [S]


def _hindsight(decisions: Decisions, pool: Pool) -> tuple[float, float]:
    """Value of knowing the model, over all policies, and its error.

    To what it is worth among the policies is added, on the first draws, what each
    draw's own best policy has over the best of them.
    """
    from bayesmdp.engine import Problem, channels
    from bayesmdp.engine.planning import hindsight_values, plan

    swept = decisions.swept
    draws, every = swept.draws, Problem.of_belief(swept.draws.belief)
    few = every.n_live > _SMALL and not draws.exact
    n = min(draws.n_draws, _BOUND) if few else draws.n_draws
    problem = every.with_stream(draws.stream)
    top = hindsight_values(problem, n, plan(every).choice, pool)
    known = np.asarray(swept.sums.ended.all(axis=0))[:n] & np.isfinite(top)
    if not known.any():
        return np.nan, np.nan
    among = swept.sums.start[:, channels.START_VALUE, :n].max(axis=0)
    more, error = mean_and_mcse(
        np.maximum(top - among, 0.0)[known],
        draws.weights[:n][known],
        exact=draws.exact,
        chain=draws.belief.chain_noise,
    )
    value, spread = decisions.evpi()
    return value + float(more), float(np.hypot(spread, error))


def visits_per_episode(every: Problem, policy: FloatArray) -> FloatArray:
    """Return visits to each pair in an episode of the mean model, ``[S, A]``.

    Without discount where episodes end, else discounted.
    """
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.linalg import spsolve

    rows, n = every.rows, every.n_live
    weight = rows.of_rows(policy)[rows.row_of_entry] * rows.mean
    source = rows.source[rows.row_of_entry]
    inside = rows.target < n
    at = (rows.target[inside].astype(np.int64), source[inside])
    back = csr_array((weight[inside], at), shape=(n, n))
    visits = rows.start[:n]
    for g in (1.0, every.task.discount):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a chain that does not end is singular
            visits = spsolve((eye_array(n) - g * back).tocsc(), rows.start[:n])
        if np.isfinite(visits).all() and visits.min() > -1e-9 and visits.sum() < _LONG:
            break
    out = np.zeros(every.task.n_states)
    out[rows.order[:n]] = np.maximum(visits, 0.0)
    return np.asarray(out[:, None] * policy)


def _approximate(
    decisions: Decisions, moments: Moments, sizes: Sequence[int], bound: float
) -> _Made:
    """All pairs and states in closed form, at most what knowing the model is worth.

    Errors are those of the policies' values; switches have none, and NaN says so.
    """
    most = decisions.evpi()[0]
    n_states, n_actions = moments.usable.shape
    shape = 2, 1 + len(sizes), n_states, n_actions
    made = _Made(
        np.zeros(shape),
        np.zeros(shape[:3]),
        np.zeros(shape),
        np.zeros(n_states, dtype=np.bool_),
    )
    for i, n in enumerate([np.inf, *sizes]):
        gain, share = moments.pair_gains(decisions.level, n)
        share[..., decisions.best] -= 1.0
        made.pair[0, i] = np.minimum(gain, most)
        made.pair[1, i] = np.where(moments.usable, decisions.error(share), 0.0)
        made.state[0, i] = np.minimum(moments.state_gains(decisions.level, n), most)
        made.switch[0, i] = np.fmin(moments.switch_pair_gains(n), bound)
    made.state[1] = made.pair[1].max(axis=2)
    made.switch[1] = np.where(moments.usable, np.nan, 0.0)
    return made


def _chosen(made: _Made, every: Problem, n_confirmed: int | None) -> IntArray:
    """Live states, in sweep order, that are worth a closer look."""
    n = every.n_live
    if n_confirmed is None:
        n_confirmed = n if n <= _SMALL else _CONFIRMED
    most = _checks.integer("n_confirmed", n_confirmed, 0, ArgumentError)
    live = every.rows.order[:n]
    has = np.unique(every.rows.source)
    of_set = np.argsort(-made.state[0, 0][live[has]], kind="stable")
    of_switch = np.argsort(-made.switch[0, 0].max(axis=1)[live[has]], kind="stable")
    both = np.stack([of_switch, of_set], axis=1).ravel()
    _, first = np.unique(both, return_index=True)
    return np.sort(has[both[np.sort(first)][:most]])


def _confirm(
    every: Problem,
    decisions: Decisions,
    moments: Moments,
    states: IntArray,
    sizes: Sequence[int],
    seed: int,
    pool: Pool,
    made: _Made,
) -> float:
    """Replace values of some states by nested Monte Carlo; say how far they move."""
    from bayesmdp.information._moments import rows_of_states
    from bayesmdp.information._nested import N_REST, StateStudy, solve_rest

    if not states.size:
        return np.nan
    belief, rows = decisions.swept.draws.belief, every.rows
    active = _active(decisions, moments, rows.order[states])
    stream = belief.stream(N_REST, seed, "information rest")
    problem = every.with_policies(rows.of_rows(decisions.policies[active]))
    wanted = set(states.tolist())
    rows_of = {s: row for s, row in rows_of_states(rows.source) if s in wanted}
    rest = solve_rest(problem.with_stream(stream), states.tolist(), rows_of, pool)
    before = made.switch[0, 0].copy()
    for index, s in enumerate(states.tolist()):
        study = StateStudy(belief, problem, rest, index, moments.h, sizes, seed)
        at, actions = int(rows.order[s]), rows.row_id[rows_of[s], 1]
        chance = decisions.policies[active][:, at, actions]
        found = study.gains(_policy_options(decisions, active, chance))
        made.pair[:, :, at, actions] = found.pair
        made.state[:, :, at] = found.state
        best = int(np.searchsorted(active, decisions.best))
        switched = study.gains(_switch_options(best, chance[best]))
        made.switch[:, :, at, actions] = switched.pair
        made.confirmed[at] = True
    kept = made.confirmed[:, None] & (made.switch[0, 0] > 0)
    if not kept.any():
        return np.nan
    return float(np.median(before[kept] / made.switch[0, 0][kept]))


def _active(decisions: Decisions, moments: Moments, states: IntArray) -> IntArray:
    """Policies that could become the best by learning about one of the states."""
    weight = moments.weight[:, states]
    covariance = moments.covariance[states]
    variance = np.einsum("psi,sij,psj->ps", weight, covariance, weight, optimize=True)
    sd = np.sqrt(np.maximum(variance, 0.0))
    near = decisions.level[:, None] + _REACH * (sd + sd[decisions.best]) >= 0
    score = np.where(near.any(axis=1), decisions.level, -np.inf)
    score[decisions.best] = np.inf
    order = np.argsort(-score, kind="stable")[:_MOST_ACTIVE]
    return np.sort(order[score[order] > -np.inf])


def _policy_options(
    decisions: Decisions, active: IntArray, chance: FloatArray
) -> Options:
    """Keep the policy, or take another of the set."""
    from bayesmdp.information._nested import Options

    def error(share: FloatArray) -> FloatArray:
        whole = np.zeros(len(decisions.names))
        whole[active] = share
        return decisions.error(whole)

    number = np.arange(active.size)
    return Options(number, chance, decisions.level[active], error)


def _switch_options(best: int, chance: FloatArray) -> Options:
    """Keep the policy, or take another action in the state."""
    from bayesmdp.information._nested import Options

    rows = np.concatenate([np.eye(chance.size), chance[None]])
    number = np.full(len(rows), best)
    return Options(number, rows, None, lambda share: np.zeros(()))


def _from_models(
    ensemble: Ensemble,
    decisions: Decisions,
    moments: Moments,
    sizes: Sequence[int],
    seed: int,
    pool: Pool,
    made: _Made,
) -> None:
    """Replace all values by those of the given models; switches where they are few."""
    from bayesmdp.evaluation.paired import paired, sweep_paired
    from bayesmdp.information._moments import rows_of_states
    from bayesmdp.information._samples import ModelStudy

    layout, task = ensemble.layout, ensemble.task
    study = ModelStudy(ensemble, moments.h, seed)
    gaps, _ = paired(decisions.swept, decisions.best)
    best = decisions.policies[decisions.best]
    switches = layout.pair.size <= _SWITCHES
    for s, row in rows_of_states(layout.state):
        actions = layout.action[row]
        options = np.repeat(best[None], row.size + 1, axis=0)
        options[:-1, s] = np.eye(task.n_actions)[actions]
        own = None
        if switches:
            swept = sweep_paired(options, decisions.swept.draws, pool=pool)
            own, _ = paired(swept, row.size)
        for i, n in enumerate([None, *sizes]):
            made.state[:, i, s] = study.gain(row.tolist(), gaps, n)
            for r, a in zip(row.tolist(), actions.tolist(), strict=True):
                made.pair[:, i, s, a] = study.gain([r], gaps, n)
                if own is not None:
                    made.switch[:, i, s, a] = study.gain([r], own, n)
        made.confirmed[s] = switches
