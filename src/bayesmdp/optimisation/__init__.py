"""Which is best: objectives, methods, and the search for a policy."""

from bayesmdp.optimisation._optimise import optimise
from bayesmdp.optimisation._result import Optimisation, Outcome, Stage, Step
from bayesmdp.optimisation._settings import (
    MirrorAscent,
    Objective,
    PosteriorMean,
    StochasticGradient,
)

__all__ = [
    "MirrorAscent",
    "Objective",
    "Optimisation",
    "Outcome",
    "PosteriorMean",
    "Stage",
    "Step",
    "StochasticGradient",
    "optimise",
]
