"""Gradients of one policy's value over draws, and mirror ascent along them.

A policy is a row of probabilities for each state. With ``slope[s, a] = mean(d (Q -
V))`` and ``visits[s] = mean(d)`` over a sample of draws that all steps share, a step is
::

    pi[s, :] <- pi[s, :] exp(eta[s] slope[s, :] / visits[s]),  rows renormalised.

* **Size.** ``eta`` starts at the inverse of the typical advantage, so that rewards and
  discount set no scale, and goes on for each state by itself: a step that the next
  gradient opposes there (``slope . last step < 0``) was too long, and halves it and its
  growth; others let it grow. One hesitant state does not hold up the others.
* **Stop.** ``sum_s max_a slope`` bounds to first order what any change of the policy
  can gain (the Frank-Wolfe gap). On a sample it is too large, because the largest of
  noisy slopes is. So each half of the draws chooses the actions, and the other half
  says what they gain. The ascent ends where that is below a tolerance.

States that no draw reaches keep their row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesmdp._typing import BoolArray, FloatArray, IntArray
from bayesmdp.engine import _backend as channels
from bayesmdp.engine._backend import BLOCK, Nominal, Sums, blank
from bayesmdp.engine._rows import Problem
from bayesmdp.engine._sweep import Pool, Want, sweep
from bayesmdp.errors import EndlessError

_ENDLESS = "No draw of this policy ends or can be solved for."


@dataclass(frozen=True, eq=False)
class Slopes:
    """Gradient of a policy's objective, and what is left to gain."""

    value: float  # mean start value
    slope: FloatArray  # [R], mean of d (Q - V)
    visits: FloatArray  # [N], mean occupancy
    gap: float  # Frank-Wolfe gap
    gap_mcse: float  # its Monte Carlo error; 0 where the draws are all there are


def slopes(
    problem: Problem,
    policy: FloatArray,
    n_draws: int,
    *,
    pool: Pool,
    first: int = 0,
    weights: FloatArray | None = None,
    total: float | None = None,
    exact: bool = False,
    solver: str = "auto",
    held: BoolArray | None = None,
) -> Slopes:
    """Gradient of a policy ``[R]`` on draws of a problem that holds every row.

    Draws are weighted by ``weights`` [D], which may be 0 or negative, and sums divided
    by ``total``, by default what the draws that end weigh. With ``exact`` the draws are
    all there are. Where rows that are ``held`` [R] keep their probability, the gradient
    is that of the others' shares of what is left in their state.
    """
    one = problem.with_policies(policy[None])
    around = _around(one, Want(gradient=True), pool, solver)
    half = 0 if exact else n_draws // (2 * BLOCK) * BLOCK
    parts = []
    for begin, end in ((0, half), (half, n_draws)) if half else ((0, n_draws),):
        sums = sweep(
            one,
            around,
            end - begin,
            want=Want(gradient=True),
            pool=pool,
            first=first + begin,
            weights=None if weights is None else weights[begin:end],
        )
        share = None if total is None else total * (end - begin) / n_draws
        part = _Part.of(sums, share)
        parts.append(part if held is None else part.without(held, policy, problem))
    every = sum(part.total for part in parts)
    shares = [part.total / every for part in parts]
    value, slope, visits = (
        sum(x * getattr(part, name) for x, part in zip(shares, parts, strict=True))
        for name in ("value", "slope", "visits")
    )
    visits = around.reference[2, 0, : problem.n_live] + visits[: problem.n_live]
    return Slopes(float(value), slope, visits, *_gap(parts, problem))


def draw_values(
    problem: Problem,
    policy: FloatArray,
    n_draws: int,
    *,
    pool: Pool,
    first: int = 0,
    weights: FloatArray | None = None,
    solver: str = "auto",
) -> tuple[FloatArray, FloatArray]:
    """Start value of a policy ``[R]`` in each draw, ``[D]``, and mean visits ``[N]``.

    A value is NaN where it was not found, or was not asked for because its draw has no
    weight.
    """
    one, want = problem.with_policies(policy[None]), Want(occupancy=True)
    around = _around(one, want, pool, solver)
    given: Any = {"pool": pool, "first": first, "weights": weights}
    sums = sweep(one, around, n_draws, want=want, **given)
    ended = sums.ended[0]
    if not ended.any():
        raise EndlessError(_ENDLESS)
    values = np.where(ended, sums.start[0, channels.START_VALUE], np.nan)
    beyond = sums.state[0, channels.D] / sums.weights[ended].sum()
    visits = around.reference[2, 0] + beyond
    return values, visits[: problem.n_live]


def _around(problem: Problem, want: Want, pool: Pool, solver: str) -> Nominal:
    """No reference, but for iterations, which start from the nominal solution."""
    backend = pool.backend
    chosen = backend.solver_for(problem, solver, adjoint=want.adjoint)
    around = blank(problem, chosen)
    if not backend.iterates(chosen):
        return around
    bits = Want(occupancy=want.adjoint).bits()
    return replace(around, reference=backend.solve_mean(problem, chosen, bits))


@dataclass(frozen=True, eq=False)
class _Part:
    """Means over some of the draws."""

    total: float
    value: float
    slope: FloatArray  # [R]
    noise: FloatArray  # [R], variance of that mean
    visits: FloatArray  # [S], beyond the reference

    @classmethod
    def of(cls, sums: Sums, total: float | None) -> "_Part":
        ended = sums.ended[0]
        weights, n = sums.weights[ended], max(int(ended.sum()), 1)
        total = float(weights.sum()) if total is None else total
        asked = sums.weights != 0  # draws without weight are not swept
        if total == 0 or (asked.any() and not ended.any()):
            raise EndlessError(_ENDLESS)
        slope = sums.row[0, 0] / total
        square = sums.row[0, 1] * n / total**2
        return cls(
            total=total,
            value=float(sums.start[0, 0, ended] @ weights / total),
            slope=slope,
            noise=np.maximum(square - slope**2, 0.0) / max(n - 1, 1),
            visits=sums.state[0, channels.D] / total,
        )

    def without(self, held: BoolArray, policy: FloatArray, problem: Problem) -> "_Part":
        """Turn slopes into those of shares of what rows that are held leave."""
        source, n = problem.rows.source, problem.n_live
        free = np.where(held, 0.0, policy)
        total, mean = np.bincount(source, free, minlength=n), np.zeros(n)
        weighted = np.bincount(source, free * self.slope, minlength=n)
        np.divide(weighted, total, mean, where=total > 0)
        share = np.where(held, 0.0, total[source])
        slope = share * (self.slope - mean[source])
        return replace(self, slope=slope, noise=share**2 * self.noise)


def _gap(parts: list[_Part], problem: Problem) -> tuple[float, float]:
    """Frank-Wolfe gap and its error; of one part alone it is that of its draws."""
    found, noise = [], []
    for chooser, judge in zip(parts, reversed(parts), strict=True):
        rows = _best_rows(chooser.slope, problem)
        found.append(float(judge.slope[rows].sum()))
        noise.append(float(judge.noise[rows].sum()))
    error = 0.0 if len(parts) == 1 else float(np.sqrt(sum(noise))) / len(parts)
    return float(np.mean(found)), error


def _best_rows(slope: FloatArray, problem: Problem) -> IntArray:
    """Row of the largest slope of each state, where it is above 0."""
    source = problem.rows.source
    order = np.lexsort((slope, source))
    last = np.flatnonzero(np.diff(source[order], append=-1))
    rows = order[last]
    return np.asarray(rows[slope[rows] > 0])


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
        if found.gap - found.gap_mcse <= tolerance:
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
