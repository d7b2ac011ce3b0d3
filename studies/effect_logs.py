"""Logs of small problems in which actions do nothing, or a known amount.

A step from a state ends the episode with a fixed probability, else leads to another
state; rewards belong to states, never to actions. Where nothing ends, every state has a
reward. States differ, actions do not, except for two kinds of effects: one of size
``shift`` adds normal numbers of that sd, drawn for each pair, to the probability that
an end is good, and leaves all else; one of size ``own`` makes so large a part of every
row the action's own. Under frailty half of the episodes have rows that differ by so
large a part, whatever the action, and nobody recorded which episodes these are.

Logs are functions of their seed and of the design's name. Seeds below `JUDGING` are for
looking and tuning, as with ``--quick``, those from `JUDGING` on for the tables alone.
"""

import zlib
from dataclasses import dataclass, replace

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import FloatArray

JUDGING = 30_000  # seeds from here on are looked at for tables alone
DISCOUNT = 0.95


@dataclass(frozen=True)
class Design:
    """How a log comes about."""

    name: str
    n_states: int  # that can be left
    n_actions: int
    ending: float  # probability that a step ends the episode
    transitions: int = 0  # visits of pairs are multinomial, where there are no episodes
    episodes: int = 0
    steps: int = 100  # after which an episode is cut
    shares: tuple[float, ...] = ()  # how often actions are taken; alike where not given
    keeps: bool = False  # whether an episode has one action
    shift: float = 0.0  # size of an effect on ends
    changed: int | None = None  # states with an effect on ends, all where not given
    own: float = 0.0  # size of an effect on whole rows
    frailty: float = 0.0  # part of their rows that frail episodes have to themselves
    confounded: bool = False  # whether frail episodes have more of the first action

    @property
    def behaviour(self) -> FloatArray:
        """How often actions are taken, ``[A]``."""
        return np.array(self.shares or (1 / self.n_actions,) * self.n_actions)


NO_EFFECT = (
    Design("2 states, 2 actions, one step", 2, 2, 1.0, transitions=400),
    Design("6 states, 3 actions, 50 episodes", 6, 3, 0.2, episodes=50),
    Design("6 states, 3 actions, 300 episodes", 6, 3, 0.2, episodes=300),
    Design("30 states, 3 actions, one step", 30, 3, 1.0, transitions=3600),
    Design("10 states, 3 actions, continuing", 10, 3, 0.0, episodes=20),
    Design("10 states, 2 fixed arms", 10, 2, 0.2, episodes=200, keeps=True),
    Design("rare actions", 6, 3, 0.2, episodes=300, shares=(0.94, 0.05, 0.01)),
    Design("8 actions", 10, 8, 0.2, episodes=300),
    Design("100,000 transitions", 10, 3, 0.2, transitions=100_000),
    Design("1,000,000 transitions", 6, 3, 0.2, transitions=1_000_000),
)
_ONE_STEP = Design("", 30, 3, 1.0, transitions=3600)
_SMALL = Design("", 6, 3, 0.2, episodes=300)
EFFECT = (
    replace(_ONE_STEP, name="one step, 0.05 in all states", shift=0.05),
    replace(_ONE_STEP, name="one step, 0.1 in all states", shift=0.1),
    replace(_ONE_STEP, name="one step, 0.2 in one state of 30", shift=0.2, changed=1),
    replace(_SMALL, name="0.3 of whole rows, 300 episodes", own=0.3),
    replace(_SMALL, name="0.2 of ends, 300 episodes", shift=0.2),
    replace(_SMALL, name="0.2 of ends, 3,000 episodes", shift=0.2, episodes=3000),
)


@dataclass(frozen=True, eq=False)
class Log:
    """What was logged, and the truth behind it."""

    counts: bm.Counts
    world: bm.MDP  # without frailty
    behaviour: FloatArray  # [S, A]
    episodes: bm.Transitions | None = None  # where there are any


def sample(design: Design, seed: int) -> Log:
    """Draw a true model and a log of it."""
    rng = np.random.default_rng([seed, zlib.crc32(design.name.encode())])
    theta = _model(design, rng)
    task = _task(design, theta.shape[0], rng)
    episodes = None
    if design.episodes:
        episodes = _episodes(design, theta, rng)
        counts = episodes.counts()
    else:
        live = slice(design.n_states)
        chance = np.tile(design.behaviour / design.n_states, design.n_states)
        visits = rng.multinomial(design.transitions, chance)
        dense = np.zeros(theta.shape, dtype=np.int64)
        dense[live] = rng.multinomial(
            visits.reshape(design.n_states, design.n_actions), theta[live]
        )
        counts = bm.Counts.from_dense(dense)
    behaviour = np.tile(design.behaviour, (task.n_states, 1))
    world = bm.MDP(bm.Dynamics.from_dense(theta), task)
    return Log(counts, world, behaviour, episodes)


def _task(design: Design, n_states: int, rng: np.random.Generator) -> bm.Task:
    """Make a task whose ends are good or bad; without ends, states have rewards."""
    start = np.zeros(n_states)
    start[: design.n_states] = 1 / design.n_states
    reward, terminal = np.zeros(n_states), [*range(design.n_states, n_states)]
    if terminal:
        reward[terminal[0]] = 1.0
    else:
        reward = rng.random(n_states)
    return bm.Task(
        n_states,
        design.n_actions,
        reward,
        discount=DISCOUNT,
        start=start,
        terminal=terminal,
    )


def _model(design: Design, rng: np.random.Generator) -> FloatArray:
    """Rows ``[S, A, S]``; a good end is state ``n_states``, a bad one the next."""
    n, ends = design.n_states, 2 if design.ending else 0
    theta = np.zeros((n + ends, design.n_actions, n + ends))
    moves = rng.dirichlet(np.full(n, 0.5), size=n)
    theta[:n, :, :n] = (1 - design.ending) * moves[:, None]
    if ends:
        effect = design.shift * rng.standard_normal((n, design.n_actions))
        effect[n if design.changed is None else design.changed :] = 0.0
        good = (rng.uniform(0.3, 0.7, n)[:, None] + effect).clip(0.02, 0.98)
        theta[:n, :, n] = design.ending * good
        theta[:n, :, n + 1] = design.ending * (1 - good)
        theta[[n, n + 1], :, [n, n + 1]] = 1.0
    shape = n, design.n_actions
    other = rng.dirichlet(np.full(n + ends, 0.5), size=shape)
    theta[:n] = (1 - design.own) * theta[:n] + design.own * other
    return theta


def _episodes(
    design: Design, theta: FloatArray, rng: np.random.Generator
) -> bm.Transitions:
    """Follow the behaviour, all episodes at once."""
    n, state = design.n_states, rng.integers(0, design.n_states, design.episodes)
    arm = rng.choice(design.n_actions, design.episodes, p=design.behaviour)
    episode, frail = np.arange(design.episodes), np.zeros(design.episodes, dtype=int)
    models = np.stack([theta, theta])
    if design.frailty:
        frail = rng.integers(0, 2, design.episodes)
        other = _model(design, rng)
        models[1] = (1 - design.frailty) * theta + design.frailty * other
    below = models.cumsum(axis=3)
    found = []
    for step in range(design.steps):
        if not design.keeps:
            arm = rng.choice(design.n_actions, state.size, p=design.behaviour)
        if design.confounded:
            arm = np.where(frail * rng.random(state.size) > 0.2, 0, arm)
        u = rng.random(state.size)[:, None]
        after = np.minimum((u > below[frail, state, arm]).sum(axis=1), len(theta) - 1)
        found.append((state, arm, after, episode, np.full(state.size, step)))
        on = after < n
        state, arm, episode, frail = after[on], arm[on], episode[on], frail[on]
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    return bm.Transitions.from_arrays(
        *columns[:3],
        episode=columns[3],
        step=columns[4],
        n_states=len(theta),
        n_actions=design.n_actions,
    )
