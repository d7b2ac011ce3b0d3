"""What can go wrong, one class a situation.

Every error the package raises on purpose is a `BayesmdpError`: one sentence that
names the parameter, what was expected, the first offender and, where there is
one, the remedy. The command line prints that sentence and exits with code 2. Control
characters, which names of states may hold, are shown escaped.
"""

import re

# Control characters, those that turn the direction of text or end a line, and halves of
# characters, which no stream can write.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Show control characters escaped, as in ``\\x1b``; twice is the same as once."""
    return _UNSEEN.sub(lambda x: x[0].encode("unicode_escape").decode("ascii"), text)


class BayesmdpError(ValueError):
    """Anything the caller can fix; the message says how."""

    def __str__(self) -> str:
        """Return the sentence."""
        return visible(super().__str__())


class ArgumentError(BayesmdpError):
    """An argument outside its domain: a seed, a discount, a number of draws."""


class CountsError(BayesmdpError):
    """Counts or transitions that cannot have been observed."""


class TaskError(BayesmdpError):
    """A reward, start, terminal set or label that does not describe a task."""


class DynamicsError(BayesmdpError):
    """Rows that are not probability distributions over next states."""


class PolicyError(BayesmdpError):
    """An array that is not a policy for this task and belief."""


class PriorError(BayesmdpError):
    """A prior that contradicts the data, or has nothing to say about a pair."""


class BeliefError(BayesmdpError):
    """A belief that is not one, or lacks what was asked of it."""


class EndlessError(BayesmdpError):
    """Discount 1 and an episode that need not end, or whose mean is infinite."""


class ConvergenceError(BayesmdpError):
    """A chain that neither iterations nor elimination within reach can solve."""


class ExecutorError(BayesmdpError):
    """An executor that broke while it worked for us."""


class BackendError(BayesmdpError):
    """A device that is not there, or cannot do what was asked."""


class StorageError(BayesmdpError):
    """A file or directory that cannot be written, or is not what it should be."""


class TooLargeError(BayesmdpError):
    """Work that does not fit; the message says what would."""


class BayesmdpWarning(UserWarning):
    """Something the caller should know before believing the number."""

    def __str__(self) -> str:
        """Return the sentence."""
        return visible(super().__str__())


class PriorWarning(BayesmdpWarning):
    """The posterior is dominated by the prior."""


class CacheWarning(BayesmdpWarning):
    """Something is slower than it could be; numbers are not affected."""
