"""What is believed: Dirichlet rows, mixtures, sets of models; and draws from them."""

from bayesmdp.model import Availability
from bayesmdp.posterior._belief import (
    Belief,
    BeliefRows,
    Exits,
    check_belief,
    dirichlet_total,
    logged_counts,
)
from bayesmdp.posterior._by_cycle import BeliefsByCycle
from bayesmdp.posterior._ensemble import Ensemble
from bayesmdp.posterior._fit import fit, half_under, refit
from bayesmdp.posterior._hierarchical import HierarchicalPosterior, HierarchicalStream
from bayesmdp.posterior._mixture import MixturePosterior, weights_after
from bayesmdp.posterior._posterior import Fitted, Posterior, evidence_of
from bayesmdp.posterior._stream import (
    DirichletStream,
    Draws,
    KeptStream,
    MixtureStream,
    ModelStream,
    RandomSupportStream,
    Stream,
)

__all__ = [
    "Availability",
    "Belief",
    "BeliefsByCycle",
    "Draws",
    "Ensemble",
    "Fitted",
    "HierarchicalPosterior",
    "MixturePosterior",
    "Posterior",
    "Stream",
    "fit",
]
