"""What is to be made large: a function of the value in every draw.

With ``J[k]`` the value of a policy from the start in draw ``k`` and ``p[k]`` the
probability of the draw, an objective is a number ``f(J, p)`` and its derivative
``w[k] = df/dJ[k]``. The gradient of any objective is then that of a weighted mean::

    df/dpi[s, a] = sum_k w[k] d_k[s] Q_k[s, a]

Draws are pure functions of their number, so that weights found in one pass over them
serve in a second: an objective costs at most twice what the mean costs, and no memory.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.errors import ArgumentError


class Objective(ABC):
    """The contract of an objective."""

    #: Whether weights are the draws' probabilities: one pass then serves.
    linear: bool = False
    #: Whether a value that is nowhere smaller has an objective that is not smaller:
    #: each draw's own best value then bounds it.
    monotone: bool = False

    @abstractmethod
    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Objective of values ``[D]`` of draws with probabilities ``[D]``."""

    @abstractmethod
    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the derivative in each value, ``[D]``; may be negative or 0."""


def objective_value(
    objective: Objective, values: FloatArray, probability: FloatArray
) -> float:
    """Return what an objective gives, if that is a finite number."""
    found = objective.value(values, probability)
    if np.ndim(found) == 0 and np.isfinite(found):
        return float(found)
    raise ArgumentError(
        f"`objective` must give a finite number; {type(objective).__name__}.value "
        f"gives {found!r:.60} for {values.size} values."
    )


def objective_name(objective: Objective) -> str:
    """Return its text, or the name of its class where the text is an address."""
    plain = type(objective).__repr__ is object.__repr__
    return type(objective).__name__ if plain else repr(objective)


@dataclass(frozen=True)
class PosteriorMean(Objective):
    """Mean over the belief of the value from the start distribution.

    Bayesian decision theory's objective, and the paper's (equation 8).

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.PosteriorMean()
    PosteriorMean()
    """

    linear = True
    monotone = True

    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Return the weighted mean."""
        return float(values @ probability)

    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the probabilities themselves."""
        return probability
