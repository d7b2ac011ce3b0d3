"""Mirror ascent over policies: natural-gradient steps that find their own size.

A policy is a row of probabilities for each state. With ``slope[s, a] = mean(d (Q -
V))`` and ``visits[s] = mean(d)`` over a sample of draws that all steps share, the step
is ::

    pi[s, :] <- pi[s, :] exp(eta[s] slope[s, :] / visits[s]),  rows renormalised.

* **Size.** ``eta`` starts at the inverse of the typical advantage, so that rewards and
  discount set no scale, and goes on for each state by itself: a step that the next
  gradient opposes there (``slope . last step < 0``) was too long, and halves it and its
  growth; others let it grow. One hesitant state does not hold up the others.
* **Stop.** ``sum_s max_a slope`` bounds to first order what any change of the policy
  can gain (the Frank-Wolfe gap). The ascent ends where that, as the caller estimates
  it, is below a tolerance.

States that no draw reaches keep their row.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.engine._slopes import Slopes

_GROW, _SHRINK = 1.15, 0.5
_LEAST = 1e-12  # probability an action keeps during the ascent, so that it can return

#: Gradient of a policy [R].
Oracle = Callable[[FloatArray], Slopes]


@dataclass(eq=False)
class AscentState:
    """What the next step needs."""

    policy: FloatArray  # [R]
    eta: FloatArray | None = None  # [N], a step size for each state
    growth: float | FloatArray = _GROW  # [N], by which it grows
    last: FloatArray | None = None  # last change of the policy, [R]
    step: int = 0


def soften(
    policy: FloatArray, source: IntArray, n_live: int, softness: float
) -> FloatArray:
    """Mix rows ``[R]`` with the uniform random policy."""
    share = 1.0 / np.bincount(source, minlength=n_live)[source]
    return np.asarray((1.0 - softness) * policy + softness * share)


def climb(
    state: AscentState,
    oracle: Oracle,
    source: IntArray,
    n_live: int,
    most: int,
    tolerance: float,
    after_step: Callable[[AscentState, Slopes], bool] | None = None,
) -> bool:
    """Take up to ``most`` steps; whether the gap fell to the tolerance.

    ``after_step`` may say False to stop.
    """
    for _ in range(most):
        found = oracle(state.policy)
        if found.gap - found.gap_error <= tolerance:
            return True
        _step(state, found, source, n_live)
        if after_step is not None and not after_step(state, found):
            break
    return False


def frank_wolfe_gap(slope: FloatArray, source: IntArray, n_live: int) -> float:
    """Bound on the first-order gain of any change of a policy."""
    best = np.zeros(n_live)
    np.maximum.at(best, source, slope)
    return float(best.sum())


def _step(state: AscentState, found: Slopes, source: IntArray, n_live: int) -> None:
    """Take one step and adapt its sizes."""
    visits = found.visits[source]
    advantage = np.zeros_like(found.slope)
    np.divide(found.slope, visits, advantage, where=visits > 0)
    if state.eta is None:
        weight = np.maximum(visits, 0.0)
        weight = weight / max(weight.sum(), 1e-300)
        typical = np.sqrt(weight @ advantage**2)
        state.eta = np.full(n_live, 2.0 / typical if typical > 0 else 1.0)
    elif state.last is not None:
        turn = np.bincount(source, found.slope * state.last, minlength=n_live)
        opposed = turn < 0
        state.growth = np.where(opposed, 0.5 + 0.5 * state.growth, state.growth)
        state.eta = state.eta * np.where(opposed, _SHRINK, state.growth)
    power = np.clip(state.eta[source] * advantage, -30.0, 30.0)
    new = np.maximum(state.policy, _LEAST) * np.exp(power)
    new /= np.bincount(source, new, minlength=n_live)[source]
    state.policy, state.last = new, new - state.policy
    state.step += 1
