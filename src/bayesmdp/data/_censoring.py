"""What stands at the end of an episode: a state, or that only the follow-up ended.

A censored row without a recorded next state is left out of the counts: what came after
it is not known, and to count it as an end would be wrong. One with a next state is a
transition as any other.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

from bayesmdp._arguments import argument
from bayesmdp.errors import ArgumentError

if TYPE_CHECKING:
    import narwhals as nw

    from bayesmdp.data._queries import Frame

CENSORED = "censored"
CODES = ("NA", "NaN", "NULL", ".")  # how other programs write that there is no value
CUT = "__censored"  # column that says which outcomes are labels of censoring
#: Labels, as users give them: one, or several.
Labels: TypeAlias = str | int | Sequence[str | int]
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")


def meaning() -> str:
    """Say how to tell what codes mean."""
    return f"say what each code means with {argument('outcome')}"


@dataclass(frozen=True)
class Coding:
    """What labels mean, where they are no states and no names."""

    censored: tuple[str, ...] = (CENSORED,)
    states: tuple[tuple[str, str], ...] = ()  # codes of outcomes, and what they mean
    missing: tuple[str, ...] = CODES

    @classmethod
    def of(
        cls,
        censored: Labels,
        outcome: Mapping[Any, str | int] | None = None,
        missing: Labels | None = None,
    ) -> "Coding":
        """Check what a caller said."""
        given = _labels(censored)
        if given is None:
            raise ArgumentError(
                "`censored` must hold labels that say that only the follow-up ended, "
                f"such as ['alive', 'lost']; got {censored!r:.80}."
            )
        absent = CODES if missing is None else _labels(missing)
        if absent is None:
            raise ArgumentError(
                "`missing` must hold codes that stand for no value, such as ['NA', "
                f"'-9']; got {missing!r:.80}."
            )
        states = {} if outcome is None else outcome
        if not isinstance(states, Mapping) or not all(
            _is_label(x) for pair in states.items() for x in pair
        ):
            raise ArgumentError(
                "`outcome` must map codes to states, such as {'2': 'death', '0': "
                f"'censored'}}; got {outcome!r:.80}."
            )
        named = tuple((str(code), str(state)) for code, state in states.items())
        coding = cls((CENSORED, *given), named, absent)
        if named and not coding.names:
            raise ArgumentError(
                "`outcome` maps no code to a state, so that every last row would be "
                "censored: leave it out, and name no column of outcomes."
            )
        return coding

    @property
    def names(self) -> list[str]:
        """States that codes of outcomes mean."""
        return list({x: x for _, x in self.states if x not in self.censored})

    def is_code(self, frame: "Frame", column: str) -> "nw.Expr":
        """Tell rows with a missing-value code."""
        return _is_one(frame, column, self.missing)

    def is_censored(self, frame: "Frame", column: str) -> "nw.Expr":
        """Tell rows with a label of censoring."""
        return _is_one(frame, column, self.censored)

    def is_cut(self, frame: "Frame") -> "nw.Expr":
        """Tell rows whose outcome says that they are censored."""
        codes = [code for code, state in self.states if state in self.censored]
        return _is_one(frame, "outcome", [*codes, *self.censored]).alias(CUT)

    def is_known(self, frame: "Frame") -> "nw.Expr":
        """Tell outcomes of which it is said what they mean."""
        codes = [code for code, _ in self.states]
        return _is_one(frame, "outcome", [*codes, *self.censored])

    def outcome(self, frame: "Frame") -> "nw.Expr":
        """Return the state that a row led to; no value where it is censored."""
        import narwhals as nw

        if not self.states:
            over = self.is_censored(frame, "outcome") | self.is_code(frame, "outcome")
            return nw.when(~over).then(nw.col("outcome")).alias("outcome")
        meant: nw.Expr | None = None
        for name in self.names:
            codes = [code for code, x in self.states if x == name]
            here = nw.when(_is_one(frame, "outcome", codes)).then(nw.lit(name))
            meant = here if meant is None else here.otherwise(meant)
        assert meant is not None
        return meant.alias("outcome")


def _labels(given: Any) -> tuple[str, ...] | None:
    """Return one label or several as text; None where they are something else."""
    given = [given] if isinstance(given, str | int) else given
    listed = isinstance(given, Sequence) and not isinstance(given, bytes)
    return tuple(map(str, given)) if listed and all(map(_is_label, given)) else None


def _is_label(x: object) -> bool:
    return isinstance(x, str | int) and not isinstance(x, bool)


def _is_one(frame: "Frame", column: str, labels: Sequence[str]) -> "nw.Expr":
    """Tell rows with one of some labels; False where there is no value."""
    import narwhals as nw

    kind = frame.collect_schema()[column]
    known: list[Any] = list(labels) if kind == nw.String else []
    if kind.is_numeric():
        known = [int(x) for x in labels if _WHOLE.fullmatch(x)]
    x = nw.col(column)
    # Not is_in, for which some engines need the very type of the column.
    tests = [~x.is_null() & (x == label) for label in known]
    return reduce(or_, tests, x.is_null() & ~x.is_null()).fill_null(False)
