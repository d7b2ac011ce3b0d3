"""What was assumed: one prior a file, one contract."""

from bayesmdp.priors._contract import (
    OwnEvidence,
    Prior,
    Tuned,
    check_rows,
    locate,
    rows_from_keys,
    rows_of,
    tuned,
)
from bayesmdp.priors._curve import EvidenceCurve, evidence_curve
from bayesmdp.priors._evidence import EvidencePrior
from bayesmdp.priors._fallback import FallbackPrior, without_fallbacks
from bayesmdp.priors._hierarchical import Cells, HierarchicalPrior
from bayesmdp.priors._marginal import log_rising
from bayesmdp.priors._mixture import MixturePrior
from bayesmdp.priors._named import AnyPrior, named_prior, usual_priors
from bayesmdp.priors._random_support import RandomSupportPrior
from bayesmdp.priors._record import prior_from_dict, prior_to_dict
from bayesmdp.priors._scaled import ScaledPrior
from bayesmdp.priors._sets import Imagined, OnSets, Sets
from bayesmdp.priors._sparse import SparsePrior
from bayesmdp.priors._support import is_restricted
from bayesmdp.priors._symmetric import SymmetricPrior

__all__ = [
    "AnyPrior",
    "Cells",
    "EvidenceCurve",
    "EvidencePrior",
    "FallbackPrior",
    "HierarchicalPrior",
    "Imagined",
    "MixturePrior",
    "OnSets",
    "OwnEvidence",
    "Prior",
    "RandomSupportPrior",
    "ScaledPrior",
    "Sets",
    "SparsePrior",
    "SymmetricPrior",
    "Tuned",
    "check_rows",
    "evidence_curve",
    "is_restricted",
    "locate",
    "log_rising",
    "named_prior",
    "prior_from_dict",
    "prior_to_dict",
    "rows_from_keys",
    "rows_of",
    "tuned",
    "usual_priors",
    "without_fallbacks",
]
