"""Mirror ascent over policies: natural-gradient steps that find their own size.

A policy is a row of probabilities for each state. With ``slope[s, a] = mean(d (Q -
V))`` and ``visits[s] = mean(d)`` over a batch of draws, the step is ::

    pi[s, :] <- pi[s, :] exp(eta[s] slope[s, :] / visits[s]),  rows renormalised.

* **Size.** ``eta`` starts at the inverse of the typical advantage, so that rewards and
  discount set no scale, and goes on for each state by itself: a step that the next
  gradient surely opposes there (``slope . last step < 0``) was too long, and halves it
  and its growth; others let it grow. One hesitant state does not hold up the others.
* **Batch.** The next gradient, on fresh draws, says with an error whether the last step
  gained. Where it cannot tell, the batch doubles, so early steps are cheap, late ones
  precise. (The step's own draws would always say yes.) Where steps in a row drown in
  the noise of the largest batch, all ``eta`` halve and no longer grow; after several
  halvings the ascent has converged as far as draws can tell.
* **Stop.** ``sum_s max_a slope`` bounds to first order what any change of the policy
  can gain (the Frank-Wolfe gap, with two errors taken off each slope). Without noise,
  the ascent has converged where that is below a tolerance.

States that no draw reaches keep their row.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._sweep import Slopes

_GROW, _SHRINK = 1.15, 0.5
_DROWNED, _HALVINGS = 3, 2
_LEAST = 1e-12  # probability an action keeps during the ascent, so that it can return

#: Gradient of a policy [R] on so many fresh draws.
Oracle = Callable[[FloatArray, int], Slopes]


@dataclass(frozen=True)
class AscentSettings:
    """How an ascent is run."""

    n_steps: int
    max_batch: int
    tolerance: float  # Frank-Wolfe gap at which to stop, in units of the value


@dataclass(eq=False)
class AscentState:
    """What the next step needs."""

    policy: FloatArray  # [R]
    batch: int
    eta: FloatArray | None = None  # [N], a step size a state
    growth: float | FloatArray = _GROW  # [N], by which it grows
    step: int = 0
    last: FloatArray | None = None  # last change of the policy, [R]
    mean: FloatArray | None = None  # running mean of late policies, [R]
    gap: float = np.inf
    drowned: int = 0  # steps in a row whose gain the largest batch could not confirm
    halvings: int = 0  # of the step, once gains drown
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
        if state.gap <= settings.tolerance and not found.noise.any():
            state.converged = True
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
        if state.drowned >= _DROWNED and state.eta is not None:
            state.drowned, state.eta = 0, 0.5 * state.eta
            state.halvings += 1
            state.converged = state.halvings >= _HALVINGS


def _step(
    state: AscentState,
    found: Slopes,
    source: IntArray,
    n_live: int,
    settings: AscentSettings,
) -> None:
    """Take one step and adapt its sizes and the batch."""
    visits = found.visits[source]
    advantage = np.zeros_like(found.slope)
    np.divide(found.slope, visits, advantage, where=visits > 0)
    if state.eta is None:
        weight = visits / max(visits.sum(), 1e-300)
        typical = np.sqrt(weight @ advantage**2)
        state.eta = np.full(n_live, 2.0 / typical if typical > 0 else 1.0)
    elif state.last is not None:
        turn = np.bincount(source, found.slope * state.last, minlength=n_live)
        noise = np.bincount(source, found.noise * state.last**2, minlength=n_live)
        opposed = turn < -2.0 * np.sqrt(noise)
        state.growth = np.where(opposed, 0.5 + 0.5 * state.growth, state.growth)
        grow = state.growth if state.halvings == 0 else 1.0
        state.eta = state.eta * np.where(opposed, _SHRINK, grow)
        if found.noise.any():
            _follow_noise(state, bool(turn.sum() < np.sqrt(noise.sum())), settings)
    power = np.clip(state.eta[source] * advantage, -30.0, 30.0)
    new = np.maximum(state.policy, _LEAST) * np.exp(power)
    new /= np.bincount(source, new, minlength=n_live)[source]
    state.policy, state.last = new, new - state.policy
    state.step += 1
    if 3 * state.step >= 2 * settings.n_steps or state.batch == settings.max_batch:
        mean = state.mean
        state.mean = new.copy() if mean is None else 0.9 * mean + 0.1 * new
