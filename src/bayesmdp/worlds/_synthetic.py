"""The paper's synthetic problems (section 5.2): no structure, many of them.

Every row of the dynamics is drawn from a flat Dirichlet distribution, the reward of
each state from a standard normal one. The reward has a seed of its own, so that it
stays the same when the dynamics change.
"""

from __future__ import annotations

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import Seed
from bayesmdp.errors import ArgumentError
from bayesmdp.model import Dynamics, Task
from bayesmdp.worlds._mdp import MDP


def synthetic(
    seed: Seed,
    n_states: int = 5,
    n_actions: int = 5,
    reward_seed: Seed = 0,
    *,
    discount: float = 0.999,
) -> MDP:
    """Random dynamics without structure.

    Parameters
    ----------
    seed
        Which dynamics.
    n_states, n_actions
        Sizes.
    reward_seed
        Which rewards; the same for all ``seed``.
    discount
        In [0, 1).

    Examples
    --------
    >>> import bayesmdp as bm
    >>> one, two = bm.worlds.synthetic(1), bm.worlds.synthetic(2)
    >>> (one.task.reward == two.task.reward).all()
    np.True_
    """
    n_states = _checks.size("n_states", n_states, ArgumentError)
    n_actions = _checks.size("n_actions", n_actions, ArgumentError)
    rng = np.random.default_rng(_checks.seed_integer(seed))
    dense = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    reward_rng = np.random.default_rng(_checks.seed_integer(reward_seed))
    task = Task(
        n_states, n_actions, reward_rng.standard_normal(n_states), discount=discount
    )
    return MDP(Dynamics.from_dense(dense), task)
