"""Which is best: objectives, methods, and the search for a policy."""

from bayesmdp.optimisation._frontier import RiskFrontier, risk_frontier
from bayesmdp.optimisation._improve import Change, Improvement, improve
from bayesmdp.optimisation._objectives import (
    CVaR,
    Entropic,
    EVaR,
    MeanSd,
    Quantile,
    SoftRobust,
    named_objective,
)
from bayesmdp.optimisation._optimise import optimise
from bayesmdp.optimisation._result import Optimisation, Outcome, Stage, Step
from bayesmdp.optimisation._settings import (
    MirrorAscent,
    Objective,
    PosteriorMean,
    RiskObjective,
    StochasticGradient,
)

__all__ = [
    "CVaR",
    "Change",
    "EVaR",
    "Entropic",
    "Improvement",
    "MeanSd",
    "MirrorAscent",
    "Objective",
    "Optimisation",
    "Outcome",
    "PosteriorMean",
    "Quantile",
    "RiskFrontier",
    "SoftRobust",
    "Stage",
    "Step",
    "StochasticGradient",
    "improve",
    "optimise",
    "risk_frontier",
]
