"""Synthetic problems of section 5.2: worlds, data sets, and what is believed of them.

Five states, five actions, every row of the dynamics from a flat Dirichlet distribution.
One reward of the states, drawn once from a standard normal distribution, serves all
worlds. Data set k holds k outcomes of every pair, k = 1, ..., 10; a smaller one is the
beginning of a larger one.
"""

import numpy as np

import bayesmdp as bm

PAIRS = 25  # of a state and an action, each visited as often
SIZES = tuple(range(1, 11))  # visits of every pair
DISCOUNT = 0.999
# The published one, so that values have the published scale.
REWARD = (
    1.5409960746765137,
    -0.293428897857666,
    -2.1787893772125244,
    0.5684312582015991,
    -1.0845223665237427,
)
_DATA = 1  # keeps the stream of outcomes apart from that of the dynamics


def world(number: int) -> bm.MDP:
    """Return one of the worlds; any whole number from 0 names one."""
    dynamics = bm.worlds.synthetic(number).dynamics
    n = len(REWARD)
    return bm.MDP(dynamics, bm.Task(n, n, REWARD, discount=DISCOUNT))


def datasets(number: int) -> dict[int, bm.Counts]:
    """Return the nested data sets of a world, by visits of every pair."""
    truth = world(number).dynamics.to_dense()
    n_states, n_actions, _ = truth.shape
    rng = np.random.default_rng([number, _DATA])
    luck = rng.random((n_states, n_actions, SIZES[-1], 1))
    # The last step of the running sum may fall short of 1 by rounding.
    steps = np.cumsum(truth, axis=2)[:, :, None, :-1]
    outcome = (luck > steps).sum(axis=3)  # [S, A, visit]
    seen = np.eye(n_states, dtype=np.int64)[outcome]  # [S, A, visit, S]
    return {k: bm.Counts.from_dense(seen[:, :, :k].sum(axis=2)) for k in SIZES}


def believe(counts: bm.Counts, task: bm.Task) -> bm.Posterior:
    """Learn from a data set with the prior of the paper: 1 for every next state."""
    return bm.fit(counts, task, prior=bm.SymmetricPrior(1.0))
