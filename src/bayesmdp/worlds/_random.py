"""Random worlds: the paper's synthetic problems, and a benchmark of safe improvement.

**Synthetic** (section 5.2 of the paper): no structure, many of them. Every row of the
dynamics is drawn from a flat Dirichlet distribution, the reward of each state from a
standard normal one. The reward has a seed of its own, so that it stays the same when
the dynamics change.

**Random MDPs** (Laroche et al. 2019). Every pair leads to a few states, drawn without
replacement, with probabilities that cut the unit interval at uniform points. An episode
starts in state 0 and pays 1 on reaching the goal, which ends it: the state that the
best policy needs longest to reach, as long as its discounted value is above that of 50
steps.

The baseline is a softmax policy of the best action values, made softer until it is
within ``(1 + ratio) / 2`` of the way from the uniform random policy to the best; then
the best action of random states loses a tenth of its probability, over and over, until
the baseline is ``ratio`` of the way.
"""

from __future__ import annotations

import numpy as np

from bayesmdp import _checks
from bayesmdp._typing import FloatArray, IntArray, Seed
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


_LONGEST = 50  # steps that the goal may be away
_SOFTER, _FIRST = 0.9, 1e6  # inverse temperature: factor, and where it begins
_LESS = 0.9  # what perturbation leaves of a probability


def random_mdp(
    seed: Seed,
    n_states: int = 50,
    n_actions: int = 4,
    n_next: int = 4,
    *,
    discount: float = 0.95,
) -> MDP:
    """Random dynamics with one goal, far from the start.

    Parameters
    ----------
    seed
        Which.
    n_states, n_actions
        Sizes.
    n_next
        Next states of each pair.
    discount
        In (0, 1).

    Returns
    -------
    MDP
        Its start is state 0, its only terminal state the goal, which pays 1.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.random_mdp(1)
    >>> best = bm.policies.nominal(bm.Ensemble([world.dynamics], world.task))
    >>> print(f"{world.value(best)[0]:.4f}")
    0.6693
    """
    n = _checks.size("n_states", n_states, ArgumentError)
    n_actions = _checks.size("n_actions", n_actions, ArgumentError)
    if n < 2:
        raise ArgumentError("`n_states` must be at least 2, a start and a goal; got 1.")
    n_next = _checks.integer("n_next", n_next, 1, ArgumentError)
    if n_next > n:
        raise ArgumentError(
            f"`n_next` must be at most `n_states`, which is {n}; got {n_next}."
        )
    discount = _checks.real("discount", discount, ArgumentError, 0, 1, open_low=True)
    if discount == 1.0:
        raise ArgumentError("`discount` must be below 1, or every goal is as near.")
    rng = np.random.default_rng(_checks.seed_integer(seed))
    theta = np.zeros((n, n_actions, n))
    for s in range(n):
        for a in range(n_actions):
            cuts = np.sort(rng.uniform(size=n_next - 1))
            to = rng.choice(n, n_next, replace=False)
            theta[s, a, to] = np.diff(cuts, prepend=0.0, append=1.0)
    goal = _farthest(theta, discount)
    before, taken, to = np.nonzero(theta)
    kept = (to == goal) & (before != goal)
    pays = before[kept], taken[kept], to[kept], np.ones(kept.sum())
    task = Task(n, n_actions, pays, discount=discount, start=0, terminal=[goal])
    return MDP(Dynamics.from_dense(theta), task)


def random_mdp_baseline(world: MDP, ratio: float = 0.5, seed: Seed = 0) -> FloatArray:
    """Return a policy between the uniform random one and the best.

    Parameters
    ----------
    world
        From `random_mdp`.
    ratio
        How far its value from the start is on the way, in (0, 1).
    seed
        Which.

    Returns
    -------
    Array
        Policy ``[S, A]``.

    Examples
    --------
    >>> import bayesmdp as bm
    >>> world = bm.worlds.random_mdp(1)
    >>> baseline = bm.worlds.random_mdp_baseline(world, 0.5)
    >>> print(f"{world.value(baseline)[0]:.4f}")
    0.4081
    """
    _checks.of_type("world", world, MDP, ArgumentError)
    ratio = _checks.real("ratio", ratio, ArgumentError, 0, 1, open_low=True)
    if ratio == 1.0:
        raise ArgumentError("`ratio` must be below 1: the best needs no improvement.")
    rng = np.random.default_rng(_checks.seed_integer(seed))
    theta, task = world.dynamics.to_dense(), world.task
    goal = int(task.terminal[0])
    best_value, q = _best(theta, goal, task.discount)
    uniform = np.full(q.shape, 1.0 / q.shape[1])
    low = _value(theta, uniform, goal, task.discount)[0]
    high = best_value[0]
    sharp, policy = _FIRST, _softmax(_FIRST * q)
    wanted = low + (1 + ratio) / 2 * (high - low)
    while _value(theta, policy, goal, task.discount)[0] > wanted:
        sharp *= _SOFTER
        policy = _softmax(sharp * q)
    wanted = low + ratio * (high - low)
    while _value(theta, policy, goal, task.discount)[0] > wanted:
        state = int(rng.integers(len(q)))
        policy[state, q[state].argmax()] *= _LESS
        policy[state] /= policy[state].sum()
    policy[goal] = 0.0
    return policy


def _softmax(q: FloatArray) -> FloatArray:
    out = np.exp(q - q.max(axis=1, keepdims=True))
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def _value(
    theta: FloatArray, policy: FloatArray, goal: int, discount: float
) -> FloatArray:
    """Values ``[S]`` of a policy where reaching the goal pays 1 and ends."""
    chain = np.einsum("sa,sat->st", policy, theta)
    chain[goal] = 0.0
    paid = chain[:, goal].copy()
    return np.linalg.solve(np.eye(len(chain)) - discount * chain, paid)


def _best(
    theta: FloatArray, goal: int, discount: float
) -> tuple[FloatArray, FloatArray]:
    """Best values ``[S]``, and values of actions ``[S, A]``, by policy iteration."""
    n, n_actions, _ = theta.shape
    choice: IntArray = theta[:, :, goal].argmax(axis=1)
    while True:
        value = _value(theta, np.eye(n_actions)[choice], goal, discount)
        value[goal] = 0.0
        q = theta[:, :, goal] + discount * theta @ value
        q[goal] = 0.0
        kept = q[np.arange(n), choice]
        better = np.where(q.max(axis=1) > kept + 1e-12, q.argmax(axis=1), choice)
        if np.array_equal(better, choice):
            return value, q
        choice = better


def _farthest(theta: FloatArray, discount: float) -> int:
    """Goal whose best value from state 0 is smallest, but above that of 50 steps."""
    values = np.array([_best(theta, g, discount)[0][0] for g in range(1, len(theta))])
    values[values <= discount**_LONGEST] = np.inf
    return int(values.argmin()) + 1
