"""What a search is told: what to make large, how to climb, how hard to look.

**Objectives.** With ``J[k]`` the value of a policy from the start in draw ``k`` and
``p[k]`` the probability of the draw, an objective is a number ``f(J, p)`` and its
derivative ``w[k] = df/dJ[k]``. The gradient of any objective is then that of a weighted
mean::

    df/dpi[s, a] = sum_k w[k] d_k[s] Q_k[s, a]

Draws are pure functions of their number, so that weights found in one pass over them
serve in a second: an objective costs at most twice what the mean costs, and no memory.

**Effort** sets draws and steps. Draws are fewer where the model is large: each number
is also bounded by a budget of operations. `docs/optimisation.md` has what each level
brings and takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from typing import ClassVar

import numpy as np

from bayesmdp import _checks, policies
from bayesmdp._typing import ArrayLike, BoolArray, FloatArray
from bayesmdp.errors import ArgumentError
from bayesmdp.posterior import Belief


class Objective(ABC):
    """The contract of an objective."""

    #: Whether weights are the draws' probabilities: one pass then serves.
    linear: bool = False
    #: Whether a value that is nowhere smaller has an objective that is not smaller:
    #: each draw's own best value then bounds it.
    monotone: bool = False
    #: What it looks at in each draw: the value, or what that adds to the value of a
    #: baseline ("improvement") or of the draw's own best policy ("regret").
    of: str = "value"
    #: The policy that improvements are over; behaviour where not given.
    baseline: ArrayLike | None = None
    #: What it is, in words; empty: its name says it.
    title: str = ""
    #: What minus its value for rewards ``-cost`` is of the cost, in words; empty: its
    #: name says it; None: that is no number of costs, and a task of costs is refused.
    cost_title: str | None = None
    #: Share of the draws that it rests on.
    tail_mass: float = 1.0
    #: Effective draws below which there is a warning and no Monte Carlo error.
    few: int = 10

    @property
    def milder(self) -> str:
        """What to ask for where few draws stand behind it."""
        return "larger tail" if self.tail_mass < 1 else "smaller aversion"

    @abstractmethod
    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Objective of numbers ``[D]`` of draws with probabilities ``[D]``."""

    @abstractmethod
    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the derivative in each value, ``[D]``; may be negative or 0."""

    def mcse(self, values: FloatArray, probability: FloatArray) -> float | None:
        """Return the error of `value` from so many draws; None: by a bootstrap."""
        return None


@dataclass(frozen=True, eq=False)
class Held:
    """Pairs that keep the probability that they have under a policy."""

    pairs: BoolArray  # [S, A]
    policy: FloatArray  # [S, A]


def what_was_done(belief: Belief) -> FloatArray:
    """Return the baseline ``[S, A]`` where none is given: behaviour in the log."""
    if belief.counts is None:
        raise ArgumentError(
            "`baseline` must be given, such as `policies.behaviour` of a posterior: "
            f"{type(belief).__name__} has no log to take what was done from."
        )
    return policies.behaviour(belief)


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


def effective_draws(
    objective: Objective, values: FloatArray, probability: FloatArray
) -> float:
    """Count the draws that an objective rests on; infinite where it rests on most.

    As many as would have the same error with equal weights, and no more than are in its
    tail. What rests on half of the effective draws and more, such as a mean, is as well
    known as a mean of so few draws or models is.
    """
    weights = np.abs(objective.weights(values, probability))
    total, square = weights.sum() ** 2, weights @ weights
    if objective.tail_mass == 1 and 2 * total * (probability @ probability) >= square:
        return np.inf
    return float(min(objective.tail_mass * values.size, total / max(square, 1e-300)))


def objective_name(objective: Objective) -> str:
    """Return its text, or the name of its class where the text is an address."""
    plain = type(objective).__repr__ is object.__repr__
    return type(objective).__name__ if plain else repr(objective)


@dataclass(frozen=True)
class PosteriorMean(Objective):
    """Posterior mean of the value from the start distribution.

    The objective of Bayesian decision theory, and of the paper (equation 8).

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.PosteriorMean()
    PosteriorMean()
    """

    linear = True
    monotone = True
    cost_title = ""

    def value(self, values: FloatArray, probability: FloatArray) -> float:
        """Return the weighted mean."""
        return float(values @ probability)

    def weights(self, values: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the probabilities themselves."""
        return probability


OF = ("value", "improvement", "regret")
_OF_WHAT = {
    "value": "the value from the start",
    "improvement": "the improvement over the baseline",
    "regret": "the value less that of each draw's own best policy",
}
_FRACTIONS = {
    0.5: "half",
    0.25: "quarter",
    0.2: "fifth",
    0.1: "tenth",
    0.05: "twentieth",
    0.01: "hundredth",
}


def worst(tail: float) -> str:
    """Say a tail mass in words.

    Examples
    --------
    >>> worst(0.1), worst(0.15)
    ('the worst tenth', 'the worst 15 %')
    """
    if tail == 1:
        return "all"
    return f"the worst {_FRACTIONS.get(tail, f'{100 * tail:.3g} %')}"


@dataclass(frozen=True, eq=False, repr=False)
class RiskObjective(Objective):
    """An objective with a choice of what it looks at."""

    monotone = True
    _range: ClassVar[dict[str, tuple[float, float, bool]]] = {}  # low, high, low is out

    _: KW_ONLY
    of: str = "value"
    baseline: ArrayLike | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.of not in OF:
            hint = _checks.did_you_mean(str(self.of), OF)
            raise ArgumentError(
                f"`of` must be one of {', '.join(OF)}; got {self.of!r:.60}{hint}."
            )
        if self.baseline is not None and self.of != "improvement":
            raise ArgumentError(
                f"`baseline` is given, but `of` is {self.of!r}: give "
                "of='improvement', or no baseline."
            )
        for name, (low, high, out) in self._range.items():
            value = getattr(self, name)
            _checks.real(name, value, ArgumentError, low, high, open_low=out)

    def __repr__(self) -> str:
        """Return how it is made, the baseline left out."""
        own = [x.name for x in fields(self) if x.name not in {"of", "baseline"}]
        said = [f"{getattr(self, name):g}" for name in own]
        if self.of != "value":
            said.append(f"of={self.of!r}")
        return f"{type(self).__name__}({', '.join(said)})"

    @property
    @abstractmethod
    def words(self) -> str:
        """What it is over draws, in words."""

    @property
    def title(self) -> str:  # type: ignore[override]
        """What it is, and of what."""
        return f"{self.words} of {_OF_WHAT[self.of]}".capitalize()

    @property
    def cost_words(self) -> str:
        """What minus its value is over draws of minus a cost, in words."""
        return self.words

    @property
    def cost_title(self) -> str | None:  # type: ignore[override]
        """The same, of the cost itself; what is relative to others is of rewards."""
        whole = f"{self.cost_words} of the cost from the start".capitalize()
        return whole if self.of == "value" else None

    @property
    def tail_mass(self) -> float:  # type: ignore[override]
        """Share of the draws that it rests on."""
        return float(getattr(self, "tail", getattr(self, "level", 1.0)))


@dataclass(frozen=True)
class MirrorAscent:
    """Natural-gradient ascent with adaptive steps, which share their draws.

    ``effort`` of `bayesmdp.optimise` sets how many draws are shared, and by how many
    steps.

    Parameters
    ----------
    n_steps
        Largest number of steps from one start.
    tolerance
        The ascent stops where no change of the policy gains more than this, to first
        order, in epistemic standard deviations of the value, or where that gain is
        within noise; where not given, ``effort`` sets it.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.MirrorAscent().n_steps
    150
    """

    n_steps: int = 150
    tolerance: float | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        _checks.integer("n_steps", self.n_steps, 1, ArgumentError)
        if self.tolerance is not None:
            _checks.real("tolerance", self.tolerance, ArgumentError, 0)


@dataclass(frozen=True)
class StochasticGradient:
    """Algorithm 2 of the paper: gradient steps on softmax logits.

    The loss is the mean over the batch (the paper prints a sum; its scripts run the
    mean).

    Parameters
    ----------
    learning_rate
        A number, or a function of the step (from 0).
    batch
        Draws per step.
    n_steps
        Steps.
    softness
        Probability that is initially moved away from the action of the start policy.
    resample_every
        Number of steps that share their draws; 0 for the same draws throughout.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.StochasticGradient(learning_rate=10, batch=128, n_steps=1000).softness
    0.1
    """

    learning_rate: float | Callable[[int], float]
    batch: int
    n_steps: int
    softness: float = 0.1
    resample_every: int = 1

    def __post_init__(self) -> None:
        """Check the settings."""
        if not callable(self.learning_rate):
            _checks.real(
                "learning_rate", self.learning_rate, ArgumentError, 0, open_low=True
            )
        _checks.integer("batch", self.batch, 2, ArgumentError)
        _checks.integer("n_steps", self.n_steps, 1, ArgumentError)
        _checks.real("softness", self.softness, ArgumentError, 0, 1, open_low=True)
        if self.softness == 1.0:
            raise ArgumentError("`softness` must be below 1; got 1.")
        _checks.integer("resample_every", self.resample_every, 0, ArgumentError)

    def rate(self, step: int) -> float:
        """Learning rate of a step."""
        rate = self.learning_rate
        if callable(rate):
            return _checks.real("learning_rate", rate(step), ArgumentError, 0)
        return float(rate)


Method = MirrorAscent | StochasticGradient


_FEW = ("nominal", "second_order")  # what others add: docs/effort.md
_ALL = (*_FEW, "mle", "msbi", "uniform", "random_1", "random_2")


@dataclass(frozen=True)
class Effort:
    """Numbers of one level."""

    starts: tuple[str, ...]  # where not given
    second_order: int  # live states up to which it is one: dozens of inversions
    n_climbs: int  # starts that climb, the best ones
    n_exact_climbs: int  # the same on an ensemble that is swept exactly
    stages: tuple[tuple[int, int], ...]  # draws that steps share, and most steps
    select: int  # draws that starts are compared on
    choose: int  # draws that the policies found are compared on
    judge: int  # draws of the evaluation
    bound: int  # draws of the upper bound
    budget: float  # operations for each of these
    tolerance: float  # gain at which to stop, in epistemic sds of the value


EFFORTS = {
    "quick": Effort(
        starts=_FEW,
        second_order=100,
        n_climbs=1,
        n_exact_climbs=2,
        stages=((64, 8), (256, 4)),
        select=128,
        choose=256,
        judge=512,
        bound=64,
        budget=5e8,
        tolerance=1e-2,
    ),
    "normal": Effort(
        starts=_FEW,
        second_order=300,
        n_climbs=2,
        n_exact_climbs=len(_ALL),
        stages=((128, 12), (512, 8), (1024, 6)),
        select=256,
        choose=512,
        judge=1024,
        bound=128,
        budget=2e9,
        tolerance=2e-3,
    ),
    "thorough": Effort(
        starts=_ALL,
        second_order=2000,
        n_climbs=len(_ALL),
        n_exact_climbs=len(_ALL),
        stages=((512, 20), (4096, 12), (16384, 8)),
        select=1024,
        choose=4096,
        judge=10_000,
        bound=256,
        budget=2e10,
        tolerance=2e-4,
    ),
}


def effort_of(name: str) -> Effort:
    """Return the numbers of a level."""
    if not isinstance(name, str) or name not in EFFORTS:
        hint = _checks.did_you_mean(str(name), EFFORTS)
        raise ArgumentError(
            f"`effort` must be one of {', '.join(EFFORTS)}; got {name!r:.60}{hint}."
        )
    return EFFORTS[name]
