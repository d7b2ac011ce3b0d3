"""At which points of time rewards are counted: weights of ``horizon`` and ``cycle``.

With states ``s_0 .. s_T`` at the ends of ``T`` cycles, rewards for being somewhere are
counted as ``sum_t w_t g^t r(s_t)``, and ``cycle`` names the weights::

    start   1  1  1  ...  1  0       t = 0 .. T - 1
    end     0  1  1  ...  1  1       t = 1 .. T
    both    1  1  1  ...  1  1       t = 0 .. T
    half   1/2 1  1  ...  1 1/2      trapezoid: half a cycle at either end
    darth  1/3 2/3 4/3 2/3 .. 1/3    of the tutorial of Alarid-Escudero et al. (2023)

The last differ from Simpson's rule, which has 4/3 where they have 2/3. Without a
horizon only the first weight is left of the rule; that of ``darth`` is not defined.
"""

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray
from bayesmdp.errors import TaskError

CYCLES = ("start", "end", "both", "half", "darth")
CRITERIA = ("discounted", "average")


def read_horizon(horizon: object) -> int | None:
    """Return a checked number of cycles, or None for no end."""
    if horizon is None:
        return None
    return _checks.integer("horizon", horizon, 1, TaskError)


def read_cycle(cycle: object, horizon: int | None) -> str:
    """Return the checked name of a rule."""
    _one_of("cycle", cycle, CYCLES)
    if cycle == "darth" and horizon is None:
        raise TaskError(
            "`cycle='darth'` needs a `horizon`: its weights alternate up to the last "
            "cycle; take 'half' where there is none."
        )
    return str(cycle)


def read_criterion(criterion: object) -> str:
    """Return the checked name of a criterion."""
    _one_of("criterion", criterion, CRITERIA)
    return str(criterion)


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        hint = _checks.did_you_mean(str(value), known)
        raise TaskError(
            f"`{name}` must be one of {', '.join(known)}; got {value!r:.60}{hint}."
        )


def first_weight(cycle: str) -> float:
    """Weight of the start of the first cycle.

    Examples
    --------
    >>> first_weight("half"), first_weight("end")
    (0.5, 0.0)
    """
    return {"end": 0.0, "half": 0.5, "darth": 1 / 3}.get(cycle, 1.0)


def cycle_weights(cycle: str, horizon: int) -> FloatArray:
    """Weights ``w_t`` of the points of time ``0 .. horizon``, ``[T + 1]``.

    Examples
    --------
    >>> cycle_weights("half", 3).tolist()
    [0.5, 1.0, 1.0, 0.5]
    >>> (3 * cycle_weights("darth", 5)).tolist()
    [1.0, 2.0, 4.0, 2.0, 4.0, 1.0]
    """
    weights = np.ones(horizon + 1)
    if cycle == "darth":
        weights[1::2], weights[2::2] = 2 / 3, 4 / 3
    weights[0] = first_weight(cycle)
    weights[-1] = {"start": 0.0, "half": 0.5, "darth": 1 / 3}.get(cycle, 1.0)
    return weights
