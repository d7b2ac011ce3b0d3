"""What logged episodes alone say about another policy: importance sampling.

No prior and no model of the dynamics stand behind these numbers (but for the control of
DR and WDR), so they are what a posterior value is set beside. `_importance.py` has the
formulas. They need what the posterior does not: enough episodes that go as the policy
would have them, which the effective sample size counts.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from bayesmdp import _checks
from bayesmdp._resources import progress_bar
from bayesmdp._sheet import Record, Sheet, Table, as_plain, rounded, significant
from bayesmdp._typing import FloatArray, PolicyLike, Seed
from bayesmdp.data import Counts
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError, PolicyError
from bayesmdp.evaluation._importance import ESTIMATORS, Steps
from bayesmdp.model import (
    AnyPair,
    Log,
    LoggedEpisodes,
    Task,
    as_policy,
    logged_episodes,
)

#: Makes a policy from the counts of a part of the log.
FitPolicy: TypeAlias = Callable[[Counts, Task], PolicyLike]

_LEVEL = 0.95
_ARMS = (
    "Every episode keeps one action, so what is done depends on the episode's arm, not "
    "on its state alone as the weights assume: there are no intervals, and only means "
    "of the arms can be compared without a model."
)
_FEWEST = 10  # effective episodes: below, standard errors mean nothing


@dataclass(frozen=True, eq=False, repr=False)
class OffPolicy(Record):
    """Estimates of a policy's value without a prior; made by `bayesmdp.off_policy`.

    Keys are IS, WIS, PDIS, PDWIS, DR and WDR. Values are from the starts of the logged
    episodes, and of returns as far as they were logged.
    """

    name: str  # of the policy
    estimates: Mapping[str, float]  # NaN where no weight is left to divide by
    intervals: Mapping[str, tuple[float, float] | None]  # 95 %; None: too few
    effective_sample_size: Mapping[str, float]  # in episodes
    observed_value: float  # mean return of the log: that of the behaviour
    observed_se: float  # by episodes
    unlogged: float  # policy's probability on pairs never logged, at logged visits
    n_episodes: int
    n_open: int  # of them, did not reach a terminal state
    n_folds: int  # 0: the policy was given
    n_groups: int  # of episodes, each left out once for the intervals; 0: none
    reward: str | Mapping[str, float] | None  # which of several, `Task.with_reward`
    seed: int
    notes: tuple[str, ...]

    def _rows(self) -> list[dict[str, Any]]:
        columns: dict[str, Any] = {"value": self.estimates, "interval": self.intervals}
        columns["effective_sample_size"] = self.effective_sample_size
        return [
            {"estimator": name, **{x: as_plain(y[name]) for x, y in columns.items()}}
            for name in self.estimates
        ]

    def _sheet(self, shown: int = 10) -> Sheet:
        rows = [["logged mean", rounded(self.observed_value, self.observed_se), "", ""]]
        for name, value in self.estimates.items():
            interval = self.intervals[name]
            rows.append(
                [
                    name,
                    "none" if math.isnan(value) else significant(value, 4),
                    f"{significant(interval[0], 4)} to {significant(interval[1], 4)}"
                    if interval
                    else "none",
                    f"{self.effective_sample_size[name]:.3g}",
                ]
            )
        title = f"Off-policy estimates of {self.name} from {self.n_episodes} episodes"
        if self.n_folds:
            title += f", chosen and judged in {self.n_folds} folds"
        header = ["", "value", "95 % interval", "effective episodes"]
        return Sheet(
            title,
            [
                Table(header, rows),
                "± standard error by episodes"
                + f"; intervals by leaving out each of {self.n_groups} groups of them"
                * (self.n_groups > 0),
                *(f"note: {note}" for note in self.notes),
            ],
        )

    def __repr__(self) -> str:
        size = self.effective_sample_size["WIS"]
        return (
            f"OffPolicy(WIS={self.estimates['WIS']:.4g}, "
            f"WDR={self.estimates['WDR']:.4g}, {size:.3g} effective episodes)"
        )


def off_policy(
    policy: PolicyLike | FitPolicy,
    log: Log,
    task: Task,
    *,
    behaviour: PolicyLike | None = None,
    n_folds: int = 2,
    n_groups: int = 100,
    seed: Seed = 0,
    name: str = "policy",
    progress: bool | None = None,
) -> OffPolicy:
    """Estimate a policy's value from logged episodes, without a prior.

    Each episode is weighted by the probability of its actions under the policy relative
    to that under the behaviour policy: IS, WIS, PDIS, PDWIS, DR and WDR. WIS and WDR
    are the ones to read first; IS and PDIS are unbiased where the behaviour is known
    and vary most; DR and WDR use the maximum-likelihood model of the same log as a
    control variate. (The value in that model equals fitted Q evaluation with one
    parameter per pair; it is not among the estimates, because it shares the assumptions
    of the posterior.)

    An estimate from the same log that chose the policy is optimistic: the policy was
    chosen because its episodes went well, and the same episodes evaluate it. Give a
    function that makes the policy in place of the policy: the policy is then chosen on
    some folds of the episodes and evaluated on the others. The estimate is of the mean
    value of policies chosen in this way, from ``1 - 1 / n_folds`` of the data.

    Parameters
    ----------
    policy
        ``[S, A]`` or ``[S]``; or a function of counts and task that returns one.
    log
        Transitions, or a dataframe of them, with an ``episode`` column. States must
        contain everything that influenced the choice of actions; otherwise the weights
        are wrong. Missing steps have no weight. Actions never taken in a state are
        dropped from the policy there; where it has no other, it is judged as if it did
        what was logged (see ``unlogged``).
    task
        The known part; its rewards are used, its start is not.
    behaviour
        Policy that chose the logged actions, where it is known, as in a trial. The
        frequencies of the log where not given, which is as a rule more precise.
    n_folds
        Parts of the episodes, at least 2; used where ``policy`` is a function.
    n_groups
        Groups of episodes for the intervals, at most one per episode; 0 for none.
    seed
        Of folds, and of the groups that intervals come from.
    name
        What the policy is called in tables.
    progress
        Whether to show a bar; on a terminal where not given.

    Returns
    -------
    OffPolicy
        Intervals, 95 %, are by the jackknife over groups of episodes, behaviour and
        model estimated again without each; policies of folds stay as they are. There is
        none below an effective sample size of 10, where a few episodes decide.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> world = bm.worlds.gridworld()
    >>> log = world.simulate(np.full((25, 4), 0.25), 2000, seed=0)
    >>> right_and_down = np.tile([0.2, 0.3, 0.3, 0.2], (25, 1))
    >>> found = bm.off_policy(right_and_down, log, world.task)
    >>> true = world.task.start @ world.value(right_and_down)
    >>> low, high = found.intervals["PDWIS"]
    >>> bool(low < true < high)
    True
    >>> def choose(counts, task):
    ...     return bm.policies.mle(bm.fit(counts, task, prior=bm.SymmetricPrior()))
    >>> fair = bm.off_policy(choose, log, world.task, n_groups=0)
    >>> fair.n_folds
    2
    """
    _checks.of_type("name", name, str, ArgumentError)
    seed = _checks.seed_integer(seed)
    n_groups = _checks.integer("n_groups", n_groups, 0, ArgumentError)
    if n_groups == 1:
        raise ArgumentError("`n_groups` must be at least 2, or 0 for no intervals.")
    episodes = logged_episodes(log, task)
    episodes.task.plain("off_policy", "task")
    _check_log(episodes)
    known = None if behaviour is None else _known(behaviour, episodes)
    if callable(policy):
        n_folds = _checks.integer("n_folds", n_folds, 2, ArgumentError)
        judged = _cross_fitted(policy, episodes, n_folds, seed)
    else:
        n_folds = 0
        anything = AnyPair(episodes.task)
        judged = [(episodes, as_policy(policy, anything))]
    parts = [Steps.of(some, _kept(x, known), known) for some, x in judged]
    unlogged = sum(_unlogged(*x, known) for x in judged) / episodes.n_rows
    if unlogged >= 1:
        raise PolicyError(
            "`policy` and `log` do not overlap: of what the policy does, nothing was "
            "ever logged in that state; judge it by the posterior (`bm.evaluate`), or "
            "take a policy nearer to the behaviour."
        )
    n_groups = min(n_groups, *(part.order.size for part in parts))
    found, sizes, se = _combined(parts, n_groups, seed, progress)
    limits = [_interval(*x, n_groups) for x in zip(found, sizes, se, strict=True)]
    returns = episodes.returns
    alarms = _alarms(found, sizes)
    if known is None and episodes.keeps_arms:
        limits = [None for _ in limits]
        alarms.append(_ARMS)
    for alarm in alarms:
        warnings.warn(alarm, BayesmdpWarning, stacklevel=2)
    return OffPolicy(
        name=name,
        estimates=dict(zip(ESTIMATORS, found.tolist(), strict=True)),
        intervals=dict(zip(ESTIMATORS, limits, strict=True)),
        effective_sample_size=dict(zip(ESTIMATORS, sizes.tolist(), strict=True)),
        observed_value=float(returns.mean()),
        observed_se=float(returns.std(ddof=1) / math.sqrt(returns.size)),
        unlogged=unlogged,
        n_episodes=episodes.n_episodes,
        n_open=int((~episodes.ended).sum()),
        n_folds=n_folds,
        n_groups=n_groups,
        reward=episodes.task.chosen,
        seed=seed,
        notes=(*_notes(episodes, unlogged), *alarms),
    )


def _check_log(episodes: LoggedEpisodes) -> None:
    if episodes.n_episodes < 2:
        raise CountsError(
            "`log` holds one episode only: what another policy would have done cannot "
            "be told from it; give a log of more episodes."
        )
    if (episodes.action == episodes.action[0]).all():
        name = episodes.task.action_name(int(episodes.action[0]))
        raise CountsError(
            f"`log` holds one action only, {name}: there is no other policy to say "
            "anything about; give a log in which actions differ."
        )


def _known(behaviour: PolicyLike, episodes: LoggedEpisodes) -> FloatArray:
    """Check a behaviour policy: it must have taken what was logged."""
    known = as_policy(behaviour, AnyPair(episodes.task), "behaviour")
    never = known[episodes.state, episodes.action] == 0
    if never.any():
        row = int(np.argmax(never))
        pair = episodes.task.pair_name(
            int(episodes.state[row]), int(episodes.action[row])
        )
        raise PolicyError(
            f"`behaviour` gives probability 0 to {pair}, which was logged: leave it "
            "out to take the logged frequencies."
        )
    return known


def _cross_fitted(
    fit_policy: FitPolicy, episodes: LoggedEpisodes, n_folds: int, seed: int
) -> list[tuple[LoggedEpisodes, FloatArray]]:
    """Choose on some folds, and hand over the others with what was chosen."""
    n = episodes.n_episodes
    if n < 2 * n_folds:
        raise CountsError(
            f"`n_folds` is {n_folds}, but there are {n} episodes: each fold needs two."
        )
    fold = np.random.default_rng([seed, n_folds]).permutation(n) % n_folds
    judged = []
    for k in range(n_folds):
        others = episodes.take(np.flatnonzero(fold != k))
        chosen = fit_policy(others.counts(), episodes.task)
        policy = as_policy(chosen, AnyPair(episodes.task), "policy(counts, task)")
        judged.append((episodes.take(np.flatnonzero(fold == k)), policy))
    return judged


def _combined(
    parts: list[Steps], n_groups: int, seed: int, progress: bool | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimates, effective sample sizes and standard errors of the mean over parts.

    Parts choose for each other, so their errors are taken to go together entirely.
    """
    share = np.array([part.order.size for part in parts], dtype=np.float64)
    share /= share.sum()
    rng = np.random.default_rng([seed, len(parts)])
    counter = itertools.count(1)
    with progress_bar("Leaving out", n_groups * len(parts), progress) as show:

        def done() -> None:
            show(next(counter))

        se = np.array([part.standard_errors(n_groups, rng, done) for part in parts])
    found = np.array([part.estimates(np.ones(part.order.size)) for part in parts])
    with np.errstate(divide="ignore"):  # variances go with the inverse of sizes
        inverse = 1 / np.array([part.effective_sizes() for part in parts])
    return share @ found, 1 / (share**2 @ inverse), share @ se


def _interval(
    estimate: float, size: float, se: float, n_groups: int
) -> tuple[float, float] | None:
    """Both limits, or None where they would mean nothing."""
    from scipy.stats import t

    if n_groups == 0 or size < _FEWEST or not math.isfinite(estimate + se):
        return None
    half = float(t.ppf((1 + _LEVEL) / 2, n_groups - 1)) * se
    return float(estimate - half), float(estimate + half)


def _kept(policy: FloatArray, known: FloatArray | None) -> FloatArray:
    """Policy without what a known behaviour never does, as frequencies leave it out."""
    if known is None:
        return policy
    kept = np.where(known > 0, policy, 0.0)
    left = kept.sum(axis=1, keepdims=True)
    return np.where(left > 0, kept / np.where(left > 0, left, 1.0), known)


def _unlogged(
    episodes: LoggedEpisodes, policy: FloatArray, known: FloatArray | None
) -> float:
    """Sum over logged visits of the policy's mass where the behaviour has none."""
    taken = known
    if taken is None:
        taken = np.zeros_like(policy)
        taken[episodes.state, episodes.action] = 1
    return float(np.where(taken > 0, 0.0, policy).sum(axis=1)[episodes.state].sum())


def _notes(episodes: LoggedEpisodes, unlogged: float) -> list[str]:
    """Say what is missing from the log."""
    notes = []
    n_open, n = int((~episodes.ended).sum()), episodes.n_episodes
    if n_open:
        notes.append(
            f"{n_open} of {n} episodes did not reach a terminal state: their returns "
            "are as logged, and what would have followed is in no estimate."
        )
    n_gaps = int((~episodes.follows).sum()) - n
    if n_gaps:
        notes.append(
            f"{n_gaps} of {episodes.n_rows} rows do not begin where the row before "
            "them ended: steps that are missing have no weight."
        )
    if unlogged > 0:
        notes.append(
            f"At the logged visits {100 * unlogged:.3g} % of the policy's probability "
            "is on actions never taken in that state: estimates are of the policy "
            "without them, and of the behaviour where nothing else is left."
        )
    return notes


def _alarms(found: FloatArray, sizes: FloatArray) -> list[str]:
    """Say which estimates rest on too little."""
    alarms = []
    none = [x for x, y in zip(ESTIMATORS, found, strict=True) if math.isnan(y)]
    if none:
        alarms.append(
            f"{', '.join(none)} cannot be estimated: at some step no episode is left "
            "that goes as the policy would."
        )
    few = [x for x, y in zip(ESTIMATORS, sizes, strict=True) if y < _FEWEST]
    if few:
        alarms.append(
            f"The effective sample size of {', '.join(few)} is below {_FEWEST} "
            f"episodes ({min(sizes):.3g}): a few episodes decide, and there is no "
            "interval."
        )
    return alarms
