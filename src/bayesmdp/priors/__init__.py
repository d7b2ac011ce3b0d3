"""Priors, and the interface that all of them share."""

from bayesmdp.priors._composed import FallbackPrior, MixturePrior, without_fallbacks
from bayesmdp.priors._contract import (
    OwnEvidence,
    Prior,
    Tuned,
    check_rows,
    is_restricted,
    locate,
    rows_from_keys,
    rows_of,
    tuned,
)
from bayesmdp.priors._evidence import (
    EvidenceCurve,
    EvidencePrior,
    evidence_curve,
    log_rising,
)
from bayesmdp.priors._hierarchical import Cells, HierarchicalPrior
from bayesmdp.priors._named import PRIOR_NAMES, AnyPrior, named_prior, usual_priors
from bayesmdp.priors._random_support import OnSets, RandomSupportPrior, Sets
from bayesmdp.priors._symmetric import ScaledPrior, SparsePrior, SymmetricPrior

__all__ = [
    "Cells",
    "EvidenceCurve",
    "EvidencePrior",
    "FallbackPrior",
    "HierarchicalPrior",
    "MixturePrior",
    "OnSets",
    "Prior",
    "RandomSupportPrior",
    "ScaledPrior",
    "Sets",
    "SparsePrior",
    "SymmetricPrior",
    "evidence_curve",
    "rows_from_keys",
    "tuned",
]
