"""Rewards of some transitions, in a form that nothing else can be mistaken for."""

from typing import NamedTuple

import numpy as np

from bayesmdp._typing import FloatArray, IntArray


class RewardTriplets(NamedTuple):
    """Rewards of some transitions, zero elsewhere: how a `Task` keeps four columns.

    A task takes it as a reward, too. Of four states, four columns as long as there are
    actions might be ``[S, A]``; this cannot.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> task = bm.Task(3, 2, reward=([0, 1], [0, 1], [2, 2], [1.0, 5.0]), discount=0.9)
    >>> task.reward.key.tolist(), task.reward.reward.tolist()
    ([2, 11], [1.0, 5.0])
    >>> bm.Task(3, 2, task.reward, discount=1, terminal=2).discount
    1.0
    """

    key: IntArray  # [K], (state * n_actions + action) * n_states + next_state
    reward: FloatArray  # [K]


def reward_triplets(
    state: IntArray,
    action: IntArray,
    next_state: IntArray,
    reward: FloatArray,
    *,
    n_states: int,
    n_actions: int,
) -> RewardTriplets:
    """Join columns ``[K]`` of valid ids into triplets.

    Examples
    --------
    >>> import numpy as np, bayesmdp as bm
    >>> columns = (np.array([0]), np.array([1]), np.array([2]), np.array([5.0]))
    >>> bm.model.reward_triplets(*columns, n_states=3, n_actions=2).key.tolist()
    [5]
    """
    return RewardTriplets((state * n_actions + action) * n_states + next_state, reward)


def columns_of(
    key: IntArray, n_states: int, n_actions: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return state, action and next state of keys, ``[K]`` each."""
    pair, next_state = np.divmod(key, n_states)
    return *np.divmod(pair, n_actions), next_state
