"""Which episode falls into which fold, worded so that any engine can compute it.

Episodes are numbered in sorted order and put into an order that looks random by
``x -> a (x + b)^5 mod p``, twice. With the prime p = 2^31 - 1, of which 5 does not
divide p - 1, that is a permutation of 0..p-1, so no two episodes tie; products stay
below 2^62, so 64-bit whole numbers suffice in NumPy and in every database. Dealing
that order out in turn gives folds of equal size. The same code runs on arrays and on
expressions: only operators are used.
"""

from typing import TypeVar

import numpy as np

from bayesmdp._checks import many
from bayesmdp._typing import IntArray
from bayesmdp.errors import CountsError

PRIME = 2**31 - 1
Number = TypeVar("Number")


def scramble(number: Number, seed: int) -> Number:
    """Permute 0..p-1; ``number`` is an int64 array or a 64-bit expression."""
    keys = np.random.default_rng(seed).integers(1, PRIME, size=(2, 2)).tolist()
    x = number
    for a, b in keys:
        y = (x + b) % PRIME
        square = y * y % PRIME
        x = (square * square % PRIME) * y % PRIME * a % PRIME
    return x


def folds_of(n_episodes: int, n_folds: int, seed: int) -> IntArray:
    """Fold of each episode, by its number in sorted order."""
    check_folds(n_folds, n_episodes)
    order = np.argsort(scramble(np.arange(n_episodes), seed))
    fold = np.empty(n_episodes, dtype=np.int64)
    fold[order] = np.arange(n_episodes) % n_folds
    return fold


def check_folds(n_folds: int, n_episodes: int | None) -> None:
    """Refuse to split rows without episodes, or more finely than there are any."""
    if n_episodes is None:
        raise CountsError(
            "Splitting needs an `episode` column: rows of one episode must stay "
            "together, or the held-out part is not held out; name it, "
            "columns={'episode': ...}."
        )
    if n_episodes < n_folds:
        raise CountsError(
            f"`n_folds` is {n_folds} but there {'is' if n_episodes == 1 else 'are'} "
            f"only {many(n_episodes, 'episode')}."
        )
