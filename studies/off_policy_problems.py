"""Problems whose policies have a known value, for off-policy estimates.

ModelWin and ModelFail are those of Thomas and Brunskill (2016), the graph is like that
of Voloshin et al. (2019): small, with a value in closed form. In ModelFail the log does
not tell two states apart: weights need to know only what actions were chosen by, so
they are right, and every model of the logged states is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import FloatArray, IntArray

_GOOD, _BAD = 0.6, 0.4  # of ModelWin
_END = 0.2  # of each cycle of ModelWin: five on average
_UP = 0.75, 0.25  # of the graph, by action
_LAYERS = 4
DISCOUNT = 0.99


@dataclass(frozen=True, eq=False)
class Problem:
    """A world that logs are simulated in, and the states that they show."""

    name: str
    world: bm.MDP
    behaviour: FloatArray  # [S, A]
    policy: FloatArray  # [S, A], to be judged
    n_episodes: int
    shown: IntArray | None = None  # [S], number of each state in the log
    task_shown: bm.Task | None = None  # of those states

    @property
    def task(self) -> bm.Task:
        """What an analyst of the log takes for the task."""
        return self.world.task if self.task_shown is None else self.task_shown

    @property
    def judged(self) -> FloatArray:
        """Policy in the numbers of the log, ``[S, A]``."""
        return self.policy if self.shown is None else self.policy[: self.task.n_states]

    @property
    def value(self) -> float:
        """Exact value of the policy."""
        return float(self.world.task.start @ self.world.value(self.policy))

    def log(self, seed: int, n_episodes: int | None = None) -> bm.Transitions:
        """Simulate episodes, as they are shown."""
        n = self.n_episodes if n_episodes is None else n_episodes
        log = self.world.simulate(self.behaviour, n, seed=seed)
        if self.shown is None:
            return log
        (batch,) = log.episodes()
        return bm.Transitions.from_arrays(
            self.shown[batch.state],
            batch.action,
            self.shown[batch.next_state],
            episode=batch.episode,
            step=batch.step,
        )


def _coin(n_states: int, first: float) -> FloatArray:
    return np.tile([first, 1 - first], (n_states, 1))


def model_win(first: float = 0.3, behaviour: float = 0.6, n: int = 200) -> Problem:
    """From the start to gain or loss and back, until it ends; actions tilt the coin."""
    rows = np.zeros((4, 2, 4))
    rows[0, 0, 1:3], rows[0, 1, 1:3] = (_BAD, _GOOD), (_GOOD, _BAD)
    rows[1:3, :, 0], rows[1:3, :, 3] = 1 - _END, _END
    task = bm.Task(
        4,
        2,
        reward=np.repeat([[0.0], [1.0], [-1.0], [0.0]], 2, axis=1),
        discount=DISCOUNT,
        start=0,
        terminal=3,
    )
    world = bm.MDP(bm.Dynamics.from_dense(rows), task)
    return Problem("ModelWin", world, _coin(4, behaviour), _coin(4, first), n)


def model_fail(first: float = 0.3, behaviour: float = 0.6, n: int = 200) -> Problem:
    """Let the first action decide how the second step ends; both steps look alike."""
    rows = np.zeros((5, 2, 5))  # start, good end, bad end, on the way to each
    rows[0, 0, 3] = rows[0, 1, 4] = rows[3, :, 1] = rows[4, :, 2] = 1
    reward = [0.0, 1.0, -1.0, 0.0, 0.0]
    world = bm.MDP(
        bm.Dynamics.from_dense(rows),
        bm.Task(5, 2, reward, discount=DISCOUNT, start=0, terminal=[1, 2]),
    )
    return Problem(
        "ModelFail",
        world,
        _coin(5, behaviour),
        _coin(5, first),
        n,
        shown=np.array([0, 1, 2, 0, 0]),
        task_shown=bm.Task(
            3, 2, reward[:3], discount=DISCOUNT, start=0, terminal=[1, 2]
        ),
    )


def graph(first: float = 0.8, behaviour: float = 0.5, n: int = 200) -> Problem:
    """Four layers of an upper and a lower state, which pay 1 and -1 on arrival."""
    n_states = 2 * _LAYERS + 1
    rows = np.zeros((n_states, 2, n_states))
    pay = np.zeros((n_states, 2, n_states))
    for s in range(n_states - 2):
        upper = 2 * ((s + 1) // 2) + 1
        rows[s, :, upper] = _UP
        rows[s, :, upper + 1] = 1 - np.array(_UP)
        pay[s, :, upper], pay[s, :, upper + 1] = 1.0, -1.0
    terminal = [n_states - 2, n_states - 1]
    task = bm.Task(n_states, 2, pay, discount=DISCOUNT, start=0, terminal=terminal)
    world = bm.MDP(bm.Dynamics.from_dense(rows), task)
    return Problem(
        "graph", world, _coin(n_states, behaviour), _coin(n_states, first), n
    )


def gridworld(n: int = 500) -> Problem:
    """Walk at random, with a lean to the right and down; judge a stronger lean."""
    world = bm.worlds.gridworld()
    lean = np.tile([0.15, 0.35, 0.35, 0.15], (25, 1))
    more = np.tile([0.1, 0.4, 0.4, 0.1], (25, 1))
    return Problem("gridworld", world, lean, more, n)


def sepsis(n: int = 1000) -> Problem:
    """Patients of ICU-Sepsis, whose clinicians are judged with a tenth of chance."""
    world = bm.worlds.icu_sepsis()
    rng = np.random.default_rng(0)
    size = world.available.shape
    found = []
    for weight in rng.dirichlet(np.full(size[1], 0.5), (2, size[0])):
        usable = np.where(world.available, weight + 1e-3, 0.0)
        total = usable.sum(axis=1, keepdims=True)
        found.append(np.divide(usable, total, out=usable, where=total > 0))
    behaviour, other = found
    return Problem("ICU-Sepsis", world, behaviour, 0.9 * behaviour + 0.1 * other, n)


def no_effect(n: int = 200) -> Problem:
    """End well or badly by a fair coin, after one step in one of 20 states."""
    rows = np.zeros((22, 2, 22))
    rows[:20, :, 20:] = 0.5
    reward = [0.0] * 20 + [1.0, 0.0]
    start = [0.05] * 20 + [0.0, 0.0]
    task = bm.Task(22, 2, reward, discount=1.0, start=start, terminal=[20, 21])
    world = bm.MDP(bm.Dynamics.from_dense(rows), task)
    return Problem("no effect", world, _coin(22, 0.5), _coin(22, 0.5), n)


#: What makes a problem.
Maker = Callable[..., Problem]
PROBLEMS: tuple[Maker, ...] = (model_win, model_fail, graph, gridworld, sepsis)
