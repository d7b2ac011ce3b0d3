"""What was assumed: one prior a file, one contract."""

from bayesmdp.priors._contract import Prior
from bayesmdp.priors._record import prior_from_dict, prior_to_dict
from bayesmdp.priors._sparse import SparsePrior
from bayesmdp.priors._symmetric import SymmetricPrior

__all__ = [
    "Prior",
    "SparsePrior",
    "SymmetricPrior",
    "prior_from_dict",
    "prior_to_dict",
]
