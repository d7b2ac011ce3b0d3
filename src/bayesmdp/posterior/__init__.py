"""What is believed: Dirichlet rows or a set of models, and draws from them."""

from bayesmdp.model import Availability
from bayesmdp.posterior._belief import (
    Belief,
    Counted,
    check_belief,
    has_dirichlet_rows,
    refuse_other_rows,
)
from bayesmdp.posterior._draws import Draws
from bayesmdp.posterior._ensemble import Ensemble
from bayesmdp.posterior._evidence import evidence_of
from bayesmdp.posterior._fit import fit
from bayesmdp.posterior._mixture import MixturePosterior, weights_after
from bayesmdp.posterior._overlay import spread
from bayesmdp.posterior._posterior import Posterior
from bayesmdp.posterior._sets import SetTable, no_sets
from bayesmdp.posterior._squares import mean_squares

__all__ = [
    "Availability",
    "Belief",
    "Counted",
    "Draws",
    "Ensemble",
    "MixturePosterior",
    "Posterior",
    "SetTable",
    "check_belief",
    "evidence_of",
    "fit",
    "has_dirichlet_rows",
    "mean_squares",
    "no_sets",
    "refuse_other_rows",
    "spread",
    "weights_after",
]
