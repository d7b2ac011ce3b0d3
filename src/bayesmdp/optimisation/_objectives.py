"""What is to be made large."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PosteriorMean:
    """Mean over the belief of the value from the start distribution.

    Bayesian decision theory's objective, and the paper's (equation 8).

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.PosteriorMean()
    PosteriorMean()
    """
