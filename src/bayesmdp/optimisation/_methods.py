"""Ways to climb; each is a small frozen record of its settings."""

from collections.abc import Callable
from dataclasses import dataclass

from bayesmdp import _checks
from bayesmdp.errors import ArgumentError


@dataclass(frozen=True)
class MirrorAscent:
    """Natural-gradient steps that find their own size, on samples that steps share.

    ``effort`` of `bayesmdp.optimise` sets how many draws a sample has, and how many
    steps are taken on it.

    Parameters
    ----------
    n_steps
        Most steps from one start.
    tolerance
        The ascent stops where no change of the policy gains more than this, to first
        order, in epistemic standard deviations of the value, or where what it gains
        is within noise; where not given, ``effort`` sets it.

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
        Draws of a step.
    n_steps
        Steps.
    softness
        Probability moved off the start policy's action at first.
    resample_every
        Steps that share their draws; 0 for the same draws throughout.

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
