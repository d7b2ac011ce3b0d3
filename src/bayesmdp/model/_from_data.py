"""A task read off a log, with everything ambiguous said in words.

Rewards are means over rows with the same (state, action, next state). A state is
terminal where every arrival in it is flagged ``terminated`` and no row leads from it
to another: one that the log also goes on from is not an end, whatever the flag means.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from bayesmdp import _checks
from bayesmdp._checks import argument, column
from bayesmdp._typing import ArrayLike, BoolArray, IntArray
from bayesmdp.data import (
    Counts,
    Endings,
    RewardStatistics,
    Starts,
    Transitions,
    read_frame,
)
from bayesmdp.errors import ArgumentError, BayesmdpWarning, CountsError, TaskError
from bayesmdp.model._rewards import RewardTriplets, reward_triplets
from bayesmdp.model._task_readers import listed, names_given

if TYPE_CHECKING:
    from bayesmdp.model._task import Task

Found = TypeVar("Found", RewardStatistics, Endings, Starts)
#: What the data's states and actions are in a task; None where they are the same.
Numbers: TypeAlias = tuple[IntArray | None, IntArray | None]
_VARIES = 1e-9  # of the largest mean: below, a spread is rounding


def task_from_data(
    make: Callable[..., "Task"],
    data: Any,
    *,
    reward: Any,
    terminal: Any,
    start: Any,
    n_states: int | None,
    n_actions: int | None,
    cost: Any,
    known: "Task | None" = None,
    numbers: Numbers = (None, None),
    **rest: Any,
) -> "Task":
    """Do the work of ``Task.from_data``; ``make`` is the class.

    Sizes and names may be those of a ``known`` task, in which the data's states and
    actions have these ``numbers``; all that is given is then in its terms.
    """
    data = read_frame(data)
    _checks.of_type("data", data, Transitions, ArgumentError)
    counts = data.counts()
    if counts.total == 0:
        raise CountsError("`data` holds no transitions: there is no task to read off.")
    sizes, labels = _sizes_and_labels(data, counts, n_states, n_actions, known)
    names = data.state_labels if known is None else None
    if terminal is not None:
        terminal = names_given(terminal)
        _refuse_ambiguous("terminal", terminal, names)
    if isinstance(start, Mapping) or not isinstance(start, Iterable):  # not weights
        states = list(start) if isinstance(start, Mapping) else [start]
        _refuse_ambiguous("start", states, names)
    logged = isinstance(cost, str) and cost == "logged"
    statistics = _rewards(data) if logged or (reward is cost is None) else None
    if statistics is not None:
        s = statistics = _renumbered(statistics, numbers)
        found = reward_triplets(s.state, s.action, s.next_state, s.mean, **sizes)
        reward, cost = (reward, found) if logged else (found, cost)
    endings = _renumbered(data.endings(), numbers) if terminal is None else None
    if isinstance(start, str) and start == "logged":
        starts = _renumbered(data.starts(), numbers)
        start = np.zeros(sizes["n_states"])
        start[starts.state] = starts.count / starts.count.sum()
    task = make(
        **sizes,
        **labels,
        reward=reward,
        cost=cost,
        start=start,
        **rest,
        terminal=_terminal(terminal, endings, **rest),
    )
    if statistics is not None:
        task = task._but(reward=_with_ends(statistics, task))
    notes = [] if endings is None else _doubtful_ends(endings, task)
    if statistics is not None:
        notes += _varying_rewards(statistics, task)
    endless = task.horizon is None and task.criterion == "discounted"
    if task.discount == 1 and endless and not task.terminal.size:
        notes.append(
            "With discount 1 every episode must end, but no state is terminal: give "
            "`terminal`, or a smaller discount."
        )
    for note in notes:
        warnings.warn(note, BayesmdpWarning, stacklevel=3)
    return task


def begins_as_logged(data: Transitions, ends: ArrayLike) -> bool:
    """Whether the log says where episodes begin, and never at an end."""
    if not {"episode", "step"} <= set(data.table.roles):
        return False
    try:
        starts = data.starts()
    except CountsError:  # steps without numbers of their own
        return False
    return starts.state.size > 0 and not np.isin(starts.state, ends).any()


def _renumbered(found: Found, numbers: Numbers) -> Found:
    """Give states and actions of a record their numbers in a task."""
    state, action = numbers
    new = {"state": state, "action": action, "next_state": state}
    changed = {
        x.name: number[getattr(found, x.name)]
        for x in fields(found)
        if (number := new.get(x.name)) is not None
    }
    return replace(found, **changed)


def _sizes_and_labels(
    data: Transitions,
    counts: Counts,
    n_states: int | None,
    n_actions: int | None,
    known: "Task | None",
) -> tuple[dict[str, int], dict[str, tuple[str, ...] | None]]:
    """Sizes as given or as found, and names as text; or those of a ``known`` task."""
    sizes: dict[str, int] = {}
    labels: dict[str, tuple[str, ...] | None] = {}
    for what, given, found, sized, names in (
        ("state", n_states, counts.n_states, counts.sized[0], data.state_labels),
        ("action", n_actions, counts.n_actions, counts.sized[1], data.action_labels),
    ):
        named = found if names is None else len(names)  # also levels without a row
        own = getattr(known, f"{what}_labels", None)
        size = _checks.size_or_none(f"n_{what}s", given, TaskError) or named
        if own is not None and names is not None:  # matched by name
            size = found = len(own)
        if size < found or (sized and size != found):
            said = f"`n_{what}s` is" if own is None else f"`{what}_labels` names"
            raise TaskError(
                f"{said} {size}, but `data` has {_checks.many(found, what)}: name all, "
                "or leave it out."
            )
        if own is None and names is not None and len(names) != size:
            raise TaskError(
                f"`data` names {len(names)} {what}s, but `n_{what}s` is {size}: what "
                f"the others are called is not known; leave out `n_{what}s`, or build "
                f"the Task yourself with {what}_labels=[...]."
            )
        sizes[f"n_{what}s"] = size
        texts = None if names is None else tuple(map(str, names))
        labels[f"{what}_labels"] = texts if own is None else own
    return sizes, labels


def _refuse_ambiguous(
    name: str, states: list[object], labels: Sequence[int | str] | None
) -> None:
    """Refuse bare numbers where names are numbers: index or name is not known."""
    if labels is None or isinstance(labels[0], str):
        return
    for state in states:
        if isinstance(state, int | np.integer):
            raise TaskError(
                f"States of `data` are named by numbers, so `{name}` {state} could be "
                f"a name or an index: write {str(int(state))!r} for the state of that "
                "name."
            )


def _rewards(data: Transitions) -> RewardStatistics:
    if "reward" not in data.table.roles:
        raise TaskError(
            "`data` has no `reward` column: give `reward`, as in a task file, or name "
            f"its column when the log is read, {column('reward')}."
        )
    return data.reward_statistics()


def _with_ends(found: RewardStatistics, task: "Task") -> RewardTriplets:
    """Let every arrival in a terminal state pay, where several logged ones pay alike.

    A log holds some of the pairs from which an end can be reached. With 0 for the
    others, a belief in which they reach it, too, would see actions differ in rewards.
    """
    assert isinstance(task.reward, RewardTriplets)
    key, paid = [task.reward.key], [task.reward.reward]
    live = ~task.is_terminal[found.state]
    sign = -1.0 if task.is_cost else 1.0  # `task.reward` is minus a cost
    pair = (task.live[:, None] * task.n_actions + np.arange(task.n_actions)).ravel()
    for end in task.terminal:
        mean = found.mean[live & (found.next_state == end)]
        if (
            mean.size > 1
            and mean.any()
            and np.ptp(mean) <= _VARIES * np.abs(mean).max()
        ):
            every = np.setdiff1d(pair * task.n_states + end, task.reward.key)
            key.append(every)
            paid.append(np.full(every.size, sign * mean.mean()))
    every, reward = np.concatenate(key), np.concatenate(paid)
    order = np.argsort(every)
    return RewardTriplets(_checks.sealed(every[order]), _checks.sealed(reward[order]))


def _terminal(
    given: Any, endings: Endings | None, criterion: str = "discounted", **_: Any
) -> Any:
    """Return terminal states; averages per step have none, whatever a log says."""
    if endings is None:
        return given
    return () if criterion == "average" else endings.state[_ends(endings)]


def _ends(endings: Endings) -> BoolArray:
    """Which states of the log are terminal, ``[K]``."""
    if endings.terminated is None:
        return np.zeros(endings.state.size, dtype=np.bool_)
    entered = endings.arrivals > 0
    every = endings.terminated == endings.arrivals
    return np.asarray(entered & every & (endings.left == 0))


def _doubtful_ends(endings: Endings, task: "Task") -> list[str]:
    """Sentences about states that may be terminal and were not taken as such."""
    never = (endings.arrivals > 0) & (endings.left == 0)
    if task.criterion == "average" and never.any():
        at = _most_first(never, endings.arrivals)
        shown = listed([_name(task, endings, i) for i in at])
        return [
            f"{_states(at.size)} entered and never left ({shown}), and an average per "
            "step has no end: in the long run all steps may be spent there; if "
            "episodes end there, give a `discount` in place of criterion='average'."
        ]
    if task.criterion == "average":
        return []
    if endings.terminated is None or endings.stays_terminated is None:
        if not never.any():
            return []
        at = _most_first(never, endings.arrivals)
        shown = listed(
            [f"{_name(task, endings, i)}: {_times(endings.arrivals[i])}" for i in at]
        )
        return [
            "`data` has no `terminated` flags, so no state was taken as terminal; "
            f"{_states(at.size)} entered and never left ({shown}): if episodes end "
            f"there, give terminal={_remedy(task, endings, at)}; a label of censoring "
            f"is no state, read the log with {argument('censored')}."
        ]
    flagged = endings.terminated + endings.stays_terminated
    doubtful = (flagged > 0) & ~_ends(endings)
    if not doubtful.any():
        return []
    at = _most_first(doubtful, flagged)
    worst = int(at[0])
    total = endings.arrivals[worst] + endings.stays[worst]
    return [
        f"{_states(at.size)} flagged `terminated` on some rows and not taken as "
        f"terminal: state {_name(task, endings, worst)} is flagged on "
        f"{flagged[worst]} of {total} rows into it, and was left "
        f"{_times(endings.left[worst])}{_others(task, endings, at[1:])}. If episodes "
        "end there, give "
        f"terminal={_remedy(task, endings, at)}; if the flag says that only the log "
        "ended, it is `truncated`."
    ]


def _most_first(mask: BoolArray, weight: IntArray) -> IntArray:
    at = np.flatnonzero(mask)
    return at[np.argsort(-weight[at], kind="stable")]


def _states(n: int) -> str:
    return "1 state was" if n == 1 else f"{n} states were"


def _times(n: int) -> str:
    return "1 time" if n == 1 else f"{n} times"


def _name(task: "Task", endings: Endings, i: int) -> str:
    return task.state_name(int(endings.state[i]))


def _others(task: "Task", endings: Endings, at: IntArray) -> str:
    names = listed([_name(task, endings, i) for i in at])
    return f" (others: {names})" if names else ""


def _remedy(task: "Task", endings: Endings, at: IntArray) -> str:
    """Write a value of ``terminal``; a list that is cut short looks so."""
    names = [_name(task, endings, i) for i in at[:5]]
    shown = [repr(x) for x in names] if task.state_labels else names
    return f"[{', '.join(shown)}{', ...' if at.size > 5 else ''}]"


def _varying_rewards(found: RewardStatistics, task: "Task") -> list[str]:
    """Sentences about transitions whose logged reward is not one number."""
    scale = np.abs(found.mean).max(initial=0.0)
    live = ~task.is_terminal[found.state]  # what follows the end is ignored anyhow
    varies = live & (found.sd > _VARIES * max(float(scale), found.sd.max(initial=0.0)))
    if not varies.any():
        return []
    worst = int(np.argmax(np.where(varies, found.sd, -1.0)))
    pair = task.pair_name(int(found.state[worst]), int(found.action[worst]))
    share = found.count[varies].sum() / found.count[live].sum()
    return [
        "The logged reward is not a function of state, action and next state: it "
        f"varies in {int(varies.sum())} of {int(live.sum())} distinct transitions "
        f"({share:.1%} of rows), most in {pair}, next state "
        f"{task.state_name(int(found.next_state[worst]))} (mean "
        f"{found.mean[worst]:.4g}, sd {found.sd[worst]:.4g}, {found.count[worst]} "
        "rows). The task pays the mean; the rest of the reward's spread is in no "
        "uncertainty that is reported."
    ]
