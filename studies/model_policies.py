"""Policies for a finite set of models, as others make them.

Models ``m``, all equally likely, have rows ``P[m, s, a, t]`` and expected rewards
``r[m, s, a]``. With ``T`` steps left to go, backwards from ``v = 0``::

    MVP    plan for the mean model
    WSU    a(s) maximises sum_m q[m, s, a]                 (Steimle et al. 2021)
    CADP   a(t, s) maximises sum_m b[m, t, s] q[m, s, a]   (Su and Petrik 2023)

where ``q[m] = r[m] + g P[m] v[m]``, and ``v[m]`` follows the action that is chosen for
all models. ``b[m, t, s]`` is the probability of the model and of being in ``s`` at
``t`` under the policy found last; CADP begins with WSU and repeats until nothing
changes, which never makes the mean return smaller. ``clairvoyant`` plans for each model
by itself.

``rectangular`` is value iteration on a risk measure ``f`` over models, one pair at a
time: ``v(s) = max_a f_m(r[m, s, a] + g P[m, s, a] v)``. With a quantile it is the
percentile criterion's (Cousins et al. 2023), with an entropic measure that of RASR
without its chance (Hau et al. 2023). ``v`` is the measure of no policy: it bounds that
of the policy from below if the level is divided by the number of states, which is far
too low, so a policy is to be judged by what it gives over models.

``broil`` is the best stationary policy for a mixture of mean and CVaR where models
differ in rewards alone: a linear programme over occupancies (Brown et al. 2020).
"""

from dataclasses import dataclass

import numpy as np

import bayesmdp as bm
from bayesmdp._typing import FloatArray, IntArray
from bayesmdp.errors import ArgumentError
from bayesmdp.optimisation import RiskObjective


@dataclass(frozen=True, eq=False)
class Models:
    """Models of one decision process."""

    theta: FloatArray  # [M, S, A, S]
    reward: FloatArray  # [M, S, A], expected
    start: FloatArray  # [S]
    discount: float

    def q(self, v: FloatArray) -> FloatArray:
        """Values of actions, ``[M, S, A]``, before values ``[M, S]``."""
        return np.asarray(
            self.reward + self.discount * np.einsum("msat,mt->msa", self.theta, v)
        )

    @classmethod
    def of(cls, ensemble: bm.Ensemble) -> "Models":
        """Read the models of an ensemble whose models are equally likely."""
        task, draws = ensemble.task, ensemble.draws()
        layout, n = ensemble.rows().layout, draws.n_draws
        every, rows = np.arange(n), np.ones(layout.pair.size, dtype=np.bool_)
        theta = np.empty((n, layout.next_state.size))
        draws.stream.fill(every, rows, theta)
        paid = draws.stream.rewards(every)
        paid = ensemble.rows().reward[None] if paid is None else paid
        at = layout.row_of_entry
        shape = n, task.n_states, task.n_actions, task.n_states
        dense, reward = np.zeros((2, *shape))
        place = layout.state[at], layout.action[at], layout.next_state
        dense[:, *place], reward[:, *place] = theta, paid
        start = np.asarray(task.start)
        return cls(dense, (dense * reward).sum(axis=3), start, task.discount)

    def returns(self, plan: IntArray) -> FloatArray:
        """Discounted return of a plan ``[T, S]`` in each model, ``[M]``."""
        v = np.zeros(self.reward.shape[:2])
        for choice in plan[::-1]:
            v = _taken(self.q(v), choice)
        return np.asarray(v @ self.start)


def _taken(q: FloatArray, choice: IntArray) -> FloatArray:
    """Values ``[M, S]`` of the actions chosen, ``[S]``."""
    return np.asarray(q[:, np.arange(choice.size), choice])


def mvp(models: Models, horizon: int) -> IntArray:
    """Plan ``[T, S]`` for the mean of the models."""
    mean = Models(
        models.theta.mean(axis=0)[None],
        models.reward.mean(axis=0)[None],
        models.start,
        models.discount,
    )
    return wsu(mean, horizon)


def wsu(models: Models, horizon: int) -> IntArray:
    """Weight-select-update."""
    v, plan = np.zeros(models.reward.shape[:2]), []
    for _ in range(horizon):
        q = models.q(v)
        plan.append(q.mean(axis=0).argmax(axis=1))
        v = _taken(q, plan[-1])
    return np.array(plan[::-1])


def cadp(models: Models, horizon: int, most: int = 1000) -> IntArray:
    """Coordinate ascent: WSU, improved until its mean return stands still."""
    plan = wsu(models, horizon)
    value = models.returns(plan).mean()
    for _ in range(most):
        weights = _visits(models, plan)  # [T, M, S]
        v, better = np.zeros(models.reward.shape[:2]), []
        for t in range(horizon - 1, -1, -1):
            q = models.q(v)
            gain = np.einsum("ms,msa->sa", weights[t], q)
            kept = gain[np.arange(gain.shape[0]), plan[t]]
            ahead = gain.max(axis=1) > kept + 1e-12 * np.abs(kept)
            better.append(np.where(ahead, gain.argmax(axis=1), plan[t]))
            v = _taken(q, better[-1])
        plan = np.array(better[::-1])
        new = models.returns(plan).mean()
        if new <= value + 1e-12 * abs(value):
            break
        value = new
    return plan


def _visits(models: Models, plan: IntArray) -> FloatArray:
    """Probability of a model and of being in a state at a step, ``[T, M, S]``."""
    n_models, n_states = models.reward.shape[:2]
    d = np.tile(models.start / n_models, (n_models, 1))
    every = np.arange(n_states)
    out = []
    for choice in plan:
        out.append(d)
        d = np.einsum("ms,mst->mt", d, models.theta[:, every, choice])
    return np.array(out)


def clairvoyant(models: Models, horizon: int) -> FloatArray:
    """Best return in each model, known beforehand, ``[M]``."""
    v = np.zeros(models.reward.shape[:2])
    for _ in range(horizon):
        v = models.q(v).max(axis=2)
    return np.asarray(v @ models.start)


def rectangular(models: Models, objective: RiskObjective, most: int = 2000) -> IntArray:
    """Stationary choice ``[S]`` of value iteration on an objective over models."""
    n_models, n_states, n_actions = models.reward.shape
    share = np.full(n_models, 1.0 / n_models)
    v = np.zeros(n_states)
    for _ in range(most):
        q = models.q(np.broadcast_to(v, (n_models, n_states)))
        by_pair = q.reshape(n_models, -1).T
        low = np.array([objective.value(x, share) for x in by_pair])
        low = low.reshape(n_states, n_actions)
        before, v = v, low.max(axis=1)
        if np.abs(v - before).max() <= 1e-7 * max(np.abs(v).max(), 1.0):
            break
    return np.asarray(low.argmax(axis=1))


def broil(models: Models, weight: float, tail: float) -> FloatArray:
    """Policy ``[S, A]`` that is best for ``weight`` mean + ``1 - weight`` CVaR."""
    from scipy.optimize import linprog

    if np.ptp(models.theta, axis=0).max() > 0:
        raise ArgumentError("`models` must differ in rewards alone.")
    m, n, a = models.reward.shape
    paid = models.reward.reshape(m, -1)
    # occupancy [S A], threshold, shortfall of each model
    cost = np.concatenate(
        [
            -weight * paid.mean(axis=0),
            [-(1 - weight)],
            np.full(m, (1 - weight) / (tail * m)),
        ]
    )
    flow = np.zeros((n, n * a + 1 + m))
    flow[:, : n * a] = np.repeat(np.eye(n), a, axis=1)
    flow[:, : n * a] -= models.discount * models.theta[0].reshape(n * a, n).T
    short = np.hstack([-paid, np.ones((m, 1)), -np.eye(m)])
    bounds = [(0, None)] * (n * a) + [(None, None)] + [(0, None)] * m
    solved = linprog(cost, short, np.zeros(m), flow, models.start, bounds)
    assert solved.x is not None
    visits = np.maximum(solved.x[: n * a].reshape(n, a), 0.0)
    total = visits.sum(axis=1, keepdims=True)
    return np.asarray(
        np.divide(visits, total, np.full((n, a), 1.0 / a), where=total > 1e-12)
    )
