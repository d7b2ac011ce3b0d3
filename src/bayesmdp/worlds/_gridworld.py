"""The paper's gridworld (section 5.1): a cliff at the bottom, a goal in its corner.

States are numbered row by row from the top left. The bottom row is terminal: failure,
but for the goal in the bottom right corner: entering it pays 1. With probability
``p_rand`` the wind pushes the agent down, otherwise it moves as it chose; at the edge
it stays.
"""

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import IntArray
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Dynamics, Task
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
