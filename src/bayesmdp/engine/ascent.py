"""Mirror ascent over policies: natural-gradient steps that find their own size.

A policy is a row of probabilities for each state. With ``slope[s, a] = mean(d (Q -
V))`` and ``visits[s] = mean(d)`` over a batch of draws, the step is ::

    pi <- pi exp(eta slope / visits),  rows renormalised.

* **Size.** ``eta`` starts at the inverse of the typical advantage, so that rewards and
  discount set no scale. A step that the next gradient opposes (``slope . last step <
  0``, beyond its noise) was too long, and halves ``eta``; others let it grow.
* **Batch.** The next gradient, on fresh draws, says with an error whether the last step
  gained. Where it cannot tell, the batch doubles, so early steps are cheap, late ones
  precise. (The step's own draws would always say yes.)
* **Stop.** ``sum_s max_a slope`` bounds to first order what any change of the policy
  can gain (the Frank-Wolfe gap, with two errors taken off each slope). The ascent has
  converged where that is below a tolerance, or where the gains of several steps in a
  row drown in the noise of the largest batch.

States that no draw reaches keep their row.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._sweep import Slopes

_GROW, _SHRINK = 1.15, 0.5
_DROWNED = 8
_LEAST = 1e-12  # probability an action keeps during the ascent, so that it can return

#: Gradient of a policy [R] on so many fresh draws.
Oracle = Callable[[FloatArray, int], Slopes]


@dataclass(frozen=True)
class AscentSettings:
    """How an ascent is run."""

    n_steps: int
    batch: int
    max_batch: int
    tolerance: float  # Frank-Wolfe gap at which to stop, in units of the value


@dataclass(eq=False)
class AscentState:
    """What the next step needs."""

    policy: FloatArray  # [R]
    batch: int
    eta: float = 0.0
    step: int = 0
    last: FloatArray | None = None  # last change of the policy, [R]
    mean: FloatArray | None = None  # running mean of late policies, [R]
    gap: float = np.inf
    drowned: int = 0  # steps in a row whose gain no batch could tell from noise
    values: list[float] = field(default_factory=list)
    converged: bool = False


def soften(
    policy: FloatArray, source: IntArray, n_live: int, softness: float
) -> FloatArray:
    """Mix rows ``[R]`` with an even choice among the rows of their state."""
    share = 1.0 / np.bincount(source, minlength=n_live)[source]
    return np.asarray((1.0 - softness) * policy + softness * share)


def climb(
    state: AscentState,
    oracle: Oracle,
    source: IntArray,
    n_live: int,
    settings: AscentSettings,
    after_step: Callable[[AscentState], None] | None = None,
) -> AscentState:
    """Go on from a state until the gap is small or the steps are used up."""
    while state.step < settings.n_steps and not state.converged:
        found = oracle(state.policy, state.batch)
        state.values.append(found.value)
        state.gap = gap(found, source, n_live)
        if state.gap <= settings.tolerance:
            state.converged = state.batch >= settings.max_batch or not found.noise.any()
            state.batch = min(2 * state.batch, settings.max_batch)
            if state.converged:
                break
        _step(state, found, source, n_live, settings)
        if after_step is not None:
            after_step(state)
    return state


def gap(found: Slopes, source: IntArray, n_live: int) -> float:
    """Bound on the first-order gain of any change, less what noise alone would show."""
    best = np.zeros(n_live)
    sure = found.slope - 2.0 * np.sqrt(found.noise)
    np.maximum.at(best, source, sure)
    return float(best.sum())


def _follow_noise(state: AscentState, unsure: bool, settings: AscentSettings) -> None:
    """Enlarge the batch where fresh draws cannot confirm the last step."""
    if not unsure:
        state.drowned = 0
    elif state.batch < settings.max_batch:
        state.batch = min(2 * state.batch, settings.max_batch)
    else:
        state.drowned += 1
        state.converged = state.drowned >= _DROWNED


def _step(
    state: AscentState,
    found: Slopes,
    source: IntArray,
    n_live: int,
    settings: AscentSettings,
) -> None:
    """Take one step and adapt its size and the batch."""
    visits = found.visits[source]
    reached = visits > 0
    advantage = np.zeros_like(found.slope)
    np.divide(found.slope, visits, advantage, where=reached)
    if state.eta == 0.0:
        weight = visits / max(visits.sum(), 1e-300)
        typical = np.sqrt(weight @ advantage**2)
        state.eta = 2.0 / typical if typical > 0 else 1.0
    elif state.last is not None:
        turn = found.slope @ state.last
        error = np.sqrt(found.noise @ state.last**2)
        state.eta *= _SHRINK if turn < -error else _GROW
        _follow_noise(state, bool(turn < 2.0 * error), settings)
    power = np.clip(state.eta * advantage, -30.0, 30.0)
    new = np.maximum(state.policy, _LEAST) * np.exp(power)
    new /= np.bincount(source, new, minlength=n_live)[source]
    state.policy, state.last = new, new - state.policy
    state.step += 1
    if 3 * state.step >= 2 * settings.n_steps or state.batch == settings.max_batch:
        mean = state.mean
        state.mean = new.copy() if mean is None else 0.9 * mean + 0.1 * new
