"""Does the belief fit the log it was learnt from: observed against predicted.

**Value.** The mean discounted return of logged episodes, with its standard error over
episodes, beside the value that the belief predicts for the unrestricted behaviour
policy (logged frequencies of all logged pairs, whatever ``min_count``) from the logged
starts; ``gap = (predicted - observed) / se``. Both come from the same data, so a right
model leaves a gap whose variance is *below* 1 (the belief uses the data better than
the mean of returns does): a gap beyond the 95 % limits of Student's t, about 2, is
misfit, of the prior or of the Markov assumption. A censored episode is completed by
``g^T V(s_T)``, the predicted value of its last state; the gap then concerns what was
observed alone.

**Endings, survival, prevalence** are set beside posterior predictive replicates
(`_follow_up`), with p = (1 + #{T_rep >= T_obs}) / (D + 1): for survival T is the
largest distance to the replicates' mean in their sds, over steps; for prevalence the
sum of (observed - expected)^2 / expected over steps and states with 5 expected or more.
Replicates were learnt from the same log; survival and prevalence alarm at p < 0.01.

**Actions.** With ``y`` the reward and value of a next state, the share of its variance
within states that lies between the ``n[s,a]`` visits of different actions, ::

    sum n[s,a] (y[s,a] - y[s])^2 / sum over visits (y - y[s])^2

holds how far actions differ, and the noise of the visits. A belief that takes noise for
effects makes replicates with more of it than the log has, one that shrinks effects away
makes replicates with less. p is two-sided and alarms below 0.02, 1 % in each tail.

**Tests** of the Markov assumption: `_markov_tests`; Holm's p values hold for all of
them together.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._resources import progress_bar
from bayesmdp._typing import FloatArray, IntArray, Seed
from bayesmdp.diagnostics._check_record import (
    ActionVariance,
    Check,
    CheckTest,
    Ending,
    Prevalence,
    Survival,
)
from bayesmdp.diagnostics._follow_up import (
    Curves,
    Grid,
    Replicates,
    curves,
    observed_rows,
)
from bayesmdp.diagnostics._markov_tests import (
    MarkovOrder,
    ScoredRows,
    Tested,
    order_of,
    residual_tests,
    rows_with_history,
)
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.evaluation import Evaluation, evaluate, mean_and_mcse
from bayesmdp.model import Log, LoggedEpisodes, align, as_log, logged_episodes
from bayesmdp.policies import behaviour
from bayesmdp.posterior import Fitted, logged_counts, refit

if TYPE_CHECKING:
    from concurrent.futures import Executor

_BAND = 0.025, 0.975
_EXPECTED = 5  # in a cell, for Pearson's statistic
_MOST_POINTS = 200  # of a curve that is kept

_FEWEST_DRAWS = 120  # 6 tests by Holm at 5 %, others at 1 %


def _too_few(n_draws: int) -> tuple[str, ...]:
    """Say where even the smallest p value would not be an alarm."""
    if n_draws >= _FEWEST_DRAWS:
        return ()
    return (
        f"With {n_draws} draws the smallest p value of a posterior predictive test is "
        f"{1 / (n_draws + 1):.2g}: too few for an alarm; use {_FEWEST_DRAWS} or more.",
    )


def check(
    posterior: Fitted,
    log: Log,
    *,
    n_draws: int = 500,
    n_permutations: int = 999,
    concentration: float = 0.5,
    seed: Seed = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    progress: bool | None = None,
) -> Check:
    """Compare observed with predicted quantities, and test the Markov assumption.

    Parameters
    ----------
    posterior
        From `bayesmdp.fit`.
    log
        The log it was fitted from, with an ``episode`` column; two episodes or more.
    n_draws
        Posterior draws; each makes one replicate of the log. The smallest p value is
        ``1 / (n_draws + 1)``, so that below 120 draws Holm's p values cannot reach 5 %.
    n_permutations
        For the test of order 1 against 2.
    concentration
        Of the Dirichlet rows behind its Bayes factor, see `diagnostics.markov_order`.
    seed
        Of draws, replicates and permutations.
    threads, executor, device, progress
        As in `bayesmdp.evaluate`. Results do not depend on them.

    Returns
    -------
    Check
        ``problems`` lists in sentences what was found; empty where nothing was.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> log = world.simulate(np.full((25, 4), 0.25), 100, seed=0)
    >>> prior = bm.SymmetricPrior(0.1, support=world.support)
    >>> posterior = bm.fit(log, world.task, prior=prior)
    >>> found = bm.check(posterior, log, n_draws=100)
    >>> found.problems
    ()
    >>> bool(abs(found.predicted_value - found.observed_value) < 2 * found.observed_se)
    True
    """
    episodes = _logged(posterior, log)
    episodes.task.plain("check")
    whole = _unrestricted(posterior)
    policy, number = behaviour(whole), _checks.seed_integer(seed)
    draws = whole.draws(n_draws, number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesmdpWarning)  # they become notes
        evaluation = evaluate(
            policy,
            draws,
            keep_values=True,
            threads=threads,
            executor=executor,
            device=device,
            progress=progress,
        )
    value = _mean_values(evaluation)
    grid = Grid.of(episodes)
    replicates = Replicates(episodes, policy, value, draws, grid)
    pairs, task = replicates.pairs, episodes.task
    of_pairs = policy[pairs // task.n_actions]

    def tested(rows: ScoredRows) -> dict[str, Tested]:
        return residual_tests(rows, of_pairs, task.discount)

    made: list[Curves] = []
    statistics, between = [], []
    with progress_bar("replicating the log", n_draws, progress) as show:
        for scored, found in replicates:
            statistics.append(tested(scored))
            between.append(_between(scored, pairs // task.n_actions))
            made.append(found)
            show(len(made))
    seen = curves(episodes.step, episodes.state, episodes.next_state, task, grid)
    rows = observed_rows(episodes, pairs, value)
    observed = tested(rows)
    order = _order(episodes, concentration, n_permutations, number)
    return Check(
        **_values(episodes, evaluation, value, whole.chain_noise),
        tests=_with_holm([*_residual_tests(observed, statistics), *_order_test(order)]),
        survival=_survival(seen, made, grid),
        endings=_endings(seen, made, grid, episodes),
        prevalence=_prevalence(seen, made, grid, episodes),
        actions=_actions(_between(rows, pairs // task.n_actions), np.array(between)),
        order=order,
        n_rows=episodes.n_rows,
        n_draws=n_draws,
        n_actions=np.unique(episodes.action).size,
        reward=task.chosen,
        seed=number,
        notes=(*evaluation.notes, *_too_few(n_draws)),
    )


def _logged(posterior: Fitted, log: Log) -> LoggedEpisodes:
    """Read the episodes; refuse what cannot be checked."""
    counts = logged_counts("check", posterior)
    log = as_log(log, posterior.task)
    episodes = logged_episodes(log, posterior.task)
    if align(log, posterior.task)[0] != counts:
        raise ArgumentError(
            "`log` does not hold the transitions that `posterior` was fitted from: "
            "give the same log to `fit` and to `check`."
        )
    if episodes.n_episodes < 2:
        raise ArgumentError(
            "`log` has only one episode, so that returns have no standard error: a "
            "check needs two episodes or more; `diagnostics.markov_order` takes one."
        )
    return episodes


def _unrestricted(posterior: Fitted) -> Fitted:
    """Return the same belief with rows for all logged pairs."""
    if posterior.min_count <= 1:
        return posterior
    return refit(posterior.counts, posterior.task, posterior.prior, 1, posterior.kept())


def _mean_values(evaluation: Evaluation) -> FloatArray:
    assert evaluation.values is not None
    return np.asarray(np.nanmean(evaluation.values, axis=0))


def _values(
    episodes: LoggedEpisodes, evaluation: Evaluation, value: FloatArray, chain: float
) -> dict[str, Any]:
    """Observed and predicted values; fields of the record."""
    task, ended = episodes.task, episodes.ended
    length = np.diff(episodes.start)
    rest = task.discount**length * value[episodes.last_state]
    rest[ended] = 0.0
    returns = episodes.returns + rest
    parts = np.abs(episodes.returns).sum(), np.abs(rest).sum()
    observed = float(returns.mean())
    se = float(returns.std(ddof=1) / math.sqrt(returns.size))
    start = np.bincount(episodes.first_state, minlength=task.n_states) / returns.size
    assert evaluation.values is not None
    values = evaluation.values @ start
    values = values[np.isfinite(values)]
    predicted, error = mean_and_mcse(values, np.ones(values.size), chain=chain)
    low, high = np.quantile(values, _BAND)
    return {
        "observed_value": observed,
        "observed_se": se,
        "predicted_value": float(predicted),
        "predicted_value_mcse": float(error),
        "predicted_interval": (float(low), float(high)),
        "gap": (float(predicted) - observed) / se if se > 0 else math.nan,
        "n_episodes": returns.size,
        "n_censored": int((~ended).sum()),
        "model_share": float(parts[1] / sum(parts)) if any(parts) else 0.0,
    }


def _p_value(observed: float, replicated: FloatArray) -> float:
    """Share of replicates that are as far out, the log counted as one of them."""
    return float(1 + (replicated >= observed).sum()) / (replicated.size + 1)


def _residual_tests(
    observed: dict[str, Tested], replicated: Sequence[dict[str, Tested]]
) -> list[CheckTest]:
    """Set statistics of the log beside those of its replicates."""
    tests = []
    for name, x in observed.items():
        made = np.array([y[name].statistic for y in replicated if name in y])
        if made.size < 2:  # it varies in the log, and hardly ever else
            continue
        at, spread = x.statistic, 1.0
        if x.two_sided:
            spread = float(made.std(ddof=1))
            at, made = abs(at - made.mean()), np.abs(made - made.mean())
        tests.append(
            CheckTest(
                name=name,
                statistic=x.statistic,
                p_value=_p_value(at, made),
                p_holm=math.nan,
                effect=x.effect,
                effect_se=x.effect_se * spread,
                n_rows=x.n_rows,
                method="posterior predictive",
            )
        )
    return tests


def _order(
    episodes: LoggedEpisodes, concentration: float, n_permutations: int, seed: int
) -> MarkovOrder | None:
    """Test order 1 against 2; None where no row has another one before it."""
    if not episodes.follows.any():
        return None
    pair = episodes.state * episodes.task.n_actions + episodes.action
    rows = rows_with_history(pair, episodes.next_state, episodes.follows)
    return order_of(
        *rows, concentration=concentration, n_permutations=n_permutations, seed=seed
    )


def _order_test(order: MarkovOrder | None) -> list[CheckTest]:
    if order is None or order.df == 0:
        return []
    return [
        CheckTest(
            name="second order",
            statistic=order.g2,
            p_value=order.p_value,
            p_holm=math.nan,
            effect=math.nan,
            effect_se=math.nan,
            n_rows=order.n_rows,
            method="permutation within pairs",
        )
    ]


def _with_holm(tests: Sequence[CheckTest]) -> tuple[CheckTest, ...]:
    """Add p values that hold for all tests together (Holm 1979)."""
    p = np.array([x.p_value for x in tests])
    order = np.argsort(p, kind="stable")
    steps = p[order] * (p.size - np.arange(p.size))
    holm = np.empty(p.size)
    holm[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return tuple(replace(x, p_holm=float(q)) for x, q in zip(tests, holm, strict=True))


def _survival(seen: Curves, made: Sequence[Curves], grid: Grid) -> Survival | None:
    """Set the share not ended by each step beside replicates; None without ends."""
    if not grid.ends.size:
        return None
    of = np.stack([x.survival for x in made])
    mean, sd = of.mean(axis=0), of.std(axis=0, ddof=1)
    varies = sd > 0
    low, high = np.quantile(of, _BAND, axis=0)
    outside = (seen.survival < low) | (seen.survival > high)

    def furthest(curve: FloatArray) -> FloatArray:
        z = np.abs(curve - mean)[..., varies] / sd[varies]
        return np.asarray(z.max(axis=-1, initial=0.0))

    step = np.unique(
        np.linspace(0, grid.n_steps, _MOST_POINTS).round().astype(np.int64)
    )
    return Survival(
        step=_checks.sealed(step),
        observed=_checks.sealed(seen.survival[step]),
        predicted=_checks.sealed(mean[step]),
        low=_checks.sealed(low[step]),
        high=_checks.sealed(high[step]),
        outside=float(outside[varies].mean()) if varies.any() else 0.0,
        p_value=_p_value(float(furthest(seen.survival)), furthest(of)),
    )


def _endings(
    seen: Curves, made: Sequence[Curves], grid: Grid, episodes: LoggedEpisodes
) -> tuple[Ending, ...]:
    of = np.stack([x.endings for x in made])
    low, high = np.quantile(of, _BAND, axis=0)
    return tuple(
        Ending(
            episodes.task.state_name(int(s)),
            float(seen.endings[k]),
            float(of[:, k].mean()),
            float(low[k]),
            float(high[k]),
        )
        for k, s in enumerate(grid.ends)
    )


def _between(rows: ScoredRows, state: IntArray) -> float:
    """Share of the variance within states that is between actions; ``state`` [X]."""
    n = np.bincount(rows.row, minlength=state.size)
    total = np.bincount(rows.row, rows.worth, state.size)
    visits, paid = (np.bincount(state, x)[state] for x in (n, total))
    mean = paid / np.maximum(visits, 1)
    between = float(n @ (total / np.maximum(n, 1) - mean) ** 2)
    whole = float(((rows.worth - mean[rows.row]) ** 2).sum())
    return between / whole if whole > 1e-18 * float(rows.worth @ rows.worth) else 0.0


def _actions(observed: float, replicated: FloatArray) -> ActionVariance | None:
    """Set the variance between actions beside replicates; None if there is none."""
    if not replicated.max() > 1e-9:
        return None
    low, high = np.quantile(replicated, _BAND)
    tails = _p_value(observed, replicated), _p_value(-observed, -replicated)
    return ActionVariance(
        observed,
        float(replicated.mean()),
        float(low),
        float(high),
        min(2 * min(tails), 1.0),
    )


def _prevalence(
    seen: Curves, made: Sequence[Curves], grid: Grid, episodes: LoggedEpisodes
) -> Prevalence:
    """Set the states of those who are still observed beside replicates."""
    n = np.stack([x.at_risk for x in made])[:, :, None]  # [D, G, 1]
    count = np.stack([x.counts for x in made])  # [D, G, J]
    share, some = count / np.maximum(n, 1), np.maximum((n > 0).sum(axis=0), 2)
    mean = share.sum(axis=0) / some
    sd = np.sqrt(((share - mean) ** 2 * (n > 0)).sum(axis=0) / (some - 1))
    told = mean * seen.at_risk[:, None] >= _EXPECTED

    def pearson(counts: FloatArray, at_risk: FloatArray) -> FloatArray:
        looked = told & (at_risk > 0)
        expected = np.where(looked, mean * at_risk, 1.0)
        cells = np.where(looked, (counts - expected) ** 2 / expected, 0.0)
        return np.asarray(cells.sum(axis=(-2, -1)))

    observed = pearson(seen.counts, seen.at_risk[:, None])
    return Prevalence(
        step=grid.steps,
        state=tuple(episodes.task.state_name(int(s)) for s in grid.states),
        observed=_checks.sealed(seen.counts / np.maximum(seen.at_risk, 1)[:, None]),
        predicted=_checks.sealed(mean),
        predicted_sd=_checks.sealed(sd),
        told=_checks.sealed(told),
        statistic=float(observed),
        p_value=_p_value(float(observed), pearson(count, n)),
    )
