"""Rows on a random set of next states: what a prior that doubts the set hands over."""

from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from bayesmdp._typing import FloatArray, IntArray, Name
from bayesmdp.data import Counts
from bayesmdp.model import Rows, Task

#: States (or labels) and how often each is imagined to have been seen in every row.
Imagined: TypeAlias = tuple[tuple[Name, float], ...]


class Sets(NamedTuple):
    """What is known of the set of each row, after the data.

    Rows of a group have as many unseen next states and the same probabilities of how
    many of them are possible: ``cumulative[start[g] + j]`` for at most ``j``. Which
    ones is even. Given the set, a row is Dirichlet.
    """

    concentration: float  # of an unseen next state that is possible
    shape: FloatArray  # [E], of one that is possible for sure; 0 of others
    group: IntArray  # [R]
    start: IntArray  # [G + 1]
    cumulative: FloatArray  # [T]
    fallback: int  # state that takes the mass of all unseen ones; -1: each its own


@runtime_checkable
class OnSets(Protocol):
    """A prior whose rows live on random sets, also after imagined visits."""

    def on_sets(
        self, pair: IntArray, counts: Counts, task: Task, imagined: Imagined = ()
    ) -> tuple[Rows, FloatArray, Sets]:
        """Rows of sorted pairs ``[R]``, parameters before the data, and sets after."""

    def log_evidence(
        self, pair: IntArray, counts: Counts, task: Task, imagined: Imagined = ()
    ) -> float:
        """Log probability of the counts of sorted pairs ``[R]``."""
