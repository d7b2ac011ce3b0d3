"""What stands at the end of an episode: a state, or that only the follow-up ended.

A censored row without a recorded next state is left out of the counts: what came after
it is not known, and to count it as an end would be wrong. One with a next state is a
transition as any other.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from bayesmdp.errors import ArgumentError

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame

CENSORED = "censored"
#: Labels, as users give them: one, or several.
Labels: TypeAlias = str | int | Sequence[str | int]
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class Coding:
    """What labels of states and outcomes mean, where they are no states."""

    censored: tuple[str, ...] = (CENSORED,)

    @classmethod
    def of(cls, censored: Labels) -> "Coding":
        """Check what a caller said."""
        given = [censored] if isinstance(censored, str | int) else censored
        listed = isinstance(given, Sequence) and not isinstance(given, bytes)
        if not listed or not all(map(_is_label, given)):
            raise ArgumentError(
                "`censored` must hold labels that say that only the follow-up ended, "
                f"such as ['alive', 'lost']; got {censored!r:.80}."
            )
        return cls((CENSORED, *map(str, given)))

    def is_censored(self, frame: "Frame", column: str) -> "nw.Expr":
        """Tell rows with a label of censoring."""
        return _is_one(frame, column, self.censored)

    def outcome(self, frame: "Frame") -> "nw.Expr":
        """Return the state that a row led to; no value where it is censored."""
        import narwhals as nw

        state = nw.when(~self.is_censored(frame, "outcome")).then(nw.col("outcome"))
        return state.alias("outcome")


def _is_label(x: object) -> bool:
    return isinstance(x, str | int) and not isinstance(x, bool)


def _is_one(frame: "Frame", column: str, labels: Sequence[str]) -> "nw.Expr":
    """Tell rows with one of some labels; False where there is no value."""
    import narwhals as nw

    known: list[Any] = list(labels)
    if frame.collect_schema()[column].is_numeric():
        known = [int(x) for x in labels if _WHOLE.fullmatch(x)]
    x = nw.col(column)
    return (~x.is_null() & x.is_in(known)).fill_null(False)
