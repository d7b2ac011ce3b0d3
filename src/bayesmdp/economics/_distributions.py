"""Distributions of costs, utilities and ratios from what papers print of them.

Each returns the distribution as ``scipy.stats`` has it, frozen: ``rvs(random_state=
rng)`` draws from it inside a function for `bayesmdp.Ensemble.from_function`. With mean
``m`` and standard deviation ``s``::

    gamma      shape m^2 / s^2, scale s^2 / m
    beta       a = m n, b = (1 - m) n  with  n = m (1 - m) / s^2 - 1
    lognormal  log-mean (log low + log high) / 2,
               log-sd (log high - log low) / (2 z), z the normal quantile
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError

if TYPE_CHECKING:
    from scipy.stats.distributions import rv_frozen


def gamma_from_mean_sd(mean: float, sd: float) -> "rv_frozen[Any, Any]":
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


def beta_from_mean_sd(mean: float, sd: float) -> "rv_frozen[Any, Any]":
    """Beta distribution of a mean and a standard deviation, as for utilities.

    Parameters
    ----------
    mean
        Between 0 and 1.
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
) -> "rv_frozen[Any, Any]":
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
