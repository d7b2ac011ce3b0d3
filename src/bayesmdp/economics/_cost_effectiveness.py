"""`cost_effectiveness`: joint draws of costs and effects, and what follows from them.

With cost ``c[p, d]`` and effect ``e[p, d]`` of policy ``p`` in draw ``d``, and a
threshold ``k`` that a unit of effect is worth, the net benefit and the loss are ::

    n[p, d] = k e[p, d] - c[p, d]          l[p, d] = max_q n[q, d] - n[p, d]

Means over draws, for every threshold:

========================  ==========================================================
``ceac``                  probability that ``n[p]`` is the largest; ties are shared
``best``, ``frontier``    the policy of the largest mean ``n[p]``, and its ``ceac``
``expected_loss``         mean ``l[p]``
``evpi``                  mean ``l`` of the best policy, that is the mean of the
                          largest ``n`` less the largest mean of ``n``
========================  ==========================================================

``evpi`` is the expected value of perfect information for a choice among *these*
policies. A policy made to measure for every draw would gain more: the gap of
`bayesmdp.optimise` on the net benefit bounds that. All of it is per patient,
or per step where the task asks for averages.

Errors treat the best policy as known, which overlooks that near an ICER draws may name
the wrong one; what that costs is then small, too.

References: Briggs, Claxton and Sculpher, Decision Modelling for Health Economic
Evaluation (2006); Alarid-Escudero et al., Medical Decision Making 39 (2019), on
expected loss curves.

**Draws of one's own**, for `from_samples` or `bayesmdp.Ensemble.from_function`, come
from what papers print of costs, utilities and ratios. Distributions are as
``scipy.stats`` has them, frozen: ``rvs(random_state=rng)`` draws. With mean ``m`` and
standard deviation ``s``::

    gamma      shape m^2 / s^2, scale s^2 / m
    beta       a = m n, b = (1 - m) n  with  n = m (1 - m) / s^2 - 1
    lognormal  log-mean (log low + log high) / 2,
               log-sd (log high - log low) / (2 z), z the normal quantile
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import ArrayLike, FloatArray, PolicyLike, Seed
from bayesmdp.economics._record import CostEffectiveness, incremental_table
from bayesmdp.errors import ArgumentError, BayesmdpWarning
from bayesmdp.evaluation import as_draws, evaluate, gaps, mean_and_mcse
from bayesmdp.model import Task, as_policy, unnamed
from bayesmdp.posterior import Belief, Draws

_MOST = 1e50  # a threshold, as rewards

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from scipy.stats.distributions import rv_frozen


def cost_effectiveness(
    policies: Mapping[str, PolicyLike],
    draws: Draws | Belief,
    *,
    cost: str = "cost",
    effect: str = "qaly",
    thresholds: ArrayLike | None = None,
    n_draws: int | None = None,
    seed: Seed | None = None,
    solver: str = "auto",
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    progress: bool | None = None,
) -> CostEffectiveness:
    """Compare costs and effects of policies, on the same draws.

    Parameters
    ----------
    policies
        Two or more, by name.
    draws
        As in `bayesmdp.compare`, of a belief whose task has several rewards.
    cost, effect
        Names of two of them. Costs count against a policy, effects for it: a harm, such
        as DALYs, is given with a minus.
    thresholds
        What one unit of effect may cost, each 0 or more; 0 to 100,000 in steps of 5,000
        where not given.
    n_draws, seed, solver, threads, executor, device, progress
        As in `bayesmdp.compare`.

    Returns
    -------
    CostEffectiveness

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(
    ...     2, 2, reward={"cost": [[100, 500], [0, 0]], "qaly": [[1, 1], [0, 0]]},
    ...     discount=0.97, terminal=1, start=0)
    >>> log = bm.Counts.from_dense([[[80, 20], [90, 10]], [[0, 0], [0, 0]]])
    >>> posterior = bm.fit(log, task, prior=bm.SymmetricPrior())
    >>> ce = bm.cost_effectiveness(
    ...     {"care": [0, 0], "drug": [1, 0]}, posterior, thresholds=[0, 2000])
    >>> ce.best
    ('care', 'drug')
    """
    names = _names(policies)
    draws = as_draws(draws, n_draws, seed)
    for name, said in (("cost", cost), ("effect", effect)):
        _check_reward(name, said, draws.belief.task)
    if cost == effect:
        raise ArgumentError(
            f"`cost` and `effect` must be two rewards; both are {cost!r}."
        )
    wanted = _read_thresholds(thresholds)
    checked = {
        name: as_policy(x, draws.belief, f"policies[{name!r}]")
        for name, x in policies.items()
    }
    how: dict[str, Any] = {"solver": solver, "threads": threads, "executor": executor}
    how |= {"device": device, "progress": progress}
    values = np.empty((2, len(names), draws.n_draws))
    with warnings.catch_warnings(record=True) as said_of:
        warnings.simplefilter("always", BayesmdpWarning)
        for p, name in enumerate(names):
            found = evaluate(checked[name], draws, **how).rewards or {}
            values[:, p] = [found[x].start_values for x in (cost, effect)]
    for note in dict.fromkeys(str(x.message) for x in said_of):
        warnings.warn(note, BayesmdpWarning, stacklevel=2)
    task = draws.belief.task
    return _analyse(
        names,
        values[0],
        values[1],
        wanted,
        draws.weights,
        exact=draws.exact,
        chain=draws.belief.chain_noise,
        called=(cost, effect),
        per="step" if task.criterion == "average" else "patient",
        units=(task.parts[cost].reward_unit, task.parts[effect].reward_unit),
        policies=checked,
        task=task,
    )


def from_samples(
    cost: Any,
    effect: Any,
    names: Sequence[str] | None = None,
    thresholds: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
) -> CostEffectiveness:
    """Analyse joint draws of costs and effects that another program made.

    Parameters
    ----------
    cost, effect
        One row per draw and one column per policy, as BCEA's and voi's ``c`` and ``e``:
        an array ``[D, P]``, a data frame, or a dict of columns by name.
    names
        Of policies; where not given, those of the columns, or numbers from 0.
    thresholds
        What one unit of effect may cost, each 0 or more; 0 to 100,000 in steps of 5,000
        where not given.
    weights
        Probability of each draw; equal where not given. Draws are taken as a random
        sample, which has Monte Carlo errors.

    Returns
    -------
    CostEffectiveness

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> rng = np.random.default_rng(1)
    >>> effect = {"old": np.zeros(100_000), "new": rng.normal(1, 1, 100_000)}
    >>> cost = {"old": np.zeros(100_000), "new": rng.normal(0, 2, 100_000)}
    >>> ce = bm.economics.from_samples(cost, effect, thresholds=[1, 2])
    >>> ce.evpi.round(2).tolist()  # of normal distributions: 0.4798 and 0.3993
    [0.48, 0.4]
    """
    c, called = _read_samples("cost", cost)
    e, also = _read_samples("effect", effect)
    if c.shape != e.shape:
        raise ArgumentError(
            f"`cost` and `effect` must have the same draws and policies; got shapes "
            f"{c.shape} and {e.shape}."
        )
    _check_paired(cost, effect)
    if called and also and called != also:
        raise ArgumentError(
            "`cost` and `effect` must have the same columns in the same order; got "
            f"{', '.join(called)} and {', '.join(also)}."
        )
    known = called or also or [str(p) for p in range(c.shape[1])]
    if names is not None:
        known = list(names)
        if len(known) != c.shape[1]:
            raise ArgumentError(
                f"`names` must have one entry per policy, {c.shape[1]}; got "
                f"{len(known)}."
            )
    if len(known) < 2 or c.shape[0] < 2:
        raise ArgumentError(
            "`cost` must have two policies (columns) and two draws (rows) at least; "
            f"got shape {c.shape}."
        )
    listed = _check_names("names", known)
    n = c.shape[0]
    even = np.full(n, 1.0 / n) if weights is None else weights
    share = _checks.shares("weights", even, "draw", n, ArgumentError)
    wanted = _read_thresholds(thresholds)
    # weights that differ are worth fewer draws than there are
    uneven = max(float(share @ share) - 1.0 / n, 0.0)
    return _analyse(
        listed, c.T, e.T, wanted, share, chain=uneven, called=("cost", "effect")
    )


def _analyse(
    names: tuple[str, ...],
    cost: FloatArray,  # [P, D]
    effect: FloatArray,  # [P, D]
    thresholds: FloatArray,  # [K]
    weights: FloatArray,  # [D]
    *,
    called: tuple[str, str],
    exact: bool = False,
    chain: float = 0.0,
    **of: Any,
) -> CostEffectiveness:
    """Compute everything from joint draws."""
    known = np.isfinite(cost + effect).all(axis=0) & (weights > 0)
    left_out = int((weights > 0).sum() - known.sum())
    if known.sum() < 1 + (not exact):
        raise ArgumentError(
            "`draws` holds too few draws in which all policies have a value."
        )
    cost, effect, weights = cost[:, known], effect[:, known], weights[known]
    weights = weights / weights.sum()
    how: dict[str, Any] = {"exact": exact, "chain": chain}
    shape = thresholds.size, len(names)
    best = np.empty(thresholds.size, dtype=np.int64)
    first, first_error, lost, lost_error = (np.empty(shape) for _ in range(4))
    for k, threshold in enumerate(thresholds):
        benefit = threshold * effect - cost  # [P, D]
        loss = -gaps(benefit, benefit.max(axis=0))  # 0 where tied for the best
        wins = loss == 0
        first[k], first_error[k] = mean_and_mcse(
            wins / wins.sum(axis=0), weights, **how
        )
        lost[k], lost_error[k] = mean_and_mcse(loss, weights, **how)
        best[k] = np.argmin(lost[k])
    each = np.arange(thresholds.size)

    def by_policy(x: FloatArray) -> dict[str, FloatArray]:
        return {name: _checks.frozen(x[:, p]) for p, name in enumerate(names)}

    planes = np.stack([cost, effect], axis=1)  # [P, 2, D]
    return CostEffectiveness(
        table=incremental_table(names, cost, effect, weights, **how),
        thresholds=thresholds,
        ceac=by_policy(first),
        ceac_mcse=by_policy(first_error),
        best=tuple(names[p] for p in best),
        frontier=_checks.frozen(first[each, best]),
        expected_loss=by_policy(lost),
        expected_loss_mcse=by_policy(lost_error),
        evpi=_checks.frozen(lost[each, best]),
        evpi_mcse=_checks.frozen(lost_error[each, best]),
        plane={name: _checks.frozen(planes[p]) for p, name in enumerate(names)},
        weights=_checks.frozen(weights),
        cost=called[0],
        effect=called[1],
        n_draws=weights.size,
        n_left_out=left_out,
        **of,
    )


def _names(policies: Mapping[str, Any]) -> tuple[str, ...]:
    if not isinstance(policies, Mapping) or len(policies) < 2:
        raise ArgumentError(
            "`policies` must map at least two names to policies, such as "
            "{'care': [0, 0], 'drug': [1, 0]}."
        )
    return _check_names("policies", policies)


def _check_names(what: str, names: Iterable[Any]) -> tuple[str, ...]:
    """Return names as text, each once."""
    found = tuple(names)
    for i, name in enumerate(found):
        if not isinstance(name, str):
            raise ArgumentError(
                f"`{what}` must have text as names, such as 'drug'; got {name!r:.40}."
            )
        if name in found[:i]:
            raise ArgumentError(f"`{what}` must differ; {name!r:.40} is repeated.")
    return found


def _check_reward(name: str, said: object, task: Task) -> None:
    """Refuse what is no reward of the task."""
    known = task.reward_names
    if not known:
        why = unnamed(task, "name rewards")
        raise ArgumentError(f"`{name}` {said!r:.40} is no reward here: {why}.")
    if said not in known:
        raise ArgumentError(
            f"`{name}` {said!r:.40} is no reward of the task"
            f"{_checks.did_you_mean(said, known)}: it has {', '.join(known)}."
        )


def _read_thresholds(thresholds: Any) -> FloatArray:
    """Return thresholds ``[K]`` in rising order, each once."""
    if thresholds is None:
        thresholds = np.arange(0, 100_001, 5_000)
    if not isinstance(thresholds, np.ndarray | str) and np.iterable(thresholds):
        thresholds = list(thresholds)
    raw = _checks.any_array("thresholds", thresholds, ArgumentError)
    if raw.dtype.kind == "b":
        raise ArgumentError(
            f"`thresholds` must hold numbers; got {raw.tolist()!r:.40}."
        )
    if raw.ndim == 0:
        thresholds = [_checks.real("thresholds", thresholds, ArgumentError, 0)]
    found = _checks.float_array("thresholds", thresholds, ("threshold",), ArgumentError)
    if not found.size:
        raise ArgumentError(
            "`thresholds` is empty: name what a unit of effect is worth."
        )
    if (found < 0).any():
        raise ArgumentError(
            f"`thresholds` must be 0 or more; got {found[found < 0][0]:g}."
        )
    if found.max() > _MOST:
        raise ArgumentError(
            f"`thresholds` must be at most {_MOST:g}; got {found.max():g}."
        )
    return _checks.sealed(np.unique(found))


def _check_paired(cost: Any, effect: Any) -> None:
    """Refuse rows that are numbered differently: they are paired as they stand."""
    tables = (x.values() if isinstance(x, Mapping) else [x] for x in (cost, effect))
    given: list[Any] = [getattr(x, "index", None) for parts in tables for x in parts]
    # not of a list; as objects, for 1 is 1 whatever its type, and NaN equals NaN
    found = [x.astype(object) for x in given if hasattr(x, "equals")]
    if not all(index.equals(found[0]) for index in found):
        raise ArgumentError(
            "`cost` and `effect` must have the same index in the same order, for rows "
            "are paired as they stand: reorder one, as by effect.loc[cost.index], or "
            "give arrays."
        )


def _read_samples(name: str, given: Any) -> tuple[FloatArray, list[str]]:
    """Return draws ``[D, P]``, and the names of their columns where they have some."""
    called = [str(x) for x in getattr(given, "columns", ())]
    if isinstance(given, Mapping):
        called = [str(x) for x in given]
        given = np.array(_checks.any_array(name, list(given.values()), ArgumentError)).T
    elif called:
        given = np.asarray(given)
    return _checks.float_array(name, given, ("draw", "policy"), ArgumentError), called


def gamma_from_mean_sd(mean: float, sd: float) -> rv_frozen[Any, Any]:
    """Gamma distribution of a mean and a standard deviation, as for costs.

    Parameters
    ----------
    mean, sd
        Both above 0.

    Returns
    -------
    rv_frozen
        Of ``scipy.stats``.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> cost = bm.economics.gamma_from_mean_sd(2000, 200)
    >>> round(cost.mean()), round(cost.std()), round(cost.ppf(0.975))
    (2000, 200, 2411)
    >>> cost.rvs(3, random_state=np.random.default_rng(0)).round()
    array([2019., 2124., 1888.])
    """
    from scipy.stats import gamma

    mean = _checks.real("mean", mean, ArgumentError, 0, open_low=True)
    sd = _checks.real("sd", sd, ArgumentError, 0, open_low=True)
    return gamma((mean / sd) ** 2, scale=sd**2 / mean)


def beta_from_mean_sd(mean: float, sd: float) -> rv_frozen[Any, Any]:
    """Beta distribution of a mean and a standard deviation, as for utilities.

    Parameters
    ----------
    mean
        Above 0 and below 1.
    sd
        Above 0, and below ``sqrt(mean (1 - mean))``.

    Returns
    -------
    rv_frozen
        Of ``scipy.stats``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> utility = bm.economics.beta_from_mean_sd(0.75, 0.05)
    >>> print(f"{utility.mean():.3f}, {utility.std():.3f}")
    0.750, 0.050
    """
    from scipy.stats import beta

    mean = _checks.real("mean", mean, ArgumentError, 0, 1, open_low=True)
    if mean == 1:
        raise ArgumentError("`mean` must be below 1: a share of mean 1 does not vary.")
    sd = _checks.real("sd", sd, ArgumentError, 0, open_low=True)
    most = float(np.sqrt(mean * (1 - mean)))
    if sd >= most:
        raise ArgumentError(
            f"`sd` must be below sqrt(mean (1 - mean)) = {most:.3g}, the most that a "
            f"share of mean {mean:g} can vary; got {sd:g}."
        )
    n = mean * (1 - mean) / sd**2 - 1
    return beta(mean * n, (1 - mean) * n)


def lognormal_from_interval(
    low: float, high: float, *, level: float = 0.95
) -> rv_frozen[Any, Any]:
    """Lognormal distribution of an interval, as for relative risks and hazard ratios.

    Its median is the geometric mean of the limits.

    Parameters
    ----------
    low, high
        Limits, above 0, with as much probability below as above.
    level
        Probability inside.

    Returns
    -------
    rv_frozen
        Of ``scipy.stats``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> ratio = bm.economics.lognormal_from_interval(0.365, 0.710)
    >>> ratio.ppf([0.025, 0.5, 0.975]).round(3).tolist()
    [0.365, 0.509, 0.71]
    """
    from scipy.special import ndtri
    from scipy.stats import lognorm

    low = _checks.real("low", low, ArgumentError, 0, open_low=True)
    high = _checks.real("high", high, ArgumentError, low, open_low=True)
    level = _checks.real("level", level, ArgumentError, 0, 1, open_low=True)
    if level == 1:
        raise ArgumentError("`level` must be below 1: a lognormal has no end.")
    sd = np.log(high / low) / (2 * ndtri((1 + level) / 2))
    return lognorm(sd, scale=np.sqrt(low * high))
