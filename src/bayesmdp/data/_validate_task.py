"""Checks against what is known: terminal states, labels and rewards of a task."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bayesmdp._checks import did_you_mean, many
from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.data._validate_groups import Groups
from bayesmdp.data._validate_open import Subject, finding
from bayesmdp.data._validate_record import Finding

_CLOSE = 1e-6  # logs are often rounded


@runtime_checkable
class KnownTask(Protocol):
    """What is asked of a task; `bayesmdp.Task` has it."""

    @property
    def n_states(self) -> int:
        """Number of states."""

    @property
    def n_actions(self) -> int:
        """Number of actions."""

    @property
    def state_labels(self) -> tuple[str, ...] | None:
        """Names of states."""

    @property
    def action_labels(self) -> tuple[str, ...] | None:
        """Names of actions."""

    @property
    def start(self) -> FloatArray:
        """Probability to start in each state, ``[S]``."""

    @property
    def is_terminal(self) -> BoolArray:
        """Mask of terminal states, ``[S]``."""

    def transition_reward(
        self, state: IntArray, action: IntArray, next_state: IntArray
    ) -> FloatArray:
        """Reward of transitions, ``[K]``."""


def match_labels(
    subject: Subject, groups: Groups, task: KnownTask | None
) -> tuple[list[Finding], Groups]:
    """Give states and actions the task's numbers; unknown names are left out."""
    told: list[Finding] = []
    kept = np.ones(groups.count.size, dtype=np.bool_)
    for role in ("state", "action", "next_state"):
        kind = "action" if role == "action" else "state"
        names = groups.action_names if kind == "action" else groups.state_names
        size = subject.sizes[kind == "action"]
        if names is None or size is None:
            continue
        known = None
        if task is not None:
            known = task.action_labels if kind == "action" else task.state_labels
        if known is None:
            if role != "next_state":
                told += _by_order(subject, role, names, size, task is not None)
            kept &= getattr(groups, role) < size
            continue
        place = {name: i for i, name in enumerate(known)}
        ids = np.array([place.get(str(name), -1) for name in names], dtype=np.int64)
        found = ids[getattr(groups, role)]
        told += _unknown(subject, groups, role, known, found)
        kept &= found >= 0
        groups = replace(groups, **{role: found})
    groups = groups.of(kept)
    if task is not None:
        states, actions = task.state_labels, task.action_labels
        groups = replace(
            groups,
            state_names=states or groups.state_names,
            action_names=actions or groups.action_names,
        )
    return told, groups


def _unknown(
    subject: Subject,
    groups: Groups,
    role: str,
    known: Sequence[str],
    found: IntArray,
) -> Iterator[Finding]:
    """Find names that the task does not know."""
    odd = found < 0
    if odd.any():
        values = groups.values(role, odd)
        hint = did_you_mean(values[0], known)
        yield finding(
            "unknown-labels",
            "error",
            int(groups.count[odd].sum()),
            f"Column {subject.of(role)} has {many(len(values), 'name')} that the task "
            f"does not know, in {many(int(groups.count[odd].sum()), 'row')}, the first "
            f"{values[0]!r:.42}{hint}",
            "fix the names, or the labels of the task",
            column=subject.found.get(role),
            first=subject.first_with({role: values}),
        )


def _by_order(
    subject: Subject, role: str, names: Sequence[Any], size: int, has_task: bool
) -> Iterator[Finding]:
    column = subject.found[role]
    if has_task and len(names) < size:  # more are told below
        yield finding(
            "labels-without-names",
            "error",
            len(names),
            f"Column `{column}` has {many(len(names), 'name')}, but the task has "
            f"{size} {role}s and no `{role}_labels`: which is which is not known",
            f"give the task its `{role}_labels`",
            column=column,
        )
    elif len(names) > size:
        yield finding(
            "ids-beyond-sizes",
            "error",
            len(names),
            f"Column `{column}` has {len(names)} {role}s, but there should be {size}",
            "fix the names, or give the size that they need",
            column=column,
        )
    elif has_task:
        yield finding(
            "labels-without-names",
            "warning",
            len(names),
            f"Column `{column}` has names, but the task has no `{role}_labels`: which "
            "is which depends on their order alone",
            f"give the task its `{role}_labels`",
            column=column,
        )


def terminal_states(
    subject: Subject, groups: Groups, task: KnownTask | None
) -> BoolArray | None:
    """Mask of states that end episodes, by the task or else by flags; or None."""
    if task is not None:
        return np.asarray(task.is_terminal)
    dropped = subject.derived is not None and "outcome" not in subject.found
    if groups.ended is None or dropped:  # last rows, and their flags, lead nowhere
        return None
    n = int(max(groups.state.max(), groups.next_state.max())) + 1
    return np.bincount(groups.next_state, groups.ended, n) > 0


def check_terminal(
    subject: Subject, groups: Groups, task: KnownTask | None, terminal: BoolArray
) -> Iterator[Finding]:
    """Find rows that leave terminal states."""
    out = terminal[groups.state]
    stay = out & (groups.state == groups.next_state)
    away = out & ~stay
    told: list[tuple[BoolArray, str, Any, str, str]] = [
        (
            stay,
            "padded-terminal-states",
            "note",
            "within a terminal state",
            "nothing: they are ignored",
        ),
        (
            away,
            "terminal-states-left",
            "warning" if task is None else "error",
            "out of a terminal state to another",
            "drop the rows, or check which states are terminal"
            if task is not None
            else "check the `terminated` flags: they say that episodes end there",
        ),
    ]
    for mask, code, severity, what, remedy in told:
        if mask.any():
            k = int(np.argmax(mask))
            n = int(groups.count[mask].sum())
            yield finding(
                code,
                severity,
                n,
                f"{many(n, 'row')} {what}, the first {groups.triplet(k)}",
                remedy,
                first=subject.first_with(groups.at(k)),
            )


def check_flags(
    subject: Subject, groups: Groups, task: KnownTask | None
) -> Iterator[Finding]:
    """Find `terminated` flags that contradict the task, or each other."""
    import narwhals as nw

    if groups.ended is None:
        return
    if task is None:
        n = int(groups.next_state.max()) + 1
        said, seen = (
            np.bincount(groups.next_state, x, n) for x in (groups.ended, groups.count)
        )
        differ = (said > 0) & (said < seen)
        if differ.any():
            mask = differ[groups.next_state]
            state = groups.state_name(int(np.argmax(differ)))
            yield finding(
                "flags-differ",
                "warning",
                int(differ.sum()),
                f"{many(int(differ.sum()), 'state')} ending an episode on some "
                f"arrivals and not on others by {subject.of('terminated')}, the first "
                f"{state}",
                "a terminal state always ends the episode; a log that stops is "
                "`truncated`",
                column=subject.found["terminated"],
                first=subject.first_with(
                    {"next_state": groups.values("next_state", mask)}
                ),
            )
        return
    terminal = np.asarray(task.is_terminal)[groups.next_state]
    for mask, rows, what, severity, code in (
        (~terminal, groups.ended, "with an end", "error", "ends-in-live-states"),
        (
            terminal,
            groups.count - groups.ended,
            "without an end",
            "warning",
            "terminal-states-unflagged",
        ),
    ):
        bad = mask & (rows > 0)
        if bad.any():
            k, n = int(np.argmax(bad)), int(rows[bad].sum())
            kind = "not terminal" if what == "with an end" else "terminal"
            state = groups.state_name(int(groups.next_state[k]))
            flag = (
                nw.col("terminated") if what == "with an end" else ~nw.col("terminated")
            )
            yield finding(
                code,
                severity,  # type: ignore[arg-type]
                n,
                f"{many(n, 'row')} {what} by {subject.of('terminated')} in a state "
                f"that is {kind} in the task, the first state {state}",
                "fix the flags, or the terminal states of the task",
                column=subject.found["terminated"],
                first=subject.first(
                    flag
                    & nw.col("next_state").is_in(
                        groups.values("next_state", bad)[:1000]
                    )
                ),
            )


def check_paid(subject: Subject, groups: Groups, task: KnownTask) -> Iterator[Finding]:
    """Find logged rewards that are not the task's."""
    if groups.low is None or groups.high is None:
        return
    live = ~np.asarray(task.is_terminal)[groups.state]
    some = groups.of(live)
    if not some.count.size or some.low is None or some.high is None:
        return
    wanted = task.transition_reward(some.state, some.action, some.next_state)
    gap = np.maximum(np.abs(some.low - wanted), np.abs(some.high - wanted))
    off = gap > _CLOSE * (1 + np.abs(wanted))
    if off.any():
        k = int(np.argmax(off))
        paid = some.low[k] if abs(some.low[k] - wanted[k]) == gap[k] else some.high[k]
        yield finding(
            "rewards-contradict-task",
            "warning",
            int(off.sum()),
            f"{off.sum()} of {off.size} distinct transitions paid otherwise than the "
            f"task says: {some.triplet(k)} was paid {paid:g}, and {wanted[k]:g} in the "
            "task",
            "check the task's reward; one of being in a state counts where a "
            "transition starts, and a terminal one on arrival",
            column=subject.found["reward"],
            first=subject.first_with(some.at(k)),
        )
