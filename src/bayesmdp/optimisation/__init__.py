"""Which is best: objectives, methods, and the search for a policy."""

from bayesmdp.optimisation._methods import MirrorAscent, StochasticGradient
from bayesmdp.optimisation._objectives import PosteriorMean
from bayesmdp.optimisation._optimise import optimise
from bayesmdp.optimisation._result import Optimisation, Step

__all__ = [
    "MirrorAscent",
    "Optimisation",
    "PosteriorMean",
    "Step",
    "StochasticGradient",
    "optimise",
]
