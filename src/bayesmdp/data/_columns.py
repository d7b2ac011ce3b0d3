"""Which column of a table plays which role, by convention or by name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from bayesmdp._arguments import column
from bayesmdp._checks import did_you_mean, nearest
from bayesmdp.errors import ArgumentError, CountsError

#: The column of each role; of the state, maybe several.
Columns: TypeAlias = Mapping[str, str | Sequence[str]]
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
TIMES = ("time", "end_time")
PART = "__part_"  # begins the role of a column that is joined with others to states
FLAGS = ("terminated", "truncated")


def find_columns(
    names: Sequence[str], columns: Columns | None, origin: str
) -> dict[str, str]:
    """Return the column of each role that has one, or each part of the state.

    Parameters
    ----------
    names
        Columns of the table.
    columns
        Roles that the caller named a column for; they go before conventions.
    origin
        What the table is called in messages.
    """
    found = _named(names, columns, origin)
    taken = set(found.values())
    for role, aliases in CONVENTIONS.items():
        if role in found or (role == "state" and f"{PART}0" in found):
            continue
        fits = [x for x in names if x.lower() in aliases and x not in taken]
        if len(fits) > 1:
            said = " and ".join(f"`{x}`" for x in fits)
            raise CountsError(
                f"{origin} has several columns for `{role}`, {said}: choose one with "
                f"{column(role, fits[0])}."
            )
        if fits:
            found[role] = fits[0]
    _check_found(found, names, origin)
    return found


def _check_found(found: Mapping[str, str], names: Sequence[str], origin: str) -> None:
    """Refuse roles that do not make a table of transitions."""
    visits = "time" in found  # which may have no actions
    for role in ("state",) if visits else ("state", "action"):
        if role not in found and not (role == "state" and f"{PART}0" in found):
            raise CountsError(f"{_missing(role, names, origin)}.")
    keys = ("episode",) if visits else ("episode", "step")
    lacking = [x for x in keys if x not in found]
    if "next_state" not in found and lacking:
        times = "" if visits else "; visits at times need time=... and every=..."
        raise CountsError(
            f"{_missing('next_state', names, origin)}, or have it derived: that needs "
            f"`{'` and `'.join(keys)}`, and there is no `{'` and no `'.join(lacking)}`"
            f"{times}."
        )
    if "next_state" in found and visits:
        raise ArgumentError(
            f"`time` puts visits with one state each in order, but {origin} has next "
            f"states in `{found['next_state']}`: leave out `time`."
        )
    if "end_time" in found and not visits:
        raise ArgumentError(
            "`columns` names an `end_time`, of the outcome or else of the follow-up, "
            "which is for visits at times: give `time` as well."
        )
    if "next_state" in found and "outcome" in found:
        raise ArgumentError(
            "`columns` names an `outcome`, which is for deriving next states, but "
            f"{origin} has them in `{found['next_state']}`."
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
        f"{origin} has no column for `{role}`{hint}: looked for {', '.join(aliases)} "
        f"among {listed(names)}; name it with {column(role, near)}"
    )


def listed(names: Sequence[str], most: int = 12) -> str:
    """Name the columns there are, or the first of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name:.40}`" for name in names[:most]) + more
