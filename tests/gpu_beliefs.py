"""Beliefs of every kind of stream, for devices to draw from and compute with."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayesmdp as bm
from bayesmdp.posterior import Belief

Array = NDArray[np.float64]

N_MODELS = 40

WORLD = bm.worlds.gridworld(discount=0.95)
LOG = WORLD.sample(900, seed=1)
S, A = WORLD.task.n_states, WORLD.task.n_actions
RNG = np.random.default_rng(5)
STOCHASTIC = RNG.dirichlet(np.ones(A), S)
CHOICE = np.eye(A)[RNG.integers(A, size=S)]  # most rows are not used


def fit(prior: Any, task: bm.Task = WORLD.task) -> Any:
    return bm.fit(LOG, task, prior=prior)


def faint() -> Any:
    """Rows without a visit, all of whose variates underflow in some draws."""
    return bm.fit(WORLD.sample(40, seed=1), WORLD.task, prior=bm.SymmetricPrior(1e-4))


def large() -> Any:
    """Shapes below 1 and far above, none of them whole."""
    some = np.random.default_rng(2).integers(-200, 400, size=(S, A, S)).clip(0)
    some[WORLD.task.terminal] = 0
    at = np.nonzero(some)
    counts = bm.Counts.from_arrays(*at, some[at])
    return bm.fit(counts, WORLD.task, prior=bm.SymmetricPrior(0.3))


def mixture() -> Any:
    parts = [
        bm.SymmetricPrior(0.5, support=WORLD.support),
        bm.ScaledPrior(2.0),
        bm.SparsePrior(fallback=S - 1),
    ]
    return fit(bm.MixturePrior(parts, posterior_weights=[0.5, 0.3, 0.2]))


def ensemble() -> bm.Ensemble:
    """Forty models with weights, and rewards of their own."""
    draws = fit(bm.SymmetricPrior(0.3)).draws(N_MODELS, seed=4)
    models = [draws.dynamics(i) for i in range(N_MODELS)]
    rng = np.random.default_rng(7)
    rewards = [rng.normal(size=S) for _ in models]
    weights = rng.dirichlet(np.full(N_MODELS, 5.0))
    return bm.Ensemble(models, WORLD.task, weights=weights, rewards=rewards)


def several() -> Any:
    """Two rewards of one discount, and one of another."""
    reward = np.random.default_rng(3).normal(size=(3, S))
    task = bm.Task(
        S,
        A,
        {"a": reward[0], "b": reward[1], "c": reward[2]},
        discount={"a": 0.95, "b": 0.95, "c": 0.8},
        terminal=WORLD.task.terminal,
        start=WORLD.task.start,
    )
    return fit(bm.SymmetricPrior(0.3), task)


def starts_at_an_end() -> Any:
    """Some episodes begin where they end, and are paid there."""
    start = np.linspace(0.0, 1.0, S)
    reward = np.random.default_rng(9).normal(size=S)
    start, terminal = start / start.sum(), WORLD.task.terminal
    task = bm.Task(S, A, reward, discount=0.9, terminal=terminal, start=start)
    return fit(bm.SymmetricPrior(0.3), task)


def undiscounted() -> Any:
    task = bm.Task(
        S,
        A,
        np.ones(S),
        discount=1.0,
        terminal=WORLD.task.terminal,
        start=WORLD.task.start,
    )
    return fit(bm.SymmetricPrior(0.5), task)


BELIEFS: dict[str, Callable[[], Belief]] = {
    "faint rows": faint,
    "concentration 0.02": lambda: fit(bm.SymmetricPrior(0.02)),
    "starts at an end": starts_at_an_end,
    "concentration 0.3": lambda: fit(bm.SymmetricPrior(0.3)),
    "whole shapes": lambda: fit(bm.SymmetricPrior(1.0)),
    "large shapes": large,
    "few next states": lambda: fit(bm.SymmetricPrior(0.5, support=WORLD.support)),
    "random supports": lambda: fit(bm.RandomSupportPrior()),
    "hierarchical": lambda: fit(None),
    "mixture": mixture,
    "ensemble": ensemble,
}
_MADE: dict[Any, Belief] = {}


def belief_of(make: Callable[[], Belief]) -> Any:
    """Return a belief that several cases share."""
    if make not in _MADE:
        _MADE[make] = make()
    return _MADE[make]
