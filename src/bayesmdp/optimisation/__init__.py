"""Which is best: objectives, methods, and the search for a policy."""

from bayesmdp.optimisation._methods import MirrorAscent, StochasticGradient
from bayesmdp.optimisation._objectives import Objective, PosteriorMean
from bayesmdp.optimisation._optimise import optimise
from bayesmdp.optimisation._result import Optimisation, Outcome, Stage, Step

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
