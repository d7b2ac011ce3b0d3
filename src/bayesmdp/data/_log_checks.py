"""The checks of `validate`: functions that find what ``checks.md`` says.

To add one, write a line of that table, a function here that it names, and a case in
``tests/validate_cases.py``.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayesmdp._checks import argument, column, did_you_mean, many
from bayesmdp._typing import BoolArray
from bayesmdp.data._columns import FLAGS
from bayesmdp.data._findings import LOG, TRIPLET, Check, Fault, checks
from bayesmdp.data._log_facts import Groups, Log
from bayesmdp.data._queries import Offender, fetch_one, size, worded
from bayesmdp.data._steps import KEYS, repeats

_SAME = 1e-9  # relative: what engines and files may do to a number
_CLOSE = 1e-6  # logs are often rounded
#: What people write where there is nothing, blanks and case aside.
NOTHING = {
    *("", "na", "n/a", "#n/a", "nan", "null", "none", "missing", "unknown"),
    *("-9", "-99", "-999"),
}
_MANY_ENDS = 5  # episodes that end in the last step; fewer may be chance


class Hit(NamedTuple):
    """Something found: how often, what the sentence needs, and the first row."""

    n: int
    words: dict[str, Any] = {}  # noqa: RUF012
    first: Offender | None = None


def run_checks(log: Log) -> Iterator[Fault]:
    """Look for everything in the table."""
    some = log.groups.count.size > 0  # else no name is known to the task
    for check in checks(LOG):
        find = globals()[f"_{check.find}"]
        for role in check.roles if some or find in _BEFORE_MATCHING else ():
            hit = find(log, role, check.case) if check.case else find(log, role)
            if hit is not None:
                yield _fault(check, role, hit, log)
    if some and set(KEYS) <= set(log.found) and log.tally["repeated"]:
        ready = log.ready
        for fault in repeats(ready.rows, ready.found, log.origin, ready.n_rows):
            copies = fault.code == "duplicate-rows"
            yield replace(fault, severity="error" if copies else "warning")


def _fault(check: Check, role: str | None, hit: Hit, log: Log) -> Fault:
    words = {
        "n": hit.n,
        "rows": many(hit.n, "row"),
        "states": many(hit.n, "state"),
        "column": f"`{log.found.get(role, role)}`" if role else "",
        "role": role,
        "origin": log.origin,
        "labels": argument("labels"),
        "censored": argument("censored"),
        "min_count": argument("min_count", log.min_count),
        "outcome": column("outcome"),
        "say_ends": "give a `discount` in place of criterion='average' if episodes end"
        if log.endless
        else "say which are terminal",
        **hit.words,
    }
    said, remedy = (x.format(**words) for x in (check.said, check.remedy))
    first = (hit.n, hit.first)
    return Fault(check.code, role, *first, said, remedy, severity=check.severity)


# Columns and names, as the table has them.


def _constant(log: Log, role: str) -> Hit | None:
    seen = log.seen
    n = int(seen.count.sum())
    if not log.whole or n < 2:
        return None
    if role == "reward":
        if seen.low is None or seen.high is None or seen.low.min() < seen.high.max():
            return None
        return Hit(n, {"value": f"{seen.low[0]:g}"})
    ids = getattr(seen, role)
    if (ids != ids[0]).any() or log.size(role) == 1:
        return None
    return Hit(n, {"value": seen.name(role, int(ids[0]))})


def _starts_at_1(log: Log, role: str) -> int:
    """Return the largest id where ids look as if they were counted from 1, else 0."""
    seen = log.seen
    ids = seen.action if role == "action" else np.append(seen.state, seen.next_state)
    top = int(ids.max())
    # With sizes that end where the ids do, 0 is simply one not observed.
    fits = ids.min() == 1 and top > 1 and log.size(role) != top + 1
    return top if fits and seen.names[role] is None else 0


def _ids_from_1(log: Log, role: str) -> Hit | None:
    top = _starts_at_1(log, role)
    first = [int(log.seen.raw[role].min())] if top else []
    return Hit(1, {"top": top}, log.first_with({role: first})) if top else None


def _texts(log: Log, role: str) -> dict[str, str]:
    """Names that are text, and how they read without blanks and case."""
    texts = [x for x in log.seen.names[role] or () if isinstance(x, str)]
    return {x: x.strip().casefold() for x in texts}


def _codes(log: Log, role: str) -> Hit | None:
    # No treatment is an action as any other.
    nothing = NOTHING if role == "state" else NOTHING - {"none"}
    odd = [x for x, plain in _texts(log, role).items() if plain in nothing]
    words = {"names": many(len(odd), role)}
    return Hit(len(odd), words | {"first": odd[0]}) if odd else None


def _alike(log: Log, role: str) -> Hit | None:
    texts = _texts(log, role)
    often = Counter(texts.values())
    odd = [x for x, plain in texts.items() if often[plain] > 1]
    words = {"names": many(len(odd), role)}
    return Hit(len(odd), words | {"first": odd[0]}) if odd else None


def _unknown(log: Log, role: str) -> Hit | None:
    labels, odd = log.labels(role), ~log.known(role)
    if labels is None or not odd.any():
        return None
    values, n = log.seen.values(role, odd), int(log.seen.count[odd].sum())
    words = {"names": many(len(values), "name"), "first": f"{values[0]!r:.42}"}
    words["hint"] = did_you_mean(values[0], labels)
    return Hit(n, words, log.first_with({role: values}))


def _n_unlabelled(log: Log, role: str) -> int | None:
    """Return how many names there are that no label of a task can be matched with."""
    names = log.seen.names[role]
    if names is None or log.size(role) is None or log.labels(role) is not None:
        return None
    return len(names)


def _too_many_names(log: Log, role: str) -> Hit | None:
    n, most = _n_unlabelled(log, role), log.size(role) or 0
    return Hit(n, {"size": most}) if n is not None and n > most else None


def _too_few_names(log: Log, role: str) -> Hit | None:
    n, size = _n_unlabelled(log, role), log.size(role) or 0
    few = n is not None and n < size and log.task is not None
    return Hit(n, {"size": size, "names": many(n, "name")}) if n and few else None


def _names_by_order(log: Log, role: str) -> Hit | None:
    n = _n_unlabelled(log, role)
    return Hit(n) if n and log.task is not None and n == log.size(role) else None


# Distinct transitions.


def _varying(log: Log, role: str) -> Hit | None:
    seen = log.seen
    if seen.low is None or seen.high is None:
        return None
    spread = seen.high - seen.low
    varies = spread > _SAME * np.maximum(np.abs(seen.low), np.abs(seen.high))
    most = int(np.argmax(spread))
    words = {"of": varies.size, "spread": spread[most], "most": seen.triplet(most)}
    return _first_of(log, seen, varies, words)


def _first_of(
    log: Log, groups: Groups, mask: BoolArray, words: dict[str, Any]
) -> Hit | None:
    """Count some distinct transitions, and look up the first row of the first one."""
    if not mask.any():
        return None
    first = log.first_with(groups.at(int(np.argmax(mask))))
    return Hit(int(mask.sum()), words, first)


def _contradicting(log: Log, role: str) -> Hit | None:
    if log.task is None or log.terminal is None:
        return None
    some = log.groups.of(~log.terminal[log.groups.state])
    if not some.count.size or some.low is None or some.high is None:
        return None
    wanted = log.task.transition_reward(some.state, some.action, some.next_state)
    wanted = 0.0 - wanted if log.task.is_cost else wanted
    gap = np.maximum(np.abs(some.low - wanted), np.abs(some.high - wanted))
    off = gap > _CLOSE * (1 + np.abs(wanted))
    k = int(np.argmax(off))
    paid = some.low[k] if abs(some.low[k] - wanted[k]) == gap[k] else some.high[k]
    words = {"of": off.size, "first": some.triplet(k), "paid": paid, "due": wanted[k]}
    return _first_of(log, some, off, words)


def _unused(log: Log, role: str) -> Hit | None:
    groups, n = log.groups, log.size(role)
    names = groups.names[role]
    if n is None:
        n = int(groups.action.max()) + 1 if names is None else len(names)
    unused = np.setdiff1d(np.arange(n), groups.action)
    if names is None and _starts_at_1(log, role):
        unused = unused[unused > 0]  # told already
    if not unused.size:
        return None
    return Hit(unused.size, {"of": n, "first": groups.name(role, int(unused[0]))})


def _rare(log: Log, role: None) -> Hit | None:
    groups = log.groups
    key = groups.state * (int(groups.action.max()) + 1) + groups.action
    _, at, inverse = np.unique(key, return_index=True, return_inverse=True)
    total = np.bincount(inverse, groups.count)
    rare = total < log.min_count
    if not rare.any():
        return None
    words = {
        "of": many(rare.size, "pair"),
        "were": "was" if rare.sum() == 1 else "were",
        "least": log.min_count,
        "share": total[rare].sum() / total.sum(),
    }
    first = groups.at(int(at[np.argmax(rare)]), TRIPLET[:2])
    return Hit(int(rare.sum()), words, log.first_with(first))


def _of_states(log: Log, mask: BoolArray, role: str) -> Hit | None:
    """Count states ``[S]``, and look up the row that first leaves or enters the first.

    One of the others may stand further up, but a message names one first state.
    """
    if not mask.any():
        return None
    groups, one = log.groups, int(np.argmax(mask))
    here = {role: groups.values(role, getattr(groups, role) == one)}
    first = {"first": groups.name(role, one)}
    return Hit(int(mask.sum()), first, log.first_with(here))


def _unreachable(log: Log, role: None, case: str) -> Hit | None:
    if (log.starts is None) == (case == "starts known"):
        return None
    lost = (log.groups.by_state("state") > 0) & (log.groups.by_state("next_state") == 0)
    if log.starts is not None:
        lost &= ~log.starts[: lost.size]
    return _of_states(log, lost, "state")


def _never_left(log: Log, role: None, case: str) -> Hit | None:
    if (log.terminal is None) == (case == "ends known"):
        return None
    stuck = (log.groups.by_state("next_state") > 0) & (
        log.groups.by_state("state") == 0
    )
    if log.terminal is not None:
        stuck &= ~log.terminal[: stuck.size]
    return _of_states(log, stuck, "next_state")


def _flags_differ(log: Log, role: str) -> Hit | None:
    if log.groups.ended is None or log.task is not None:
        return None
    said = log.groups.by_state("next_state", log.groups.ended)
    differ = (said > 0) & (said < log.groups.by_state("next_state"))
    return _of_states(log, differ, "next_state")


def _against_task(log: Log, role: str, case: str) -> Hit | None:
    """Find rows with an end in live states, or without one in terminal states."""
    import narwhals as nw

    groups, flagged = log.groups, case == "flagged"
    if groups.ended is None or log.task is None or log.terminal is None:
        return None
    rows = groups.ended if flagged else groups.count - groups.ended
    bad = (log.terminal[groups.next_state] != flagged) & (rows > 0)
    if not bad.any():
        return None
    state = groups.name("next_state", int(groups.next_state[np.argmax(bad)]))
    flag = nw.col("terminated") if flagged else ~nw.col("terminated")
    there = nw.col("next_state").is_in(groups.values("next_state", bad)[:1000])
    return Hit(int(rows[bad].sum()), {"first": state}, log.first(flag & there))


def _terminal(log: Log, role: None, case: str) -> Hit | None:
    """Find rows out of terminal states."""
    if (
        log.terminal is None
        or case == f"left, by {'task' if log.task is None else 'flags'}"
    ):
        return None
    groups = log.groups
    stays = groups.state == groups.next_state
    mask = log.terminal[groups.state] & (stays == (case == "stayed in"))
    hit = _first_of(log, groups, mask, {"first": groups.triplet(int(np.argmax(mask)))})
    return hit and hit._replace(n=int(groups.count[mask].sum()))


# Episodes.


def _gaps(log: Log, role: str) -> Hit | None:
    import narwhals as nw

    if not set(KEYS) <= set(log.found) or not log.tally["missing"]:
        return None
    tally, derived, dropped = log.tally, log.ready.derived, ""
    if derived is not None:
        dropped = (
            f"; {many(derived.gaps, 'row')} before them would be left out because no "
            "next state is recorded"
        )
    episode = log.first_episode(nw.col("missing") > 0)["episode"]
    with worded(log.origin):  # the row before the first gap
        rows = log.ready.rows.filter(nw.col("episode") == episode)
        before = rows.select((nw.col("step") - 1).alias("step")).unique()
        last = rows.join(before, on="step", how="anti").select(nw.col("step").min())
    step = fetch_one(last, log.origin)["step"]
    words = {"steps": many(tally["missing"], "step"), "dropped": dropped, **tally}
    return Hit(tally["missing"], words, log.row_of(episode, step))


def _single_rows(log: Log, role: str) -> Hit | None:
    if not set(KEYS) <= set(log.found):
        return None
    n = log.tally["episodes"]
    return Hit(n) if n == log.ready.n_rows > 1 else None


def _out_of_order(log: Log, role: str) -> Hit | None:
    """Find next states that are not where the next step is."""
    import narwhals as nw

    if log.ready.derived is not None or not set(KEYS) <= set(log.found):
        return None
    with worded(log.origin):
        moves = log.ready.moves
        for flag in FLAGS:
            if flag in log.found:  # what comes after an end is told apart
                moves = moves.filter(~nw.col(flag))
        step = (nw.col("step") - 1).alias("step")
        state = nw.col("state").alias("next_state")
        there = log.ready.rows.select("episode", step, state)
        # Nobody is where the row led to, but somebody is there at that step.
        odd = moves.join(there, on=[*KEYS, "next_state"], how="anti")
        odd = odd.join(there.select(*KEYS).unique(), on=list(KEYS), how="inner")
    n = size(odd, log.origin)
    words = {"state": log.found["state"]}
    return Hit(n, words, log.first(frame=odd)) if n else None


def _after_end(log: Log, role: str) -> Hit | None:
    import narwhals as nw

    told = role == "truncated" and "terminated" in log.found
    if told or not {role, "episode"} <= set(log.found) or not log.tally["after"]:
        return None
    first = log.first_episode(nw.col("end") < nw.col("high"), "end")
    return Hit(
        log.tally["after"], log.tally, log.row_of(first["episode"], first["end"])
    )


def _unfinished(log: Log, role: str, case: str) -> Hit | None:
    import narwhals as nw

    said = log.terminal is not None or bool(set(FLAGS) & set(log.found))
    fits = said == (case == "ends known") and role in log.found and not log.cut
    if not fits or log.endless:  # where every log just stops
        return None
    # Of last rows, or of censored ones, which were left out; or no episode ends.
    told = log.ready.derived is not None or not log.whole or not log.ends
    n, words = log.tally["open"], dict[str, Any](log.tally)
    if not n or (not said and (told or n == log.tally["episodes"])):
        return None
    if not said:
        words["end"] = log.ends[0]
    first = log.first_episode(nw.col("open") == 1, "high")
    return Hit(n, words, log.row_of(first["episode"], first["high"]))


def _last_rows(log: Log, role: None) -> Hit | None:
    """Find last rows that lead nowhere, unless the process is over there."""
    import narwhals as nw

    derived = log.ready.derived
    if derived is None or not derived.lost:
        return None
    with worded(log.origin):
        rows = derived.last
        rows = rows.filter(~nw.col("state").is_in(log.ends)) if log.ends else rows
    n = size(rows, log.origin)
    return Hit(n, {"of": many(n, "last row")}, log.first(frame=rows)) if n else None


def _survived(log: Log, role: str) -> Hit | None:
    """Find that all who count in the last step end in it, and others are censored."""
    import narwhals as nw

    derived = log.ready.derived
    if derived is None or not derived.censored or role not in log.found:
        return None
    with worded(log.origin):
        top = derived.known.select(nw.col("step").max())
        there = derived.known.join(top, on="step", how="inner")
        ended = log.ready.moves.join(top, on="step", how="inner")
    n = size(ended, log.origin)
    others = size(there, log.origin) - n
    if n < _MANY_ENDS or not others:
        return None
    left = "1 other is" if others == 1 else f"{others} others are"
    words = {"step": fetch_one(top, log.origin)["step"], "left": left}
    return Hit(n, words, log.first(frame=ended))


def _arms(log: Log, role: str) -> Hit | None:
    """Find that no episode ever changes its action, as in a trial of arms."""
    if "episode" not in log.found or np.unique(log.groups.action).size < 2:
        return None
    moves = log.ready.moves
    with worded(log.origin):
        pairs = moves.select("episode", role).unique()
        episodes = moves.select("episode").unique()
    n = size(episodes, log.origin)
    kept = size(pairs, log.origin) == n < log.ready.n_moves
    return Hit(n) if kept else None


#: What needs no ids of a task.
_BEFORE_MATCHING = (
    _constant,
    _ids_from_1,
    _codes,
    _alike,
    _unknown,
    _too_many_names,
    _too_few_names,
    _names_by_order,
    _varying,
)
