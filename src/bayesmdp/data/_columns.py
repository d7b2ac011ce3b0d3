"""Which column of a table plays which role, by convention or by name; ids of names.

At the end of an episode stands a state, or that only the follow-up ended. A censored
row without a recorded next state is left out of the counts: what came after
it is not known, and to count it as an end would be wrong. One with a next state is a
transition as any other.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesmdp import _checks
from bayesmdp._checks import argument, column, did_you_mean, nearest
from bayesmdp._typing import IntArray
from bayesmdp.data._queries import capital
from bayesmdp.errors import ArgumentError, CountsError

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


#: The column of each role; of the state, maybe several.
Columns: TypeAlias = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True)
class Grid:
    """How visits become steps."""

    time: str | None = None  # column
    every: float | None = None  # None: a step is a visit
    limit: int | None = None

    @classmethod
    def of(
        cls, time: str | None, every: float | None, carry: str, limit: Any
    ) -> "Grid":
        """Check what a caller said."""
        if time is not None and not isinstance(time, str):
            raise ArgumentError(f"`time` must name a column; got {time!r:.80}.")
        if carry != "last":
            raise ArgumentError(
                "`carry` must be 'last', the last observation carried forward; got "
                f"{carry!r:.40}."
            )
        if every is not None:
            every = _checks.real("every", every, ArgumentError, 0, open_low=True)
        if limit is not None:
            limit = _checks.integer("limit", limit, 0, ArgumentError)
        if every is not None and time is None:
            raise ArgumentError(
                "`every` is a length of time: say which column holds times, "
                f"{argument('time')}."
            )
        if limit is not None and every is None:
            raise ArgumentError(
                "`limit` is for a grid: give the length of a step, "
                f"{argument('every')}, as well."
            )
        return cls(time, every, limit)

    def columns(self, columns: Columns | None) -> Columns | None:
        """Add the column of times to those that a caller named."""
        if self.time is None or not isinstance(columns, Mapping | None):
            return columns
        return {**(columns or {}), "time": self.time}


#: Names in use for each role, in lower case; case never matters.
CONVENTIONS: dict[str, tuple[str, ...]] = {
    "state": ("state", "s", "obs", "observation"),
    "action": ("action", "a"),
    "next_state": ("next_state", "sp", "s_next", "next_observation"),
    "reward": ("reward", "r"),
    "terminated": ("terminated", "done", "terminal"),
    "truncated": ("truncated", "truncation"),
    "episode": ("episode", "icustayid", "id", "episode_id", "patient"),
    "step": ("step", "bloc", "t", "timestep"),
    # Only by name: what logs call an outcome is as often a flag as a state.
    "outcome": (),
    # Of visits, which `time` puts in order; `end_time` is that of the end.
    "time": (),
    "end_time": (),
}
#: Also of steps, where next states are to be derived: a guess that is wrong is seen
#: there by repeated steps and gaps. Months and days begin again, and are never guessed.
NUMBERED = ("cycle", "visit", "year")
TIMES = ("time", "end_time")
PART = "__part_"  # begins the role of a column that is joined with others to states
FLAGS = ("terminated", "truncated")


def find_columns(
    there: Mapping[str, str], columns: Columns | None, origin: str
) -> dict[str, str]:
    """Return the column of each role that has one, or each part of the state.

    ``there`` says of each column where it is: of several files, the first that has it.
    ``columns`` are those that the caller named; they go before conventions.
    """
    names = list(there)
    found = _named(names, columns, origin)
    taken = set(found.values())
    for role, aliases in CONVENTIONS.items():
        if role in found or (role == "state" and f"{PART}0" in found):
            continue
        free = [x for x in names if x not in taken]
        fits = [x for x in free if x.lower() in aliases]
        if role == "step" and not fits and not {"next_state", "time"} & found.keys():
            fits = [x for x in free if x.lower() in NUMBERED]
        if len(fits) > 1:
            said = " and ".join(f"`{x}`" for x in fits)
            raise CountsError(
                f"{capital(origin)} has several columns for `{role}`, {said}: choose "
                f"one with {column(role, fits[0])}."
            )
        if fits:
            found[role] = fits[0]
    _check_found(found, there, origin)
    return found


def _check_found(
    found: Mapping[str, str], there: Mapping[str, str], origin: str
) -> None:
    """Refuse roles that do not make a table of transitions."""
    visits = "time" in found  # which may have no actions
    for role in ("state",) if visits else ("state", "action"):
        if role not in found and not (role == "state" and f"{PART}0" in found):
            raise CountsError(f"{_missing(role, list(there), origin)}.")
    keys = ("episode",) if visits else ("episode", "step")
    lacking = [x for x in keys if x not in found]
    if "next_state" not in found and lacking:
        times = "" if visits else "; visits at times need `time` and `every`"
        raise CountsError(
            f"{_missing('next_state', list(there), origin)}, or have it derived: that "
            f"needs `{'` and `'.join(keys)}`, and there is no "
            f"`{'` and no `'.join(lacking)}`{times}."
        )
    if "next_state" in found and visits:
        raise ArgumentError(
            f"`time` puts visits with one state each in order, but "
            f"{there[found['next_state']]} has next states in "
            f"`{found['next_state']}`: leave out `time`."
        )
    if "end_time" in found and not visits:
        raise ArgumentError(
            "`columns` names an `end_time`, of the outcome or else of the follow-up, "
            "which is for visits at times: give `time` as well."
        )
    if "next_state" in found and "outcome" in found:
        raise ArgumentError(
            "`columns` names an `outcome`, which is for deriving next states, but "
            f"{there[found['next_state']]} has them in `{found['next_state']}`."
        )


def _named(
    names: Sequence[str], columns: Columns | None, origin: str
) -> dict[str, str]:
    """Check what the caller said about columns."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise ArgumentError(
            "`columns` must map roles to column names, such as "
            f"{{'state': 'cluster'}}; got {columns!r:.80}."
        )
    found: dict[str, str] = {}
    for role, name in _said(columns):
        if role not in CONVENTIONS and not role.startswith(PART):
            hint = did_you_mean(role, CONVENTIONS)
            raise ArgumentError(
                f"`columns` has an unknown role {role!r}{hint}; roles are "
                f"{', '.join(CONVENTIONS)}."
            )
        if name not in names:
            hint = did_you_mean(name, names)
            known = role if role in CONVENTIONS else "state"
            raise ArgumentError(
                f"`columns` says {known!r} is {name!r}, which {origin} does not "
                f"have{hint}; it has {listed(names)}."
            )
        if name in found.values():
            raise ArgumentError(f"`columns` gives {name!r} two roles.")
        found[role] = name
    return found


def _said(columns: Columns) -> Iterator[tuple[str, Any]]:
    """Give each part of a state a role of its own."""
    for role, name in columns.items():
        if isinstance(name, str) or not isinstance(name, Sequence):
            yield role, name
        elif role != "state" or len(name) < 2:
            raise ArgumentError(
                f"`columns` gives {role!r} the columns {name!r:.60}: only 'state' may "
                "have several, two or more, which are joined."
            )
        else:
            yield from ((f"{PART}{i}", part) for i, part in enumerate(name))


def _missing(role: str, names: Sequence[str], origin: str) -> str:
    """Say what was looked for, without a full stop."""
    aliases = CONVENTIONS[role]
    found = (nearest(x, names, 0.75) for x in aliases if len(x) > 2)
    near = next((x for x in found if x is not None), None)
    hint = f" (did you mean `{near}`?)" if near is not None else ""
    return (
        f"{capital(origin)} has no column for `{role}`{hint}: looked for "
        f"{', '.join(aliases)} among {listed(names)}; name it with {column(role, near)}"
    )


def listed(names: Sequence[str], most: int = 12) -> str:
    """Name the columns there are, or the first of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name:.40}`" for name in names[:most]) + more


#: Ordered names of states and of actions, where the table says their order.
Levels: TypeAlias = Mapping[str, tuple[str, ...]]
_ID = re.compile(r"0|-?[1-9][0-9]{0,18}")


def names_in(
    groups: Mapping[str, NDArray[Any]], labels: bool, levels: Levels
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Names of states and of actions in their order, where they have any.

    Levels of ordered categories come first, all of them; then other names.
    """

    def names(what: str, *columns: NDArray[Any]) -> NDArray[Any] | None:
        values = np.concatenate(columns)
        if values.dtype.kind in "iuf":
            return np.unique(values.astype(np.int64)) if labels else None
        known = levels.get(what, ())
        others = {str(x) for x in values}.difference(known)
        return np.array([*known, *sorted(others, key=_place)], dtype=object)

    return (
        names("state", groups["state"], groups["next_state"]),
        names("action", groups["action"]),
    )


def _place(name: str) -> tuple[Any, ...]:
    """Where a name is sorted: numbers first, and w2 before w10."""
    if _ID.fullmatch(name):
        return 0, int(name)
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :].lstrip("0")  # of any length, which int() would refuse
    return 1, stem, len(digits), digits, name


def numbers(values: NDArray[Any], names: NDArray[Any] | None) -> IntArray:
    """Return ids: the values themselves, or their places among names."""
    if names is None:
        return values.astype(np.int64)
    if names.dtype != object:
        return np.searchsorted(names, values.astype(np.int64)).astype(np.int64)
    number = {name: i for i, name in enumerate(names)}
    return np.array([number[str(x)] for x in values], dtype=np.int64)


def levels_of(
    frame: "Frame", roles: Sequence[str], coding: Coding
) -> dict[str, tuple[str, ...]]:
    """Return the levels of each column of ordered categories, less missing values."""
    import narwhals as nw

    found: dict[str, list[Any]] = {}
    for role, kind in frame.collect_schema().items():
        if role in roles and isinstance(kind, nw.Enum):
            found[role] = list(kind.categories)
        elif role in roles and frame.implementation.is_pyarrow():
            column = nw.to_native(frame)[role]  # narwhals does not tell of an order
            if kind == nw.Categorical and column.type.ordered:
                parts = column.unify_dictionaries().chunks[:1]
                found[role] = [x for part in parts for x in part.dictionary.to_pylist()]
    return {
        role: tuple(str(x) for x in levels if str(x) not in ("", *coding.missing))
        for role, levels in found.items()
    }


DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:.*)?")
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")


def date_remedy(role: str) -> str:
    """Say what to give in place of dates; empty where no dates are expected."""
    if role == "step":
        return "number the steps of each episode: 0, 1, 2"
    return "give it as a number, such as days since the first visit" * (role in TIMES)


def remedy_of_text(role: str, value: object) -> str:
    """Say what to do with text in place of numbers, where it is of a known kind."""
    text = str(value).strip()
    if _COMMA.fullmatch(text):
        return "write numbers with a decimal point"
    return date_remedy(role) if DATE.fullmatch(text) else ""
