"""Logs as they might have been if actions did nothing: labels exchanged at random.

``"state"``: the actions of a state's visits are exchanged among them. Next states,
rewards of states and how often each action was taken in each state stay. If the next
state does not depend on the action given the state, every exchange is as likely as the
log. That fails where something unrecorded (frailty) moves both actions and next
states, and where the action of a visit follows from the visits before it, as with arms
that are fixed per episode: visits of an episode then share what they have in common.

``"episode"``: episodes keep one action, their arm; arms are exchanged among episodes
that begin in the same state. Valid where arms were assigned at random given the first
state, whatever is hidden.
"""

from dataclasses import dataclass

import numpy as np

from bayesmdp._arguments import argument
from bayesmdp._typing import IntArray
from bayesmdp.data import Counts, Transitions
from bayesmdp.errors import ArgumentError
from bayesmdp.model import LoggedEpisodes, Task, align, logged_episodes

STATE, EPISODE, AUTO = "state", "episode", "auto"
DONE = {
    STATE: "actions exchanged among the visits of a state",
    EPISODE: "arms exchanged among episodes that begin in the same state",
}


@dataclass(frozen=True, eq=False)
class Exchange:
    """Labels that can be exchanged within groups; L labels, N transitions."""

    permute: str  # STATE or EPISODE
    counts: Counts  # as logged
    group: IntArray  # [L]
    label: IntArray  # [L], actions
    unit: IntArray | None  # [N], label of each transition; None where there is one each
    state: IntArray  # [N]
    next_state: IntArray  # [N]

    @property
    def free(self) -> float:
        """Share of labels whose group has several different ones."""
        kinds = np.unique(np.stack([self.group, self.label]), axis=1)[0]
        several = np.bincount(kinds, minlength=self.group.max() + 1) > 1
        return float(several[self.group].mean())

    def shuffled(self, rng: np.random.Generator) -> Counts:
        """Count the transitions after an exchange."""
        label = np.empty_like(self.label)
        to = np.argsort(self.group, kind="stable")
        label[to] = self.label[np.lexsort((rng.random(label.size), self.group))]
        action = label if self.unit is None else label[self.unit]
        size = {"n_states": self.counts.n_states, "n_actions": self.counts.n_actions}
        return Counts.from_arrays(self.state, action, self.next_state, **size)


def exchange_of(
    log: Transitions | Counts, task: Task, permute: str
) -> tuple[Exchange, Task]:
    """Find out what can be exchanged; the task is the one given, or has names."""
    if permute not in (STATE, EPISODE, AUTO):
        raise ArgumentError(
            f"`permute` must be 'state', 'episode' or 'auto'; got {permute!r:.40}."
        )
    if permute != STATE:
        if isinstance(log, Counts) or "episode" not in log.table.roles:
            raise ArgumentError(
                "`log` does not say which transitions belong to one episode, which "
                f"{argument('permute', permute)} needs: give an `episode` column, or "
                f"{argument('permute', STATE)}."
            )
        found = logged_episodes(log, task)
        arm = found.action[found.start[:-1]]
        switches = np.flatnonzero(found.action != arm[found.episode])
        if switches.size == 0:
            return _checked(_of_episodes(found, arm)), found.task
        if permute == EPISODE:
            raise ArgumentError(
                f"{argument('permute', EPISODE)} exchanges the arms of episodes, and "
                f"episode number {found.episode[switches[0]]} has several actions: "
                f"give {argument('permute', STATE)}."
            )
    counts, task = align(log, task)
    return _checked(_of_visits(counts, task)), task


def _of_episodes(found: LoggedEpisodes, arm: IntArray) -> Exchange:
    return Exchange(
        EPISODE,
        found.counts(),
        found.first_state,
        arm,
        found.episode,
        found.state,
        found.next_state,
    )


def _of_visits(counts: Counts, task: Task) -> Exchange:
    live = ~task.is_terminal[counts.state]
    state, action, next_state = (
        np.repeat(x[live], counts.count[live])
        for x in (counts.state, counts.action, counts.next_state)
    )
    return Exchange(STATE, counts, state, action, None, state, next_state)


def _checked(exchange: Exchange) -> Exchange:
    """Refuse what leaves nothing to exchange."""
    if exchange.label.size and exchange.free > 0:
        return exchange
    if exchange.permute == EPISODE:
        raise ArgumentError(
            "`log` has no two episodes that begin in the same state and have different "
            "actions, so there is nothing to exchange: is `action` the right column? "
            f"({argument('permute', STATE)} asks among visits of a state.)"
        )
    raise ArgumentError(
        "`log` has no state in which several actions were taken, so there is nothing "
        "to exchange: is `action` the right column?"
    )
