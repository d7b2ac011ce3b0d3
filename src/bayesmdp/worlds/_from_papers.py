"""Small worlds that papers use.

**Gridworld** of the paper (section 5.1): a cliff at the bottom, a goal in its corner.
States are numbered row by row from the top left. The bottom row is terminal: failure,
but for the goal in the bottom right corner: entering it pays 1. With probability
``p_rand`` the wind pushes the agent down, otherwise it moves as it chose; at the edge
it stays.

**Casino** of the paper (appendix B): the best memoryless policy is a gamble.
Being in the casino costs 1 a step. Leaving ends the evening. Playing wins a payout with
probability ``1 - theta`` and otherwise keeps the player there. ``theta`` is 0 or 1, and
nobody knows which: two models of equal weight. Always playing may never end, never
playing earns nothing, and the best is to play with probability 0.69 each time. (The
paper says that never playing is worth 1; by its own formula it is -1.)

**Wet Chicken**: paddle close to a waterfall without falling (Hans and Udluft 2009).
The river is ``length`` squares long and ``width`` wide; state ``x * width + y``. At
``y`` the current is ``v = 3 y / width`` squares per step, and turbulence adds a uniform
number between ``-(3.5 - v)`` and ``3.5 - v``; the sum with the paddling is rounded.
Whoever is carried to ``length`` or beyond falls, and starts again at ``(0, 0)``. A step
pays the ``x`` that it leads to, so the best place is just above the fall.

Exact values at discount 0.95 from state 0: 43.0800 for the best policy, 20.6598 for the
uniform random one, 29.7502, 29.5036 and 27.3664 for the heuristic one with 0.1, 0.2 and
0.5 of its choices random, which the literature on safe improvement starts from.

**Machine replacement** (Delage and Mannor 2010, figure 3): repair before it fails.
A machine wears through states 1 to 8, the last of which is broken and costs 20 a step.
Left alone it wears by one state with probability 0.8. A repair begins well with 0.6, in
state ``repair``, which costs 2 a step, badly with 0.1, in state ``overhaul``, which
costs 10 a step, and is not begun with 0.3, when the machine wears on. From ``repair`` a
machine left alone is new with 0.8, from ``overhaul`` a repair leads to ``repair`` with
0.6. A state's cost is paid by every step that begins in it. At discount 0.8 the best
policy repairs from state 6 on and in ``overhaul``, and has the value -1.4133 from new.

**RiverSwim** with uncertain currents (Su and Petrik 2023): 100 models, equally likely.
A swimmer in one of 20 places swims left, which always succeeds and pays 5, or right,
against a current whose strength differs between models and places; the right end pays
much. The models are those that the authors' policies learn from (`riverswim.csv.gz`,
from the repository suxh2019/CADP, MIT licence: `riverswim_licence.txt`). At discount
0.9 each model's own best policy has 210.1570 on average over models, the best policy
without memory for all of them 202.8513, and that for the mean model 200.9236 (on the
authors' 700 further models 213.2829, 206.2617 and 204.0195).
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import ArgumentError, DynamicsError
from bayesmdp.model import Dynamics, Task
from bayesmdp.posterior import Ensemble
from bayesmdp.worlds._mdp import MDP

_ACTIONS = ("up", "right", "down", "left")
_DOWN = 2


def gridworld(
    p_rand: float = 0.25, width: int = 5, height: int = 5, *, discount: float = 0.999
) -> MDP:
    """Windy grid with a cliff.

    Parameters
    ----------
    p_rand
        Probability of being pushed down, in [0, 1].
    width, height
        Size of the grid, at least 2 each; the last row is terminal.
    discount
        In [0, 1].

    Returns
    -------
    MDP
        Its ``support`` is the four neighbours of each square.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.worlds.gridworld().task.terminal.tolist()
    [20, 21, 22, 23, 24]
    """
    p_rand = _checks.real("p_rand", p_rand, ArgumentError, 0, 1)
    width = _checks.integer("width", width, 2, ArgumentError)
    height = _checks.integer("height", height, 2, ArgumentError)
    n_states, n_actions = width * height, len(_ACTIONS)
    neighbour = _neighbours(width, height)
    neighbour[:, -width:] = np.arange(n_states)[-width:]  # terminal: nowhere to go
    action, state = np.indices(neighbour.shape)
    down = np.broadcast_to(neighbour[_DOWN], neighbour.shape)
    dynamics = Dynamics.from_arrays(
        np.concatenate([state.ravel(), state.ravel()]),
        np.concatenate([action.ravel(), action.ravel()]),
        np.concatenate([neighbour.ravel(), down.ravel()]),
        np.repeat([1.0 - p_rand, p_rand], state.size),
        n_states=n_states,
        n_actions=n_actions,
    )
    before = np.repeat(np.arange(n_states - width), n_actions)  # from wherever it is
    task = Task(
        n_states,
        n_actions,
        (
            before,
            np.tile(np.arange(n_actions), before.size // n_actions),
            np.full(before.size, n_states - 1),
            np.ones(before.size),
        ),
        discount=discount,
        terminal=np.arange(n_states)[-width:],
        action_labels=_ACTIONS,
    )
    support = np.zeros((n_states, n_states), dtype=np.bool_)
    support[state, neighbour] = True
    return MDP(dynamics, task, support=support)


def _neighbours(width: int, height: int) -> IntArray:
    """Where each action leads from each state, ``[A, S]``."""
    row, column = np.divmod(np.arange(width * height), width)
    return np.stack(
        [
            np.maximum(row - 1, 0) * width + column,
            row * width + np.minimum(column + 1, width - 1),
            np.minimum(row + 1, height - 1) * width + column,
            row * width + np.maximum(column - 1, 0),
        ]
    )


_CASINO, _WON, _OUT = range(3)


def casino(
    payout: float = 10.0, discount: float = 0.99, p_lose: float = 0.5
) -> Ensemble:
    """Two casinos, one of which always pays and one of which never does.

    Parameters
    ----------
    payout
        What winning pays.
    discount
        In [0, 1).
    p_lose
        Probability of the model in which playing always loses.

    Returns
    -------
    Ensemble
        State 0 is the casino and the start; action 0 plays, action 1 leaves.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.worlds.casino().weights.tolist()
    [0.5, 0.5]
    """
    payout = _checks.real("payout", payout, ArgumentError, 0)
    p_lose = _checks.real("p_lose", p_lose, ArgumentError, 0, 1)
    reward = np.zeros(3)
    reward[_CASINO], reward[_WON] = -1.0, payout
    task = Task(
        3,
        2,
        reward,
        discount=discount,
        start=_CASINO,
        terminal=[_WON, _OUT],
        state_labels=["casino", "won", "out"],
        action_labels=["play", "leave"],
    )
    models = []
    for theta in (0.0, 1.0):
        dense = np.zeros((3, 2, 3))
        dense[_CASINO, 0, [_CASINO, _WON]] = theta, 1.0 - theta
        dense[_CASINO, 1, _OUT] = 1.0
        dense[_WON, :, _WON] = dense[_OUT, :, _OUT] = 1.0
        models.append(Dynamics.from_dense(dense))
    return Ensemble(models, task, weights=[1.0 - p_lose, p_lose])


_SIDE = 5
_CURRENT, _TURBULENCE = 3.0, 3.5
_PADDLING = {  # squares down the river and to the right
    "drift": (0, 0),
    "hold": (-1, 0),
    "paddle back": (-2, 0),
    "left": (0, -1),
    "right": (0, 1),
}


def wet_chicken(*, discount: float = 0.95) -> MDP:
    """Wet Chicken on a river of 5 x 5 squares.

    Parameters
    ----------
    discount
        In [0, 1).

    Returns
    -------
    MDP
        States are numbered ``5 x + y``; episodes do not end.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.wet_chicken()
    >>> round(float(world.value(bm.worlds.wet_chicken_baseline(0.1))[0]), 4)
    29.7502
    """
    discount = _below_one(discount)
    n = _SIDE * _SIDE
    theta = np.zeros((n, len(_PADDLING), n))
    edges = np.arange(_SIDE + 1) - 0.5
    for state in range(n):
        x, y = divmod(state, _SIDE)
        current = _CURRENT * y / _SIDE
        spread = _TURBULENCE - current
        for action, (down, right) in enumerate(_PADDLING.values()):
            middle = x + down + current
            below = np.clip((edges - middle + spread) / (2 * spread), 0.0, 1.0)
            lands = np.diff(below)
            lands[0] += below[0]  # the upper end holds the canoe
            side = min(max(y + right, 0), _SIDE - 1)
            theta[state, action, np.arange(_SIDE) * _SIDE + side] += lands
            theta[state, action, 0] += 1.0 - below[-1]  # over the fall
    pays = np.repeat(np.arange(_SIDE), _SIDE).astype(np.float64)
    before, taken, to = np.nonzero(theta)
    start = np.zeros(n)
    start[0] = 1.0
    task = Task(
        n,
        len(_PADDLING),
        (before, taken, to, pays[to]),
        discount=discount,
        start=start,
        action_labels=list(_PADDLING),
    )
    return MDP(Dynamics.from_dense(theta), task)


def wet_chicken_baseline(epsilon: float = 0.1) -> FloatArray:
    """Return the heuristic policy: towards the middle, and hold against the current.

    Parameters
    ----------
    epsilon
        Share of its choices that are made at random.

    Returns
    -------
    Array
        Policy ``[25, 5]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> bm.worlds.wet_chicken_baseline(0.5)[12].round(2).tolist()
    [0.1, 0.1, 0.6, 0.1, 0.1]
    """
    epsilon = _checks.real("epsilon", epsilon, ArgumentError, 0, 1)
    drift, hold, back, left, right = range(len(_PADDLING))
    x, y = np.divmod(np.arange(_SIDE * _SIDE), _SIDE)
    choice = np.select(
        [x > 2, y < 2, y > 2, x == 2, x == 1], [back, right, left, back, hold], drift
    )
    policy = np.full((x.size, len(_PADDLING)), epsilon / len(_PADDLING))
    policy[np.arange(x.size), choice] += 1.0 - epsilon
    return policy


_N_WEAR = 8
_REPAIR, _OVERHAUL = _N_WEAR, _N_WEAR + 1
_NOTHING, _FIX = 0, 1
_COST = {_N_WEAR - 1: 20.0, _REPAIR: 2.0, _OVERHAUL: 10.0}


def machine_replacement(*, discount: float = 0.8) -> MDP:
    """Repair a machine, or leave it alone.

    Parameters
    ----------
    discount
        In [0, 1).

    Returns
    -------
    MDP
        It starts in state ``"1"``, new; episodes do not end.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.machine_replacement()
    >>> best = bm.policies.nominal(bm.Ensemble([world.dynamics], world.task))
    >>> print(f"{world.value(best)[0]:.4f}")
    -1.4133
    """
    discount = _below_one(discount)
    n = _N_WEAR + 2
    theta = np.zeros((n, 2, n))
    for state in range(_N_WEAR):
        worn = min(state + 1, _N_WEAR - 1)
        theta[state, _NOTHING, state] += 0.2
        theta[state, _NOTHING, worn] += 0.8
        theta[state, _FIX, [worn, _REPAIR, _OVERHAUL]] += 0.3, 0.6, 0.1
    theta[_REPAIR, _NOTHING, [_REPAIR, 0]] = 0.2, 0.8
    theta[_REPAIR, _FIX, _REPAIR] = 1.0
    theta[_OVERHAUL, _NOTHING, _OVERHAUL] = 1.0
    theta[_OVERHAUL, _FIX, [_REPAIR, _OVERHAUL]] = 0.6, 0.4
    pays = np.zeros((n, 2))
    for state, cost in _COST.items():
        pays[state] = -cost
    task = Task(
        n,
        2,
        pays,
        discount=discount,
        start=0,
        state_labels=[*map(str, range(1, _N_WEAR + 1)), "repair", "overhaul"],
        action_labels=["nothing", "repair"],
    )
    return MDP(Dynamics.from_dense(theta), task)


_FILE = Path(__file__).parent / "riverswim.csv.gz"
_N_STATES, _DISCOUNT = 20, 0.9


def riverswim(path: str | Path | None = None) -> Ensemble:
    """Swim against a current of unknown strength.

    Parameters
    ----------
    path
        A file of other models in the authors' columns, such as those that policies are
        judged on; gzipped.

    Returns
    -------
    Ensemble
        Action 0 is left, action 1 right; every place is as likely a start.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> river = bm.worlds.riverswim()
    >>> river.n_models
    100
    >>> print(f"{bm.evaluate(bm.policies.nominal(river), river).start_value:.1f}")
    200.9
    """
    file = _FILE if path is None else Path(path)
    try:
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            rows = np.array(list(csv.reader(stream))[1:], dtype=np.float64)
    except (OSError, ValueError) as problem:
        raise DynamicsError(
            f"`path` must name a gzipped table of models; cannot read {file}: "
            f"{problem}."
        ) from problem
    state, action, to, model = rows[:, :4].astype(np.int64).T
    shape = model.max() + 1, _N_STATES, 2, _N_STATES
    theta, reward = np.zeros((2, *shape))
    theta[model, state, action, to], reward[model, state, action, to] = rows[:, 4:].T
    task = Task(
        _N_STATES,
        2,
        np.zeros((_N_STATES, 2)),
        discount=_DISCOUNT,
        action_labels=["left", "right"],
    )
    paid = (theta * reward).sum(axis=3)
    return Ensemble(theta, task, list(paid))


def _below_one(discount: float) -> float:
    discount = _checks.real("discount", discount, ArgumentError, 0, 1)
    if discount == 1.0:
        raise ArgumentError("`discount` must be below 1, for episodes do not end.")
    return discount
