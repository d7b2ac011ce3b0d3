"""Logs of Markov problems, and logs with a hidden frailty, each a function of its seed.

**Markov.** Every log is of a problem of its own: next states depend on state and action
alone. Actions need not: where an action is *kept*, it repeats the one before it.

**Hidden frailty.** One problem: a ladder of severity with a good and a bad end and two
treatments. Half of the patients, unknown which, are frail: their hazard of the bad end
is multiplied by ``1 + f``, that of the others by ``1 - f``, and clinicians, who see it,
treat the frail more often. What a Markov model learns from infinitely many such
patients is, in each pair, the mixture of both kinds in the proportion in which they
visit it. Its best policy has a predicted value in that model, and a true one, the mean
over both kinds: frailty of size f *shifts* the chosen policy's value by the difference.
"""

import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import FloatArray

DISCOUNT = 0.99


@dataclass(frozen=True)
class Design:
    """A kind of Markov log."""

    name: str
    n_states: int  # that are not ends
    n_actions: int
    ending: float  # probability of an end per step; 0: a continuing task
    episodes: int
    longest: int  # steps, where an episode is cut
    ladder: bool = False  # moves lead to neighbours, so that states return quickly
    keep: float = 0.0  # probability of repeating the action before


NULL = (
    Design("short episodes", 5, 2, 0.3, 200, 60),
    Design("long episodes", 5, 2, 0.03, 100, 300),
    Design("many states", 60, 4, 0.1, 300, 200),
    Design("ladder of 40 states", 40, 2, 0.05, 100, 300, ladder=True),
    Design("actions that are kept", 12, 3, 0.1, 150, 200, keep=0.8),
    Design("cut at 8 steps", 12, 3, 0.05, 200, 8, keep=0.5),
    Design("10 long episodes, continuing", 6, 2, 0.0, 10, 150),
)
SHIFTS = (0.005, 0.01, 0.02)
PATIENTS = (1000, 5000)


def markov_log(design: Design, seed: int) -> tuple[bm.Transitions, bm.Task]:
    """Draw a model and a log of it."""
    rng = np.random.default_rng([seed, zlib.crc32(design.name.encode())])
    theta = _model(design, rng)
    n, ends = design.n_states, theta.shape[0] - design.n_states
    reward = rng.random(n + ends) if not ends else np.zeros(n + ends)
    reward[n : n + 1] = 1.0
    task = bm.Task(
        n + ends,
        design.n_actions,
        reward,
        discount=DISCOUNT,
        terminal=[*range(n, n + ends)],
    )
    even = np.full((theta.shape[0], design.n_actions), 1 / design.n_actions)
    rows = _walk(
        theta[None],
        even[None],
        np.zeros(design.episodes, dtype=np.int64),
        rng.integers(0, n, design.episodes),
        design,
        rng,
    )
    return rows, task


def _model(design: Design, rng: np.random.Generator) -> FloatArray:
    n, ends = design.n_states, 2 if design.ending else 0
    theta = np.zeros((n + ends, design.n_actions, n + ends))
    if design.ladder:
        up = rng.uniform(0.3, 0.7, (n, design.n_actions))
        for s in range(n):
            theta[s, :, min(s + 1, n - 1)] += 0.9 * up[s]
            theta[s, :, max(s - 1, 0)] += 0.9 * (1 - up[s])
            theta[s, :, s] += 0.1
    else:
        common = rng.dirichlet(np.full(n, 0.2), size=n)[:, None]
        own = rng.dirichlet(np.full(n, 0.2), size=(n, design.n_actions))
        theta[:n, :, :n] = 0.7 * common + 0.3 * own
    theta *= 1 - design.ending
    if ends:
        good = rng.uniform(0.2, 0.8, (n, design.n_actions))
        theta[:n, :, n] = design.ending * good
        theta[:n, :, n + 1] = design.ending * (1 - good)
        theta[[n, n + 1], :, [n, n + 1]] = 1.0
    return theta


def _walk(
    theta: FloatArray,
    policy: FloatArray,
    kind: np.ndarray,
    state: np.ndarray,
    design: Design,
    rng: np.random.Generator,
) -> bm.Transitions:
    """Follow all episodes at once; each has the rows and policy of its kind."""
    below, chosen = theta.cumsum(axis=3), policy.cumsum(axis=2)
    episode, last = np.arange(state.size), theta.shape[1] - 1
    action = np.full(state.size, -1)
    found = []
    for t in range(design.longest):
        u = rng.random(state.size)[:, None]
        fresh = np.minimum((u > chosen[kind, state]).sum(axis=1), design.n_actions - 1)
        again = (rng.random(state.size) < design.keep) & (action >= 0)
        action = np.where(again, action, fresh)
        u = rng.random(state.size)[:, None]
        after = np.minimum((u > below[kind, state, action]).sum(axis=1), last)
        found.append((episode, np.full(state.size, t), state, action, after))
        on = after < design.n_states
        episode, kind, state, action = (x[on] for x in (episode, kind, after, action))
    episode, step, state, action, after = map(np.concatenate, zip(*found, strict=True))
    return bm.Transitions.from_arrays(
        state,
        action,
        after,
        episode=episode,
        step=step,
        n_states=theta.shape[1],
        n_actions=design.n_actions,
    )


_N = 6  # steps of the ladder
_FRAIL = Design("frailty", _N, 2, 0.1, 0, 300)


def _frail_task() -> bm.Task:
    reward = np.zeros(_N + 2)
    reward[_N] = 1.0
    start = np.append(np.full(_N, 1 / _N), [0, 0])
    ends = [_N, _N + 1]
    return bm.Task(_N + 2, 2, reward, discount=1.0, start=start, terminal=ends)


def _frail_models(f: float) -> tuple[FloatArray, FloatArray]:
    """Rows ``[2, S, A, S]`` and policies ``[2, S, A]`` of robust and frail patients."""
    theta = np.zeros((2, _N + 2, 2, _N + 2))
    severity = np.arange(_N) / (_N - 1)
    for kind, factor in enumerate((1 - f, 1 + f)):
        for a in range(2):
            # treatment helps so much that it is chosen whatever the frailty
            bad = (0.02 + 0.12 * severity) * (0.6 if a else 1.0) * factor
            good = 0.14 - 0.12 * severity
            for s in range(_N):
                rest = 1 - bad[s] - good[s]
                theta[kind, s, a, max(s - 1, 0)] += 0.35 * rest
                theta[kind, s, a, min(s + 1, _N - 1)] += 0.3 * rest
                theta[kind, s, a, s] += 0.35 * rest
                theta[kind, s, a, _N:] = good[s], bad[s]
        theta[kind, [_N, _N + 1], :, [_N, _N + 1]] = 1.0
    treat = np.array([0.35, 0.65])
    policy = np.stack([np.tile([1 - x, x], (_N + 2, 1)) for x in treat])
    return theta, policy


def shift(f: float) -> float:
    """Return predicted minus true value of what infinite data would choose."""
    task, (theta, policy) = _frail_task(), _frail_models(f)
    visits = np.zeros((2, _N, 2))
    for kind in range(2):
        chain = np.einsum("sa,sat->st", policy[kind, :_N], theta[kind, :_N])[:, :_N]
        there = np.linalg.solve(np.eye(_N) - chain.T, task.start[:_N])
        visits[kind] = there[:, None] * policy[kind, :_N]
    mixed = theta[0].copy()
    share = visits / visits.sum(axis=0)
    mixed[:_N] = np.einsum("ksa,ksat->sat", share, theta[:, :_N])
    counts = bm.Counts.from_dense(np.rint(1e9 * mixed).astype(np.int64))
    belief = bm.fit(counts, task, prior=bm.ScaledPrior(1.0))
    chosen = bm.policies.mle(belief)

    def value(rows: FloatArray) -> float:
        world = bm.MDP(bm.Dynamics.from_dense(rows), task)
        return float(task.start @ world.value(chosen))

    return value(mixed) - float(np.mean([value(x) for x in theta]))


@cache
def frailty_of(wanted: float) -> float:
    """Return the frailty f that shifts the chosen policy's value by so much."""
    low, high = 0.0, 0.95
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if abs(shift(middle)) < wanted else (low, middle)
    return (low + high) / 2


def frail_log(n: int, f: float, seed: int) -> tuple[bm.Transitions, bm.Task]:
    """Draw patients of both kinds, in random order."""
    rng = np.random.default_rng([seed, n, round(1e6 * f)])
    rows = _walk(
        *_frail_models(f),
        rng.permuted(np.arange(n) % 2),
        rng.integers(0, _N, n),
        _FRAIL,
        rng,
    )
    return rows, _frail_task()
