"""A campaign of generated input: ``make fuzz``, or one of it: ``python -m fuzz``.

Each target makes an input from a seed, hands it to the package and judges what comes
back. There are two good outcomes, a result and a `BayesmdpError` (on the command line
exit code 0, 1 or 2 and no traceback), and two bad ones: a *foreign exception*, and a
*silent difference*, where an independent reader in pure Python understands the same
content otherwise, or the same table from two sources gives two results, or a damaged
run loads with other numbers, and nobody is told.

A target is a function of a `Case`; it returns whether there was a result, and raises
`DifferenceError` for a silent difference. What else it raises is foreign.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bayesmdp import BayesmdpError

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Case:
    """One input: where its random numbers come from, where its files go."""

    random: random.Random
    folder: Path
    notes: list[str] = field(default_factory=list)  # what it is, for people

    def note(self, what: str, said: object) -> None:
        """Remember a part of the input, to be shown beside an offence."""
        self.notes.append(f"{what}: {said!r:.600}")

    def happens(self, probability: float) -> bool:
        """Throw a coin."""
        return self.random.random() < probability


Target = Callable[[Case], bool]


class DifferenceError(Exception):
    """Two ways to the same answer that differ, and no error or warning says so."""


def attempt(call: Callable[[], Answer]) -> Answer | BayesmdpError:
    """Return a result, or the sentence that was raised in its place."""
    try:
        return call()
    except BayesmdpError as problem:
        said = str(problem)
        if not said.strip() or "\n" in said:
            raise DifferenceError(
                f"an error is one sentence, not {said!r:.200}"
            ) from None
        return problem
