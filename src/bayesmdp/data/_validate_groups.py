"""Checks of what was observed: ids, states, actions, rewards, by distinct transition.

The engine counts distinct transitions; only these, and first offenders, reach Python.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesmdp._checks import many
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._faults import TRIPLET
from bayesmdp.data._labels import names_in, numbers
from bayesmdp.data._queries import fetch, worded, zero_or_one
from bayesmdp.data._validate_open import Subject, finding
from bayesmdp.data._validate_record import Finding
from bayesmdp.errors import CountsError

#: What ids are called, if anything.
Names: TypeAlias = Sequence[Any] | None

_SAME = 1e-9  # relative: what engines and files may do to a number

#: What people write where there is nothing, blanks and case aside.
NOTHING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "missing"}


@dataclass(frozen=True, eq=False)
class Groups:
    """Distinct transitions; axis K runs over them."""

    state: IntArray  # [K]
    action: IntArray  # [K]
    next_state: IntArray  # [K]
    count: IntArray  # [K]
    low: FloatArray | None  # [K], smallest reward
    high: FloatArray | None  # [K], largest reward
    ended: IntArray | None  # [K], rows that say `terminated`
    raw: dict[str, NDArray[Any]]  # [K] each: ids as the table has them
    state_names: Names  # by id
    action_names: Names

    def of(self, mask: BoolArray) -> "Groups":
        """Return some of the transitions."""
        return Groups(
            self.state[mask],
            self.action[mask],
            self.next_state[mask],
            self.count[mask],
            None if self.low is None else self.low[mask],
            None if self.high is None else self.high[mask],
            None if self.ended is None else self.ended[mask],
            {name: x[mask] for name, x in self.raw.items()},
            self.state_names,
            self.action_names,
        )

    def state_name(self, state: int) -> str:
        """How a state is called in messages."""
        return str(state if self.state_names is None else self.state_names[state])

    def action_name(self, action: int) -> str:
        """How an action is called in messages."""
        return str(action if self.action_names is None else self.action_names[action])

    def never_left(self) -> BoolArray:
        """Mask ``[S]`` of states that rows lead to and none leads away from."""
        n = int(max(self.state.max(), self.next_state.max())) + 1
        found = np.zeros(n, dtype=np.bool_)
        found[self.next_state] = True
        found[self.state[self.state != self.next_state]] = False
        return found

    def triplet(self, k: int) -> str:
        """How a transition is called in messages."""
        state, next_state = (
            self.state_name(int(x[k])) for x in (self.state, self.next_state)
        )
        action = self.action_name(int(self.action[k]))
        return f"state {state}, action {action}, next state {next_state}"

    def values(self, role: str, mask: BoolArray) -> list[Any]:
        """Return the ids of some transitions as the table has them."""
        return list(dict.fromkeys(self.raw[role][mask].tolist()))

    def at(self, k: int) -> dict[str, list[Any]]:
        """Return one transition as the table has it."""
        return {role: [self.raw[role][k : k + 1].tolist()[0]] for role in TRIPLET}


def fetch_groups(subject: Subject, named: tuple[Names, Names] = (None, None)) -> Groups:
    """Let the engine count distinct transitions, with rewards and flags.

    Parameters
    ----------
    named
        What the ids of states and of actions are called, where the table has only ids.
    """
    import narwhals as nw

    asked = [nw.len().alias("count")]
    frame = subject.moves
    if "reward" in subject.found:
        reward = nw.col("reward")
        asked += [reward.min().alias("low"), reward.max().alias("high")]
    with worded(subject.origin):
        if "terminated" in subject.found:
            ended = zero_or_one(nw.col("terminated")).alias("ended")
            frame = frame.with_columns(ended)
            asked.append(nw.col("ended").sum())
        query = frame.group_by(*TRIPLET).agg(*asked)
    found = fetch(query, subject.origin)
    names = names_in(found, subject.labels, subject.levels)
    s, a, t = (numbers(found[role], names[role == "action"]) for role in TRIPLET)
    order = np.lexsort((t, a, s))
    low, high = (
        found[x].astype(np.float64)[order] if x in found else None
        for x in ("low", "high")
    )
    return Groups(
        s[order],
        a[order],
        t[order],
        found["count"].astype(np.int64)[order],
        low,
        high,
        found["ended"].astype(np.int64)[order] if "ended" in found else None,
        {role: found[role][order] for role in TRIPLET},
        _names("state", names[0], named[0], s, t),
        _names("action", names[1], named[1], a),
    )


def _names(
    what: str, found: NDArray[Any] | None, named: Names, *ids: IntArray
) -> Names:
    """Return what ids are called, in the table or else where it was read."""
    if found is not None:
        return list(found.tolist())
    largest = max(int(x.max()) for x in ids)
    if named is not None and largest >= len(named):
        raise CountsError(
            f"`data` has {what} {largest}, but its `{what}_labels` are {len(named)}: "
            "name every one from 0."
        )
    return named


def check_columns(subject: Subject, groups: Groups, whole: bool) -> Iterator[Finding]:
    """Find columns that never vary (if no row was left out), and ids from 1."""
    if whole and groups.count.sum() > 1:
        for role in (*TRIPLET, "reward"):
            yield from _constant(subject, groups, role)
    states = np.concatenate([groups.state, groups.next_state])
    for role, ids, names, n in (
        ("state", states, groups.state_names, subject.sizes[0]),
        ("action", groups.action, groups.action_names, subject.sizes[1]),
    ):
        # With sizes that end where the ids do, 0 is simply one not observed.
        if names is None and starts_at_1(ids, n):
            yield finding(
                "ids-from-1",
                "warning",
                1,
                f"Ids of {role}s in {subject.of(role)} run from 1 to {ids.max()}: ids "
                f"count from 0, and nobody saw {role} 0",
                "take 1 off every id, or give labels=True to take numbers as names",
                column=subject.found[role],
                first=subject.first_with({role: [int(groups.raw[role].min())]}),
            )


def check_names(subject: Subject, groups: Groups) -> Iterator[Finding]:
    """Find names that say nothing, and names that differ in blanks or case only."""
    for role, names in (("state", groups.state_names), ("action", groups.action_names)):
        texts = [x for x in names or () if isinstance(x, str)]
        # No treatment is an action as any other.
        nothing = NOTHING if role == "state" else NOTHING - {"none"}
        empty = [x for x in texts if x.strip().casefold() in nothing]
        like = Counter(x.strip().casefold() for x in texts)
        alike = [x for x in texts if like[x.strip().casefold()] > 1]
        for code, wrong, said, remedy in (
            (
                "missing-value-codes",
                empty,
                "which usually stands for a value that is not there",
                "leave such cells empty, or rename it",
            ),
            (
                "names-alike",
                alike,
                "which differs from another only in blanks or case",
                "spell it in one way",
            ),
        ):
            if wrong:
                yield finding(
                    code,
                    "warning",
                    len(wrong),
                    f"{many(len(wrong), role)} of {subject.origin} called, first, "
                    f"{wrong[0]!r}, {said}",
                    remedy,
                    column=subject.found[role],
                )


def starts_at_1(ids: IntArray, n: int | None) -> bool:
    """Tell whether ids look as if they were counted from 1."""
    return int(ids.min()) == 1 and int(ids.max()) > 1 and n != int(ids.max()) + 1


def _constant(subject: Subject, groups: Groups, role: str) -> Iterator[Finding]:
    if role == "reward":
        if groups.low is None or groups.high is None:
            return
        values = [groups.low.min(), groups.high.max()]
    else:
        values = np.unique(getattr(groups, role)).tolist()
        if subject.sizes[role == "action"] == 1:
            return
    if values[0] == values[-1]:
        value = values[0]
        name = groups.action_name if role == "action" else groups.state_name
        said = f"{value:g}" if role == "reward" else name(value)
        yield finding(
            "constant-columns",
            "note" if role == "action" else "warning",  # some logs have one action
            int(groups.count.sum()),
            f"Column {subject.of(role)} is {said} in every row: nothing can be learnt "
            "from it",
            "check that it is the right column",
            column=subject.found.get(role),
        )


def check_actions(
    subject: Subject, groups: Groups, min_count: int
) -> Iterator[Finding]:
    """Find actions that nobody took, and pairs that were rarely taken."""
    n = subject.sizes[1]
    if n is None:
        names = groups.action_names
        n = int(groups.action.max()) + 1 if names is None else len(names)
    unused = np.setdiff1d(np.arange(n), groups.action)
    if groups.action_names is None and starts_at_1(groups.action, subject.sizes[1]):
        unused = unused[unused > 0]  # told already
    if unused.size:
        first = int(unused[0])
        named = groups.action_names is None or first < len(groups.action_names)
        yield finding(
            "unused-actions",
            "warning",
            int(unused.size),
            f"{unused.size} of {n} actions never taken, the first "
            f"{groups.action_name(first) if named else first}: about them only the "
            "prior speaks",
            "check the coding of actions, or leave them out of the task",
            column=subject.found["action"],
        )
    key = groups.state * (int(groups.action.max()) + 1) + groups.action
    _, at, inverse = np.unique(key, return_index=True, return_inverse=True)
    total = np.bincount(inverse, groups.count).astype(np.int64)
    rare = total < min_count
    if rare.any():
        k = int(at[np.argmax(rare)])
        n_rows = int(total[rare].sum())
        first_pair = {role: groups.at(k)[role] for role in TRIPLET[:2]}
        yield finding(
            "rare-pairs",
            "note",
            int(rare.sum()),
            f"{rare.sum()} of {many(rare.size, 'pair')} of state and action "
            f"{'was' if rare.sum() == 1 else 'were'} observed fewer "
            f"than {min_count} times, in {n_rows / total.sum():.1%} of the rows",
            f"fit with min_count={min_count} to keep policies from them",
            first=subject.first_with(first_pair),
        )


def check_rewards(subject: Subject, groups: Groups) -> Iterator[Finding]:
    """Find transitions that do not always pay the same."""
    if groups.low is None or groups.high is None:
        return
    spread = groups.high - groups.low
    scale = np.maximum(np.abs(groups.low), np.abs(groups.high))
    varies = spread > _SAME * scale
    if varies.any():
        k = int(np.argmax(varies))
        most = int(np.argmax(spread))
        yield finding(
            "varying-rewards",
            "warning",
            int(varies.sum()),
            f"{varies.sum()} of {varies.size} distinct transitions with rewards that "
            f"vary in {subject.of('reward')}; the largest spread is {spread[most]:g}, "
            f"at {groups.triplet(most)}",
            "a task pays the mean: check that the reward belongs to the transition, or "
            "put what it depends on into the state",
            column=subject.found["reward"],
            first=subject.first_with(groups.at(k)),
        )


def check_states(
    subject: Subject,
    groups: Groups,
    terminal: BoolArray | None,
    starts: BoolArray | None,
) -> Iterator[Finding]:
    """Find states that are never entered, and such that are never left.

    Parameters
    ----------
    terminal, starts
        Masks ``[S]`` of states in which episodes end and begin; None: not known.
    """
    n = int(max(groups.state.max(), groups.next_state.max())) + 1
    left, entered = (
        np.bincount(x, groups.count, n) > 0 for x in (groups.state, groups.next_state)
    )
    lost = left & ~entered
    if starts is not None:
        lost &= ~starts[:n]
    if lost.any():
        mask = lost[groups.state]
        known = (
            "nor does an episode begin there"
            if starts is not None
            else ("where episodes begin is not known")
        )
        yield finding(
            "unreachable-states",
            "note" if starts is None else "warning",
            int(lost.sum()),
            f"{many(int(lost.sum()), 'state')} left and never entered, the first "
            f"{groups.state_name(int(np.argmax(lost)))}; {known}",
            "check next states and gaps, or give `episode` and `step`"
            if starts is None
            else "check next states and gaps in the steps",
            first=subject.first_with({"state": groups.values("state", mask)}),
        )
    stuck = entered & ~left
    if terminal is not None:
        stuck &= ~terminal[:n]
    if stuck.any():
        mask = stuck[groups.next_state]
        yield finding(
            "never-left-states",
            "note" if terminal is None else "warning",
            int(stuck.sum()),
            f"{many(int(stuck.sum()), 'state')} entered and never left, the first "
            f"{groups.state_name(int(np.argmax(stuck)))}"
            + ("" if terminal is None else ", though episodes do not end there"),
            "say which states are terminal, by a task or a `terminated` column"
            if terminal is None
            else "look for their missing rows, say which are terminal, and name those "
            "that stand for the end of follow-up with censored=[...]",
            first=subject.first_with({"next_state": groups.values("next_state", mask)}),
        )
