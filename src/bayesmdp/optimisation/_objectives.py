"""Objectives beyond the mean: what to make large where models may be bad ones.

``x[k]`` is what an objective looks at in draw ``k``: with ``of="value"`` the value of
the policy from the start, ``J[k]``; with ``of="improvement"`` what it adds to that of a
baseline in the same draw, ``J[k] - J_b[k]``; with ``of="regret"`` what it adds to that
of the draw's own best policy, ``J[k] - max J[k]``, which is minus the regret. Larger is
always better. Tails are lower ones, and levels are tail masses: 0.1 is the worst tenth.
With probabilities ``p[k]`` and the lowest draws first::

    CVaR        1/a sum_k q[k] x[k],  q[k] the part of p[k] within the tail mass a
    Quantile    smallest x with P(X <= x) >= a
    MeanSd      m - c s,   m = sum_k p[k] x[k] and s^2 = sum_k p[k] (x[k] - m)^2
    SoftRobust  c m + (1 - c) CVaR
    Entropic    -1/b log sum_k p[k] exp(-b x[k])
    EVaR        max over b > 0 of Entropic(b) + log(a) / b

and derivatives ``w[k]`` in each ``x[k]``: ``q[k] / a``; for the quantile a normal
kernel around it, since one draw says little about the gradient of an order statistic;
``p[k] (1 - c (x[k] - m) / s)``; their mixture; ``p[k] exp(-b x[k])`` to a sum of 1, for
`EVaR` at its own ``b``. All but `MeanSd` never fall where values rise, so that each
draw's own best value bounds them.

**Errors** come from a bootstrap over draws, but for `Entropic` and `EVaR`: weights
differ so much that a sample may lack what matters most, and a bootstrap of it cannot
know. To first order, the best ``b`` being best, both are a mean of ``(1 - w[k] / p[k])
/ b`` over draws, whose variance over ``n`` is the square of the error. What the
heaviest draw adds beyond its share, ``max(w / p - 1) / (n b)``, twice, is added to it
in squares: that much a further draw may change. With fewer than 100 effective draws,
``1 / sum_k w[k]^2``, no error is told; 10 for the others. Measured over 200 seeds
(`tests/integration/test_objective_errors.py`).

`CVaR`: Rockafellar and Uryasev (2000); `SoftRobust`: Lobo, Ghavamzadeh and Petrik
(2021); `EVaR`: Ahmadi-Javid (2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray
from bayesmdp.errors import ArgumentError
from bayesmdp.optimisation._settings import (
    Objective,
    PosteriorMean,
    RiskObjective,
    worst,
)


def _tail_weights(values: FloatArray, share: FloatArray, tail: float) -> FloatArray:
    """Part of each draw's probability that lies within the tail, to a sum of 1.

    Draws that tie at its end have the same part of their probability in it.
    """
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(share[order])
    end = values[order[min(np.searchsorted(mass, tail * mass[-1]), order.size - 1)]]
    within, tied = np.where(values < end, share, 0.0), values == end
    rest = max(tail * mass[-1] - within.sum(), 0.0)
    within[tied] = share[tied] * min(rest / share[tied].sum(), 1.0)
    return np.asarray(within / within.sum())


@dataclass(frozen=True, eq=False, repr=False)
class CVaR(RiskObjective):
    """Mean over the worst draws (conditional value at risk, expected shortfall).

    Parameters
    ----------
    tail
        Probability of the draws that count: 0.1 is the worst tenth, 1 the mean.
    of
        ``"value"``, ``"improvement"`` over ``baseline``, or ``"regret"``.
    baseline
        A policy; where not given, what was done in the data (`policies.behaviour`).

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.CVaR(0.25).value(np.array([4.0, 1, 2, 3]), np.full(4, 0.25))
    1.0
    """

    tail: float
    _range = {"tail": (0, 1, True)}  # noqa: RUF012  a constant

    @property
    def words(self) -> str:
        """What it is, in words."""
        return f"mean over {worst(self.tail)} of draws"

    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Return the mean of the tail."""
        return float(values @ _tail_weights(values, probability, self.tail))

    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the tail's own probabilities."""
        return _tail_weights(values, probability, self.tail)


@dataclass(frozen=True, eq=False, repr=False)
class Quantile(RiskObjective):
    """Value that is reached in all but the worst draws (value at risk, percentile).

    Parameters
    ----------
    level
        Probability of the draws at or below it: 0.1 is the 10th percentile.
    of, baseline
        As in `CVaR`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.Quantile(0.5).value(np.array([4.0, 1, 2, 3]), np.full(4, 0.25))
    2.0
    """

    level: float
    _range = {"level": (0, 1, True)}  # noqa: RUF012  a constant

    @property
    def words(self) -> str:
        """What it is, in words."""
        return f"percentile {100 * self.level:.3g} over draws"

    @property
    def cost_words(self) -> str:
        """The low values are the high costs."""
        return f"percentile {100 * (1 - self.level):.3g} over draws"

    @property
    def milder(self) -> str:
        """A level nearer to the median."""
        return "smaller level" if self.level > 0.5 else "larger level"

    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Return the order statistic."""
        order = np.argsort(values, kind="stable")
        below = np.cumsum(probability[order])
        at = np.searchsorted(below, self.level * below[-1] * (1 - 1e-12))
        return float(values[order[min(at, order.size - 1)]])

    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return a kernel around the quantile; its width falls with draws."""
        mean = probability @ values
        sd = np.sqrt(probability @ (values - mean) ** 2)
        width = sd * (probability @ probability) ** 0.2  # 1 / p.p draws count
        if not width > 0:
            return probability
        away = (values - self.value(values, probability)) / width
        weight = probability * np.exp(-0.5 * away**2)
        return np.asarray(weight / weight.sum())


@dataclass(frozen=True, eq=False, repr=False)
class MeanSd(RiskObjective):
    """Mean minus a number of epistemic standard deviations.

    It may decrease where a value increases, so it has no upper bound.

    Parameters
    ----------
    weight
        Number of standard deviations to subtract.
    of, baseline
        As in `CVaR`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.MeanSd(1.0).value(np.array([1.0, 3]), np.full(2, 0.5))
    1.0
    """

    weight: float
    monotone = False
    _range = {"weight": (0, np.inf, False)}  # noqa: RUF012  a constant

    @property
    def words(self) -> str:
        """What it is, in words."""
        return f"mean less {self.weight:g} sd over draws"

    @property
    def cost_words(self) -> str:
        """Spread adds to a cost."""
        return f"mean plus {self.weight:g} sd over draws"

    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Return the mean less the sds."""
        mean, sd = self._moments(values, probability)
        return mean - self.weight * sd

    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the derivative; negative far above the mean."""
        mean, sd = self._moments(values, probability)
        if sd == 0:
            return probability
        return np.asarray(probability * (1 - self.weight * (values - mean) / sd))

    @staticmethod
    def _moments(values: FloatArray, share: FloatArray) -> tuple[float, float]:
        mean = float(share @ values)
        return mean, float(np.sqrt(share @ (values - mean) ** 2))


@dataclass(frozen=True, eq=False, repr=False)
class SoftRobust(RiskObjective):
    """A mixture of the mean and the mean over the worst draws.

    Parameters
    ----------
    weight
        Weight of the mean, from 0 to 1.
    tail
        Probability of the draws that make up the rest, as in `CVaR`.
    of, baseline
        As in `CVaR`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.SoftRobust(0.5, 0.25).value(np.array([4.0, 1, 2, 3]), np.full(4, 0.25))
    1.75
    """

    weight: float
    tail: float
    _range = {"weight": (0, 1, False), "tail": (0, 1, True)}  # noqa: RUF012  constant

    @property
    def words(self) -> str:
        """What it is, in words."""
        part = f"{self.weight:g} of the mean and {1 - self.weight:g} of the mean"
        return f"{part} over {worst(self.tail)} of draws"

    @property
    def tail_mass(self) -> float:  # type: ignore[override]
        """Share of the draws that it rests on: all where the mean is all."""
        return self.tail if self.weight < 1 else 1.0

    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Return the mixture."""
        return float(values @ self.weights(values, probability))

    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the mixture of weights."""
        tail = _tail_weights(values, probability, self.tail)
        return np.asarray(self.weight * probability + (1 - self.weight) * tail)


_LOG_BETA = math.log(1e-5), math.log(1e5)  # of the best one, in units of 1 / sd
_HEAVIEST = 2.0  # times what it adds, in errors of `Entropic` and `EVaR`


def _entropic(
    values: FloatArray, share: FloatArray, beta: float
) -> tuple[float, FloatArray]:
    """Entropic value and its weights."""
    least = values[share > 0].min()
    above = np.maximum(values - least, 0.0)
    value = least - np.log1p(share @ np.expm1(-beta * above)) / beta
    weight = share * np.exp(-beta * above)
    return float(value), np.asarray(weight / weight.sum())


def _entropic_mcse(values: FloatArray, share: FloatArray, beta: float) -> float:
    """Error to first order, and what the heaviest draw may hide."""
    least = values[share > 0].min()
    tilt = np.expm1(-beta * np.maximum(values - least, 0.0))  # digits also near b = 0
    beyond = (tilt - share @ tilt) / (1 + share @ tilt)  # weight by share, less 1
    heaviest = _HEAVIEST * float(beyond.max()) / values.size
    return math.hypot(math.sqrt(share @ beyond**2 / values.size), heaviest) / beta


@dataclass(frozen=True, eq=False, repr=False)
class Entropic(RiskObjective):
    """Certainty equivalent of an exponential utility.

    Parameters
    ----------
    beta
        Risk aversion, in units of 1 / reward; as it tends to 0, the objective tends to
        the mean.
    of, baseline
        As in `CVaR`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> round(bm.Entropic(2.0).value(np.array([0.0, 1]), np.full(2, 0.5)), 4)
    0.2831
    """

    beta: float
    few = 100
    _range = {"beta": (0, np.inf, True)}  # noqa: RUF012  a constant

    @property
    def words(self) -> str:
        """What it is, in words."""
        return f"certainty equivalent over draws at aversion {self.beta:g}"

    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Return the certainty equivalent."""
        return _entropic(values, probability, self.beta)[0]

    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the tilted probabilities."""
        return _entropic(values, probability, self.beta)[1]

    def mcse(self, values: FloatArray, probability: FloatArray) -> float:
        """Return the error to first order, and what the heaviest draw may hide."""
        return _entropic_mcse(values, probability, self.beta)


@dataclass(frozen=True, eq=False, repr=False)
class EVaR(RiskObjective):
    """The largest lower bound of `CVaR` and `Quantile` by exponential moments.

    Parameters
    ----------
    tail
        Tail mass, as in `CVaR`.
    of, baseline
        As in `CVaR`.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> values, share = np.arange(10.0), np.full(10, 0.1)
    >>> bm.EVaR(0.2).value(values, share) < bm.CVaR(0.2).value(values, share)
    True
    """

    tail: float
    few = 100
    _range = {"tail": (0, 1, True)}  # noqa: RUF012  a constant

    @property
    def words(self) -> str:
        """What it is, in words."""
        return f"entropic bound on {worst(self.tail)} of draws"

    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Return the bound."""
        return self._best(values, probability)[0]

    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the tilted probabilities at the best aversion."""
        return self._best(values, probability)[1]

    def mcse(self, values: FloatArray, probability: FloatArray) -> float | None:
        """Return the error to first order, and what the heaviest draw may hide."""
        beta = self._best(values, probability)[2]  # 0 is a mean
        return _entropic_mcse(values, probability, beta) if beta else None

    def _best(
        self, values: FloatArray, share: FloatArray
    ) -> tuple[float, FloatArray, float]:
        """Bound, weights and aversion: by a search over aversions; 0 is the mean."""
        from scipy.optimize import minimize_scalar

        sd = float(np.sqrt(share @ (values - share @ values) ** 2))
        if sd == 0 or self.tail == 1:
            return float(share @ values), share, 0.0

        def below(at: float) -> float:
            beta = math.exp(at) / sd
            return -_entropic(values, share, beta)[0] - math.log(self.tail) / beta

        # concave in 1 / beta, so it has one peak in log beta
        found = minimize_scalar(
            below, bounds=_LOG_BETA, method="bounded", options={"xatol": 1e-5}
        )
        beta = math.exp(found.x) / sd
        value, weights = _entropic(values, share, beta)
        return value + math.log(self.tail) / beta, weights, beta


_NAMED: dict[str, type[RiskObjective]] = {
    "cvar": CVaR,
    "quantile": Quantile,
    "mean-sd": MeanSd,
    "soft-robust": SoftRobust,
    "entropic": Entropic,
    "evar": EVaR,
}


def named_objective(text: str, of: str = "value") -> Objective:
    """Return the objective that a text names, as on the command line.

    Examples
    --------
    >>> named_objective("mean"), named_objective("soft-robust:0.5:0.1", "regret")
    (PosteriorMean(), SoftRobust(0.5, 0.1, of='regret'))
    """
    name, *numbers = text.split(":")
    if name == "mean" and not numbers:
        if of != "value":
            raise ArgumentError(
                f"`of` must be value where the objective is the mean; got {of!r}. What "
                "is best on average does not depend on it: leave it out."
            )
        return PosteriorMean()
    kind = _NAMED.get(name)
    try:
        if kind is not None:
            return kind(*map(float, numbers), of=of)
    except (TypeError, ValueError) as problem:
        if isinstance(problem, ArgumentError):
            raise ArgumentError(f"`objective` {text!r:.60}: {problem}") from None
    forms = [
        ":".join([word, *(x.upper() for x in made._range)])
        for word, made in _NAMED.items()
    ]
    raise ArgumentError(
        f"`objective` must be mean, {', '.join(forms)}, such as cvar:0.1 for the worst "
        f"tenth; got {text!r:.60}."
    )
