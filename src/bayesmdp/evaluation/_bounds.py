"""How many draws a guarantee takes (paper, appendix A).

Values lie in ``[-Vmax, Vmax]`` with ``Vmax = rmax / (1 - g)``, so by Hoeffding's
inequality the mean of ``n`` draws is within ``e`` of the posterior mean with
probability ``1 - q`` if ::

    n >= log(2 / q) 2 Vmax^2 / e^2

Roll-outs of length ``H`` lose up to ``g^H Vmax`` of each return, whatever their number:
the same with ``e - g^H Vmax`` in place of ``e``. (The appendix prints ``n^2`` in the
exponent of the roll-out bound and puts the least horizon at 0.999 and 0.001 near 10^5;
it is 13,809.)

The bound holds for any posterior and is far from what is needed in practice:
``Evaluation.start_value_mcse`` says what was reached.
"""

import math

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError


def draws_needed(
    error: float,
    *,
    discount: float,
    max_reward: float = 1.0,
    failure: float = 0.05,
    horizon: int | None = None,
) -> int:
    """Draws after which the value is within ``error`` with a stated probability.

    Parameters
    ----------
    error
        Largest deviation, above 0.
    discount
        In [0, 1); with 1, values have no bound.
    max_reward
        Largest absolute reward of a step.
    failure
        Probability that the deviation is larger, in (0, 1].
    horizon
        Length of simulated roll-outs; None for exact moments.

    Returns
    -------
    int

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.draws_needed(0.1, discount=0.9)
    73778
    >>> bm.draws_needed(0.1, discount=0.9, horizon=100)
    74172
    """
    error = _checks.real("error", error, ArgumentError, 0, open_low=True)
    failure = _checks.real("failure", failure, ArgumentError, 0, 1, open_low=True)
    max_reward = _checks.real("max_reward", max_reward, ArgumentError, 0)
    discount = _checks.real("discount", discount, ArgumentError, 0, 1)
    if discount == 1.0:
        raise ArgumentError("`discount` must be below 1: values have no bound at 1.")
    bound = max_reward / (1.0 - discount)
    left = error
    if horizon is not None:
        horizon = _checks.integer("horizon", horizon, 1, ArgumentError)
        left = error - discount**horizon * bound
        if left <= 0:
            raise ArgumentError(
                f"`horizon` {horizon} truncates more than `error` {error:g}; it must "
                f"be at least {_least_horizon(error, discount, bound)}."
            )
    ratio = bound / left
    if ratio > 1e100:
        raise ArgumentError(f"`error` {error:g} is too small for any number of draws.")
    return max(1, math.ceil(math.log(2.0 / failure) * 2.0 * ratio**2))


def _least_horizon(error: float, discount: float, bound: float) -> int:
    """Smallest horizon whose truncation is below the error."""
    return math.floor(math.log(error / bound) / math.log(discount)) + 1
